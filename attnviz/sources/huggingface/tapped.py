"""The tap in models of transformers: attention and mask functions that a model calls by name.

The only change to a model is the name of its attention, which is set once, when the model is loaded. The tap is passed
as a keyword argument of the call, so two runs never share state.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.core.conventions import to_rules
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.masks import Subsequent
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap
from attnviz.sources.huggingface import linear

NAME = "attnviz"
BLOCKED = -1e4
"""Number in a mask below which a cell is blocked."""
CROSS = ("encdecattention", "encoder_attn", "cross", "encoder_decoder_attention")
"""Beginnings of names of modules with cross-attention."""

_rules: ContextVar[bool] = ContextVar("rules", default=False)


class ModelRun:
    """One call of a model: a tap, and the site of each attention call, counted per kind.

    Layers are counted as they are called: some modules do not know their layer, and ALBERT calls one module for all.

    Args:
        layers: layer number of each site whose layer differs from the number of earlier calls of its kind.
        one_kind: kind of attention of all layers, if their modules do not state whether it is causal.
        tap: tap that computes the attention; by default a new one, with the edits.
    """

    def __init__(
        self,
        model: nn.Module,
        edits: Edits,
        lengths: tuple[int, ...] | None = None,
        *,
        layers: Mapping[Site, int] = MappingProxyType({}),
        one_kind: str | None = None,
        keep: bool = True,
        tap: Tap | None = None,
    ):
        self.modules: list[nn.Module] = []
        self.by_rule = 0  # number of calls with the marker (one NaN) that `rules` passes in place of a causal mask
        self.tap = tap or Tap(edits, keep=keep)
        self.lengths = lengths
        self._layers, self._calls = layers, Counter()
        has_encoder = bool(getattr(model.config, "is_encoder_decoder", False))
        self._kinds = {module: _kind(name, module, one_kind, has_encoder) for name, module in model.named_modules()}

    def site(self, module: nn.Module) -> Site:
        """Count an attention call that a module makes, and return its site."""
        kind = self._kinds.get(module)
        if kind is None:
            raise AttnvizError(f"{type(module).__name__} is not a part of the model that is run.")
        self.modules.append(module)
        number = self._calls[kind]
        self._calls[kind] += 1
        return Site(kind, self._layers.get(Site(kind, number), number))


def _kind(name: str, module: nn.Module, one_kind: str | None, has_encoder: bool) -> str:
    """Kind of attention of a module, by its name, such as "decoder.layers.0.encoder_attn", or by its being causal."""
    names = name.lower().split(".")
    if any(part.startswith(CROSS) for part in names):
        return "cross"
    if has_encoder:
        return "decoder" if any(part.endswith("decoder") for part in names) else "encoder"
    is_causal = getattr(module, "is_causal", False) or linear.is_linear(module)
    return one_kind or ("decoder" if is_causal else "encoder")


def call(model: nn.Module, run: ModelRun, **arguments: Any) -> Any:
    """Call a model whose attention, also linear attention, goes through the tap of a run."""
    with linear.tapping(model, run.tap, run.site):
        return model(**arguments, attnviz=run)


@cache
def register() -> str:
    """Register attnviz's attention and mask with transformers, once per process; return the name to set on a model."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _mask)
    return NAME


def use_attnviz(model: nn.Module) -> bool:
    """Make a model use attnviz's attention; return False if the model keeps its own."""
    if not model._can_set_attn_implementation():
        return False
    name, parts = register(), model.config.sub_configs
    if any(map(is_sense, parts)):  # towers for pictures and sounds keep their own attention
        name = {"": name} | {part: "eager" if is_sense(part) else name for part in parts}
    model.set_attn_implementation(name)
    return model.config._attn_implementation == NAME


def use_own(model: nn.Module, implementation: str) -> None:
    """Make a model use an attention of transformers, such as "sdpa"; models with a fixed attention stay as they are."""
    if model._can_set_attn_implementation():
        model.set_attn_implementation(implementation)


