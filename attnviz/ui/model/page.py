"""The card of the chosen model: what it is, how well it does, what its heads do, and what it cannot do."""

from contextlib import suppress

import streamlit as st

from attnviz.charts.curve import curve
from attnviz.core.amounts import percent
from attnviz.core.errors import AttnvizError
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior, Card, Measure
from attnviz.ui.shared import findings, look, toolbar
from attnviz.ui.shared.text import Markup, block, heading, large, plain, quiet, table, title


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines)
    with suppress(AttnvizError):  # what cannot be run has a card, too
        bar.predict()
    if source.facts:
        _pretrained(source)
    elif source.card is None:
        title(source.title)
        large(source.does)
    else:
        _card(source, source.card)


def _pretrained(source: Source) -> None:
    """Of a model of Hugging Face: how it is made. What its heads do was not measured here."""
    with st.container(width=620):
        title(source.name)
        large("A pretrained model of Hugging Face. What its heads do was not measured here.")
        for sentence in filter(None, (source.read_only, source.unseen)):
            large(sentence)
        table(source.described(), numbers=(1,))


def _card(source: Source, card: Card) -> None:
    with st.container(horizontal=True, gap="large"):
        with st.container(width=620):
            title(card.title)
            large(card.does)
            heading("What its heads do")
            for number, found in sorted(enumerate(card.behaviors), key=lambda one: not _opens(card, one[1])):
                with st.container(gap=None):
                    findings.link(found, f"finding {number}", leave=True)
                    _paragraph(f"{found.does[:1].upper()}{found.does[1:].rstrip('. ')}.")
                    quiet(f"How that is known: {found.evidence.rstrip('. ')}.")
            heading("What it cannot do")
            items = "".join(f"<li>{plain(text)}</li>" for text in card.cannot)
            st.html(f'<ul class="text">{items}</ul>')
        with st.container(width=560):
            heading("How well it does")
            head = ("what was measured", "share", "goal")
            table([(one.what, percent(one.value), _goal(one)) for one in card.measured], head, numbers=(1,))
            quiet("Measured with:")
            st.code(card.command, language=None, wrap_lines=True)
            if card.curve:
                heading("How it learned")
                _curve(source, card)
            heading("What it was trained on")
            _paragraph(card.trained_on)
            quiet(f"{card.made.rstrip('. ')}.")
            heading("Sizes")
            table([(name, f"{number:,}") for name, number in card.sizes.items()], numbers=(1,))


def _opens(card: Card, found: Behavior) -> bool:
    """Whether a finding is of the head that the model opens with: it is told first."""
    site, head = card.opens
    return found.site == site and head in found.heads


def _curve(source: Source, card: Card) -> None:
    with st.container(key="picture curve"):
        chart = curve(card.curve, kept=source.steps, width=330, height=110, dark=look.is_dark())
        st.altair_chart(chart, theme=None, width="content", key="curve")
    (_, _, first), (last, _, score) = card.curve[0], card.curve[-1]
    quiet(
        f"The held-out score went from {first:.1%} to {score:.1%} in {last:,} steps. The dots are the steps whose "
        "weights were kept: the slider on the page Heads goes through them."
    )


def _goal(measure: Measure) -> str:
    if measure.goal is None:
        return ""
    reached = "reached" if measure.value >= measure.goal else "not reached"
    return Markup(f'<span class="goal">{percent(measure.goal)}, {reached}</span>')


def _paragraph(text: str) -> None:
    block(text, "text")
