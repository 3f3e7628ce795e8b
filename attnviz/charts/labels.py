"""Labels of a map, to be clicked: each selects the strongest cell of its token. Nothing of this is seen."""

from typing import Protocol

import numpy as np

from attnviz.charts import axes
from attnviz.charts.frame import text_width
from attnviz.charts.size import Size
from attnviz.charts.style import Style
from attnviz.charts.theme import TEXT_SIZE
from attnviz.core.amounts import written

COLUMNS = ("x", "y", "x2", "y2", "query", "key", "rev", "query_name", "key_name", "weight_text")

APART = 4.0
"""Pixels between cells and what is clicked of their labels: there the selected one has a mark."""


class Labeled(Protocol):
    """What labels need of a map, see `attnviz.charts.maps.Map`."""

    size: Size
    style: Style
    numbers: dict[str, tuple[np.ndarray, str]]
    bands: tuple[list[str], list[str]]
    names: tuple[list[str], list[str]]
    positions: tuple[np.ndarray, np.ndarray]


def clicked(drawing: Labeled, *, angle: int) -> list[dict]:
    """Where labels stand, in pixels, and the cell that each selects; none where cells are pooled or have no weights.

    Args:
        angle: by which the labels of columns are turned.
    """
    if "weight" not in drawing.numbers or drawing.size.tile > 1:
        return []
    most, every = np.nan_to_num(drawing.numbers["weight"][0], nan=-1.0), drawing.size.every
    rows = enumerate(most.argmax(1).tolist()[::every])
    columns = enumerate(most.argmax(0).tolist()[::every])
    found = [(0, i * every, j) for i, j in rows] + [(1, i, j * every) for j, i in columns]
    return [_place(drawing, *one, angle=angle) | _cell(drawing, *one) for one in found]


def _place(drawing: Labeled, side: int, row: int, column: int, *, angle: int) -> dict[str, float]:
    at, cell = (row, column)[side], drawing.size.cell
    wide, middle = text_width(drawing.bands[side][at][5:]), (at + 0.5) * cell
    turned = side == 1 and not angle
    far, half = (TEXT_SIZE, max(cell, wide) / 2) if turned else (wide, max(cell, TEXT_SIZE) / 2)
    if side == 0:
        return {"x": -axes.PADDING - far, "y": middle - half, "x2": -APART, "y2": middle + half}
    return {"x": middle - half, "y": -axes.PADDING - far, "x2": middle + half, "y2": -APART}


def _cell(drawing: Labeled, side: int, row: int, column: int) -> dict:
    names = [drawing.names[0][row], drawing.names[1][column]]
    names[1 - side] = f"most: {names[1 - side]}"
    weights, form = drawing.numbers["weight"]
    return {
        "query": int(drawing.positions[0][row]),
        "key": int(drawing.positions[1][column]),
        "rev": drawing.style.rev,
        "query_name": names[0],
        "key_name": names[1],
        "weight_text": written(float(weights[row, column]), form),
    }
