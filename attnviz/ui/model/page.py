"""The card of the chosen model: what it is, how well it does, what its heads do, and what it cannot do."""

from html import escape

import streamlit as st

from attnviz.charts.curve import curve
from attnviz.core.amounts import percent
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior, Card, Measure
from attnviz.ui.shared import findings, looking, pretrained
from attnviz.ui.shared.notes import clean, heading, large, quiet


def page(source: Source, lines: tuple[str, ...]) -> None:
    if source.facts:
        _pretrained(source)
    elif source.card is None:
        _title(source.title)
        large(source.does)
    else:
        _card(source, source.card)


def _pretrained(source: Source) -> None:
    """Of a model of Hugging Face: how it is made. What its heads do was not measured here."""
    with st.container(width=620):
        _title(source.name)
        large("A pretrained model of Hugging Face. What its heads do was not measured here.")
        for sentence in filter(None, (source.read_only, source.unseen)):
            large(sentence)
        rows = "".join(
            f'<tr><td>{_plain(what)}</td><td class="number">{_plain(value)}</td></tr>'
            for what, value in pretrained.card(source)
        )
        st.html(f'<table class="facts"><tbody>{rows}</tbody></table>')


def _card(source: Source, card: Card) -> None:
    with st.container(horizontal=True, gap="large"):
        with st.container(width=620):
            _title(card.title)
            large(card.does)
            heading("What its heads do")
            for number, found in sorted(enumerate(card.behaviors), key=lambda one: not _opens(card, one[1])):
                with st.container(gap=None):
                    findings.link(found, f"finding {number}", leave=True)
                    _text(f"{found.does[:1].upper()}{found.does[1:].rstrip('. ')}.")
                    quiet(f"How that is known: {found.evidence.rstrip('. ')}.")
            heading("What it cannot do")
            _list(card.cannot)
        with st.container(width=560):
            heading("How well it does")
            _measures(card.measured)
            quiet("Measured with:")
            st.code(card.command, language=None, wrap_lines=True)
            if card.curve:
                heading("How it learned")
                _curve(source, card)
            heading("What it was trained on")
            _text(card.trained_on)
            quiet(f"{card.made.rstrip('. ')}.")
            heading("Sizes")
            _sizes(card.sizes)


def _opens(card: Card, found: Behavior) -> bool:
    """Whether a finding is of the head that the model opens with: it is told first."""
    site, head = card.opens
    return found.site == site and head in found.heads


def _curve(source: Source, card: Card) -> None:
    with st.container(key="picture curve"):
        chart = curve(card.curve, kept=source.steps, width=330, height=110, dark=looking.is_dark())
        st.altair_chart(chart, theme=None, width="content", key="curve")
    (_, _, first), (last, _, score) = card.curve[0], card.curve[-1]
    quiet(
        f"The held-out score went from {first:.1%} to {score:.1%} in {last:,} steps. The dots are the steps whose "
        "weights were kept: the slider on the page Heads goes through them."
    )


def _measures(measured: tuple[Measure, ...]) -> None:
    rows = "".join(
        f'<tr><td>{_plain(one.what)}</td><td class="number">{percent(one.value)}</td>'
        f'<td class="goal">{_goal(one)}</td></tr>'
        for one in measured
    )
    head = '<tr><th>what was measured</th><th class="number">share</th><th>goal</th></tr>'
    st.html(f'<table class="facts"><thead>{head}</thead><tbody>{rows}</tbody></table>')


def _goal(measure: Measure) -> str:
    if measure.goal is None:
        return ""
    return f"{percent(measure.goal)}, {'reached' if measure.value >= measure.goal else 'not reached'}"


def _sizes(sizes: dict[str, int]) -> None:
    rows = "".join(
        f'<tr><td>{_plain(name)}</td><td class="number">{number:,}</td></tr>' for name, number in sizes.items()
    )
    st.html(f'<table class="facts"><tbody>{rows}</tbody></table>')


def _title(text: str) -> None:
    st.html(f'<h2 class="heading">{_plain(text)}</h2>')


def _text(text: str) -> None:
    st.html(f'<div class="text">{_plain(text)}</div>')


def _list(texts: tuple[str, ...]) -> None:
    items = "".join(f"<li>{_plain(text)}</li>" for text in texts)
    st.html(f'<ul class="text">{items}</ul>')


def _plain(text: str) -> str:
    return escape(clean(text))
