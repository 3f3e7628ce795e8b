"""A target of one's own in the app: the decoder of a model that writes reads it in the place of its own output."""

import pytest
from test_pages import html, opened
from test_pages_compare import compare_page
from test_pages_overview import overview_page

from attnviz import api, cases
from attnviz.check.moves import leak_test
from attnviz.core.request import Request
from attnviz.studies import ablation
from attnviz.ui import cache
from attnviz.ui.shared import code

TEXT, TARGET = "The cat sat down.", "le chien noir dort ."


def last(source: str, text: str):
    """The record of a text with a target in the cache of the app."""
    return cache.record(api.load(source), Request((text,), targets=(TARGET,)))


def test_a_target_of_ones_own_is_read_by_the_decoder_and_stands_in_the_link():
    """Its record is that of `analyze(..., target=...)`, weight by weight."""
    app = opened(model="translator", text=TEXT)
    app.text_input(key="target").set_value(TARGET).run()

    assert not app.exception
    assert app.query_params["target"] == TARGET
    assert "Target:" in html(app)
    assert "Translation:" not in html(app)
    mine, theirs = last("translator", TEXT), api.analyze(TEXT, "translator", target=TARGET)
    assert mine.targets == theirs.targets
    for a, b in zip(mine.steps, theirs.steps, strict=True):
        assert (a.weights(0) == b.weights(0)).all()

    again = opened(model="translator", text=TEXT, target=TARGET)
    assert again.text_input(key="target").value == TARGET
    assert "Target:" in html(again)

    app.text_input(key="target").set_value("").run()
    assert "target" not in app.query_params
    assert "Translation:" in html(app)


def test_a_target_belongs_to_its_text():
    app = opened(model="translator", text=TEXT, target=TARGET)
    app.text_area(key="text").set_value("The dog sat down.").run()

    assert "target" not in app.query_params
    assert app.text_input(key="target").value == ""


def test_a_model_that_writes_no_other_text_has_no_box_and_says_so_of_a_link():
    app = opened(model="story", target=TARGET)

    assert "target" not in [one.key for one in app.text_input]
    assert "&#x27;story&#x27; takes no target" in html(app)
    assert "target" not in app.query_params


def test_several_texts_take_a_target_on_each_line():
    app = opened(model="translator", text=f"{TEXT}\nthe dog", lines="true", target=f"{TARGET}\nle chien")
    assert 'role="alert"' not in html(app)
    assert "Target:" in html(app)

    app.text_area(key="target lines").set_value(TARGET).run()
    assert "There are 2 texts and 1 targets" in html(app)


def test_a_target_that_is_too_long_is_refused_as_the_target():
    app = opened(model="translator", text=TEXT, target="le chat " * 40)

    assert "Target: Line 1 has 81 tokens" in html(app)
    assert not [one for one in app.button if one.label.startswith("Use the first")]


def test_code_that_is_copied_gives_the_target():
    app = opened(model="translator", text=TEXT, target=TARGET)
    record = last("translator", TEXT)
    writer = code.CodeWriter(cache.maker)
    writer.value(record)

    assert not app.exception
    assert writer.lines == [f'record = attnviz.analyze("{TEXT}", "translator", target="{TARGET}")']


@pytest.mark.parametrize("page", [compare_page, overview_page])
@pytest.mark.parametrize("b", ["untouched", "model-translator", "step-0", "head-c1.0"])
def test_other_pages_show_a_target(page, b):
    app = opened(page, model="translator", text=TEXT, target=TARGET, b=b, off="c1.0")

    assert not app.exception
    assert 'role="alert"' not in html(app)


def test_heads_are_switched_off_with_the_target_that_was_given():
    source = api.load("translator")
    sentences, targets = source.tokenize([TEXT]), source.tokenize_targets([TARGET])
    swept = ablation.sweep(source, sentences, targets=targets)

    assert swept.before.targets == targets
    assert swept.table["rewritten"].isna().all()


def test_a_leak_test_is_made_with_the_target_that_was_given():
    source = api.load("translator")
    sentences, targets = source.tokenize([TEXT]), source.tokenize_targets([TARGET])
    test = leak_test(source, sentences, site="decoder", targets=targets)

    assert [token.text for token in test.keys] == list(targets[0].labels)
    assert test.pairs == ()


def test_a_saved_run_with_a_target_comes_out_the_same(tmp_path):
    path = cases.save(TEXT, tmp_path / "run.attn", "translator", target=TARGET)

    assert cases.verify(path).same
