"""Attention against distance: how much a head gives to keys so far away, in bins that double."""

from typing import Unpack

import numpy as np
import pandas as pd

from attnviz import metrics
from attnviz.charts import bars
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.core.amounts import digits, percent
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, number_arrays, see, stem, subtitles, titled
from attnviz.figures.head import called
from attnviz.metrics.measures import NEAR

LENGTH = 150
"""Pixels of the bar of the largest share."""

TITLE = "Attention by distance"


def distance(record: Record, site: Site, head: int | str, *, sentence: int = 0, **drawn: Unpack[Drawn]) -> Figure:
    """A bar for the share of the attention, and the mean weight of a pair, of each bin of distances.

    The bins are the query itself, 1 before it, 2 to 3, 4 to 7, ..., and so after it. See `metrics.by_distance`.
    """
    seen, style = see(record, site, sentence=sentence, **drawn)
    title = f"{TITLE} · {called(seen, head)}"
    found = metrics.by_distance(seen.step, head, sentence=sentence)
    curve = found.curve()
    said = [_local(found), *([] if not seen.step.has_sink else ["what the sink takes is left out"])]
    what = f"head-{head}" if isinstance(head, int) else f"heads-{head}"
    return Figure(
        name=stem(record, site, what, "distance", sentence=sentence),
        title=titled(title, record),
        style=style,
        draw=lambda style: drawing_of(
            curve, TITLE if style.on_screen else title, [*said, *subtitles(record, style)], style
        ),
        describe=lambda: f"{title}. {'; '.join(said)}. {_most(curve)}",
        tabulate=lambda: curve,
        collect=lambda: number_arrays(curve),
    )


def drawing_of(curve: pd.DataFrame, title: str, lines: list[str], style: Style) -> Picture:
    """The bins that some pair is in, the nearest first: the query itself, before it, after it."""
    kept = curve[(curve["pairs"] > 0) | (curve["share"] > 0)]
    order = np.lexsort((kept["nearest"].abs(), kept["nearest"] > 0))
    kept = kept.iloc[order]
    largest = float(kept["share"].max()) if len(kept) else 0.0
    columns = [
        bars.Column(kept["share"].tolist(), name="share of attention", longest=largest or 1.0),
        bars.Column(texts=[digits(mean) for mean in kept["mean"]], name="mean weight"),
    ]
    return bars.picture([_bin(row) for row in kept.itertuples()], columns, title, lines, style.colors, length=LENGTH)


def _bin(row) -> str:
    """A bin in words: "itself", "4–7 before"."""
    if not row.nearest:
        return "itself"
    near, far = abs(row.nearest), abs(row.furthest)
    return f"{near:,}{f'–{far:,}' * (far != near)} {'before' if row.nearest < 0 else 'after'}"


def _local(found: metrics.ByDistance) -> str:
    share = found.within(NEAR)
    return f"local share: {percent(share)} of the attention goes to keys at most {NEAR} tokens away"


def _most(curve: pd.DataFrame) -> str:
    row = next(curve.sort_values("share", ascending=False).itertuples(), None)
    return "" if row is None else f"Most of it goes to: {_bin(row)}, {percent(float(row.share))}."
