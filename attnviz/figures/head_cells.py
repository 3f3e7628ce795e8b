"""A number of each head as a colored cell, layers x heads: its tables for `charts.heads.cells`."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attnviz.charts import pixels
from attnviz.charts.matrices import READABLE, ground, limit_of
from attnviz.charts.picture import Table
from attnviz.charts.style import Style
from attnviz.charts.texts import heading
from attnviz.core.amounts import digits, in_cell
from attnviz.core.edits import Site

MOST_NUMBERED = 16
"""Heads of a layer whose cells have room for their numbers."""

NARROW = (22, 16)
"""Pixels of a cell of more heads."""


def cell_size(table: pd.DataFrame) -> tuple[int, int]:
    """Pixels of a cell, across and down, of a table with a row per head."""
    return (44, 26) if table["head"].max() < MOST_NUMBERED else NARROW


def of_head(style: Style, site: Site, head: int) -> dict:
    """Fields that a click on a head selects, and its name."""
    fields = {"kind": site.kind, "layer": site.layer, "head": head, "rev": style.rev}
    return fields | {"name": site.head(head), "focused": (site, head) == style.focused}


def cells(
    table: pd.DataFrame, column: str, sites: Sequence[Site], title: str, lines: Sequence[str], style: Style
) -> dict[str, Table]:
    """The tables meta, rows, columns and cells of a column of a table with a row per head."""
    cell = cell_size(table)
    columns, top = 1 + int(table["head"].max()), limit_of(table[column].to_numpy())
    palette, rows = pixels.hexadecimal(pixels.palette(ground(True, style.colors))), []
    for head, value in zip(table.itertuples(), table[column], strict=True):
        site = Site(head.kind, head.layer)
        color = palette[int(pixels.shades(np.array((value / (top or 1) + 1) / 2)))]
        row = sites.index(site)
        place = {"row": row, "row2": row + 1, "column": head.head, "column2": head.head + 1}
        colored = {"ground": color, "ink": pixels.readable(color, style.colors)}
        texts = {"number": digits(value), "text": in_cell(value) if cell[0] >= READABLE[0] else ""}
        rows.append(of_head(style, site, head.head) | place | colored | texts)
    meta = heading(title, lines, cell[0] * columns + 80, style)
    return {
        "meta": meta | {"top": [top]},
        "rows": {"label": [f"{site.kind} {site.layer}" for site in sites]},
        "columns": {"label": [*map(str, range(columns))]},
        "cells": pd.DataFrame(rows).to_dict("list"),
    }
