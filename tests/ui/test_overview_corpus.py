"""Over a corpus: from what a head is known to do, to ten real texts where it does that, to the cell on Heads."""

import gc
import math
import os
import re
import shutil
import tempfile
from html import escape
from io import BytesIO

import pytest
import streamlit as st
from test_pages import html, opened

from attnviz import api, atlas
from attnviz.analysis.heads import METRICS
from attnviz.core import assets
from attnviz.core.edits import Edits, Site
from attnviz.studies import texts
from attnviz.training.texts import TEXTS
from attnviz.ui import runs
from attnviz.ui.overview import atlases
from attnviz.ui.overview.atlases import FOLDERS
from attnviz.ui.overview.examples import PAIRS

CHECKED = ":material/check:"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A page that waits for what it measures, however busy the machine is."""
    monkeypatch.setattr(runs, "ANEW", 60.0)


def overview_page():
    from attnviz.ui import frame
    from attnviz.ui.overview.page import page

    frame.body(page, frame.selection())


def over_a_corpus(**link):
    return opened(overview_page, panel="Over a corpus", **link)


def examples(app):
    """Those that are folded, too."""
    app.session_state["more texts"] = True
    app.run()
    return [button for button in app.button if (button.key or "").startswith("open example")]


def test_from_agreement_to_ten_examples_in_three_clicks(monkeypatch):
    """The page, the role, an example: it opens on Heads with the text and the cell."""
    from attnviz.ui.shared import pages

    gone = []
    monkeypatch.setattr(pages, "go_to", gone.append)
    app = over_a_corpus(model="story", site="d0", show="0")
    does = "looks back at the subject where a verb comes next, or at the “that” of its clause"
    role = "Subject of the next verb *head 1 of decoder layer 1*"
    next(one for one in app.button if one.label == role).click().run()

    assert f"Head 1 of decoder layer 1 {does}." in html(app).replace("&quot;", '"')
    icons = {one.label: one.icon for one in app.button if (one.key or "").startswith(("find", "here"))}
    assert icons.pop(role) == CHECKED
    assert [*icons.values()] == [""] * 3
    assert len(examples(app)) == 10
    examples(app)[2].click().run()
    assert gone == ["Heads"]
    found = atlas.open(assets.path("atlas/story"))
    row = found.table("pairs", "decoder layer 1", 1).drop_duplicates("line").iloc[2]
    assert app.query_params["text"] == found.text(row["file"], row["line"])
    assert app.query_params["cell"] == f"{row['query']}.{row['key']}"
    assert (app.query_params["layer"], app.query_params["head"]) == ("d1", "1")


def test_numbers_of_the_corpus_stand_beside_those_of_the_text():
    """A few with the interval of the mean; the others are folded."""
    row = atlas.open(assets.path("atlas/story")).heads().iloc[1]
    app = over_a_corpus(model="story", site="d0", show="1")

    assert f"{row['previous']:.2f} ± {row['previous_high'] - row['previous']:.2f}" in html(app)
    assert f"Below {math.ceil(100 * row['pairs_above']) / 100:.2f} some may be missing" in html(app)
    assert "Query-key asymmetry" not in html(app)
    assert "Head 1 of decoder layer 0 looks from “the” to the word before it.</h2>" in html(app)
    means = {one.title: escape(one.means) for one in METRICS}
    assert all(f'<abbr title="{means[name]}">{name}</abbr>' in html(app) for name in ("Confidence", "Special tokens"))
    for fold in ("atlas numbers", "alike in atlases", "heads over corpus"):
        app.session_state[fold] = True
    near = atlas.open(assets.path("atlas/story")).alike("decoder layer 0", 1, k=1).loc[0]
    assert f"story · head {near['head']} of {near['site']}" in html(app.run())
    assert "Query-key asymmetry" in html(app)
    assert not app.exception


def test_a_head_without_a_measured_role_says_what_its_weights_look_like_or_that_it_has_none():
    app = over_a_corpus(model="induction", step="1000", site="d1", show="0")

    assert not app.exception
    assert re.search(r"Head 0 of decoder layer 1 looks like this, by its weights: [a-z ()]+\.</h2>", html(app))

    app = over_a_corpus(model="story", site="d0", show="0")

    assert "Head 0 of decoder layer 0 has no measured role.</h2>" in html(app)
    assert not app.exception


def test_a_role_stands_with_its_number_and_how_often_it_fails():
    """A head of the translator that looks at itself, by the mean of its texts, and not in all of them."""
    row = atlas.open(assets.path("atlas/translator")).heads("role = 'itself'").iloc[0]
    app = over_a_corpus(model="translator", site=f"e{row['layer']}", show=str(row["head"]))

    fails = f"in {row['role_fails']:.0%} of them it fails (is below 0.6)"
    assert f"Role by its weights alone: itself: {row['self']:.2f} on average over 50 texts; {fails}." in html(app)


@pytest.mark.parametrize("model", ["translator", "induction"])
def test_texts_of_a_metric_are_shaded_and_open(model):
    """Of every kind of site."""
    site = {"translator": "c1", "induction": "d1"}[model]
    app = over_a_corpus(model=model, site=site, **{"atlas-of": "confidence"})

    assert not app.exception
    assert len(examples(app)) == 10
    assert "stronger, the more" in html(app)
    assert html(app).count('class="shaded"') == len(re.findall(r"<i>Confidence \d\.\d\d; predicts ", html(app))) == 10


def test_texts_bear_out_what_the_head_is_said_to_do():
    """A head that looks at itself begins with texts where it does; of one that looks for a pronoun's subject the
    pronoun is among the words that may come next, and a full stop and a word without its capital are explained."""
    app = over_a_corpus(model="translator", site="e0", show="0")
    assert len(examples(app)) == 10
    looks = re.findall(r"--weight: (\d+)%\"><u>", html(app))

    assert len(looks) == 10
    assert min(map(int, looks)) > 60

    app = over_a_corpus(model="story", site="d0", show="1")
    queries = re.findall(r"--weight: [^>]*><u>(.*?)</u>", html(app))
    assert {*queries} == {"the"}

    app = over_a_corpus(model="story", site="d1", show="0")
    assert html(app).count('class="shaded"') == 5
    assert len(examples(app)) == 10
    said = html(app)
    likely = re.findall(r"<i>[^<]*?; predicts (.*?)</i>", said)
    row = atlas.open(assets.path("atlas/story")).table("pairs", "decoder layer 1", 0).drop_duplicates("line").iloc[9]

    assert sum(bool(re.search(r"“(he|she|it)” \d|^“(henry|maria)” ", words)) for words in likely) == 10
    assert likely[0].startswith("end of the text ")
    assert "“.” → “Ben” >99%; predicts " in said
    assert f"The darkest gets {math.floor(1000 * row['value']) / 10}% or more of its attention." in said
    assert "At an underlined full stop the model predicts how" in said
    assert "The model reads and predicts without capitals: " in said


def test_a_model_without_an_atlas_is_measured_on_the_texts_that_ship():
    """At once where that takes no time: the same page, with the numbers of `over_texts`."""
    app = over_a_corpus(model="constructed")

    assert not app.exception
    assert "Over 50 texts, " in html(app)
    assert len(examples(app)) == 10
    source = api.load("constructed")
    app.session_state["heads over corpus"] = app.session_state["the texts"] = True
    app.run()
    table = app.dataframe[0].value
    many = texts.over_texts(source, texts.shipped(source))
    assert sorted(table["mean"]) == pytest.approx(sorted(many["confidence"]))
    assert sorted(table["spread"]) == pytest.approx(sorted(many["confidence_spread"]))
    assert table["typical"].tolist() == [
        "usual" if texts.is_typical(row.here, row.mean, row.spread) else "unusual" for row in table.itertuples()
    ]
    unusual = (table["typical"] == "unusual").sum()
    said = f"{unusual} of 8 heads are unusual" if unusual else "all 8 heads are as usual"
    assert f"Confidence: {said} on this text, compared with 50 texts." in html(app)
    assert "texts" not in table  # all are measured on each of them
    assert f"<li>{escape(texts.shipped(source)[0])}</li>" in html(app)


def test_a_changed_model_is_measured_as_it_is_changed():
    """An atlas that ships is of the original model."""
    app = over_a_corpus(model="story", off="d0.0")
    app.session_state["heads over corpus"] = True
    app.run()

    source = api.load("story")
    edits = Edits().with_heads_off(Site("decoder", 0), {0})
    many = texts.over_texts(source, texts.shipped(source), edits=edits)
    assert not app.exception
    assert "The 50 texts" in {fold.label for fold in app.expander}
    assert sorted(app.dataframe[0].value["mean"]) == pytest.approx(sorted(many["confidence"]))
    assert "The 50 texts" not in {fold.label for fold in over_a_corpus(model="story").expander}


def test_measuring_that_takes_long_waits_for_its_button_beside_its_cost(monkeypatch):
    monkeypatch.setattr("attnviz.ui.budget.SILENT", -1.0)
    app = over_a_corpus(model="induction", step="1000")
    assert app.button(key="measure texts").label == "Measure 50 texts"
    assert re.search(r"About .+ on this machine", html(app))
    assert "by its weights" not in html(app)
    app.button(key="measure texts").click().run(timeout=60)

    assert not app.exception
    assert "Head 0 of decoder layer 1 looks like this, by its weights: " in html(app)
    assert app.dataframe[0].value["mean"].notna().all()  # no role is known: the table of all heads is open


def test_own_texts_come_from_files_or_a_folder(monkeypatch):
    """All their lines; what the model cannot read is counted, and why."""
    files = {
        "texts": [BytesIO(b"the cat sat\nthe dog ran\n")],
        "folder": [BytesIO(b"a cat ran"), BytesIO(b"cat " * 100)],
    }
    upload = st.file_uploader
    monkeypatch.setattr(
        st, "file_uploader", lambda *args, key, **options: files.get(key) or upload(*args, key=key, **options)
    )
    app = over_a_corpus(model="story")

    assert not app.exception
    assert "Over 3 texts, 12 tokens." in html(app)
    assert "1 text could not be read. Text 4: Line 1 has 101 tokens" in html(app)

    files = {"texts": [BytesIO(b"cat " * 100)]}
    app = over_a_corpus(model="story")
    assert "The model reads none of the 1 texts" in html(app)


def test_the_folder_of_a_measured_atlas_goes_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = api.load("constructed")
    measured = atlases._measure(source, ("a b a b", "b c"), Edits())
    assert len(measured.heads()) == 8
    assert [*tmp_path.iterdir()] == [measured.folder]
    del measured
    gc.collect()

    assert [*tmp_path.iterdir()] == []


def test_an_atlas_in_a_named_folder_is_there(tmp_path, monkeypatch):
    """Beside nothing else of that model; where it cannot be used the page says why."""
    (tmp_path / "corpus.txt").write_text("a b c a b\n" * 3)
    atlas.build("constructed", tmp_path / "corpus.txt", tmp_path / "atlas")
    monkeypatch.setenv(FOLDERS, str(tmp_path / "atlas"))
    app = over_a_corpus(model="constructed")
    assert "Over 3 texts" in html(app)
    (tmp_path / "corpus.txt").write_text("a b c a c\n" * 3)
    app = over_a_corpus(model="constructed", **{"atlas-of": "previous"})
    assert "The corpus changed" in html(app)
    shutil.rmtree(tmp_path / "atlas")
    said = html(over_a_corpus(model="constructed"))
    assert "Over 50 texts" in said
    assert "There is no atlas in" in said  # the folder that was named


def test_an_atlas_that_is_older_than_a_metric_is_shown_without_it(tmp_path, monkeypatch):
    (tmp_path / "corpus.txt").write_text("a b c a b\n" * 3)
    folder = atlas.build("constructed", tmp_path / "corpus.txt", tmp_path / "atlas").folder
    heads = atlas.open(folder).heads()
    heads.drop(columns=[name for name in heads if name.startswith("previous")]).to_parquet(folder / "heads.parquet")
    monkeypatch.setenv(FOLDERS, str(folder))
    for name in ("number", "atlas-of"):
        app = over_a_corpus(model="constructed", **{name: "previous"})

        assert not app.exception
        assert "Over 3 texts" in html(app)
        assert ">Confidence</abbr>" in html(app)
        assert ">Previous token</abbr>" not in html(app)


def test_the_link_holds_which_of_two_atlases_is_shown(tmp_path, monkeypatch):
    for count in (2, 3):
        (tmp_path / f"{count}.txt").write_text("a b c a b\n" * count)
        atlas.build("constructed", tmp_path / f"{count}.txt", tmp_path / f"atlas {count}")
    monkeypatch.setenv(FOLDERS, os.pathsep.join(str(tmp_path / f"atlas {count}") for count in (2, 3)))
    app = over_a_corpus(model="constructed")
    assert "Over 2 texts" in html(app)

    app.selectbox(key="atlas").set_value(2).run()

    assert "Over 3 texts" in html(app)
    assert app.query_params["atlas"] == "2"
    assert "Over 3 texts" in html(over_a_corpus(model="constructed", atlas="2"))


@pytest.mark.parametrize("name", TEXTS)
def test_the_atlases_that_ship_are_of_the_models_and_texts_that_ship(name):
    """`make atlas` makes them again after a training; all together are below 5 MB."""
    found = atlas.open(assets.path(f"atlas/{name}"))

    assert found.plan.model.weights == api.load(name).checksum()
    assert found.text(f"{name}.txt", 1)
    assert found.failed == ()
    assert set(found.heads()["site"]) == {str(site) for site in api.load(name).sites}
    assert sum(path.stat().st_size for path in assets.path("atlas").rglob("*.*")) < 5_000_000


def test_what_the_page_needs_is_there_without_the_extra(monkeypatch):
    """Neither DuckDB nor Dask is asked for."""
    import sys

    for name in ("duckdb", "distributed", "dask"):
        monkeypatch.setitem(sys.modules, name, None)
    app = over_a_corpus(model="story", **{"atlas-of": PAIRS})

    assert not app.exception
    assert len(examples(app)) == 10
