"""The tap in models of transformers: attention and mask functions that it calls by name, and nothing else.

Nothing is changed on a model but the name of its attention, once, when it is loaded. The tap goes down as a keyword
argument of the call, so two runs never meet.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import get_ident
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.core.conventions import named
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.masks import Subsequent
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap

NAME = "attnviz"
BLOCKED = -1e4
"""Number in a mask below which a cell is blocked."""
CROSS = ("encdecattention", "encoder_attn", "cross", "encoder_decoder_attention")


class ModelRun:
    """One call of a model: a tap, and the site of each attention call, counted per kind.

    Layers are counted as they are called: some modules do not know their layer, and ALBERT calls one module for all.

    Args:
        layers: the number of a layer where it is not how many were called before.
        alone: the kind of the attention of a model that has only one, where its parts do not say it right.
        tap: computes attention; by default a new one, with the edits.
    """

    def __init__(
        self,
        model: nn.Module,
        edits: Edits,
        lengths: tuple[int, ...] | None = None,
        *,
        layers: Mapping[Site, int] = MappingProxyType({}),
        alone: str | None = None,
        keep: bool = True,
        tap: Tap | None = None,
    ):
        self.modules: list[nn.Module] = []
        self.by_rule = 0  # calls
        self._layers = layers
        self.tap = tap or Tap(edits, keep=keep)
        self.lengths = lengths
        self._kinds = kinds(model, alone)
        self._calls: Counter[str] = Counter()

    def site(self, module: nn.Module) -> Site:
        """The site of the call that a module makes now."""
        kind = self._kinds.get(module)
        if kind is None:
            raise AttnvizError(f"{type(module).__name__} is not a part of the model that is run.")
        self.modules.append(module)
        self._calls[kind] += 1
        counted = Site(kind, self._calls[kind] - 1)
        return Site(kind, self._layers.get(counted, counted.layer))


def kinds(model: nn.Module, alone: str | None = None) -> dict[nn.Module, str]:
    """Kind of attention that each module would compute, by its name and by the module that it is part of."""
    config = model.config
    both = bool(getattr(config, "is_encoder_decoder", False))

    def kind(name: str, module: nn.Module) -> str:
        parts = name.lower().split(".")
        if any(part.startswith(CROSS) for part in parts):
            return "cross"
        if both:
            return "decoder" if any(part.endswith("decoder") for part in parts) else "encoder"
        return alone or ("decoder" if getattr(module, "is_causal", False) else "encoder")

    return {module: kind(name, module) for name, module in model.named_modules()}


@cache
def register() -> str:
    """Make the functions known to transformers, once per process; gives the name to set on a model."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _mask)
    return NAME


def use_on(model: nn.Module) -> bool:
    """Set the attention of a model by its name; False if it keeps its own, whatever it is asked for."""
    if not model._can_set_attn_implementation():
        return False
    parts = model.config.sub_configs
    if any(map(is_sense, parts)):  # they look at a picture in their own way
        names = {name: "eager" if is_sense(name) else register() for name in parts}
        model.set_attn_implementation({"": register()} | names)
    else:
        model.set_attn_implementation(register())
    return model.config._attn_implementation == NAME


def is_sense(config_name: str) -> bool:
    """Whether a part of a configuration is that of a tower for pictures or sounds."""
    return config_name in ("vision_config", "audio_config", "image_config")


_rules: ContextVar[bool] = ContextVar("rules", default=False)


@contextmanager
def rules() -> Iterator[None]:
    """Meanwhile models hand on one number in the shape of a causal mask, which takes no memory: 9 GB of 32,768 tokens.

    It is NaN: what adds it to scores instead of handing it on gives no numbers, which `trial` sees.
    """
    token = _rules.set(True)
    try:
        yield
    finally:
        _rules.reset(token)


