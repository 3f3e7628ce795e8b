"""The second route: `nn.MultiheadAttention`, and with it all of `nn.Transformer`.

PyTorch's own function runs, as it is, but for one name: the question whether somebody watches it is answered by no.
So what it calls, with every one of its options, passes through the other routes.
"""

from types import FunctionType
from typing import Any

from torch import Tensor
from torch.nn.functional import multi_head_attention_forward

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
    with mode:
        return _INNER(query, key, *args, **kwargs)
