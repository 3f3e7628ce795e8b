"""Pictures of what heads do over a corpus: every head by two of its means, and attention against distance."""

from typing import Unpack

import pandas as pd

from attnviz.charts.style import Style
from attnviz.core.display import file_stem, in_title
from attnviz.figures.distance import TITLE
from attnviz.figures.distance import drawing_of as bars_of
from attnviz.figures.figure import Drawn, Figure, number_arrays
from attnviz.figures.scatter import drawing_of as marks_of


def over_corpus(
    name: str, table: pd.DataFrame, x: str, y: str, texts: int, *, titles: dict[str, str], **drawn: Unpack[Drawn]
) -> Figure:
    """Every head by two of its means over many texts; a click selects one under "head".

    Args:
        name: of the model.
        table: a row per head: kind, layer, head and the means, as `atlas.Atlas.heads` gives it.
    """
    by = f"{titles[x][:1].lower()}{titles[x][1:]} and {titles[y][:1].lower()}{titles[y][1:]}"
    title, said = f"Heads by {by} · {in_title(name)}", [f"means over {texts:,} texts"]
    return Figure(
        name=file_stem(name, "atlas", x, y),
        title=title,
        style=Style(**drawn),
        draw=lambda style: marks_of(table, x, y, titles, title, said, style),
        describe=lambda: f"Each of {len(table)} heads by {titles[x]} and {titles[y]}, {said[0]}.",
        tabulate=lambda: table[["kind", "layer", "head", x, y]],
        collect=lambda: number_arrays(table[[x, y]].astype(float)),
    )


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
