"""Windows of a picture within which a block attends, read off its frame: those of Swin in transformers."""

from dataclasses import replace
from math import isqrt
from types import FrameType
from typing import Any

from torch import Tensor

from attnviz.capturing.call import Call
from attnviz.capturing.where import CallPlace
from attnviz.core.windows import WindowGrid

GRID = "input_dimensions"
"""Argument of a block: rows and columns of its patches."""


def in_windows(call: Call, place: CallPlace) -> Call:
    """The call with its windows, and what hides parts of a rolled window as its mask; else the call as it is."""
    batch, _, queries, keys = call.shape
    if queries != keys or isqrt(queries) ** 2 != queries or not isinstance(call.mask, Tensor | None):
        return call
    grid = _grid(place.frame)
    if call.query is None or grid is None or grid.size**2 != queries or batch % grid.count:
        return call
    biases = call.scoring.bias
    apart = grid.apart(call.mask, sum(biases[1:], biases[0]) if biases else None, batch)
    if apart is None:
        return call
    mask, bias = apart
    scoring = replace(call.scoring, bias=(bias,) if bool(bias.any()) else ())
    return replace(call, windows=grid, mask=None if bool(mask.all()) else mask, scoring=scoring)


def _grid(frame: FrameType | None) -> WindowGrid | None:
    """Windows of the block that is at work; None if none says them."""
    while frame is not None:
        block, sides = frame.f_locals.get("self"), frame.f_locals.get(GRID)
        numbers: list[Any] = [*(sides or ()), getattr(block, "window_size", None), getattr(block, "shift_size", None)]
        if len(numbers) == 4 and all(type(number) is int for number in numbers):
            return WindowGrid(*numbers)
        frame = frame.f_back
    return None
