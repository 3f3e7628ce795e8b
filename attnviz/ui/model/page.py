"""The card of the chosen model: what it is, how well it does, what its heads do, and what it cannot do."""

from collections.abc import Callable, Iterable
from contextlib import suppress

import streamlit as st

from attnviz import cases
from attnviz.charts.curve import curve
from attnviz.core.amounts import percent
from attnviz.core.errors import AttnvizError
from attnviz.core.stack import Stack
from attnviz.sources.base import Source
from attnviz.sources.cards import Card, Measure
from attnviz.ui import settings
from attnviz.ui.model import heads, words
from attnviz.ui.shared import everything, files, look, mask, pages, state, toolbar
from attnviz.ui.shared.edits import OFF
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.mask import MASK
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import State, read
from attnviz.ui.shared.text import Markup, block, block_html, details_html, heading, large, plain, quiet, table, title

ABOUT_THE_MODEL = """<style>[data-testid="stLayoutWrapper"]:has(> .st-key-where),
.st-key-mask-menu, .st-key-row-two > .stElementContainer:has(.fold) {display: none;}
.stApp .st-key-line {display: none;}
@media (max-width: 640px) {[data-testid="stLayoutWrapper"]:has(> .st-key-row-two) {min-height: 0;}}</style>"""
"""A card is of the model as it is: no layer, head, mask or change is chosen above it."""
OF_NO_TEXT = """<style>.stElementContainer:has(> .stHtml > .note > .unknown) {display: none;}
:is([data-testid="stLayoutWrapper"]:has(> .st-key-box), .st-key-example) {visibility: hidden;}
@media (max-width: 640px) {:is([data-testid="stLayoutWrapper"]:has(> .st-key-box), .st-key-example) {display: none;}}
</style>"""
"""Where no number follows a text, none is typed, and no word is unknown; what stands beside it keeps its place."""


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines)
    st.html(ABOUT_THE_MODEL + OF_NO_TEXT * (not source.facts))
    with suppress(AttnvizError), bar.export:  # what cannot be run has a card, too
        everything.menu(bar.at)
    with bar.view:
        title(_named(source))
    if source.facts:
        _pretrained(source, bar.at)
    elif source.one_run:
        _one_run(source)
    elif source.card is None:
        large(source.does)
        if source.unseen:
            large(words.NOT_SHOWN.format(what=source.unseen))
        if described := source.described():
            with st.container(width=620):
                table(described, numbers=(1,))
    else:
        _card(source, source.card)


def _named(source: Source) -> str:
    """What stands over the card, on a wide screen in the toolbar."""
    if source.card and not source.one_run:
        return words.NAMED.format(name=source.card.name, title=source.card.title)
    return source.name if source.facts else source.title


def _one_run(source: Source) -> None:
    """Of a file, or of a run of one's own: what it is, from where, what was found in it, and what it cannot do."""
    with st.container(width=620):
        large(source.does)
        table(source.described(), numbers=(1,))
        if source.findings:
            heading(words.FOUND)
            _items(source.findings)
        heading(words.CANNOT)
        _items(filter(None, (words.NO_OTHER_TEXT, source.alone, source.read_only, source.unseen)))
        if files.is_file(state.get(MODEL)):
            _file(source)


def _file(source: Source) -> None:
    """What can be done with a file: it is closed, or its run shown in its model."""
    link = cases.state_of(source, "link")
    with st.container(horizontal=True, gap="small"):
        if link and st.button(words.OPEN_IN_MODEL, key="open in model", icon=":material/arrow_forward:"):
            state.change(_in_its_model, source)
            pages.go_to(pages.TITLES[0])
        if st.button(words.CLOSE, key="close file", icon=":material/close:"):
            files.close(state.get(MODEL), MODEL)
            st.rerun()


def _in_its_model(now: State, source: Source) -> State:
    """The state in which a file was saved, in its model, and what was chosen since; rules and heads off are added."""
    saved, opened = (read(cases.state_of(source, what), settings.LINKED) for what in ("link", "state"))
    made, opened = saved, opened.without("edits")
    for one in {*now.linked().chosen, *opened.linked().chosen} - {*everything.OF_MODEL}:
        made = made.put(one, now[one]) if now[one] != opened[one] else made
    made = made.put(OFF, saved[OFF] | now[OFF])
    if saved[MASK] and now[MASK]:
        made = mask.put(made, Stack((*saved[MASK].entries, *now[MASK].entries)))
    return now.replaced(made)


def _items(sentences: Iterable[str]) -> None:
    st.html(f'<ul class="text">{"".join(f"<li>{plain(one)}</li>" for one in sentences)}</ul>')


def _pretrained(source: Source, at: Look) -> None:
    """Of a model of Hugging Face: how it is made, and what its heads look like. What they do was not measured here."""
    for sentence in filter(None, (words.PRETRAINED, source.read_only, source.unseen)):
        large(sentence)
    with st.container(horizontal=True, gap="large"):
        with st.container(key="card measured"):
            with suppress(AttnvizError):
                heads.by_weights(at)
            if st.button(words.ALL_HEADS, key="all heads", icon=":material/arrow_forward:"):
                pages.go_to("Overview")
        with st.container(key="card made"):
            heading(words.SIZES)
            table(source.described(), numbers=(1,))


def _card(source: Source, card: Card) -> None:
    """What it does, how well, which head does what; then what few look for, which is folded on a phone."""
    large(card.does)
    heading(words.HEADS_DO)
    heads.table_of(card)
    with st.container(horizontal=True, gap="large"):
        with st.container(key="card measured"):
            _part(words.HOW_WELL, _how_well, card)
            _part(words.CANNOT, _items, card.cannot)
        with st.container(key="card made"):
            if card.curve:
                _part(words.HOW_LEARNED, _curve, source, card)
            _part(words.TRAINED_ON, _trained_on, card)
            _part(words.SIZES, _sizes, card)


def _part(title: str, draw: Callable[..., None], *of: object) -> None:
    heading(title)
    draw(*of)


def _how_well(card: Card) -> None:
    table([(_measured(one), percent(one.value)) for one in card.measured], words.MEASURED, numbers=(1,))
    quiet(words.WHEN.format(unseen=words.UNSEEN if card.curve else ""))
    again = words.AGAIN if card.curve else words.AGAIN_UNTRAINED
    st.html(details_html(again, block_html(card.command, "printout", "pre")))


def _trained_on(card: Card) -> None:
    block(card.trained_on, "text")
    quiet(card.made)


def _sizes(card: Card) -> None:
    table([(name, f"{number:,}") for name, number in card.sizes.items()], numbers=(1,))


def _curve(source: Source, card: Card) -> None:
    with st.container(key="picture curve"):
        chart = curve(card.curve, kept=source.steps, width=540, height=110, dark=look.is_dark())
        st.altair_chart(chart, theme=None, width="content", key="curve")
    (_, _, first), (last, _, score) = card.curve[0], card.curve[-1]
    quiet(words.CURVE.format(of=card.score, first=first, score=score, steps=last), words.LOSS)


def _measured(measure: Measure) -> str:
    """What was measured and, where there was a goal, whether it was reached."""
    if measure.goal is None:
        return measure.what
    said = words.REACHED if measure.value >= measure.goal else words.NOT_REACHED
    return Markup(f"{plain(measure.what)}<br><small>{said.format(goal=percent(measure.goal))}</small>")
