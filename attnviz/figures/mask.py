"""One mask as a grid: who may attend to whom, and which rule says no."""

from collections.abc import Sequence
from functools import partial
from typing import Unpack

import numpy as np

from attnviz import tables, views, words
from attnviz.charts import axes, ends
from attnviz.charts.domain import MAY_ATTEND
from attnviz.charts.frame import Frame, text_width
from attnviz.charts.maps import EDGE, Map, size_within
from attnviz.charts.size import Size, size_of
from attnviz.charts.state import State, blocked_by
from attnviz.charts.style import Style
from attnviz.charts.theme import TITLE_CHARACTER
from attnviz.core.display import file_stem, isolated, shown
from attnviz.core.masks import And, Full, Mask, Or
from attnviz.core.record import ALL
from attnviz.core.tokens import Token
from attnviz.figures.figure import Drawn, Figure, text_array
from attnviz.views import SeenMask, View

MOST_READ = 12
"""Tokens of the example at most."""

MOST_WHOLE = 4096**2
"""Cells of a mask that are written one by one."""

COUNTED = "keys: how many each query has left"

WIDE = 380
"""Pixels that a title may take on a screen; of longer rules only the number is said, as the legend names each."""

Tokens = Sequence[Token | str]


def mask(
    mask: Mask,
    queries: Tokens,
    keys: Tokens | None = None,
    *,
    predicted: Tokens | None = None,
    targets: bool = False,
    sentence: int = 0,
    view: View = View(),
    rows: slice | None = None,
    columns: slice | None = None,
    counted: bool = False,
    brush: bool = False,
    beside: bool = False,
    **drawn: Unpack[Drawn],
) -> Figure:
    """A mask over tokens: a dot where a query may attend to a key, strokes where a rule forbids it.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Args:
        queries: the input token of each row.
        keys: of each column; the queries if none are given.
        rows, columns: the part that is seen; all if none is given.
        predicted: the token that each row predicts, or ""; it is written at the end of its row.
        targets: whether these tokens are the right answers, not what a model says.
        counted: whether each row says how many keys it has left; through a view, none does.
        brush: whether a drag on the screen selects cells, where each is a rectangle, under the name "drag", as lists of
            query_band and key_band.
        beside: whether it stands beside the map of a head: as many lines are above it.
    """
    tokens = views.as_tokens(queries), views.as_tokens(queries if keys is None else keys)
    window = {"rows": rows or ALL, "columns": columns or ALL}
    seen = views.see_mask(mask, *tokens, sentence=sentence, view=view, **window)
    said = [token.text for token in views.as_tokens(predicted or ())]
    named = ends.TARGET if targets else ends.PREDICTS
    counted &= view == View()
    return Figure(
        name=file_stem("mask", str(mask), " ".join(token.text for token in tokens[0]), end=view.in_short()),
        title=" · ".join(filter(None, [title_of(mask), seen.window])),
        style=Style(**drawn),
        draw=lambda style: drawing_of(seen, tokens, said if any(said) else None, style, counted, brush, beside, named),
        describe=lambda: words.mask(seen),
        tabulate=lambda: tables.mask_table(seen),
        collect=lambda: arrays_of(seen),
    )


def title_of(mask: Mask, style: Style = Style()) -> str:
    """Which mask is drawn; one that blocks nothing is none. On a screen it takes one line."""
    title, rules = f"Mask: {'none' if isinstance(mask, Full) else mask}", _rules(mask)
    short = style.on_screen and rules > 1 and text_width(title, TITLE_CHARACTER) > WIDE - EDGE
    return f"Mask: {rules} rules" if short else title


def _rules(mask: Mask) -> int:
    """Of how many rules it is joined."""
    return sum(map(_rules, mask.masks)) if isinstance(mask, And | Or) else 1


def arrays_of(seen: SeenMask) -> dict[str, np.ndarray]:
    """Where one may attend; of more than `MOST_WHOLE` cells square tiles, which are open where any cell is."""
    tile = 1 if len(seen.queries) * len(seen.keys) <= MOST_WHOLE else size_of(len(seen.queries), len(seen.keys)).tile
    arrays = {"may_attend": seen.blocked(tile)[1] == 0}
    if tile > 1:
        arrays["cells_per_side_of_tile"] = np.array(tile)
    tokens = seen.queries.labels[::tile], seen.keys.labels[::tile]
    return arrays | {"query_tokens": text_array(tokens[0]), "key_tokens": text_array(tokens[1])}


def drawing_of(
    seen: SeenMask,
    tokens: tuple[tuple[Token, ...], tuple[Token, ...]],
    predicted: Sequence[str] | None,
    style: Style,
    counted: bool = False,
    brush: bool = False,
    beside: bool = False,
    named: str = ends.PREDICTS,
) -> Map:
    """The mask as a map, with what its rows predict and how many keys each has left."""
    at_ends = partial(_at_ends, seen, predicted, counted, style, named)
    size = size_within(seen.queries, seen.keys, style, at_ends)
    reasons, blocked = seen.blocked(size.tile)
    reading = (READS if named == ends.PREDICTS else ends.TARGETS) if predicted else ALONE
    above = [ALONE, COUNTED if counted else reading] if beside else [reading]
    return Map(
        title=title_of(seen.mask, style),
        lines=[*above, seen.window, *seen.notes],
        rows=seen.queries,
        columns=seen.keys,
        size=size,
        states=blocked,
        kinds=[State(MAY_ATTEND, "open", "dot"), *blocked_by(reasons)],
        style=style,
        predicted=seen.queries.last(predicted) if predicted is not None else (),
        ends=at_ends(size),
        empty="" if counted else "fully masked row",
        below=[_example(seen, tokens, predicted, style.selected), *[COUNTED] * (counted > beside)],
        tiles="an open square has an open cell among its",
        brush=brush and style.on_screen,
    )


def _at_ends(
    seen: SeenMask, predicted: Sequence[str] | None, counted: bool, style: Style, named: str, size: Size
) -> Frame:
    """What each row predicts, how many keys it has left, and which has none."""
    beside, colors = Frame(), style.colors
    if predicted is not None:
        chosen = None if style.selected is None else seen.queries.at(style.selected[0])
        beside += ends.predictions(seen.queries.last(predicted), size, colors, chosen, title=named)
    if counted:
        beside += ends.counts(seen.left[seen.queries.starts].tolist(), beside, size, colors)
    empty = seen.queries.merge(seen.left == 0, 0, np.logical_and)
    return beside + ends.empty_rows(empty, size, colors)


ALONE, READS = "what each row may look at", "each row: what it may read to predict the next word"


def _example(seen: SeenMask, tokens: Sequence[Sequence[Token]], predicted: Sequence[str] | None, selected) -> str:
    """What the model reads in one row: the selected one, or an early one."""
    queries, keys = tokens
    row = min(2 if selected is None else selected[0], len(queries) - 1)
    if not predicted or not predicted[row]:
        return ""
    allowed = seen.mask.tensor(len(queries), len(keys), rows=slice(row, row + 1))[:, 0, 0]
    read = allowed[seen.sentence if len(allowed) > 1 else 0].nonzero().flatten().tolist()
    texts = [isolated(shown(keys[i].text, axes.LONGEST_LABEL)) for i in read[-MOST_READ:]]
    more, says = "… " if len(read) > MOST_READ else "", shown(predicted[row], axes.LONGEST_LABEL)
    return f"while predicting {isolated(f'“{says}”')} it reads: {more}{' '.join(texts) or 'nothing'}"
