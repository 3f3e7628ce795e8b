"""The rules that a person composes a mask of, and well-known masks of them."""

from collections.abc import Callable

from attnviz.core import masks
from attnviz.core.masks import Mask
from attnviz.core.stack import Entry, Stack

MOST_ITEMS = 64
"""Lengths or positions that one rule may list."""

RULES = masks.composable()
"""Every rule; the last two hold the cells that are painted on the picture."""

BY_NAME = {rule.rule: rule for rule in RULES}


def entry(mask: Mask) -> Entry:
    """A mask joined as its rule usually is."""
    return Entry(mask, mask.join)


def _stack(*parts: Mask) -> Stack:
    return Stack(tuple(map(entry, parts)))


CAUSAL = _stack(masks.Subsequent())

PRESETS: dict[str, Callable[[int, tuple[int, ...]], Stack]] = {
    "causal": lambda keys, lengths: CAUSAL,
    "causal + padding": lambda keys, lengths: _stack(masks.Subsequent(), masks.Padding(lengths)),
    "sliding window": lambda keys, lengths: _stack(masks.Window(2, 0)),
    "prefix-LM": lambda keys, lengths: _stack(masks.Subsequent(), masks.Prefix(2)),
    "packed documents": lambda keys, lengths: _stack(masks.Subsequent(), masks.Documents.started(keys, lengths)),
    "Longformer: window + global": lambda keys, lengths: _stack(masks.Window(1, 1), masks.Global((0,))),
    "BigBird: blocks + random": lambda keys, lengths: _stack(
        masks.Blocks(2, first=1), masks.Random(1, max(1, keys), 0)
    ),
    "StreamingLLM: window + sinks": lambda keys, lengths: _stack(masks.Window(2), masks.Prefix(1), masks.Subsequent()),
    "Sparse Transformer: fixed": lambda keys, lengths: _stack(masks.Fixed(3)),
    "NATTEN: neighborhood": lambda keys, lengths: _stack(masks.Neighborhood.started(keys, lengths)),
    "Flamingo: media": lambda keys, lengths: _stack(masks.Media.started(keys, lengths)),
    "block diffusion": lambda keys, lengths: _stack(masks.BlockDiffusion.started(keys, lengths)),
    "left padding with a causal mask": lambda keys, lengths: _stack(
        masks.Subsequent(), masks.Padding(lengths, left=keys)
    ),
}
"""Masks by the names they are known by, for a number of keys and the lengths of the sentences."""
