"""Numbers of the scratch model that are set by hand: which of them have a place, and how they are let go of."""

from dataclasses import replace

from attnviz.core.origin import VECTORS, Change
from attnviz.sources.base import Source
from attnviz.ui.shared import cache, state
from attnviz.ui.steps.link import decode_changes, encode_changes

CHANGES = state.coded("changes", (), encode_changes, decode_changes)


def applied(source: Source, lines: tuple[str, ...]) -> Source:
    """The source with the numbers that are set by hand and have a place in it; others wait until they have one."""
    kept = state.get(CHANGES)
    if "changes" not in source.settings() or not kept:
        return source
    sentences = cache.sentences(source, lines)
    size = len(sentences), len(sentences[0].tokens)
    return replace(source, changes=tuple(change for change in kept if _has_place(source, change, *size)))


def _has_place(source: Source, change: Change, sentences: int, tokens: int) -> bool:
    d_k = source.d_model // source.num_heads
    rows, columns = source.d_model, d_k
    if change.matrix in VECTORS:
        rows = tokens
    if change.matrix == "w_o":
        rows, columns = d_k, source.d_model
    there = change.site in source.sites and change.head < source.num_heads and change.sentence < sentences
    return there and change.row < rows and change.column < columns
