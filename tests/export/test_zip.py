"""Archives: every format of a figure, several figures, a whole run."""

import io
import zipfile
from types import SimpleNamespace

import altair as alt
import pytest

import attnviz
from attnviz import export, figures, files
from attnviz.core.edits import Site
from attnviz.export import FORMATS, PRESETS, everything, filename, formats, render


def unpacked(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        found = {name: archive.read(name) for name in archive.namelist()}
    readme = found.pop("README.txt").decode()
    assert all(f"  {name}: " in readme for name in found)
    return readme, found


def test_a_zip_holds_every_format_and_says_what_is_what(figure):
    readme, found = unpacked(render(figure, "zip"))

    assert {name.rpartition(".")[2] for name in found} == {*FORMATS}
    assert {filename(figure, "png", scale=2), filename(figure, "png", ppi=300)} <= set(found)
    assert found[filename(figure, "csv")] == render(figure, "csv")
    assert "left out" not in readme


@pytest.mark.parametrize("preset", PRESETS)
def test_a_zip_for_a_purpose_holds_no_picture_twice(figure, preset):
    """A size of its own may be one that is there for everybody."""
    _, found = unpacked(render(figure, "zip", preset=preset))
    pictures = [content for name, content in found.items() if name.endswith(".png")]

    assert len(set(pictures)) == len(pictures) > 1
    assert render(figure, "png", preset=preset) in pictures


def test_a_zip_of_several_figures_keeps_them_apart(record, figure):
    _, found = unpacked(render([figure, figure, figures.heads(record, Site("encoder", 0))], "zip"))

    assert len({name.partition("/")[0] for name in found}) == 3


def test_a_zip_says_what_it_had_to_leave_out(hostile):
    """The numbers still come when the picture cannot be drawn."""
    image = alt.Chart(alt.NamedData("table")).mark_image().encode(url="at:N")
    image.datasets = {"table": [{"at": "http://127.0.0.1:9/"}]}
    parts = SimpleNamespace(**vars(hostile) | {"chart": image})
    with zipfile.ZipFile(io.BytesIO(render(parts, "zip"))) as archive:
        assert {name.rpartition(".")[2] for name in archive.namelist()} == {"txt", *FORMATS} - {"png", "svg", "pdf"}
        assert "left out. The picture refers to an image by its address" in archive.read("README.txt").decode()


def test_everything_holds_the_run_a_page_and_every_layer_and_says_how_each_opens(monkeypatch):
    """The view on the page comes first, and only once. A large run has no tables; the text says where to get them."""
    record = attnviz.analyze("The cat sat on the mat", "story")
    shown = figures.heads(record, Site("decoder", 1)), figures.head(record, Site("decoder", 1), 0)
    settings = {"name": "story", "settings": {}}
    readme, found = unpacked(everything(record, shown, settings=settings))

    assert "attnviz open case.attn" in readme
    assert "left out" not in readme
    assert files.opened(found.pop(formats.CASE))[1] == settings
    assert found.pop(formats.PAGE) == attnviz.explore(record).encode()
    assert [name[:2] for name in found] == ["01", "01", "02", "02", "03", "03"]
    for format in ("csv", "svg"):
        assert found[f"01-{export.filename(shown[0], format)}"] == render(shown[0], format)

    monkeypatch.setattr(formats, "MOST_ROWS", 100)
    with zipfile.ZipFile(io.BytesIO(everything(record))) as archive:
        assert sum(name.endswith(".csv") for name in archive.namelist()) == 1
        assert b"left out. It would have 98 rows; the same numbers are in case.attn." in archive.read("README.txt")


def test_pictures_for_which_no_time_is_left_name_the_limit_that_was_given():
    """Their rest of the time is negative; numbers and the page need no drawing, and are there."""
    with zipfile.ZipFile(io.BytesIO(everything(attnviz.analyze("The cat sat", "story"), deadline=0.001))) as archive:
        readme, names = archive.read("README.txt").decode(), archive.namelist()

    assert readme.count("left out. The picture was not drawn within 0.001 s: other pictures were drawn first.") == 2
    assert not any(name.endswith(".svg") for name in names)
    assert sum(name.endswith(".csv") for name in names) == 2
