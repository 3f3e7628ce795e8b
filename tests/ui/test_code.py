"""The Python that a page gives for what it shows makes just that: it is executed."""

from functools import cache

import numpy as np
import pytest
from examples import some
from pictures import written
from test_pages import opened

import attnviz
from attnviz import figures
from attnviz.analysis.align import Side, beside
from attnviz.analysis.views import View
from attnviz.core.edits import Edits, Site, Take
from attnviz.core.masks import Padding, Painted, Subsequent, Window
from attnviz.core.request import Request
from attnviz.ui import cache as kept
from attnviz.ui.shared import code

TEXT = "The cat sat on 'the' mat because it was \"tired\"."
D0, D1 = Site("decoder", 0), Site("decoder", 1)

EDITS = (
    Edits(),
    Edits(mask=Subsequent() & ~Window(1) | Painted(((0, 1), (2, 3)))),
    Edits(mask=Padding((6,)), heads_off={(D0, 1), (D1, 0)}, temperature=0.5, empty_rows="uniform"),
    Edits(scale=0.25, own_mask=False),
)


@cache
def record(edits: int = 0, model: str = "story", texts=(TEXT,), **settings):
    return kept.record(attnviz.load(model, **dict(settings)), Request(texts, edits=EDITS[edits]))


def shown(edits: int) -> list[figures.Figure]:
    """What pages show of a run."""
    one = record(edits)
    streamed = kept.with_stream(attnviz.load("story"), one)
    return [
        figures.head(one, D1, 1, dark=True, focused=None, domain="shared", row_sums=True, selected=(2, 1)),
        figures.head(one, D1, 0, before=record() if edits else None),
        figures.distance(one, D1, 1),
        figures.heads(one, D0, view=View(words=True)),
        figures.lines(one, D1, (0, 1), least=0.1, pins=frozenset({("query", 2)})),
        figures.text_strip(one, D1, "mean", chosen=3, side="to"),
        figures.step_by_step(one, before=record() if edits else None),
        figures.change(record(), one),
        figures.overview(one),
        figures.next_word(one, 3),
        figures.contributions(streamed, None, 3, minus="the", focused=(D1, 0)),
        figures.contribution_parts(streamed, "cat", 4),
        figures.next_word(one, one.sentences[0].length - 1, before=record() if edits else None),
    ]


def compared() -> list[figures.Figure]:
    """Two texts with edits; and two training steps, of which the second reads the words that the first wrote."""
    changed = [Side(record(1, texts=(text,)), D1, 1) for text in ("The cat sat.", "The dog sat.")]
    first, last = (kept.record(attnviz.load("translator", step=step), Request(("a black cat",))) for step in (4500, 0))
    forced = kept.reading(attnviz.load("translator", step=0), last, first.targets)
    steps = [Side(one, Site("cross", 1), "mean") for one in (first, forced)]
    return [figures.difference(beside(*changed), selected=(1, 0)), figures.difference(beside(*steps))]


def beside_each_other() -> list[figures.Figure]:
    """Another head, another model, and the original model."""
    one = record(1)
    others = [Side(one, D0, 0), Side(record(1, "induction"), D1, 1), Side(record(), D1, 1)]
    return [figures.difference(beside(Side(one, D1, 1), other)) for other in others]


def same(made: figures.Figure, figure: figures.Figure) -> None:
    assert (made.name, made.title, made.description) == (figure.name, figure.title, figure.description)
    assert written(made.chart) == written(figure.chart)
    for name, array in figure.arrays.items():
        np.testing.assert_array_equal(made.arrays[name], array)


CHANGES = pytest.mark.parametrize("edits", some((2, 0, 1, 3), 1))


@CHANGES
def test_python_of_a_figure_makes_the_figure(edits, tmp_path, monkeypatch):
    """Character by character as it is copied; all but one file are written as JSON, which is quicker."""
    monkeypatch.chdir(tmp_path)
    for number, figure in enumerate(shown(edits) + (compared() if edits else [])):
        made: dict = {}
        lines = code.python(figure, kept.maker)
        exec(lines.replace('"png"', '"json"') if number else lines, made)

        same(made["figure"], figure)
        assert (tmp_path / f"{figure.name}.png").read_bytes() == attnviz.render(figure, "json" if number else "png")


def test_the_menu_of_a_picture_gives_its_code():
    """As it is executed it makes the picture of the page."""
    app = opened(model="story", site="d1", show="0", off="d0.1")
    app.session_state["take head"] = True
    app.run()
    (python,) = (block.value for block in app.code if block.language == "python")

    assert 'heads_off={(Site("decoder", 0), 1)}' in python
    assert not app.exception


def test_what_is_taken_from_another_text_is_written():
    edits = Edits(taken=(Take("the 'dog' .", "values", D1, 0, 2), Take("a\ndog", "stream", D0, None, 1, 2)))
    writer = code.CodeWriter(lambda record: None)
    expression = writer.value(edits)
    scope = {}
    exec("\n".join(writer.imported()), scope)

    assert eval(expression, scope) == edits
