"""Attention against distance over a corpus."""

from typing import Unpack

import pandas as pd

from attnviz.charts.style import Style
from attnviz.core.display import file_stem, in_title
from attnviz.figures.distance import TITLE
from attnviz.figures.distance import drawing_of as bars_of
from attnviz.figures.figure import Drawn, Figure, number_arrays


def distance_over_corpus(name: str, head: str, curve: pd.DataFrame, texts: int, **drawn: Unpack[Drawn]) -> Figure:
    """A bar for the share of the attention of each bin of distances, over all tokens of many texts.

    Args:
        head: what the head is called.
        curve: nearest, furthest, share, pairs and mean, as `atlas.Atlas.table` gives "distances".
    """
    title, said = f"{TITLE} · {head}", [f"all tokens of {texts:,} texts"]
    return Figure(
        name=file_stem(name, "atlas", head, "distance"),
        title=f"{title} · {in_title(name)}",
        style=Style(**drawn),
        draw=lambda style: bars_of(curve, TITLE if style.on_screen else title, said, style),
        describe=lambda: f"{title}, {said[0]}.",
        tabulate=lambda: curve,
        collect=lambda: number_arrays(curve),
    )
