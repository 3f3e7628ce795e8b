"""How much memory a value holds, part by part: what two values share has one address, and so counts once."""

import gc
import sys
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from attnviz.core.tokens import Sentence
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
        case Shown() | Sentence():  # a sentence is of many parts, and of each record made of it
            return id(one), one.nbytes, []
        case FunctionType():
            held = [*(one.__closure__ or ()), *(one.__defaults__ or ()), one.__dict__]
        case dict() | list() | tuple() | set() | frozenset() | MethodType() | partial() | CellType():
            held = gc.get_referents(one)
        case _ if hasattr(one, "__wrapped__"):  # functools.cache around a function
            held = [one.__wrapped__]
        case _:
            held = gc.get_referents(one) if type(one).__module__.startswith("attnviz.") else []
    return id(one), sys.getsizeof(one), held
