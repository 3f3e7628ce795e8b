"""JSON, CSV, NPZ, ZIP and the names of files."""

import io
import json
import re
import zipfile
from types import SimpleNamespace

import altair as alt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from attnviz import figures
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.export import FORMATS, PRESETS, data, filename, files, render

FORMULA = re.compile(r"[\t\r\n]|[\s\u200b\ufeff]*[-=+@\uff1d\uff0b\uff0d\uff20]")
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)


def test_json_is_vega_lite_with_its_data_inside(figure):
    spec = json.loads(render(figure, "json"))

    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/v6")
    assert len(max(spec["datasets"].values(), key=len)) >= len(figure.table)
    assert render(alt.Chart.from_dict(spec), "svg").startswith(b"<svg")


def test_json_has_no_number_that_json_does_not_have(hostile):
    def refuse(word):
        raise AssertionError(word)

    assert json.loads(render(hostile, "json"), parse_constant=refuse)["datasets"]["table-0"][5]["weight"] is None


def test_csv_gives_the_table_back_exactly(figure):
    """Every float32 is written with as many digits as it needs, and no more."""
    found = pd.read_csv(io.BytesIO(render(figure, "csv")), dtype=figure.table.dtypes.to_dict(), keep_default_na=False)

    assert_frame_equal(found, figure.table)


@given(st.lists(st.floats(width=32), min_size=1))
def test_csv_keeps_every_float(numbers):
    table = pd.DataFrame({"weight": np.array(numbers, dtype=np.float32)})
    found = pd.read_csv(io.BytesIO(data.separated(table, ",")), dtype=np.float32, skip_blank_lines=False)

    np.testing.assert_array_equal(found["weight"], table["weight"])


@given(st.lists(ANY_TEXT, min_size=1), st.sampled_from(",;\t"))
def test_csv_keeps_every_text_that_is_no_formula(tokens, comma):
    """Control characters and surrogates change, a ' stands before formulas, and everything else comes back."""
    table = pd.DataFrame({"token": pd.Series(tokens, dtype=object), f"a{comma}b": range(len(tokens))})
    written = io.BytesIO(data.separated(table, comma))
    found = pd.read_csv(written, sep=comma, keep_default_na=False, dtype={"token": object})

    assert list(found) == list(table)

    for token, cell in zip(tokens, found["token"], strict=True):
        assert not FORMULA.match(cell)
        assert cell.removeprefix("'") == data.clean(token).removeprefix("'")


BEFORE = [
    "",
    " ",
    "\n",
    "\r\n",
    "\t",
    "\xa0",
    "\u3000",
    "\u200b",
    "\ufeff",
    "\u2060",
    "\xad",
    "\u202e",
    "\u2028",
    " \u200b\n",
]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("sign", "=+-@＝＋－＠﹢﹣−")
def test_a_formula_after_blanks_or_in_full_width_is_told_from_one(before, sign):
    """Spreadsheets trim what draws nothing, and read signs of full width as those of ASCII."""
    table = pd.DataFrame({"token": [f"{before}{sign}1+1", f"a{before}{sign}1", f"{before}a"], "n": [1, 2, 3]})

    found = pd.read_csv(io.BytesIO(data.separated(table, ",")), keep_default_na=False, dtype={"token": object})["token"]

    assert found[0] == data.clean(f"'{before}{sign}1+1")
    assert found[1] == data.clean(f"a{before}{sign}1")
    assert found[2] == data.clean(f"{chr(39) * before.startswith(tuple(data.BREAKS))}{before}a")


