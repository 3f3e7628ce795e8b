"""How much memory a value holds, part by part: what two values share has one address, and so counts once."""

import sys
from dataclasses import fields, is_dataclass
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from attnviz.ui.shared.arrow import Shown

Parts = dict[int, int]
"""Bytes by address."""


def parts(value: object) -> Parts:
    """Bytes of everything that a value keeps alive: its tensors, arrays, tables and texts, and what holds them.

    Functions are looked into, because a picture that is yet to be drawn holds its record in one. Objects of other
    libraries (a tokenizer, a chart's form) belong to nobody's value: they count for themselves alone.
    """
    found: Parts = {}
    todo = [value]
    while todo:
        one = todo.pop()
        if one is None or isinstance(one, int | float | type):
            continue
        address, size, held = _part(one)
        if address not in found:
            found[address] = size
            todo += held
    return found


def _part(one: Any) -> tuple[int, int, list]:
    """The address of a part, its bytes, and the parts that it holds."""
    match one:
        case Tensor():
            storage = one.untyped_storage()
            return storage.data_ptr(), storage.nbytes(), []
        case np.ndarray():
            base = one
            while isinstance(base.base, np.ndarray):
                base = base.base
            return base.ctypes.data, base.nbytes, []
        case pd.DataFrame() | pd.Series():
            return id(one), int(np.sum(one.memory_usage(deep=True))), list(one.attrs.values())
        case Shown():
            return id(one), one.nbytes, []
        case dict():
            return id(one), sys.getsizeof(one), [*one, *one.values()]
        case list() | tuple() | set() | frozenset():
            return id(one), sys.getsizeof(one), list(one)
    return id(one), sys.getsizeof(one), _held(one)


def _held(one: Any) -> list:
    """What a function or an object of ours holds."""
    match one:
        case FunctionType():
            return [*(one.__closure__ or ()), *(one.__defaults__ or ()), one.__dict__]
        case MethodType():
            return [one.__self__]
        case partial():
            return [one.func, one.args, one.keywords]
        case CellType():
            return _content(one)
    if hasattr(one, "__wrapped__"):  # functools.cache around a function
        return [one.__wrapped__]
    if not type(one).__module__.startswith("attnviz."):
        return []
    held = [getattr(one, field.name, None) for field in fields(one)] if is_dataclass(one) else []
    return [*held, *getattr(one, "__dict__", {}).values()]


def _content(cell: CellType) -> list:
    try:
        return [cell.cell_contents]
    except ValueError:  # it is empty
        return []