def is_sense(config_name: str) -> bool:
    """Whether a part of a configuration belongs to a tower for pictures or sounds."""
    return config_name in ("vision_config", "audio_config", "image_config")


@contextmanager
def rules() -> Iterator[None]:
    """Context manager that replaces causal masks by a marker: one NaN, expanded to the shape of a mask without memory.

    A mask of 32,768 tokens takes 9 GB. If a model adds the marker to its scores, its outputs are NaN; `trial` checks.
    """
    token = _rules.set(True)
    try:
        yield
    finally:
        _rules.reset(token)


def _mask(*args: Any, **kwargs: Any) -> Tensor:
    """Make the mask that eager attention adds, or the marker of `rules`.

    The mask is never left out, as decoders would see the future. It holds numbers, not booleans: parts of a model that
    compute attention in their own code add it to their scores.
    """
    from transformers.masking_utils import causal_mask_function, eager_mask

    if _rules.get() and not args and kwargs["mask_function"] is causal_mask_function:
        padding, queries, keys = kwargs.get("attention_mask"), kwargs["q_length"], kwargs["kv_length"]
        is_whole = queries == keys and not kwargs.get("q_offset", 0) and not kwargs.get("kv_offset", 0)
        if is_whole and (padding is None or bool(padding.all())):
            marker = torch.full((1, 1, 1, 1), torch.nan, dtype=kwargs["dtype"], device=kwargs["device"])
            return marker.expand(kwargs["batch_size"], 1, queries, keys)
    return eager_mask(*args, **kwargs | {"allow_is_bidirectional_skip": False})


def _is_rule(mask: Tensor | None) -> bool:
    """Whether a mask, or a part of a mask, is the marker of `rules`: one NaN, expanded along queries and keys."""
    return mask is not None and mask.dim() == 4 and mask.stride()[2:] == (0, 0) and bool(mask[0, 0, 0, 0].isnan())


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    attnviz: ModelRun | None = None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sinks: Tensor | None = None,
    indices: Tensor | None = None,
    block_indices: Tensor | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Compute attention for transformers, (B, n, H, d_v), from queries, keys and values, (B, H, n, d).

    Keys and values may have fewer heads than queries.

    Args:
        indices: keys that DeepSeek's indexer selects for each query, (B, Q, k).
    """
    if attnviz is None:
        raise AttnvizError(f"{type(module).__name__} does not hand on what attnviz gives it.")
    if block_indices is not None:
        raise AttnvizError(f"{type(module).__name__} picks blocks of keys in its own code.")
    if (groups := query.shape[1] // key.shape[1]) > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    queries, keys = query.shape[2], key.shape[2]
    if _is_rule(attention_mask):
        attnviz.by_rule += 1
        mask, bias = Subsequent(), position_bias
    else:
        mask, bias = _split_mask_and_bias(attention_mask, position_bias, keys)
        if indices is not None:
            selected = torch.zeros(len(query), 1, queries, keys, dtype=torch.bool, device=query.device)
            selected.scatter_(-1, indices.long().unsqueeze(1), True)
            mask = selected if mask is None else mask & selected
        mask = to_rules(mask, queries, keys, attnviz.lengths)
    output = attnviz.tap.attend(
        query,
        key,
        value,
        site=attnviz.site(module),
        mask=mask,
        scoring=Scoring(scale=scaling, softcap=softcap, bias=bias),
        sinks=s_aux if sinks is None else sinks,
    )
    return output.transpose(1, 2).contiguous(), None


def _split_mask_and_bias(mask: Tensor | None, bias: Tensor | None, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """Split a mask into a boolean mask and a bias that is added to the scores; a float mask may hold both."""
    mask = mask if mask is None else mask[..., :keys]
    if mask is None or mask.dtype is torch.bool:
        return mask, bias
    blocked = mask < BLOCKED
    added = mask.masked_fill(blocked, 0)
    if added.any():
        bias = added if bias is None else bias + added
    return ~blocked, bias
