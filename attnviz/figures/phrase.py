"""Attention on a phrase: what every head gives, from one query, to the places of a needle in a haystack."""

from collections.abc import Sequence
from typing import Unpack

import pandas as pd

from attnviz import metrics
from attnviz.charts import bars
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.core.amounts import counted, percent
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, number_arrays, stem, subtitles, titled
from attnviz.words import quoted_token

LENGTH, MOST = 150, 16
"""Pixels of the bar of the largest share, and heads drawn at most, those with the largest; the table has all."""


def phrase(
    record: Record,
    kind: str,
    query: int,
    places: Sequence[tuple[int, int]],
    *,
    sentence: int = 0,
    **drawn: Unpack[Drawn],
) -> Figure:
    """A bar for each head: its weights on all places of a phrase together; and the place that gets most, by its depth.

    Args:
        kind: of the calls whose heads are asked.
        places: where the phrase begins and where it ends, of each place.

    Raises:
        InputError: if there is no such call, or no place.
    """
    steps = [step for step in record.steps if step.site.kind == kind]
    if not steps or not places:
        raise InputError(f"There is no {kind} attention here." if not steps else "The phrase has no place in the text.")
    found = metrics.on_places(steps, query, places, sentence=sentence)
    tokens = record.tokens(steps[0].site, sentence=sentence)
    title = f"Attention on a phrase · from {quoted_token(tokens[0][query].text, query)} · {in_title(record.source)}"
    said = [f"each bar is what a head gives to {counted(len(places), 'place')} of the phrase", *subtitles(record)]
    return Figure(
        name=stem(record, Site(kind, 0), "phrase", str(query), sentence=sentence),
        title=titled(title, record),
        style=Style(**drawn),
        draw=lambda style: drawing_of(found, kind, len(tokens[1]), title, said, style),
        describe=lambda: f"{title}. {said[0]}. {_most(found, kind)}",
        tabulate=lambda: found,
        collect=lambda: number_arrays(found),
    )


def drawing_of(found: pd.DataFrame, kind: str, keys: int, title: str, said: list[str], style: Style) -> Picture:
    """The heads that give most to all places together."""
    order, together = _order(found)
    most = found.loc[found.groupby(["layer", "head"])["share"].idxmax()].set_index(["layer", "head"])["key"]
    columns = [
        bars.Column(together.tolist(), name="share on the phrase", longest=float(together.max()) or 1.0),
        bars.Column(texts=[f"{most[one]:,} ({percent(most[one] / keys)} deep)" for one in order], name="most at"),
    ]
    names = [Site(kind, layer).head(head) for layer, head in order]
    return bars.picture(names, columns, title, said, style.colors, length=LENGTH)


def _order(found: pd.DataFrame) -> tuple[list[tuple[int, int]], pd.Series]:
    """The heads that give most, and how much."""
    together = found.groupby(["layer", "head"])["share"].sum().sort_values(ascending=False, kind="stable")[:MOST]
    return [*together.index], together


def _most(found: pd.DataFrame, kind: str) -> str:
    order, together = _order(found)
    most = (f"{Site(kind, layer).head(head)} {percent(together[layer, head])}" for layer, head in order[:3])
    return f"Most: {', '.join(most)}."
