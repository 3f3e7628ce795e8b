"""The exact numbers behind a picture, for spreadsheets, pandas and NumPy."""

import codecs
import io
import unicodedata
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attnviz.export.spec import clean

FORMULA = frozenset("=+-@\N{MINUS SIGN}")
"""Signs with which a formula begins; spreadsheets also take them in full width, and after blanks."""

BLANK = ("Zs", "Zl", "Zp", "Cf", "Cc")
"""Categories of characters that draw nothing."""

BREAKS = ("\t", "\r", "\n")

TEXT = pa.large_string()
"""A column of cells, of more than 2 GB together if it must be."""


def separated(table: pd.DataFrame, comma: str) -> bytes:
    """A table as CSV: every number round-trips, what is not a number or not there is an empty cell.

    UTF-8 with a byte order mark: without it Excel takes tokens for another encoding; pandas and R skip it. Lines end
    with CR LF (RFC 4180), which also has the writer quote a cell with either of them.

    Args:
        comma: the character between two cells.
    """
    columns = [_cells(table[name], comma) for name in table]
    head = comma.join(_quoted(str(name), comma) for name in table)
    comma, end, nothing, quoted = (pa.scalar(text, TEXT) for text in (comma, "\r\n", "", '""'))
    if len(columns) == 1:  # a reader passes over an empty line
        columns = [pc.if_else(pc.equal(columns[0], nothing), quoted, columns[0])]
    lines = pa.concat_arrays(
        [pa.array([head], TEXT), pc.binary_join_element_wise(*columns, comma), pa.array([""], TEXT)]
    )
    text = pc.binary_join(pa.LargeListArray.from_arrays([0, len(lines)], lines), end)[0]
    return codecs.BOM_UTF8 + text.as_buffer()


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
    if not infinite:
        return str(value)
    return "∞" if value > 0 else "−∞"


def _cells(column: pd.Series, comma: str) -> pa.LargeStringArray:
    """A column as the cells of CSV."""
    if column.dtype.kind in "iuf":
        return pc.fill_null(pc.cast(pa.array(column, from_pandas=True), TEXT), "")
    if pd.api.types.infer_dtype(column) not in ("string", "boolean"):
        return pa.array([_cell(value, comma) for value in column], TEXT)
    which, values = pd.factorize(column, use_na_sentinel=False)  # tokens come again and again
    return pa.array([_cell(value, comma) for value in values], TEXT).take(pa.array(which))


def _cell(value: object, comma: str) -> str:
    """A value as CSV; a text that a spreadsheet could run as a formula gets a ' in front."""
    if _is_missing(value):
        return ""
    text = clean(value) if isinstance(value, str) else str(value)
    return _quoted(f"'{text}" if isinstance(value, str) and is_formula(text) else text, comma)


def is_formula(text: str) -> bool:
    """Whether a spreadsheet could take a text for a formula, or break its cell in two."""
    first = next((char for char in text if unicodedata.category(char) not in BLANK and not char.isspace()), "")
    return text.startswith(BREAKS) or unicodedata.normalize("NFKC", first) in FORMULA


def _quoted(text: str, comma: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in f'{comma}"\r\n') else text


def is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype)


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _plain(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.str_) if array.dtype.kind not in "biufcU" else array
