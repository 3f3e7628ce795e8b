"""The tab Contributions: what each head adds to the logit of a word, and how much that falls with the head off."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.analysis import next_words
from attnviz.analysis.sentences import ENDS
from attnviz.core import progress
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError, TooLong
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.studies import ablation
from attnviz.ui import budget, cache, cores, runs
from attnviz.ui.overview import card, heads, lens, words
from attnviz.ui.overview.numbers import is_requested
from attnviz.ui.shared import look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import Setting, coded, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import block_html, details_html, large, lead, note, quiet

MOST_WORDS = 10
"""Most probable words to choose from."""

LONGEST = 100
"""Characters of a word in a link."""

WORD: Setting[str | None] = coded("word", None, str, lambda text: text[:LONGEST], "text model")
MINUS: Setting[str | None] = coded("minus", None, str, lambda text: text[:LONGEST], "text model")
TESTED: Setting[tuple | None] = session_setting("falls of a logit", None)
"""Run and word for which each head was asked to be switched off."""


def parts(bar: Toolbar) -> None:
    """Show what each head and all other parts add to the logit of a word, and beside it the switch-off test."""
    context = bar.at
    lead(words.ADDS_ASKS)
    with runs.beside():
        try:
            record = cache.with_stream(context.source, context.record)
            with st.container(horizontal=True, vertical_alignment="center", gap="small", key="word-row"):
                lens.form()
                word = _word(context, record)
            _draw(bar, record, word)
        except TooLong:
            raise
        except AttnvizError as error:
            note(str(error), "notice")


def _word(context: ViewContext, record: Record) -> dict[str, Any]:
    """The position, the word and the other word that are chosen, as arguments of a figure."""
    sentence = context.sentence
    tokens = record.read[sentence].tokens[: record.read[sentence].length]
    opening = context.position
    if record.targets:  # the last word that is written, and not that it ends
        predicted = (next_words(record, i, sentence=sentence, count=1)[0].word for i in range(len(tokens)))
        opening = max((i for i, word in enumerate(predicted) if word not in ENDS), default=len(tokens) - 1)
    with _field():
        position = look.query(words.AFTER_TOKEN, tokens, opening=opening)
    likely = [choice.word for choice in next_words(record, position, sentence=sentence, count=MOST_WORDS)]
    with _field():
        token = choose_word(WORD, words.WORD, likely, likely[0] if likely else None, help=words.ANY_WORD)
    with _field():
        minus = choose_word(MINUS, words.MINUS, likely, None, placeholder=words.NO_WORD)
    return {"token": token, "position": position, "minus": minus, "sentence": sentence}


def _field() -> st.delta_generator.DeltaGenerator:
    """The place of a control and its name, which stay together on a phone."""
    return st.container(horizontal=True, vertical_alignment="center", gap="small", width="content")


def choose_word(
    setting: Setting[str | None], title: str, likely: list[str], opening: str | None, **options: Any
) -> str | None:
    """A word of the vocabulary, one of the most probable or typed; None where nobody chose: `opening` is shown."""
    word = state.get(setting) or opening
    listed = [*dict.fromkeys([*likely, *([] if word is None else [word])])]
    picker = {"shown": word, "lead": title, "accept_new_options": True, "format_func": visible_text, "width": 160}

    def read(typed: str | None) -> str | None:
        return None if typed is None or typed == opening else typed.replace("␣", " ")

    control(st.selectbox, title, setting, listed, read=read, index=None, **picker | options)
    return state.get(setting)


def _draw(bar: Toolbar, record: Record, word: Mapping[str, Any]) -> None:
    """The answer in words over its pictures: of the heads, of each head off, and of all parts."""
    context = bar.at
    look_at = {"focused": (context.site, context.head), "rev": look.rev("every"), **context.styled}
    added = figures.contributions(record, **word, **look_at)
    every = {
        words.EACH_HEAD: (added, "adds"),
        words.ALL_PARTS: (figures.contribution_parts(record, **word, **context.styled), "parts"),
    }
    place, falls = st.container(horizontal=True, vertical_alignment="center", gap="small", key="matters"), None
    with st.container(horizontal=True, gap="medium"):
        with st.container(width="content"):
            pictures.picture(added, "adds", select="head", on_select=heads.select)
        with st.container(width="content"), runs.beside():
            falls = _falls(context, word)
            if falls is not None:
                replaced = figures.replaced(record, **word, falls=falls, **look_at)
                every[words.EACH_OFF] = (replaced, "replaced")
                pictures.picture(replaced, "replaced", select="head", on_select=heads.select)
        with st.container(width="content"):
            pictures.picture(*every[words.ALL_PARTS])
    with place:
        large(added.contributions.in_words(falls))
        if (most := added.contributions.most) is not None:
            card.way_to(context, *most)
    st.html(details_html(common.HOW_COMPUTED, block_html(words.ADDS_IS, "quiet")))
    pictures.numbers_of_one(every, "contributions")
    with bar.export:
        pictures.take_one(every, "contributions")


def _falls(context: ViewContext, word: Mapping[str, Any]) -> pd.DataFrame | None:
    """How much the logit falls with each head off: measured, or a button and its cost."""
    if why := context.source.read_only or context.source.alone:
        quiet(words.NOT_MEASURED.format(why=why))
        return None
    count = sum(step.num_heads for step in context.record.steps)
    sentences = context.record.sentences
    cost = budget.of_runs(count + 1, context.source, sentences, context.edits)
    key, button = (*context.run, *word.values()), {"key": "each off", "icon": ":material/power_settings_new:"}
    if not is_requested(TESTED, key, cost, words.SWITCH_EACH_OFF, **button):
        return None
    return cache.worked(_tested, *context.run, count, cost=cost, unit=words.HEADS, **word)


def _tested(source: Source, request: Request, count: int, **word: Any) -> pd.DataFrame:
    with progress.counted(count) as report, cores.used_by(source):
        sentences, targets = cache.sentences(source, request), cache.targets(source, request)
        return ablation.logit_falls(source, sentences, request.edits, report, targets, **word)
