"""A model that refuses a text: every page says why in one sentence, and what was changed can be taken back."""

import pytest
from test_hostile_pages import compare_page, overview_page, steps_page
from test_pages import button, heads_page, html, masks_page, opened
from test_pages_models import model_page

from attnviz.core.errors import AttnvizError
from attnviz.sources.scratch import Scratch

WHY = "This model takes one sentence at a time: it has no token for padding."


@pytest.fixture
def refusing(monkeypatch):
    """Every run of a model of two sentences ends with an error, as that of a GPT-2 classifier without a pad token."""
    run = Scratch.run

    def refuse(source, tokens, *args, **kwargs):
        if len(tokens) > 1:
            raise AttnvizError(WHY)
        return run(source, tokens, *args, **kwargs)

    monkeypatch.setattr(Scratch, "run", refuse)


@pytest.mark.parametrize("page", [heads_page, overview_page, masks_page, steps_page, compare_page])
def test_a_refused_run_is_one_sentence(page, refusing):
    """The page says it once; the text can be changed, and each edit taken back."""
    app = opened(page, text="one refused\nsentence and another", mask="window", off="e0.1")

    assert not app.exception
    assert html(app).count(WHY) == 1
    assert html(app).count('role="alert"') == 1
    assert button(app, "head 1 of encoder layer 0 off")

    app.text_area(key="text").set_value("one taken sentence").run()

    assert not app.exception
    assert 'role="alert"' not in html(app)
    assert app.get("vega_lite_chart")


def test_the_card_of_a_model_needs_no_run(refusing):
    """The page Model tells of the model, whatever the text."""
    app = opened(model_page, text="one refused\nsentence and another")

    assert not app.exception
    assert 'role="alert"' not in html(app)
