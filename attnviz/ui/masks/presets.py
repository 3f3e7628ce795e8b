"""Well-known masks of several rules, as stacks of them."""

from collections.abc import Callable

from attnviz.core.masks import Blocks, Documents, Global, Mask, Padding, Prefix, Random, Subsequent, Window, started
from attnviz.core.stack import Stack
from attnviz.ui.masks import words
from attnviz.ui.shared.mask_link import usual


def _stack(*parts: Mask) -> Stack:
    return Stack(tuple(map(usual, parts)))


CAUSAL = _stack(Subsequent())

PRESETS: dict[str, Callable[[int, tuple[int, ...]], Stack]] = {
    words.CAUSAL_PADDING: lambda keys, lengths: _stack(Subsequent(), Padding(lengths)),
    words.LEFT_PADDING: lambda keys, lengths: _stack(Subsequent(), Padding(lengths, left=keys)),
    words.PREFIX_LM: lambda keys, lengths: _stack(Subsequent(), Prefix(2)),
    words.PACKED: lambda keys, lengths: _stack(Subsequent(), started(Documents, keys, lengths)),
    words.LONGFORMER: lambda keys, lengths: _stack(Window(1, 1), Global((0,))),
    words.BIG_BIRD: lambda keys, lengths: _stack(Blocks(2, first=1), Random(1, max(1, keys), 0)),
    words.STREAMING: lambda keys, lengths: _stack(Window(2), Prefix(1), Subsequent()),
}
"""Masks by the names they are known by, for a number of keys and the lengths of the sentences."""
