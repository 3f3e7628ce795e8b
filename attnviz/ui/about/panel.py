"""The panel *About this model*: what it is, how well it does, what its heads do, and what it cannot do."""

from collections.abc import Iterable, Mapping

import streamlit as st

from attnviz import cases
from attnviz.charts.curve import curve
from attnviz.core.amounts import percent
from attnviz.core.stack import Stack
from attnviz.sources.base import Source
from attnviz.sources.cards import Card, Measure
from attnviz.ui.about import circuits, heads, words
from attnviz.ui.shared import everything, files, look, mask, pages, state
from attnviz.ui.shared.edits import OFF
from attnviz.ui.shared.mask import MASK
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import Setting, State, read
from attnviz.ui.text import Markup, block, block_html, details_html, heading, large, plain, quiet, table, title


def button(source: Source, settings: Mapping[str, Setting]) -> None:
    """The button beside the model's name that opens what is known of it."""
    options = {"icon": ":material/info:", "help": words.ABOUT, "type": "tertiary"}
    if st.button(words.ABOUT, key="icon about", **options):
        dialog(source, settings)


@st.dialog(words.ABOUT, width="large")
def dialog(source: Source, settings: Mapping[str, Setting]) -> None:
    content(source, settings)


def content(source: Source, settings: Mapping[str, Setting]) -> None:
    """A model: its description, accuracy, heads and limits.

    Args:
        settings: all that a link, and so a file, holds.
    """
    title(_named(source))
    if source.facts:
        _pretrained(source)
    elif source.one_run:
        _one_run(source, settings)
    elif source.card is None:
        large(source.does)
        if source.unseen:
            large(words.NOT_SHOWN.format(what=source.unseen))
        if described := source.described():
            table(described, numbers=(1,))
    else:
        _card(source, source.card)
    if not source.one_run:
        circuits.folded(source)


def _named(source: Source) -> str:
    if source.card and not source.one_run:
        return words.NAMED.format(name=source.card.name, title=source.card.title)
    return source.name if source.facts else source.title


def _one_run(source: Source, settings: Mapping[str, Setting]) -> None:
    """A file, or a run of one's own: what it is, from where, what was found in it, and what it cannot do."""
    large(source.does)
    table(source.described(), numbers=(1,))
    if source.findings:
        heading(words.FINDINGS)
        _items(source.findings)
    heading(words.CANNOT)
    _items(filter(None, (words.NO_OTHER_TEXT, source.alone, source.read_only, source.unseen)))
    if files.is_file(state.get(MODEL)):
        _file(source, settings)


def _file(source: Source, settings: Mapping[str, Setting]) -> None:
    """Buttons that close a file, or open its run in its model."""
    link = cases.state_of(source, "link")
    with st.container(horizontal=True, gap="small"):
        if link and st.button(words.OPEN_IN_MODEL, key="open in model", icon=":material/arrow_forward:"):
            state.change(_in_its_model, source, settings)
            pages.go_to(pages.TITLES[0])
        if st.button(words.CLOSE, key="close file", icon=":material/close:"):
            files.close(state.get(MODEL), MODEL)
            st.rerun()


def _in_its_model(now: State, source: Source, settings: Mapping[str, Setting]) -> State:
    """The state in which a file was saved, in its model, and what was chosen since; rules and heads off are added."""
    saved, opened = (read(cases.state_of(source, what), settings) for what in ("link", "state"))
    result, opened = saved, opened.without("edits")
    for setting in {*now.linked().chosen, *opened.linked().chosen} - {*everything.OF_MODEL}:
        result = result.put(setting, now[setting]) if now[setting] != opened[setting] else result
    result = result.put(OFF, saved[OFF] | now[OFF])
    if saved[MASK] and now[MASK]:
        result = mask.put(result, Stack((*saved[MASK].entries, *now[MASK].entries)))
    return now.replaced(result)


def _items(sentences: Iterable[str]) -> None:
    st.html(f'<ul class="text">{"".join(f"<li>{plain(sentence)}</li>" for sentence in sentences)}</ul>')


def _pretrained(source: Source) -> None:
    """A model of Hugging Face: how it is made. What its heads do was not measured here."""
    for sentence in filter(None, (words.PRETRAINED, source.read_only, source.unseen)):
        large(sentence)
    table(source.described(), numbers=(1,))


def _card(source: Source, card: Card) -> None:
    large(card.does)
    heading(words.HEADS_DO)
    heads.table_of(card)
    heading(words.HOW_WELL)
    _how_well(card)
    heading(words.CANNOT)
    _items(card.cannot)
    if card.curve:
        heading(words.HOW_LEARNED)
        _curve(source, card)
    heading(words.TRAINED_ON)
    block(card.trained_on, "text")
    quiet(card.origin)
    heading(words.SIZES)
    table([(name, f"{number:,}") for name, number in card.sizes.items()], numbers=(1,))


def _how_well(card: Card) -> None:
    table([(_measured(measure), percent(measure.value)) for measure in card.measured], words.MEASURED, numbers=(1,))
    quiet(words.WHEN.format(unseen=words.UNSEEN if card.curve else ""))
    again = words.AGAIN if card.curve else words.AGAIN_UNTRAINED
    st.html(details_html(again, block_html(card.command, "code", "pre")))


def _curve(source: Source, card: Card) -> None:
    with st.container(key="picture curve"):
        chart = curve(card.curve, checkpoints=source.steps, width=540, height=110, dark=look.is_dark())
        st.altair_chart(chart, theme=None, width="content", key="curve")
    (_, _, first), (last, _, score) = card.curve[0], card.curve[-1]
    quiet(words.CURVE.format(of=card.score, first=first, score=score, steps=last), words.LOSS)


def _measured(measure: Measure) -> str:
    """A measure and, where it has a goal, whether it was reached."""
    if measure.goal is None:
        return measure.what
    text = words.REACHED if measure.value >= measure.goal else words.NOT_REACHED
    return Markup(f"{plain(measure.what)}<br><small>{text.format(goal=percent(measure.goal))}</small>")