def _mask(*args: Any, **kwargs: Any) -> Tensor:
    """The mask that eager attention adds, always explicit: left out for a kernel, decoders would see the future.

    Not booleans: parts of a model that compute attention in their own code add it to their scores.
    """
    from transformers.masking_utils import causal_mask_function, eager_mask

    if _rules.get() and not args and kwargs["mask_function"] is causal_mask_function and _is_whole(kwargs):
        shape = kwargs["batch_size"], 1, kwargs["q_length"], kwargs["kv_length"]
        return torch.full((1, 1, 1, 1), torch.nan, dtype=kwargs["dtype"], device=kwargs["device"]).expand(shape)
    return eager_mask(*args, **kwargs | {"allow_is_bidirectional_skip": False})


def _is_whole(arguments: dict[str, Any]) -> bool:
    """Whether a mask is of all tokens, none of which is padding."""
    padding = arguments.get("attention_mask")
    starts = arguments.get("q_offset", 0), arguments.get("kv_offset", 0)
    return (
        starts == (0, 0)
        and arguments["q_length"] == arguments["kv_length"]
        and (padding is None or bool(padding.all()))
    )


def stands_for_a_rule(mask: Tensor | None) -> bool:
    """Whether a mask, or a part of one, is what `rules` has models hand on."""
    return mask is not None and mask.dim() == 4 and mask.stride()[2:] == (0, 0) and bool(mask[0, 0, 0, 0].isnan())


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    attnviz: ModelRun | None = None,
    **settings: Any,
) -> tuple[Tensor, None]:
    """Attention for transformers: (B, H, n, d) in, where key and value may have fewer heads; (B, n, H, d_v) out."""
    if attnviz is None:
        raise AttnvizError(f"{type(module).__name__} does not hand on what attnviz gives it.")
    return _attend(module, query, key, value, attention_mask, attnviz, **settings), None


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    attnviz: ModelRun,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sinks: Tensor | None = None,
    indices: Tensor | None = None,
    block_indices: Tensor | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """Attention through the tap, (B, n, H, d_v)."""
    if block_indices is not None:
        raise AttnvizError(f"{type(module).__name__} picks blocks of keys in its own code.")
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    by_rule = stands_for_a_rule(attention_mask)
    mask, bias = _apart(None if by_rule else attention_mask, position_bias, key.shape[2])
    if by_rule:
        attnviz.by_rule += 1
    if indices is not None:
        picked = _picked(indices, query, key)
        mask = picked if mask is None else mask & picked
    output = attnviz.tap.attend(
        query,
        key,
        value,
        site=attnviz.site(module),
        mask=Subsequent() if by_rule else named(mask, query.shape[2], key.shape[2], attnviz.lengths),
        scoring=Scoring(scale=scaling, softcap=softcap, bias=bias),
        sinks=s_aux if sinks is None else sinks,
    )
    return output.transpose(1, 2).contiguous()


def _picked(indices: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Cells (B, 1, Q, K) of the keys that DeepSeek's indexer picks for each query, from their numbers (B, Q, k)."""
    picked = torch.zeros(len(query), 1, query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    return picked.scatter_(-1, indices.long().unsqueeze(1), True)


def _apart(mask: Tensor | None, bias: Tensor | None, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """The mask, as booleans, and the bias added to the scores; a float mask may hold both."""
    if mask is not None:
        mask = mask[..., :keys]
        if mask.dtype is not torch.bool:
            blocked = mask < BLOCKED
            added = mask.masked_fill(blocked, 0)
            if added.any():
                bias = added if bias is None else bias + added
            mask = ~blocked
    return mask, bias


@contextmanager
def watching(modules: Iterable[nn.Module], keep: Callable[[nn.Module, tuple, Any], None]) -> Iterator[None]:
    """Meanwhile call a function with each module, its inputs and its output, in this thread alone."""
    thread = get_ident()

    def after(module: nn.Module, inputs: tuple, output: Any) -> None:
        if get_ident() == thread:
            keep(module, inputs, output)

    hooks = [module.register_forward_hook(after) for module in dict.fromkeys(modules)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
