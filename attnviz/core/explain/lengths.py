"""How long descriptions are, in bits: what is usual is short."""

import math

import torch
from torch import Tensor

from attnviz.core.explain.readings import MISTAKES, Reading
from attnviz.core.masks import And, Mask, Not, Or, Window
from attnviz.core.masks.published import Kind

DIFFERENT = 5.0
"""Bits for cells that differ at all, beside those that say which."""


def of_grid(grid: Tensor) -> float:
    """Bits of a grid without an explanation: each cell for itself."""
    share = int(grid.count_nonzero()) / max(1, grid.numel())
    if share in (0, 1):
        return float(grid.numel())
    return grid.numel() * -(share * math.log2(share) + (1 - share) * math.log2(1 - share))


def at_least(reading: Reading, kind: Kind) -> float:
    """Bits of the shortest description of this kind."""
    numbers = kind.numbers + (reading.padding is not None)
    return kind.bits + MISTAKES[reading.mistake] + numbers * math.log2(reading.seen.keys + 1)


def without_cells(reading: Reading, kind: Kind, mask: Mask) -> float:
    """The description without the cells that differ."""
    size = math.log2(reading.seen.keys + 1)
    bits = kind.bits + MISTAKES[reading.mistake] + numbers_in(mask) * size + abs(reading.by) * reading.seen.keys / 2
    if reading.mistake == "wrong-axis":
        bits += 2 + size
    if reading.padding is not None:
        bits += 2 + size + (reading.padding.left is not None) + (reading.padded_queries is not None)
    return bits


def is_drawn(extra: Tensor, free: Tensor, keys: int) -> bool:
    """Whether cells beside a mask look drawn at random: few for each query, and for most queries that have room."""
    return 0 < int(extra.max()) <= max(1, keys // 4) and 2 * int((extra > 0).sum()) >= int((free > 0).sum())


def of_random(extra: Tensor, free: Tensor) -> float:
    """Which of the free keys each query sees, and how many, unless it is the same number for all that have room."""
    log = [torch.lgamma(1.0 + numbers.double()) for numbers in (free, extra, free - extra)]
    bits = float((log[0] - log[1] - log[2]).sum()) / math.log(2)
    counts = extra[free > 0]
    alike = bool((counts == counts[:1]).all())
    return bits + (0 if alike else len(counts) * math.log2(int(extra.max()) + 1))


def _log_of_choices(of: int, count: int) -> float:
    """How many bits say which `count` of so many."""
    return (math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)) / math.log(2)


def numbers_in(mask: Mask) -> int:
    """How many numbers were chosen in a mask."""
    if isinstance(mask, And | Or):
        return sum(map(numbers_in, mask.masks))
    if isinstance(mask, Not):
        return 0
    if isinstance(mask, Window) and mask.before == mask.after:
        return 1
    values = {parameter: getattr(mask, parameter.name) for parameter in mask.parameters()}
    chosen = [value for parameter, value in values.items() if parameter.required or value != parameter.default]
    return sum(len(value) if isinstance(value, tuple) else 1 for value in chosen)


def of_cells(cells: int, wrong: int) -> float:
    """Which cells differ, if any."""
    return DIFFERENT + _log_of_choices(cells, wrong) if wrong else 0.0
