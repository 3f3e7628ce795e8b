"""One mask as a grid: who may attend to whom, and which rule says no."""

from collections.abc import Sequence

import numpy as np
import torch

from attnviz import views
from attnviz.charts import axes, ends, frame, hatch, maps
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.frame import Entry, Frame
from attnviz.charts.maps import MAY_ATTEND, Map
from attnviz.charts.size import size_of
from attnviz.charts.theme import Theme, theme
from attnviz.core.display import isolated, shown
from attnviz.core.masks import Mask
from attnviz.core.tokens import Token
from attnviz.metrics import pool, row_blocks
from attnviz.views import View

MOST_READ = 12
"""At most so many tokens are repeated in the example."""

COUNTED = "keys: how many each query has left"


def drawing_of(
    mask: Mask,
    queries: Sequence[Token | str],
    keys: Sequence[Token | str] | None = None,
    *,
    predicted: Sequence[Token | str] | None = None,
    sentence: int = 0,
    view: View = View(),
    dark: bool = False,
    selected: tuple[int, int] | None = None,
    rev: int = 0,
    side: int | None = None,
    below: float = 16,
    counted: bool = False,
    brush: bool = False,
) -> Map:
    """Draw a mask over tokens: a dot where a query may attend to a key, strokes where a rule forbids it.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Args:
        queries: the input token of each row.
        keys: of each column; the queries if none are given.
        predicted: the token that each row predicts, or ""; it is written at the end of its row.
        view: what is merged and left out; the picture says it.
        selected: the (query, key) whose cell is outlined.
        rev: a counter to raise after each click, so that the same cell can be clicked again.
        side: how wide the map may be, in pixels.
        below: how many pixels lie between the map and its legend.
        counted: whether each row says how many keys it has left; through a view, none does.
        brush: whether a drag selects cells, under the name "drag", as lists of query_band and key_band.
    """
    colors = theme(dark)
    keys = queries if keys is None else keys
    predicted = predicted if predicted is not None and any(map(_text, predicted)) else None
    seen = views.see_mask(mask, *(views.as_tokens(part) for part in (queries, keys)), sentence=sentence, view=view)
    rows, columns = seen.queries, seen.keys
    size = size_of(len(rows), len(columns), side)
    bands = axes.bands(rows.tokens[:: size.tile]), axes.bands(columns.tokens[:: size.tile])
    titles = (QUERY, KEY)
    room = axes.edges(*bands, size)
    plain = view == View()
    reasons, blocked = _tiles(mask, *seen.lengths, size.tile, sentence) if plain else seen.blocked(size.tile)
    around = frame.heading(
        f"Mask: {mask}",
        [
            _rule(predicted),
            *seen.notes,
            *axes.notes_on(size, "an open square has an open cell among its"),
            *axes.note_on_ties(rows, columns, size),
        ],
        left=room.left,
        top=room.top - 8,
        width=size.width - room.left,
        colors=colors,
    )
    at_ends = Frame()
    if size.form != "rectangles":
        around += axes.drawn(titles, *bands, size, room, colors)
    if predicted is not None:
        at_ends = ends.predictions(rows.last([_text(token) for token in predicted]), size, colors)
    if counted and plain:
        left = mask.keys_left(*seen.lengths, sentence=sentence).tolist()
        at_ends += ends.counts(left, at_ends, size, colors)
    around += axes.ties(rows, columns, size, colors) + at_ends + maps.outlined(selected, rows, columns, size, colors)
    empty = rows.merge(_empty(mask, *seen.lengths, sentence), 0, np.logical_and)
    around += ends.empty_rows(empty, "" if counted and plain else "no key left", at_ends, size, colors)
    legend = frame.legend(_entries(reasons, colors), None, top=size.height + below, width=size.width, colors=colors)
    below_legend = _example(mask, queries, keys, predicted, sentence, selected), COUNTED if counted and plain else ""
    bottom = max(max(box["y2"] for box in legend.boxes), max(word["y"] for word in legend.words) + frame.LINE / 2) + 8
    around += legend
    for text in below_legend:
        said = frame.lines(text, left=0, top=bottom, width=size.width, colors=colors)
        around, bottom = around + said, bottom + len(said.words) * frame.LINE
    return Map(
        size=size,
        rows=bands[0],
        columns=bands[1],
        row_names=axes.names(rows, size.tile),
        column_names=axes.names(columns, size.tile),
        queries=rows.starts[:: size.tile],
        keys=columns.starts[:: size.tile],
        titles=titles,
        shade=np.zeros(blocked.shape),
        colored=blocked == 0,
        sayings=(MAY_ATTEND, *(f"blocked by {reason}" for reason in reasons)),
        saying=blocked,
        signs={0: (hatch.DOT, colors.dot, hatch.DOT_STROKE * size.cell)}
        | {i + 1: (hatch.shape(i, size.cell), colors.hatch, 1.0) for i in range(len(reasons))},
        blocked=blocked,
        nan=np.zeros(blocked.shape, bool),
        numbers={},
        open=colors.open,
        frame=around,
        rev=rev,
        brush=brush,
    )


def _tiles(mask: Mask, queries: int, keys: int, tile: int, sentence: int) -> tuple[tuple[str, ...], np.ndarray]:
    """The reasons, and 0 for a tile with an open cell, else the number of the reason that blocks its first."""
    every = slice(None, None, tile)
    reasons, blocked = mask.reasons(queries, keys, sentence=sentence, rows=every, columns=every)
    if tile > 1:
        blocks = (1 - block.float() for block in row_blocks(mask, queries, keys, sentence, tile))
        blocked = blocked * torch.cat([pool(block, tile, "min") for block in blocks]).long()
    return reasons, blocked.numpy()


def _rule(predicted: Sequence[Token | str] | None) -> str:
    if predicted is None:
        return "each row: what one token may look at"
    return "each row: what may be read to predict the next token"


def _example(mask, queries, keys, predicted, sentence: int, selected: tuple[int, int] | None) -> str:
    """What the model reads in one row: the selected one, or an early one."""
    if predicted is None or not len(predicted):
        return ""
    row = min(2 if selected is None else selected[0], len(predicted) - 1)
    if not _text(predicted[row]):
        return ""
    allowed = mask.tensor(len(queries), len(keys), rows=slice(row, row + 1))[:, 0, 0]
    read = allowed[sentence if len(allowed) > 1 else 0].nonzero().flatten().tolist()
    texts = [isolated(_shown(keys[i])) for i in read[-MOST_READ:]]
    more = "… " if len(read) > MOST_READ else ""
    return f"while predicting {isolated(f'“{_shown(predicted[row])}”')} it reads: {more}{' '.join(texts) or 'nothing'}"


def _empty(mask: Mask, queries: int, keys: int, sentence: int) -> np.ndarray:
    """Which queries have no key left, boolean, (queries,)."""
    return torch.cat([~block.any(1) for block in row_blocks(mask, queries, keys, sentence)]).numpy()


def _shown(token: Token | str) -> str:
    return shown(_text(token), axes.LONGEST_LABEL)


def _text(token: Token | str) -> str:
    return token if isinstance(token, str) else token.text


def _entries(reasons: tuple[str, ...], colors: Theme) -> list[Entry]:
    may = Entry(MAY_ATTEND, hatch.DOT, colors.dot, hatch.DOT_STROKE * frame.SWATCH, colors.open)
    return [may, *maps.reasons_of(enumerate(reasons), colors)]
