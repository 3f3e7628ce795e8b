"""Laws of every figure of tokens: what is data and what is form, and what stands on files and on pages."""

import json
from dataclasses import replace

import pytest
from pictures import HOSTILE, SITE, draw, filled_of, labels_of, record_of, said, story_of

import attnviz
from attnviz import figures
from attnviz.analysis import rollout, steps
from attnviz.core.edits import Edits
from attnviz.core.masks import Painted, Subsequent
from attnviz.figures.attribution import Traced
from attnviz.studies import gradients

EDITS = Edits(mask=Subsequent(), temperature=0.5)
LONG = 5
"""Times as many tokens as make a map one image."""


def traced(record):
    mixed = rollout.mixed(record, "encoder")
    return Traced(record, mixed, 0, rollout.rollout(mixed)[-1].numpy())


def told(words, edits=Edits()):
    return story_of(words, *({word: 0.6, "else": 0.4} for word in words), edits=edits)


def classified(words, edits=Edits()):
    """Classes with long names, which leave bars as much room whatever they are."""
    return labels_of(words, [1.0] * len(words), names=[word * 3 for word in words], edits=edits)


def stages_of(record):
    return steps.chain(record, None, SITE, 1)


def softmax(record):
    stage = next(stage for stage in stages_of(record) if stage.key == "softmax")
    return figures.stage(record, SITE, 1, stage, stage.matrices, selected=(1, 2))


MADE = {
    "head": lambda words, edits: figures.head(record_of(words, edits=edits), SITE, 1, row_sums=True, selected=(3, 1)),
    "large": lambda words, edits: figures.head(record_of(words * LONG, edits=edits), SITE, 0, selected=(3, 1)),
    "predicting": lambda words, edits: figures.head(told(words, edits), SITE, 0),
    "heads": lambda words, edits: figures.heads(record_of(words, edits=edits), SITE, focused=1),
    "overview": lambda words, edits: figures.overview(record_of(words, edits=edits), focused=(SITE, 0)),
    "lines": lambda words, edits: figures.lines(record_of(words, edits=edits), SITE, (0, 1)),
    "rollout": lambda words, edits: figures.rollout(traced(record_of(words, edits=edits))),
    "change": lambda words, edits: figures.change(record_of(words), record_of(words, edits=edits)),
    "next_word": lambda words, edits: figures.next_word(told(words, edits), 2, before=told(words)),
    "blank": lambda words, edits: figures.next_word(filled_of(words, [1], *[{w: 1.0} for w in words], edits=edits), 1),
    "chain": lambda words, edits: figures.chain(run := record_of(words, edits=edits), SITE, 1, stages_of(run)),
    "stage": lambda words, edits: softmax(record_of(words, edits=edits)),
    "labels": lambda words, edits: figures.labels(classified(words, edits), before=classified(words)),
}
"""Figures by the words and the edits that they are made of."""


@pytest.mark.parametrize("name", MADE)
def test_no_text_stands_in_a_specification_and_any_is_drawn(name):
    """Tokens that have ended processes are data and nothing else, so a browser replaces them in place."""
    plain, hostile = (MADE[name](words, EDITS) for words in (["a" * 16] * len(HOSTILE), list(HOSTILE)))

    assert plain.form.spec == hostile.form.spec
    assert "constructor" not in json.dumps(hostile.form.spec)
    (image,) = draw(hostile.chart.to_dict())
    assert image.std() > 5


@pytest.mark.parametrize("name", MADE)
def test_what_was_changed_stands_on_files_and_not_on_a_page(name):
    """The page says it itself; of a mask that blocks other cells the form stays."""
    figure = MADE[name](["The", "cat", "sat", "down"], EDITS)
    other = MADE[name](["A", "dog", "ran", "off"], replace(EDITS, mask=Painted(((1, 0),))))

    assert "changed: mask: causal, temperature 0.5" in said(figure.chart)
    assert "temperature" not in str(figure.on_page.data["meta"])
    assert figure.name.endswith("causal-temperature-0-5")
    assert "random weights: shows the mechanics, not meaning" in figure.title
    assert figure.form.spec == other.form.spec


def test_of_gradients_beside_each_other_the_map_alone_says_on_a_page_where_the_weights_come_from():
    record = attnviz.analyze("the cat sat", "story")
    computed = gradients.relevance(attnviz.load("story"), record, None, 2)
    both = figures.relevance(record, computed, record.sites[0], 0), figures.relevance_bars(record, computed, 0)

    assert ["trained here" in str(figure.data) for figure in both] == [True, True]
    assert ["trained here" in str(figure.on_page.data) for figure in both] == [True, False]
