"""Gradients of a word's logit, beside rollout: gradient times weight by head and layer, and integrated gradients."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from attnviz import analysis, figures
from attnviz.analysis.relevance import IntegratedGradients, Relevance, WordLogit, texts_of
from attnviz.core import progress
from attnviz.core.amounts import counted, size
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.figures.relevance import gap_in_words
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.studies import gradients
from attnviz.ui import budget, cache, cores, runs
from attnviz.ui.overview import words
from attnviz.ui.overview.contributions import MOST_WORDS, WORD, choose_word
from attnviz.ui.overview.numbers import is_requested
from attnviz.ui.overview.reach import IN_PLACE
from attnviz.ui.shared import look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import Setting, choice, flag, session_setting, whole
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import block_html, details_html, in_words, lead, quiet, style

ROLLOUT, GRADIENT, INTEGRATED = words.METHODS
METHOD = choice("method", dict(zip(words.METHODS, ("rollout", "gradient", "integrated"), strict=True)), ROLLOUT, "tab")
RELEVANT = whole("relevant", None, 0, 999)
"""Layer after which the relevance of each token is drawn; None for the last."""
NEGATIVE = flag("negative", False, "tab")
STEPS = whole("integral", gradients.STEPS, 1, gradients.MOST_STEPS)
REQUESTED: Setting[tuple | None] = session_setting("gradients", None)
"""Run, word and position whose gradients were requested."""

CHOICES = 20, 50, 200, 1000
"""Numbers of steps to choose from."""


def method() -> None:
    """The control that chooses between rollout and gradients."""
    control(st.selectbox, words.METHOD, METHOD, words.METHODS, lead="", width=180)


def chosen() -> Callable[[Toolbar], None] | None:
    """The chosen part of the page; None for rollout."""
    return {GRADIENT: by_weights, INTEGRATED: by_embeddings}.get(state.get(METHOD))


def by_weights(bar: Toolbar) -> None:
    """Gradient times weight of the head at hand as a map, and relevance after a layer as bars."""
    lead(words.GRADIENT_ASKS)
    if (computed := _computed(bar, gradients.RUNS, _relevance)) is None:
        return
    context, is_signed = bar.at, state.get(NEGATIVE)
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            options = {"signed": is_signed, **context.styled}
            head = figures.relevance(context.record, computed, context.site, context.number, **options)
            pictures.show(head, "relevance", menu=bar.export)
            control(st.toggle, words.NEGATIVE, NEGATIVE)
        with st.container(width="stretch", key="about-row"):
            try:
                layer = _layer([*computed.layers])
            except AttnvizError as error:
                quiet(str(error))
                return
            _explained(figures.relevance_bars(context.record, computed, layer, **context.styled), "relevant")
            how = details_html(common.HOW_COMPUTED, block_html(words.RELEVANCE_IS, "quiet"))
            st.html(block_html(words.RELEVANCE_SHOWS, "quiet") + how)


def by_embeddings(bar: Toolbar) -> None:
    """Integrated gradients of each token as bars, and their gap."""
    lead(words.INTEGRATED_ASKS)
    style(IN_PLACE, "rollout")
    with bar.view:
        options = {"lead": "", "width": 125, "format_func": words.COUNT_OF_STEPS.format}
        every = sorted({*CHOICES, state.get(STEPS)})
        steps = control(st.selectbox, words.STEPS_OF_INTEGRAL, STEPS, every, **options)
    if (computed := _computed(bar, gradients.RUNS * steps, _integrated, steps=steps)) is None:
        return
    in_words(gap_in_words(computed))
    _explained(figures.integrated_gradients(bar.at.record, computed, **bar.at.styled), "integrated")
    how = details_html(common.HOW_COMPUTED, block_html(words.INTEGRATED_IS, "quiet"))
    st.html(block_html(words.INTEGRATED_SHOWS, "quiet") + how)


def _explained(figure: figures.Figure, key: str) -> None:
    """A figure with its export under it, and its numbers."""
    pictures.show(figure, key, words.THIS_POSITION, table=True)


def _layer(layers: list[int]) -> int:
    """The layer after which relevance is drawn."""
    layer = state.one_of(RELEVANT, layers, layers[-1])
    options = {"shown": layer, "lead": "", "width": 150, "format_func": lambda n: words.OF_LAYER.format(layer=n)}
    return control(st.selectbox, words.OF_LAYER.format(layer="").strip(), RELEVANT, layers, **options)


def _computed(bar: Toolbar, count: int, make: Callable[..., WordLogit], **settings: Any) -> Any:
    """Gradients of the chosen word; before somebody asks for many runs their cost and a button, and None."""
    context = bar.at
    record = context.record
    if record.prediction is None:
        quiet(words.NO_GRADIENTS.format(source=record.source))
        return None
    with bar.where:
        position = _position(context)
        word = _word(context, position)
    try:
        cost = _cost(context, count)
        key = (*context.run, context.sentence, position, word, *settings.values())
        runs_of_it = counted(count // gradients.RUNS, "run")
        if not is_requested(REQUESTED, key, cost, words.COMPUTE, key="gradients", icon=":material/trending_up:"):
            quiet(words.MANY_RUNS.format(runs=runs_of_it, size=size(cost.bytes)))
            return None
        progress_of = {"unit": words.STEPS_UNIT} if settings else {"names": (*map(str, record.sites),)}
        with runs.beside():
            place = (word, position, context.sentence)
            return cache.worked(make, context.source, record, *place, cost=cost, **progress_of, **settings)
    except AttnvizError as error:
        quiet(str(error))
    return None


def _cost(context: ViewContext, count: int) -> Estimate:
    """Cost of so many runs, with all weights in one graph."""
    sentences = context.record.sentences
    run = budget.of_runs(count, context.source, sentences, context.edits)
    return replace(run, bytes=run.bytes + gradients.COPIES * gradients.weights_of(context.record))


def _position(context: ViewContext) -> int:
    """The position at which the word is predicted: a blank of a model that fills in."""
    record, sentence = context.record, context.sentence
    (*_, (kind, tokens)) = texts_of(record, sentence).items()
    blanks = analysis.fills_in(record) and record.prediction.blanks[sentence]
    is_there = context.cell is not None and (context.site.kind == "encoder") == (kind == "encoder")
    opening = context.cell[0] if is_there else None
    if blanks and opening not in blanks:
        opening = blanks[0]
    return look.query(words.POSITION, tokens, opening=opening, lead="")


def _word(context: ViewContext, position: int) -> str | None:
    """The word whose logit it is; None for the most probable one."""
    listed = analysis.next_words(context.record, position, sentence=context.sentence, count=MOST_WORDS)
    likely = [word.word for word in listed]
    options = {"lead": "", "width": 145, "format_func": lambda text: words.LOGIT_OF.format(visible_text(text))}
    return choose_word(WORD, words.WORD, likely, likely[0] if likely else None, **options)


def _relevance(source: Source, record: Record, token: str | None, position: int, sentence: int) -> Relevance:
    with cores.used_by(source):
        return gradients.relevance(source, record, token, position, sentence=sentence)


def _integrated(
    source: Source, record: Record, token: str | None, position: int, sentence: int, steps: int
) -> IntegratedGradients:
    make = partial(gradients.integrated, source, record, token, position, sentence=sentence, steps=steps)
    with progress.counted(steps) as report, cores.used_by(source):
        return make(report=report)
