"""JSON, CSV, NPZ and the names of files."""

import io
import json
import re
from types import SimpleNamespace

import altair as alt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from attnviz.export import FORMATS, csv, filename, numbers, render
from attnviz.export.draw import clean

FORMULA = re.compile(r"[\t\r\n]|[\s\u200b\ufeff]*[-=+@\uff1d\uff0b\uff0d\uff20]")
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)


def test_json_is_vega_lite_with_its_data_inside(figure):
    spec = json.loads(render(figure, "json"))

    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/v6")
    assert len(max(spec["datasets"].values(), key=len)) >= len(figure.table)
    assert render(alt.Chart.from_dict(spec), "svg").startswith(b"<svg")


def test_csv_gives_the_table_back_exactly(figure):
    """Every float32 is written with as many digits as it needs, and no more."""
    found = pd.read_csv(io.BytesIO(render(figure, "csv")), dtype=figure.table.dtypes.to_dict(), keep_default_na=False)

    assert_frame_equal(found, figure.table)
    assert render(figure, "csv").startswith(b"\xef\xbb\xbfquery,")  # as Excel needs it


@given(st.lists(st.floats(width=32), min_size=1))
def test_csv_keeps_every_float(numbers):
    table = pd.DataFrame({"weight": np.array(numbers, dtype=np.float32)})
    found = pd.read_csv(io.BytesIO(csv(table)), dtype=np.float32, skip_blank_lines=False)

    np.testing.assert_array_equal(found["weight"], table["weight"])


@given(st.lists(ANY_TEXT, min_size=1))
def test_csv_keeps_every_text_that_is_no_formula(tokens):
    """Control characters and surrogates change, a ' stands before formulas, and everything else comes back."""
    table = pd.DataFrame({"token": pd.Series(tokens, dtype=object), "a,b": range(len(tokens))})
    found = pd.read_csv(io.BytesIO(csv(table)), keep_default_na=False, dtype={"token": object})

    assert list(found) == list(table)
    for token, cell in zip(tokens, found["token"], strict=True):
        assert not FORMULA.match(cell)
        assert cell.removeprefix("'") == clean(token).removeprefix("'")


BEFORE = ["", " ", "\n", "\r\n", "\t", *"\xa0\u3000\u200b\ufeff\u2060\xad\u202e\u2028", " \u200b\n"]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("sign", "=+-@＝＋－＠﹢﹣−")
def test_a_formula_after_blanks_or_in_full_width_is_told_from_one(before, sign):
    """Spreadsheets trim what draws nothing, and read signs of full width as those of ASCII."""
    table = pd.DataFrame({"token": [f"{before}{sign}1+1", f"a{before}{sign}1", f"{before}a"], "n": [1, 2, 3]})

    found = pd.read_csv(io.BytesIO(csv(table)), keep_default_na=False, dtype={"token": object})["token"]

    assert found[0] == clean(f"'{before}{sign}1+1")
    assert found[1] == clean(f"a{before}{sign}1")
    assert found[2] == clean(f"{chr(39) * before.startswith(tuple(numbers.BREAKS))}{before}a")


@pytest.mark.parametrize("format", [name for name, one in FORMATS.items() if one.mime == "text/csv"])
def test_numbers_as_text_hold_no_formula(hostile, format):
    """Each stands behind a '."""
    text = render(hostile, format).decode("utf-8-sig")

    for formula in ("=1+1", "@SUM(A1)"):
        assert text.count(formula) == text.count(f"'{formula}") > 0


def test_npz_gives_the_arrays_back_without_pickle(figure, hostile):
    found = np.load(io.BytesIO(render(figure, "npz")))

    assert set(found) == {*figure.arrays, "about"}
    for name, array in figure.arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert figure.title in str(found["about"])
    assert "</script>" in str(np.load(io.BytesIO(render(hostile, "npz")))["tokens"][3])


@given(ANY_TEXT | st.sampled_from(["CON", "nul", "com1", "a/b\\c", "..", "Ünïcode: 1", "x" * 300]))
def test_a_name_is_safe_in_every_file_system(name):
    stem, dot, extension = filename(SimpleNamespace(name=name, title=""), "csv").partition(".")

    assert stem.isascii()
    assert stem.replace("-", "").replace("_", "").isalnum() or stem.strip("_") == ""
    assert 0 < len(stem) <= 87
    assert stem.lower() not in {"con", "nul", "com1"}
    assert dot + extension == ".csv"
