"""Well-known masks, as stacks of rules."""

from collections.abc import Callable

from attnviz.core.masks import (
    BlockDiffusion,
    Blocks,
    Documents,
    Fixed,
    Global,
    Mask,
    Media,
    Neighborhood,
    Padding,
    Prefix,
    Random,
    Subsequent,
    Window,
)
from attnviz.core.stack import Stack
from attnviz.ui.shared.mask_link import usual


def _stack(*parts: Mask) -> Stack:
    return Stack(tuple(map(usual, parts)))


CAUSAL = _stack(Subsequent())
LEFT_PADDING = "left padding with a causal mask"

PRESETS: dict[str, Callable[[int, tuple[int, ...]], Stack]] = {
    "causal": lambda keys, lengths: CAUSAL,
    "causal + padding": lambda keys, lengths: _stack(Subsequent(), Padding(lengths)),
    "sliding window": lambda keys, lengths: _stack(Window(2, 0)),
    "prefix-LM": lambda keys, lengths: _stack(Subsequent(), Prefix(2)),
    "packed documents": lambda keys, lengths: _stack(Subsequent(), Documents.started(keys, lengths)),
    "Longformer: window + global": lambda keys, lengths: _stack(Window(1, 1), Global((0,))),
    "BigBird: blocks + random": lambda keys, lengths: _stack(Blocks(2, first=1), Random(1, max(1, keys), 0)),
    "StreamingLLM: window + sinks": lambda keys, lengths: _stack(Window(2), Prefix(1), Subsequent()),
    "Sparse Transformer: fixed": lambda keys, lengths: _stack(Fixed(3)),
    "NATTEN: neighborhood": lambda keys, lengths: _stack(Neighborhood.started(keys, lengths)),
    "Flamingo: media": lambda keys, lengths: _stack(Media.started(keys, lengths)),
    "block diffusion": lambda keys, lengths: _stack(BlockDiffusion.started(keys, lengths)),
    LEFT_PADDING: lambda keys, lengths: _stack(Subsequent(), Padding(lengths, left=keys)),
}
"""Masks by the names they are known by, for a number of keys and the lengths of the sentences."""
