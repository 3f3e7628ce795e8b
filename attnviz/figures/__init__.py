"""Figures: a picture with its name, its words and its numbers, as the app, shell, notebooks and files share it."""

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from attnviz import tables, views, words
from attnviz.charts import heads as heads_chart
from attnviz.charts import heatmap as heatmap_chart
from attnviz.charts import leaks as leaks_chart
from attnviz.charts import maps
from attnviz.charts import mask_grid as mask_chart
from attnviz.charts import states as states_chart
from attnviz.charts.maps import Map
from attnviz.charts.picture import Table
from attnviz.charts.screen import READOUT, screen
from attnviz.charts.size import Size, size_of
from attnviz.charts.states import Grid
from attnviz.charts.theme import theme
from attnviz.core.display import file_stem
from attnviz.core.edits import Site
from attnviz.core.leaks import LeakTest
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Record
from attnviz.core.tokens import Token
from attnviz.figures import compare as compare
from attnviz.figures import overview as overview
from attnviz.figures import rollout as rollout
from attnviz.figures import walk as walk
from attnviz.figures.figure import Figure, edited, text_array, titled
from attnviz.figures.lines import lines as lines
from attnviz.figures.lines import text_strip as text_strip
from attnviz.figures.outputs import change as change
from attnviz.figures.outputs import labels as labels
from attnviz.figures.outputs import next_word as next_word
from attnviz.figures.outputs import similarity as similarity
from attnviz.figures.outputs import step_by_step as step_by_step
from attnviz.views import Seen, SeenMask, View


def head(
    record: Record,
    site: Site,
    head: int | str,
    *,
    sentence: int = 0,
    domain: str = "fixed",
    row_sums: bool = False,
    dark: bool = False,
    rows: slice | None = None,
    columns: slice | None = None,
    view: View = View(),
    selected: tuple[int, int] | None = None,
    rev: int = 0,
    side: int | None = None,
) -> Figure:
    """The map of one head, or of all heads combined by a name of `metrics.AGGREGATIONS`; see `charts.heatmap`.

    Args:
        side: how wide the map may be on the screen, in pixels; see `charts.size`.
    """
    window = {"sentence": sentence, "rows": rows or ALL, "columns": columns or ALL, "view": view}
    drawn = {"domain": domain, "row_sums": row_sums, "dark": dark, "selected": selected, "rev": rev}
    what = f"head-{head}" if isinstance(head, int) else f"heads-{head}"
    seen = views.see(record, site, **window)
    size = size_of(len(seen.queries), len(seen.keys))

    def drawing(**room) -> Map:
        return heatmap_chart.drawing_of(record, site, head, side=side, **window, **drawn, **room)

    return Figure(
        name=file_stem(record.source, site, what, record.sentences[sentence].text, end=edited(record.edits, view)),
        title=titled(heatmap_chart.title_of(record, site, head), record),
        describe=lambda: words.head(record, site, head, **window),
        **_map(drawing, size, dark),
        tabulate=lambda: tables.weights_table(record, site, head, **window),
        collect=lambda: _arrays(seen, head),
    )


def heads(
    record: Record,
    site: Site,
    *,
    sentence: int = 0,
    domain: str = "fixed",
    dark: bool = False,
    view: View = View(),
    focused: int | None = None,
    rev: int = 0,
) -> Figure:
    """Thumbnails of all heads of a site; see `charts.heads`."""
    looked = {"sentence": sentence, "view": view}
    seen = views.see(record, site, **looked)
    drawn = looked | {"domain": domain, "dark": dark, "focused": focused, "rev": rev}
    picture = partial(heads_chart.picture, record, site, **drawn)
    on_screen = cache(partial(picture, edits=False))
    return Figure(
        name=file_stem(record.source, site, "heads", record.sentences[sentence].text, end=edited(record.edits, view)),
        title=titled(heads_chart.title_of(record, site), record),
        describe=lambda: words.heads(record, site, on_screen().tables["heads"]["largest"], **looked),
        draw=lambda: picture().chart,
        show=lambda: (on_screen().spec, None),
        tabulate=lambda: tables.heads_table(record, site, **looked),
        collect=lambda: _heads_arrays(seen),
    )


