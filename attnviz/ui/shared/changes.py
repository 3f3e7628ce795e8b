"""Numbers of a model that are set by hand: which of them have a place, and how a link writes them.

``e0_1_wq_3_4_0_n0.5`` is encoder layer 0, head 1, W_Q, row 3, column 4, sentence 0, -0.5.
"""

from dataclasses import replace
from typing import Any

from attnviz.core.edits import BY_LETTER, Site
from attnviz.core.origin import MATRICES, VECTORS, Change
from attnviz.sources.base import Source
from attnviz.ui.shared import cache, look, state
from attnviz.ui.shared.setting import coded, each, reader

MOST_CHANGES = 200
"""Numbers set by hand that fit into a link."""

SHORT = {matrix.replace("_", ""): matrix for matrix in MATRICES}


def _change_text(change: Change) -> str:
    place = look.site_text(change.site), change.head, change.matrix.replace("_", "")
    value = f"{change.value:.9g}".replace("-", "n").replace("+", "")
    return "_".join(map(str, (*place, change.row, change.column, change.sentence, value)))


def _change_of(match: Any) -> Change:
    head, row, column, sentence = (int(match[i]) for i in (3, 5, 6, 7))
    site, value = Site(BY_LETTER[match[1]], int(match[2])), float(match[8].replace("n", "-"))
    return Change(site, head, SHORT[match[4]], row, column, value, sentence)


NUMBER = r"n?\d{1,7}(?:\.\d{1,12})?(?:en?\d{1,2})?"
_read_change = reader(
    rf"(?!.{{61}})([edc])(\d{{1,3}})_(\d{{1,3}})_({'|'.join(SHORT)})_(\d+)_(\d+)_(\d+)_({NUMBER})",
    _change_of,
    "e0_1_wq_3_4_0_n0.5",
)

_read_changes = each(_read_change, MOST_CHANGES)
CHANGES = coded(
    "changes", (), lambda changes: "-".join(map(_change_text, changes)), each(_read_change, MOST_CHANGES), "edits"
)


def applied(source: Source, lines: tuple[str, ...]) -> Source:
    """The source with the numbers that are set by hand and have a place in it; others wait until they have one."""
    changes = state.get(CHANGES)
    if "changes" not in source.settings() or not changes:
        return source
    sentences = cache.sentences(source, lines)
    size = len(sentences), len(sentences[0].tokens)
    return replace(source, changes=tuple(change for change in changes if _has_place(source, change, *size)))


def _has_place(source: Source, change: Change, sentences: int, tokens: int) -> bool:
    d_k = source.d_model // source.num_heads
    rows, columns = source.d_model, d_k
    if change.matrix in VECTORS:
        rows = tokens
    if change.matrix == "w_o":
        rows, columns = d_k, source.d_model
    there = change.site in source.sites and change.head < source.num_heads and change.sentence < sentences
    return there and change.row < rows and change.column < columns
