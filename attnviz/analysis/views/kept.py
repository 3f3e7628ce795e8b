"""Rows and columns that a view and a window leave of a map, and notes about them."""

from collections.abc import Sequence

import numpy as np

from attnviz.analysis.views.groups import PAIRS, Groups, View
from attnviz.core.errors import InputError
from attnviz.core.record import ALL
from attnviz.core.tokens import Token


def paired(every: Sequence[Groups], view: View, tokens: Sequence[Sequence[Token]], what: object) -> list[Groups]:
    """The rows and columns of the texts of a view; an error if nothing is left."""
    sides = [_of(part, side) for part, side in zip(every, PAIRS[view.pair], strict=True)]
    if view != View() and not all(map(len, sides)):
        raise InputError(_nothing_left(view, tokens, what))
    return sides


def within(every: Groups, window: slice, length: int) -> Groups:
    return every if window == ALL else every[np.isin(every.starts, np.arange(length)[window])]


def notes_of(
    view: View, tokens: Sequence[Sequence[Token]], sides: Sequence[Groups], merged: str, hidden: str
) -> tuple[str, ...]:
    """Notes on the changes of a view to rows and columns."""
    special = view.special != "show" and any(token.special for part in tokens for token in part)
    looks, looked = (("A", "B")[side or 0] for side in PAIRS[view.pair])
    pair = f"{view.pair}: the queries of text {looks} and the keys of text {looked} alone"
    if view.unit not in ("", "words"):
        merged = merged.replace("pieces", "tokens").replace("words", view.unit)
    notes = (any(part.merged for part in sides), merged), (special, hidden), (view.pair != "all", pair)
    return tuple(text for holds, text in notes if holds)


def window_in_words(windows: Sequence[slice], sides: Sequence[Groups], lengths: Sequence[int]) -> str:
    """Which positions of the queries and of the keys are seen, where not all are."""
    if all(window == ALL for window in windows) or not all(map(len, sides)):
        return ""
    spans = [(part.stretch, length) for part, length in zip(sides, lengths, strict=True)]
    texts = [f"{span.start} to {span.stop - 1} of {length:,}" for span, length in spans]
    return "queries {}, keys {}".format(*texts)


def _of(every: Groups, side: int | None) -> Groups:
    """The groups of one text of a pair."""
    return every if side is None else every[np.array([token.segment == side for token in every.tokens], bool)]


def _nothing_left(view: View, tokens: Sequence[Sequence[Token]], where: object) -> str:
    for what, part, side in zip(("queries", "keys"), tokens, PAIRS[view.pair], strict=True):
        if side is not None and all(token.segment != side for token in part):
            return f"'{view.pair}' is of a pair of texts, but the {what} of {where} are all of text {'BA'[side]}."
    return f"Nothing is left to see of {where}: it has nothing but special tokens there, which are hidden."