def mask(
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
    counted: bool = False,
    brush: bool = False,
    side: int | None = None,
) -> Figure:
    """The grid of one mask; see `charts.mask_grid`.

    Args:
        side: how wide the map may be, in pixels.
        counted: whether each row says how many keys it has left.
        brush: whether a drag on the screen selects cells, where each is a rectangle.
    """
    keys = queries if keys is None else keys
    rows, columns = _texts(queries), _texts(keys)
    tokens, plain = (views.as_tokens(queries), views.as_tokens(keys)), view == View()
    seen = views.see_mask(mask, *tokens, sentence=sentence, view=view)
    drawn = {"predicted": predicted, "sentence": sentence, "view": view, "dark": dark, "selected": selected, "rev": rev}
    drawn |= {"counted": counted, "side": side}

    def drawing(*, edits: bool = True, **room) -> Map:  # a mask says itself what is changed; a file has no brush
        return mask_chart.drawing_of(mask, queries, keys, brush=brush and not edits, **drawn, **room)

    return Figure(
        name=file_stem("mask", str(mask), " ".join(rows), end=view.in_short()),
        title=f"Mask: {mask}",
        describe=lambda: words.mask(mask, rows, columns, sentence) if plain else words.seen_mask(seen),
        **_map(drawing, size_of(len(seen.queries), len(seen.keys)), dark),
        tabulate=lambda: (
            tables.mask_table(mask, rows, columns, sentence=sentence) if plain else tables.seen_mask_table(seen)
        ),
        collect=lambda: {
            "may_attend": mask.grid(len(rows), len(columns), sentence=sentence).numpy() if plain else _open(seen),
            "query_tokens": text_array(seen.queries.labels),
            "key_tokens": text_array(seen.keys.labels),
        },
    )


def leaks(test: LeakTest, *, dark: bool = False, selected: tuple[int, int] | None = None, rev: int = 0) -> Figure:
    """Whose output moved when which token was changed; see `charts.leaks`."""
    drawing = partial(leaks_chart.drawing_of, test, dark=dark, selected=selected, rev=rev)
    return Figure(
        name=file_stem(test.source, "leaks", test.where, test.text, end=edited(test.edits)),
        title=" · ".join(filter(None, (leaks_chart.title_of(test), *leaks_chart.lines_of(test)))),
        describe=lambda: words.leaks(test),
        **_map(drawing, size_of(*test.moved.shape), dark),
        tabulate=lambda: tables.leaks_table(test),
        collect=lambda: {
            "moved": test.moved.numpy(),
            "promised": test.promised.numpy(),
            "leaks": test.leaks.numpy(),
            "query_tokens": text_array([token.text for token in test.queries]),
            "key_tokens": text_array([token.text for token in test.keys]),
        },
    )


def states(grid: Grid, *, dark: bool = False, selected: tuple[int, int] | None = None, rev: int = 0) -> Figure:
    """A grid of cells in a few states; see `charts.states`."""
    drawn = {"dark": dark, "selected": selected, "rev": rev}

    def drawing(*, edits: bool = True, **room) -> Map:  # a grid says itself what it shows
        return states_chart.drawing_of(grid, **drawn, **room)

    return Figure(
        name=file_stem(grid.name, " ".join(_texts(grid.columns))),
        title=grid.title,
        describe=grid.in_words,
        **_map(drawing, size_of(*grid.states.shape), dark),
        tabulate=grid.table,
        collect=lambda: {
            "states": grid.states,
            "names": text_array([kind.says for kind in grid.kinds]),
            "row_tokens": text_array(_texts(grid.rows)),
            "column_tokens": text_array(_texts(grid.columns)),
        },
    )


def _open(seen: SeenMask) -> np.ndarray:
    return seen.blocked()[1] == 0


def _map(drawing: Callable[..., Map], size: Size, dark: bool) -> dict[str, Callable]:
    """What draws a map, for `Figure`. On the screen the edits stand beside the picture, not on it."""
    colors = theme(dark)

    def show() -> tuple[dict, Table | None]:
        if size.form == "rectangles":
            return maps.picture(drawing(edits=False), colors).spec, None
        return screen(drawing(below=READOUT, edits=False), colors)

    return {"draw": lambda: maps.picture(drawing(), colors).chart, "show": show}


def _arrays(seen: Seen, head: int | str) -> dict[str, np.ndarray]:
    """Every cell; of more than `tables.MOST_CELLS`, square tiles that hold the largest weight of theirs."""
    queries, keys = len(seen.queries), len(seen.keys)
    tile = 1 if queries * keys <= tables.MOST_CELLS else size_of(queries, keys).tile
    found = seen.cells([head], tile)[0]
    arrays = {
        "weights": found.weights,
        "may_attend": found.blocked == 0,
        "queries": found.queries,
        "keys": found.keys,
        "query_tokens": text_array(seen.queries.labels[::tile]),
        "key_tokens": text_array(seen.keys.labels[::tile]),
    }
    if seen.predicted is not None:
        arrays["predicted_tokens"] = text_array(seen.predicted[::tile])
    if tile > 1:
        arrays["cells_per_side_of_tile"] = np.array(tile)
    return arrays if found.scores is None else arrays | {"scores": found.scores}


def _heads_arrays(seen: Seen) -> dict[str, np.ndarray]:
    """The arrays of each head, stacked: (heads, queries, keys)."""
    each = [_arrays(seen, head) for head in range(seen.step.num_heads)]
    stacked = {
        name: np.stack([arrays[name] for arrays in each])
        for name in ("weights", "scores", "may_attend")
        if name in each[0]
    }
    return each[0] | stacked


def _texts(tokens: Sequence[Token | str]) -> list[str]:
    return [token if isinstance(token, str) else token.text for token in tokens]