def test_csv_of_hostile_text_holds_no_formula(hostile):
    cells = pd.read_csv(io.BytesIO(render(hostile, "csv")), keep_default_na=False, dtype={"token": object})["token"]

    assert {"'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "'\rx", 'a,"b"\nc'} <= set(cells)


@pytest.mark.parametrize(
    "format", [name for name, one in FORMATS.items() if one.numbers and one.mime.startswith("text/")]
)
def test_numbers_as_text_hold_no_formula(hostile, format):
    """In any format: each stands behind a '."""
    text = render(hostile, format).decode("utf-8-sig")

    for formula in ("=1+1", "@SUM(A1)"):
        assert text.count(formula) == text.count(f"'{formula}") > 0


def test_csv_is_what_pandas_writes():
    """Whole numbers with gaps and columns of everything, byte for byte; floats with the shortest digits that tell."""
    floats = pd.DataFrame(
        {
            "weight": np.array([1e-5, np.nan, np.inf, -0.0, 1e20, 0.1], np.float32),
            "exact": np.array([1e-7, 0.5, 1 / 3, 1e16, 123456789.123, np.nan]),
        }
    )
    others = pd.DataFrame(
        {
            "count": pd.array([1, None, 3, 4, 5, 6], dtype="Int64"),
            "off": [True, False] * 3,
            "any": [1, "1", 1.0, True, None, "é"],
            "text, quoted": ["", 'a"b', "x,y", "a\nb", "a\rb", None],
        }
    )

    for shown in (others, others[["text, quoted"]], others[:0]):
        assert data.separated(shown, ",") == shown.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig")
    assert data.separated(floats, ",").decode("utf-8-sig").splitlines() == [
        "weight,exact",
        "0.00001,1e-7",
        ",0.5",
        "inf,0.3333333333333333",
        "-0,1e+16",
        "1e+20,123456789.123",
        "0.1,",
    ]


def test_csv_begins_as_excel_needs_it(figure):
    assert render(figure, "csv").startswith(b"\xef\xbb\xbfquery,")


def test_npz_gives_the_arrays_back_without_pickle(figure, hostile):
    found = np.load(io.BytesIO(render(figure, "npz")))

    assert set(found) == {*figure.arrays, "about"}
    for name, array in figure.arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert figure.title in str(found["about"])
    assert "</script>" in str(np.load(io.BytesIO(render(hostile, "npz")))["tokens"][3])


@pytest.mark.parametrize("format", ["csv", "npz"])
def test_numbers_are_the_same_bytes_each_time(figure, format):
    assert render(figure, format) == render(figure, format)


def test_a_zip_holds_every_format_and_says_what_is_what(figure):
    archive = zipfile.ZipFile(io.BytesIO(render(figure, "zip")))
    names = archive.namelist()
    readme = archive.read("README.txt").decode()

    assert archive.testzip() is None
    assert {name.rpartition(".")[2] for name in names} == {*FORMATS, "txt"}
    assert {filename(figure, "png", scale=2), filename(figure, "png", ppi=300)} <= set(names)
    assert all(name in readme for name in names[1:])
    assert archive.read(filename(figure, "csv")) == render(figure, "csv")
    assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_zip_for_a_purpose_holds_no_picture_twice(figure, preset):
    """A size of its own may be one that is there for everybody."""
    archive = zipfile.ZipFile(io.BytesIO(render(figure, "zip", preset=preset)))
    pictures = [archive.read(name) for name in archive.namelist() if name.endswith(".png")]

    assert len(set(pictures)) == len(pictures) > 1


def test_every_format_of_hostile_tokens_can_be_made(hostile_figure):
    archive = zipfile.ZipFile(io.BytesIO(render(hostile_figure, "zip")))

    assert "left out" not in archive.read("README.txt").decode()
    assert len(archive.namelist()) == len(["README.txt", *files()])


def test_a_zip_of_several_figures_keeps_them_apart(record, figure):
    several = [figure, figure, figures.heads(record, Site("encoder", 0))]
    folders = {name.partition("/")[0] for name in zipfile.ZipFile(io.BytesIO(render(several, "zip"))).namelist()}

    assert len(folders) == 4


def test_a_zip_says_what_it_had_to_leave_out(hostile):
    """The numbers still come when the picture cannot be drawn."""
    image = alt.Chart(pd.DataFrame({"at": ["http://127.0.0.1:9/"]})).mark_image().encode(url="at:N")
    archive = zipfile.ZipFile(io.BytesIO(render(SimpleNamespace(**vars(hostile) | {"chart": image}), "zip")))

    assert {name.rpartition(".")[2] for name in archive.namelist()} == {"txt", *FORMATS} - {"png", "svg", "pdf"}
    assert "left out. The picture holds an image from another place" in archive.read("README.txt").decode()


def test_a_bare_chart_has_a_picture_and_no_numbers():
    chart = alt.Chart(pd.DataFrame({"x": [1]})).mark_point().encode(x="x:Q")

    assert filename(chart, "svg") == "figure.svg"
    assert "figure.html" in zipfile.ZipFile(io.BytesIO(render(chart, "zip"))).namelist()
    with pytest.raises(InputError, match="A bare chart has no table to save"):
        render(chart, "csv")


def test_a_name_says_the_size_of_a_png_alone(figure):
    assert filename(figure, "png") == f"{figure.name}.png"
    assert filename(figure, "png", scale=2) == f"{figure.name}@2x.png"
    assert filename(figure, "png", ppi=300) == f"{figure.name}-300dpi.png"
    assert filename(figure, "svg", scale=2) == f"{figure.name}.svg"


@given(ANY_TEXT | st.sampled_from(["CON", "nul", "com1", "a/b\\c", "..", "Ünïcode: 1", "x" * 300]))
def test_a_name_is_safe_in_every_file_system(name):
    stem, dot, extension = filename(SimpleNamespace(name=name, title=""), "csv").partition(".")

    assert stem.isascii()
    assert stem.replace("-", "").replace("_", "").isalnum() or stem.strip("_") == ""
    assert 0 < len(stem) <= 87
    assert stem.lower() not in {"con", "nul", "com1"}
    assert dot + extension == ".csv"
