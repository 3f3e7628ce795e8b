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
    columns = [_cells(table[name]) for name in table]
    lines = map(",".join, zip(*columns, strict=True))
    if len(columns) == 1:
        lines = (line or '""' for line in lines)  # a reader passes over an empty line
    return "\r\n".join([",".join(_quoted(str(name)) for name in table), *lines, ""]).encode("utf-8-sig")


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


def _cells(column: pd.Series) -> list[str]:
    """A column as CSV. Column by column, a head of 512 tokens is written ten times as fast as row by row."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        cells = column.to_numpy().astype(str)
        cells[column.isna()] = ""
        return cells.tolist()
    values = column.tolist()
    if pd.api.types.infer_dtype(column) not in ("string", "integer", "boolean"):
        return [_cell(value) for value in values]
    known = {value: _cell(value) for value in {*values}}  # positions and tokens come again and again
    return [*map(known.__getitem__, values)]


def _cell(value: object) -> str:
    """A value as CSV; a text that begins like a formula is told from one."""
    if _is_missing(value):
        return ""
    text = clean(value) if isinstance(value, str) else str(value)
    return _quoted(f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


def is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype)


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _plain(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.str_) if array.dtype.kind not in "biufcU" else array
