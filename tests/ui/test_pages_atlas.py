"""The page Atlas: from what a head is known to do, to ten real texts where it does that, to the cell on Heads."""

import math
import re
import shutil
from html import escape

import pytest
from test_pages import html, opened

from attnviz import api, atlas
from attnviz.core import assets
from attnviz.metrics.heads import METRICS
from attnviz.training.texts import TEXTS
from attnviz.ui.atlas.built import FOLDERS
from attnviz.ui.atlas.examples import PAIRS

CHECKED = ":material/check:"


def atlas_page():
    from attnviz.ui import frame
    from attnviz.ui.atlas.page import page

    frame.body(page, frame.given())


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
    app = opened(atlas_page, model="story", site="d0", show="0")
    does = "looks back at the subject where a verb comes next, or at the “that” of its clause"
    role = "Subject of the next verb *head 1 of decoder layer 1*"
    next(one for one in app.button if one.label == role).click().run()

    assert f"Head 1 of decoder layer 1 {does}." in html(app).replace("&quot;", '"')
    icons = {one.label: one.icon for one in app.button if (one.key or "").startswith("find")}
    assert icons.pop(role) == CHECKED
    assert [*icons.values()] == [""] * 3
    assert len(examples(app)) == 10
    examples(app)[2].click().run()
    assert gone == ["Heads"]
    found = atlas.open(assets.path("atlas/story"))
    row = found.table("pairs", "decoder layer 1", 1).drop_duplicates("line").iloc[2]
    assert app.query_params["text"] == found.text(row["file"], row["line"])
    assert app.query_params["cell"] == f"{row['query']}.{row['key']}"
    assert (app.query_params["site"], app.query_params["show"]) == ("d1", "1")


def test_numbers_of_the_corpus_stand_beside_those_of_the_text():
    """A few with the interval of the mean; the others are folded."""
    row = atlas.open(assets.path("atlas/story")).heads().iloc[1]
    app = opened(atlas_page, model="story", site="d0", show="1")

    assert f"{row['previous']:.2f} ± {row['previous_high'] - row['previous']:.2f}" in html(app)
    assert f"Below {math.ceil(100 * row['pairs_above']) / 100:.2f} some may be missing" in html(app)
    assert "Query-key asymmetry" not in html(app)
    assert "Head 1 of decoder layer 0 looks from “the” to the word before it.</h2>" in html(app)
    means = {one.title: escape(one.means) for one in METRICS}
    assert all(f'<abbr title="{means[name]}">{name}</abbr>' in html(app) for name in ("Entropy (nats)", "Induction"))
    for fold in ("atlas numbers", "alike in atlases", "atlas map"):
        app.session_state[fold] = True
    near = atlas.open(assets.path("atlas/story")).alike("decoder layer 0", 1, k=1).loc[0]
    assert f"story · head {near['head']} of {near['site']}" in html(app.run())
    assert "Query-key asymmetry" in html(app)
    assert not app.exception


def test_a_head_without_a_measured_role_says_so_first():
    app = opened(atlas_page, model="story", site="d0", show="0")

    assert "Head 0 of decoder layer 0 has no measured role.</h2>" in html(app)
    assert not app.exception


def test_a_role_stands_with_its_number_and_how_often_it_fails():
    """A head of the translator that looks at itself, by the mean of its texts, and not in all of them."""
    row = atlas.open(assets.path("atlas/translator")).heads("role = 'itself'").iloc[0]
    app = opened(atlas_page, model="translator", site=f"e{row['layer']}", show=str(row["head"]))

    fails = f"in {row['role_fails']:.0%} of them it fails (is below 0.6)"
    assert f"Role by its weights alone: itself: {row['self']:.2f} on average over 50 texts; {fails}." in html(app)


@pytest.mark.parametrize("model", ["translator", "induction"])
def test_texts_of_a_metric_are_shaded_and_open(model):
    """Of every kind of site."""
    site = {"translator": "c1", "induction": "d1"}[model]
    app = opened(atlas_page, model=model, site=site, **{"atlas-of": "confidence"})

    assert not app.exception
    assert len(examples(app)) == 10
    assert "stronger, the more" in html(app)
    assert html(app).count('class="shaded"') == len(re.findall(r"<i>Confidence \d\.\d\d; predicts ", html(app))) == 10


def test_texts_bear_out_what_the_head_is_said_to_do():
    """A head that looks at itself begins with texts where it does; of one that looks for a pronoun's subject the
    pronoun is among the words that may come next, and a full stop and a word without its capital are explained."""
    app = opened(atlas_page, model="translator", site="e0", show="0")
    assert len(examples(app)) == 10
    looks = re.findall(r"--weight: (\d+)%\"><u>", html(app))

    assert len(looks) == 10
    assert min(map(int, looks)) > 60

    app = opened(atlas_page, model="story", site="d0", show="1")
    queries = re.findall(r"--weight: [^>]*><u>(.*?)</u>", html(app))
    assert {*queries} == {"the"}

    app = opened(atlas_page, model="story", site="d1", show="0")
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


def test_a_model_without_an_atlas_says_how_to_build_one(tmp_path, monkeypatch):
    """And one that is named when the app is started is there, beside nothing else of that model."""
    app = opened(atlas_page, model="constructed")
    assert app.code[0].value == "attnviz atlas build constructed texts.txt -o atlas/\nATTNVIZ_ATLAS=atlas/ attnviz app"
    assert "An atlas shows what each head does over many texts" in html(app)
    app.button(key="atlas of translator").click().run()
    assert app.query_params["model"] == "translator"
    assert "What each head of translator does over 50 texts" in html(app)
    app = opened(atlas_page, model="story", step="100")
    assert "attnviz atlas build story --step 100 texts.txt" in app.code[0].value

    (tmp_path / "corpus.txt").write_text("a b c a b\n" * 3)
    atlas.build("constructed", tmp_path / "corpus.txt", tmp_path / "atlas")
    monkeypatch.setenv(FOLDERS, str(tmp_path / "atlas"))
    app = opened(atlas_page, model="constructed")
    assert "over 3 texts" in html(app)
    (tmp_path / "corpus.txt").write_text("a b c a c\n" * 3)
    app = opened(atlas_page, model="constructed", **{"atlas-of": "previous"})
    assert "The corpus changed" in html(app)
    shutil.rmtree(tmp_path / "atlas")
    said = html(opened(atlas_page, model="constructed"))
    assert "There is no atlas of constructed here" in said
    assert "There is no atlas in" in said  # the folder that was named


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
    app = opened(atlas_page, model="story", **{"atlas-of": PAIRS})

    assert not app.exception
    assert len(examples(app)) == 10
