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
from attnviz.ui.masks import words
from attnviz.ui.shared.mask_link import usual


def _stack(*parts: Mask) -> Stack:
    return Stack(tuple(map(usual, parts)))


CAUSAL = _stack(Subsequent())
LEFT_PADDING = words.LEFT_PADDING

PRESETS: dict[str, Callable[[int, tuple[int, ...]], Stack]] = {
    words.CAUSAL: lambda keys, lengths: CAUSAL,
    words.CAUSAL_PADDING: lambda keys, lengths: _stack(Subsequent(), Padding(lengths)),
    words.SLIDING: lambda keys, lengths: _stack(Window(2, 0)),
    words.PREFIX_LM: lambda keys, lengths: _stack(Subsequent(), Prefix(2)),
    words.PACKED: lambda keys, lengths: _stack(Subsequent(), Documents.started(keys, lengths)),
    words.LONGFORMER: lambda keys, lengths: _stack(Window(1, 1), Global((0,))),
    words.BIG_BIRD: lambda keys, lengths: _stack(Blocks(2, first=1), Random(1, max(1, keys), 0)),
    words.STREAMING: lambda keys, lengths: _stack(Window(2), Prefix(1), Subsequent()),
    words.SPARSE: lambda keys, lengths: _stack(Fixed(3)),
    words.NATTEN: lambda keys, lengths: _stack(Neighborhood.started(keys, lengths)),
    words.FLAMINGO: lambda keys, lengths: _stack(Media.started(keys, lengths)),
    words.DIFFUSION: lambda keys, lengths: _stack(BlockDiffusion.started(keys, lengths)),
    LEFT_PADDING: lambda keys, lengths: _stack(Subsequent(), Padding(lengths, left=keys)),
}
"""Masks by the names they are known by, for a number of keys and the lengths of the sentences."""
