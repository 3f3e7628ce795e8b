"""A whole run in one archive."""

import io
import zipfile

import attnviz
from attnviz import export, figures, files
from attnviz.core.edits import Site
from attnviz.export import everything as module
from attnviz.export.everything import CASE, PAGE, everything

TEXT = "The cat sat on the mat"


def unpacked(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_holds_the_run_a_page_and_every_layer_and_says_how_each_opens():
    """What is looked at comes first, and once; every file is named in the README."""
    record = attnviz.analyze(TEXT, "story")
    shown = figures.heads(record, Site("decoder", 1)), figures.head(record, Site("decoder", 1), 0)
    found = unpacked(everything(record, shown, settings={"name": "story", "settings": {}}))

    readme = found.pop("README.txt").decode()
    assert all(f"  {name}: " in readme for name in found)
    assert "attnviz open case.attn" in readme
    assert "left out" not in readme
    assert files.opened(found.pop(CASE))[1] == {"name": "story", "settings": {}}
    assert found.pop(PAGE) == attnviz.explore(record).encode()
    assert [name[:2] for name in found] == ["01", "01", "02", "02", "03", "03"]
    assert found[f"01-{export.filename(shown[0], 'csv')}"] == export.render(shown[0], "csv")
    assert found[f"01-{export.filename(shown[0], 'svg')}"] == export.render(shown[0], "svg")


def test_of_a_large_run_tables_are_left_out_and_it_is_said_where_their_numbers_are(monkeypatch):
    """The first ones fit: of two layers with 2 x 7 x 7 cells one."""
    record = attnviz.analyze(TEXT, "story")
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    found = unpacked(everything(record))

    assert sum(name.endswith(".csv") for name in found) == 1
    assert sum(name.endswith(".svg") for name in found) == 2
    assert "left out. It has 98 rows; the same numbers are in case.attn." in found["README.txt"].decode()
