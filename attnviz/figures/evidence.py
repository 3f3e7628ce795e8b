"""The cells of an array that a finding is about."""

import numpy as np
import torch
from torch import Tensor

from attnviz.charts.state import State
from attnviz.check import AXES, Finding, Report
from attnviz.figures.states import Grid

MOST = 512
"""Queries and keys drawn at most."""

MARKED = State("evidence", "leak", "cross")
OPEN, BLOCKED, PLAIN = (
    State("may attend", "open", "dot"),
    State("blocked", "blocked", "hatch"),
    State("another cell", "open"),
)


def evidence(array: np.ndarray | Tensor, report: Report, finding: Finding) -> Grid | None:
    """Where a finding stands: in the sentence and the head of its first cell. None if it names no cells.

    Args:
        array: as it was checked.
    """
    if not finding.cells or len(array.shape) < 2:
        return None
    named = dict(zip(finding.axes, finding.cells[0], strict=True))
    shape, given = report.shape, _given(array)
    where = [named.get(axis, 0) if axis in AXES[:2] else slice(None) for axis in AXES]
    values = given.reshape(shape)[tuple(where)] if given.size == np.prod(shape) else None
    if values is None or max(values.shape) > MOST:
        return None
    marked = np.zeros(values.shape, bool)
    for cell in finding.cells:
        place = dict(zip(finding.axes, cell, strict=True))
        if all(place.get(axis, at) == at for axis, at in zip(AXES[:2], where[:2], strict=True)):
            marked[place.get("query", slice(None)), place.get("key", slice(None))] = True
    plain = np.where(_open(values, report), 0, 1) if report.kind == "mask" else np.zeros(values.shape, int)
    first = OPEN if report.kind == "mask" else PLAIN
    some = [f"{axis} {named[axis]}" for axis in AXES[:2] if axis in named and shape[AXES.index(axis)] > 1]
    return Grid(
        title=f"Evidence of {finding.rule}",
        states=np.where(marked, 2, plain),
        kinds=(first, BLOCKED, MARKED),
        rows=tuple(map(str, range(values.shape[0]))),
        columns=tuple(map(str, range(values.shape[1]))),
        lines=(", ".join(some),) if some else (),
        name=f"evidence {finding.rule}",
    )


def _given(array: np.ndarray | Tensor) -> np.ndarray:
    return array.float().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)


def _open(values: np.ndarray, report: Report) -> np.ndarray:
    """Which cells of a mask are open, in the convention in which it was read."""
    if report.convention == "additive":
        return values >= 0
    return values == 0 if report.convention == "true-is-masked" else values != 0
