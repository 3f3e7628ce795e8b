"""A model that refuses a text: every page says why in one sentence, and what was changed can be taken back."""

import pytest
from test_app import PAGES, button, html, opened

from attnviz.core.errors import AttnvizError
from attnviz.sources.scratch import Scratch

WHY = "This model takes one sentence at a time: it has no token for padding."


@pytest.mark.parametrize("title", PAGES)
def test_a_refused_run_is_one_sentence(title, monkeypatch):
    """The page says it once; the text can be changed, and each change taken back."""
    run = Scratch.run

    def refuse(source, tokens, *args, **kwargs):
        if len(tokens) > 1:
            raise AttnvizError(WHY)
        return run(source, tokens, *args, **kwargs)

    monkeypatch.setattr(Scratch, "run", refuse)
    app = opened(title, model="scratch", text="one refused\nsentence and another", mask="window(1)", heads_off="e0.1")

    assert html(app).count(WHY) == 1
    assert button(app, "head 1 of encoder layer 0 off")

    app.text_area(key="text").set_value("one taken sentence").run()

    assert not app.exception
    assert WHY not in html(app)
    assert app.get("vega_lite_chart")
