"""An answer that a model wrote, and a target that its decoder reads: in links, files, studies and checks."""

import io
from urllib.parse import urlencode

import numpy as np
import pytest

from attnviz import Edits, Site, analyze, api, atlas, cases, export, figures, files, generate, load
from attnviz.analysis.align import Side, beside
from attnviz.check.leak_test import leak_test
from attnviz.core import assets
from attnviz.sources.trained import Trained
from attnviz.studies import ablation

TEXT, SITE = "the cat sat on", Site("decoder", 1)
WRITTEN = generate(TEXT, "story", 8)
LINK = {"model": "story", "text": TEXT, "answer": "-".join(map(str, WRITTEN.ids))}
HEAD_OFF = Edits(heads_off=frozenset({(SITE, 1)}))
ENGLISH, TARGET = "The cat sat down.", "le chien noir dort ."


def again(edits=Edits(), source=None):
    """Run the answer again with other edits and return the record."""
    return (source or load("story")).run(WRITTEN.record.sentences, edits)


def difference(*records):
    return figures.difference(beside(*(Side(record, SITE, 0) for record in records)))


ANSWERED = {
    "?layer=d1&head=0": lambda: figures.head(WRITTEN.record, SITE, 0),
    "overview?": lambda: figures.overview(WRITTEN.record),
    "masks?layer=d1": lambda: figures.mask(
        WRITTEN.record.step(SITE).mask, *WRITTEN.record.tokens(SITE), predicted=WRITTEN.record.predicted(SITE)
    ),
    "compare?layer=d1&head=0&heads_off=d1.1": lambda: difference(again(HEAD_OFF), WRITTEN.record),
    "compare?layer=d1&head=0&b=step%3D0": lambda: difference(WRITTEN.record, again(source=load("story", step=0))),
    "compare?layer=d1&head=0&b=text%3Dthe+dog+sat": lambda: difference(WRITTEN.record, analyze("the dog sat", "story")),
    "compare?layer=d1&head=0&b=model%3Dinduction": lambda: difference(
        WRITTEN.record, analyze(WRITTEN.sentence.text, "induction")
    ),
}
"""Figures of links that hold the answer: of the record that was written with it, or its tokens run again."""


@pytest.mark.parametrize("link", ANSWERED)
def test_a_link_with_an_answer_is_exported_with_it(run, link):
    """The numbers of prompt and answer, as the pages show them."""
    page, _, query = link.partition("?")
    status, _, err = run("export", f"{page}?{urlencode(LINK)}&{query}", "-o", "link.npz")
    expected = np.load(io.BytesIO(export.render(ANSWERED[link](), "npz")))

    assert (status, err) == (0, "")
    with np.load("link.npz") as exported:
        assert sorted(exported) == sorted(expected)
        for name in expected:
            np.testing.assert_array_equal(exported[name], expected[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a cat", "--model", "translator", "--set", "answer=5"], "'translator' predicts no next token"),
        (
            ["a cat\na dog", "--model", "story", "--lines", "--set", "answer=5"],
            "An answer continues one text; there are 2",
        ),
        (
            ["a cat", "--model", "story", "--set", "answer=5,6"],
            "--set answer: '5,6' cannot be read; it should look like 318",
        ),
        (["a cat", "--model", "story", "--set", "answer=99999"], "There is no token with the id 99999"),
    ],
)
def test_an_answer_that_does_not_fit_is_one_sentence(run, arguments, message):
    status, out, err = run("export", *arguments)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_saved_answer_comes_out_the_same(tmp_path):
    """Its tokens are run again, and not cut anew."""
    path = tmp_path / "answer.attn"
    files.save(WRITTEN.record, path)

    assert cases.verify(path, load("story")).same


def test_a_saved_run_with_a_target_comes_out_the_same(tmp_path):
    path = cases.save(ENGLISH, tmp_path / "run.attn", "translator", target=TARGET)

    assert cases.verify(path).same


def test_heads_are_switched_off_with_the_target_that_was_given():
    source = api.load("translator")
    sentences, targets = source.tokenize([ENGLISH]), source.tokenize_targets([TARGET])
    swept = ablation.sweep(source, sentences, targets=targets)

    assert swept.table["rewritten"].isna().all()


def test_a_leak_test_is_made_with_the_target_that_was_given():
    source = api.load("translator")
    sentences, targets = source.tokenize([ENGLISH]), source.tokenize_targets([TARGET])
    test = leak_test(source, sentences, targets=targets)

    assert [token.text for token in test.keys] == list(targets[0].labels)
    assert test.pairs == ()


@pytest.mark.parametrize("name", Trained.names)
def test_the_atlases_that_ship_are_of_the_models_and_texts_that_ship(name):
    """`make atlas` makes them again after a training; all together are below 5 MB."""
    shipped = atlas.open(assets.path(f"atlas/{name}"))

    assert shipped.plan.weights == api.load(name).checksum()
    assert shipped.text(f"{name}.txt", 1)
    assert shipped.failed == ()
    assert set(shipped.heads()["site"]) == {str(site) for site in api.load(name).sites}
    assert sum(path.stat().st_size for path in assets.path("atlas").rglob("*.*")) < 5_000_000
