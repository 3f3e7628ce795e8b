"""The second route: `nn.MultiheadAttention`, and with it all of `nn.Transformer`.

PyTorch's own function runs, as it is, but for one name: the question whether somebody watches it is answered by no.
So what it calls, with every one of its options, passes through the other routes.
"""

from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import multi_head_attention_forward

from attnviz.capturing.call import BLOCKED
from attnviz.capturing.watched import Watched


def _unwatched(*_: object) -> bool:
    return False


_INNER = FunctionType(
    multi_head_attention_forward.__code__,
    multi_head_attention_forward.__globals__ | {"has_torch_function": _unwatched},
    argdefs=multi_head_attention_forward.__defaults__,
)


def attend(mode: Watched, query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """The arguments and the result are those of `F.multi_head_attention_forward`."""
    _note_ignored_mask(mode, query, key, kwargs)
    with mode:
        return _INNER(query, key, *args, **kwargs)


def _note_ignored_mask(mode: Watched, query: Tensor, key: Tensor, options: dict[str, Any]) -> None:
    """Tell of a mask that PyTorch does not use, as `is_causal` stands beside it."""
    mask, place = options.get("attn_mask"), mode.place((query,))
    is_used = not options.get("is_causal") or options.get("need_weights", True)
    if place is None or is_used or mask is None or options.get("key_padding_mask") is not None:
        return
    is_blocked = mask if mask.dtype is torch.bool else mask < BLOCKED
    if not torch.equal(is_blocked, torch.ones_like(is_blocked).triu(1)):
        hint = "is given is_causal=True beside a mask that is not causal: PyTorch uses the hint and ignores the mask"
        mode.captured.findings.append(f"{place.name or mode.captured.name} {hint}")
