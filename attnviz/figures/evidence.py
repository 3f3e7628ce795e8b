"""An array that was checked, and the cells of it that a finding is about."""

import numpy as np
import torch
from torch import Tensor

from attnviz.charts.state import CellState
from attnviz.check import AXES, Finding, Report
from attnviz.check.arrays import VERY_NEGATIVE
from attnviz.figures.maps import StateMap

MOST = 512
"""Queries and keys drawn at most."""

MARKED, DIFFERS = CellState("evidence", "leak", "cross"), CellState("differs", "leak", "cross")
"""The cells of a finding; of those whose rule holds them against a known mask."""
OPEN = {
    "mask": CellState("may attend", "open", "dot"),
    "weights": CellState("weight", "ramp", legend=""),
    "scores": CellState("score", "open"),
}
BLOCKED = {
    kind: CellState(text, "blocked", "hatch")
    for kind, text in zip(OPEN, ("blocked", "weight 0", "blocked"), strict=True)
}
"""States of cells that are open, and of cells that are not, by the kind of the array."""


def evidence(array: np.ndarray | Tensor, report: Report, finding: Finding) -> StateMap | None:
    """Cells of a finding, in the sentence and the head of its first cell. None if it names no cells.

    Args:
        array: as it was checked.
    """
    if not finding.cells or len(array.shape) < 2:
        return None
    named = dict(zip(finding.axes, finding.cells[0], strict=True))
    where = tuple(named.get(axis, 0) for axis in AXES[:2])
    if _as_array(array).size != np.prod(report.shape) or max(report.shape[2:]) > MOST:
        return None
    marked = np.zeros(report.shape[2:], bool)
    for cell in finding.cells:
        place = dict(zip(finding.axes, cell, strict=True))
        if all(place.get(axis, index) == index for axis, index in zip(AXES[:2], where, strict=True)):
            marked[place.get("query", slice(None)), place.get("key", slice(None))] = True
    some = [
        f"{axis} {named[axis]}"
        for axis, size in zip(AXES[:2], report.shape, strict=False)
        if axis in named and size > 1
    ]
    if finding.rule == "deviation":
        return _grid(array, report, where, marked, "Cells that differ", some, DIFFERS)
    return _grid(array, report, where, marked, f"Evidence of {finding.rule.replace('-', ' ')}", some)


def as_checked(array: np.ndarray | Tensor, report: Report) -> StateMap:
    """Array that was checked, of the first sentence and head: at most the first `MOST` queries and keys."""
    sizes = zip(AXES, report.shape, (1, 1, MOST, MOST), strict=True)
    some = [
        f"{axis} 0 of {size}" if most == 1 else f"the first {most} of {size:,}"
        for axis, size, most in sizes
        if size > most
    ]
    return _grid(array, report, (0, 0), np.zeros(report.shape[2:], bool), "What was checked", some)


def _grid(
    array: np.ndarray | Tensor,
    report: Report,
    where: tuple[int, int],
    marked: np.ndarray,
    title: str,
    some: list[str],
    mark: CellState = MARKED,
) -> StateMap:
    """One sentence and head of an array with the cells that are marked; weights in their colors, blocked is hatched."""
    values = _as_array(array).reshape(report.shape)[where][:MOST, :MOST]
    plain = np.where(_open(values, report), 0, 1)
    weights = np.nan_to_num(values.astype(float), posinf=0.0).clip(0, 1) if report.kind == "weights" else None
    return StateMap(
        title,
        np.where(marked[:MOST, :MOST], 2, plain),
        (OPEN[report.kind], BLOCKED[report.kind], mark),
        *(tuple(map(str, range(count))) for count in values.shape),
        lines=(", ".join(some),) if some else (),
        file=title.lower(),
        weights=weights,
    )


def _as_array(array: np.ndarray | Tensor) -> np.ndarray:
    return array.float().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)


def _open(values: np.ndarray, report: Report) -> np.ndarray:
    """Which cells are not blocked: of a mask in the convention in which it was read."""
    if report.kind == "scores":
        return ~(values <= VERY_NEGATIVE)
    if report.convention == "additive":
        return values >= 0
    return values == 0 if report.convention == "true-is-masked" else values != 0
