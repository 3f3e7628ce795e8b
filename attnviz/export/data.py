"""The exact numbers behind a picture, for spreadsheets, pandas and NumPy."""

import io
from collections.abc import Mapping

import numpy as np
import pandas as pd

from attnviz.export.spec import clean

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell of text that begins so is a formula to a spreadsheet; it gets a ' in front."""


def csv(table: pd.DataFrame) -> bytes:
    """A table as CSV: every number round-trips, what is not a number or not there is an empty cell.

    UTF-8 with a byte order mark: without it Excel takes tokens for another encoding; pandas and R skip it. Lines end
    with CR LF (RFC 4180), which also has the writer quote a cell with either of them.
    """
    texts = {name: [_cell(value) for value in table[name]] for name in table if not is_number(table[name])}
    return table.assign(**texts).to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig")


def npz(arrays: Mapping[str, np.ndarray], about: str) -> bytes:
    """Arrays as NPZ that `np.load` reads without pickle. `about` says in words what they are."""
    plain = {name: _plain(array) for name, array in arrays.items()}
    shapes = [f"{name}: {array.dtype} {array.shape}" for name, array in plain.items()]
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **plain, about=np.array("\n".join([clean(about), "", *shapes])))
    return file.getvalue()


def rows(table: pd.DataFrame, most: int) -> list[list[str]]:
    """The first rows of a table as text, numbers as exact as in CSV; infinite ones as pictures write them."""
    columns = [
        ["" if _is_missing(value) else clean(_text(value)) for value in table[name].head(most).to_numpy()]
        for name in table
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _text(value: object) -> str:
    infinite = isinstance(value, float | np.floating) and np.isinf(value)
    return str(value) if not infinite else "∞" if value > 0 else "−∞"


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype)


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _plain(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.str_) if array.dtype.kind not in "biufcU" else array
