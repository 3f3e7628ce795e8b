"""Files with the exact numbers of a picture, for spreadsheets, pandas and NumPy."""

import codecs
import io
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attnviz.export.draw import clean

FORMULA = frozenset("=+-@\N{MINUS SIGN}")
"""First characters of formulas in spreadsheets, which also accept them as full-width characters and after blanks."""

BLANK = ("Zs", "Zl", "Zp", "Cf", "Cc")  # categories of invisible characters
BREAKS = ("\t", "\r", "\n")
TEXT = pa.large_string()  # all cells together may exceed 2 GB


def csv(table: pd.DataFrame) -> bytes:
    """Write a table as CSV, without rounding of numbers; NaN and missing values are empty cells.

    The file is UTF-8 with a byte order mark, which Excel needs to detect the encoding, and pandas and R skip. Lines end
    with CR LF (RFC 4180). A text that a spreadsheet could run as a formula gets the prefix '.
    """
    comma, line_end, empty, quotes = (pa.scalar(text, TEXT) for text in (",", "\r\n", "", '""'))
    columns = [_cells(table[name]) for name in table]
    if len(columns) == 1:  # write an empty cell as "", because readers skip an empty line
        columns = [pc.if_else(pc.equal(columns[0], empty), quotes, columns[0])]
    header = pa.array([",".join(_quote_cell(str(name)) for name in table)], TEXT)
    rows, last_line = pc.binary_join_element_wise(*columns, comma), pa.array([""], TEXT)
    lines = pa.concat_arrays([header, rows, last_line])
    one_list = pa.LargeListArray.from_arrays([0, len(lines)], lines)  # `binary_join` joins the texts of each list
    return codecs.BOM_UTF8 + pc.binary_join(one_list, line_end)[0].as_buffer()


def npz(arrays: Mapping[str, np.ndarray], about: str) -> bytes:
    """Write arrays as NPZ that `np.load` reads without pickle; the array "about" is this text, with all shapes."""
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in plain.items():
        if array.dtype.kind not in "biufcU":  # neither booleans nor numbers nor text
            plain[name] = array.astype(np.str_)
    shapes = [f"{name}: {array.dtype} {array.shape}" for name, array in plain.items()]
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **plain, about=np.array("\n".join([clean(about), "", *shapes])))
    return file.getvalue()


def as_text(value: Any) -> str:
    """Format a cell for a page: numbers without rounding, infinity as "∞" or "−∞", and NaN as an empty text."""
    if pd.isna(value):
        return ""
    if isinstance(value, float | np.floating) and np.isinf(value):
        return "∞" if value > 0 else "−∞"
    return clean(str(value))


def _cells(column: pd.Series) -> pa.LargeStringArray:
    """Convert a column to the texts of its cells in a CSV file."""
    if column.dtype.kind in "iuf":  # whole numbers and floats
        return pc.fill_null(pc.cast(pa.array(column, from_pandas=True), TEXT), "")
    if pd.api.types.infer_dtype(column) not in ("string", "boolean"):
        return pa.array([_cell(value) for value in column], TEXT)
    codes, values = pd.factorize(column, use_na_sentinel=False)  # most tokens repeat
    return pa.array([_cell(value) for value in values], TEXT).take(pa.array(codes))


def _cell(value: Any) -> str:
    """Convert a value that is not a number to the text of its cell in a CSV file; see `csv` for the prefix '."""
    if pd.isna(value):
        return ""
    text = clean(str(value))
    visible = (character for character in text if unicodedata.category(character) not in BLANK)
    first = next((character for character in visible if not character.isspace()), "")
    is_formula = text.startswith(BREAKS) or unicodedata.normalize("NFKC", first) in FORMULA
    return _quote_cell(f"'{text}" if isinstance(value, str) and is_formula else text)


def _quote_cell(text: str) -> str:
    """Put a text in quotes if it contains a comma, a quote or a line break (RFC 4180)."""
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text
