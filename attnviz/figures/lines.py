"""Figures of a head as lines between tokens, and as a shaded sentence."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from attnviz import tables
from attnviz.charts import lines as lines_chart
from attnviz.charts import text_strip as strip_chart
from attnviz.charts.shade import Shade, shade_of
from attnviz.charts.strands import Pin, Strands, strands
from attnviz.core.display import as_sentence, file_stem
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.figure import Figure, drawn_by, edited, text_array, titled
from attnviz.views import View
from attnviz.words import MOST_NAMED, named
from attnviz.words import head as head_in_words


def lines(
    record: Record,
    site: Site,
    heads: Sequence[int | str],
    *,
    sentence: int = 0,
    view: View = View(),
    least: float | None = None,
    selected: tuple[int, int] | None = None,
    pins: frozenset[Pin] = frozenset(),
    dark: bool = False,
    rev: int = 0,
) -> Figure:
    """One or several heads as lines; see `charts.lines`. The table and the arrays hold the lines that are drawn."""
    asked = {"sentence": sentence, "view": view, "least": least, "selected": selected, "pins": pins}
    picture = partial(lines_chart.picture, record, site, tuple(heads), **asked, dark=dark, rev=rev)
    drawn = partial(strands, record, site, tuple(heads), **asked)
    what = f"lines-{'-'.join(map(str, heads))}"
    return Figure(
        name=file_stem(record.source, site, what, record.sentences[sentence].text, end=edited(record.edits, view)),
        title=titled(lines_chart.title_of(record, site, heads), record),
        describe=lambda: lines_in_words(record, drawn(), heads),
        **drawn_by(picture),
        tabulate=lambda: lines_table(drawn(), heads),
        collect=lambda: _lines_arrays(drawn(), heads),
    )


def text_strip(
    record: Record,
    site: Site,
    head: int | str,
    *,
    chosen: int | None = None,
    side: str = "from",
    sentence: int = 0,
    view: View = View(),
    domain: str = "fixed",
    selected: tuple[int, int] | None = None,
    dark: bool = False,
    rev: int = 0,
) -> Figure:
    """The sentence shaded by the attention from one token, or to it; see `charts.text_strip`."""
    asked = {"chosen": chosen, "side": side, "sentence": sentence, "view": view}
    shade = shade_of(record, site, head, **asked)
    drawn = {"domain": domain, "selected": selected, "dark": dark, "rev": rev}
    picture = partial(strip_chart.picture, record, site, head, **asked, **drawn)
    what = f"{'head' if isinstance(head, int) else 'heads'}-{head}-{side}-{shade.ends[0].starts[shade.index]}"
    window = {"sentence": sentence, "view": view, "rows": shade.seen.rows, "columns": shade.seen.columns}
    return Figure(
        name=file_stem(record.source, site, what, record.sentences[sentence].text, end=edited(record.edits, view)),
        title=titled(strip_chart.title_of(record, site, head, shade), record),
        describe=lambda: strip_in_words(record, shade),
        **drawn_by(picture),
        tabulate=lambda: _of_token(tables.weights_table(record, site, head, **window), shade),
        collect=lambda: {
            "weights": shade.weights,
            "may_attend": shade.blocked == 0,
            "tokens": text_array(shade.ends[1].labels),
            "positions": shade.ends[1].starts,
        },
    )


def lines_table(drawn: Strands, heads: Sequence[int | str]) -> pd.DataFrame:
    """One row per line, the strongest first: head, query, query_token, key, key_token, weight."""
    queries, keys = drawn.seen.queries, drawn.seen.keys
    rows, columns = drawn.rows[::-1], drawn.columns[::-1]
    table = pd.DataFrame(
        {
            "head": [heads[i] for i in drawn.heads[::-1]],
            "query": queries.starts[rows],
            "query_token": [queries.labels[i] for i in rows],
            "key": keys.starts[columns],
            "key_token": [keys.labels[i] for i in columns],
            "weight": drawn.weights[::-1],
        }
    )
    table.attrs["note"] = " ".join(map(as_sentence, (*drawn.seen.notes, *drawn.notes)))
    return table


def _lines_arrays(drawn: Strands, heads: Sequence[int | str]) -> dict:
    table = lines_table(drawn, heads)
    numbers = {f"line_{name}": table[name].to_numpy() for name in ("query", "key", "weight")}
    return numbers | {
        "line_head": text_array([str(head) for head in table["head"]]),
        "query_tokens": text_array(drawn.seen.queries.labels),
        "key_tokens": text_array(drawn.seen.keys.labels),
    }


def lines_in_words(record: Record, drawn: Strands, heads: Sequence[int | str]) -> str:
    """What each head looks at most, and how many weights are lines."""
    seen = drawn.seen
    window = {"sentence": seen.sentence, "view": seen.view, "rows": seen.rows, "columns": seen.columns}
    said = [head_in_words(record, seen.site, head, **window) for head in heads[:MOST_HEADS]]
    said += [f"{len(heads) - MOST_HEADS} more heads."] if len(heads) > MOST_HEADS else []
    return " ".join(["Lines from queries to keys.", *said, *map(as_sentence, drawn.notes)])


MOST_HEADS = 4
"""So many are described."""


def strip_in_words(record: Record, shade: Shade) -> str:
    """What the picture shows, what the view did, and what was changed."""
    changed = record.edits.in_words()
    parts = [
        f"The sentence, shaded by the attention {shade.side} one token. {token_in_words(shade)}",
        *map(as_sentence, (*shade.seen.notes, *shade.notes)),
        *([f"Changed: {', '.join(changed)}."] if changed else []),
    ]
    return " ".join(parts)


def token_in_words(shade: Shade) -> str:
    """Which tokens get most of one token's attention, or give it most."""
    token, weights = named(shade.ends[0], shade.index), np.nan_to_num(shade.weights)
    order = [i for i in np.argsort(-weights, kind="stable")[:MOST_NAMED].tolist() if weights[i] >= 0.005]
    listed = ", ".join(f"{named(shade.ends[1], i)} {weights[i]:.2f}" for i in order)
    if not listed:
        return f"{token} gives nobody attention." if shade.side == "from" else f"{token} gets no attention."
    return f"{token} {'looks most at' if shade.side == 'from' else 'is looked at most by'} {listed}."


def _of_token(table: pd.DataFrame, shade: Shade) -> pd.DataFrame:
    """The rows of a table of cells that are of the chosen token."""
    name = "query" if shade.side == "from" else "key"
    kept = table[table[name] == int(shade.ends[0].starts[shade.index])].reset_index(drop=True)
    kept.attrs = dict(table.attrs)
    return kept
