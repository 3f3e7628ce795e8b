"""Behavior of a head and its evidence, in words."""

from contextlib import nullcontext, suppress

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.heads import clearest, roles
from attnviz.charts.theme import CAUTIONS
from attnviz.core.amounts import percent
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior, joined
from attnviz.ui import cache
from attnviz.ui.shared import edits, look, state, words
from attnviz.ui.shared.lengths import SENTENCE_ENDS
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.text import large, plain, quiet

MOST_CELLS = 2**20
"""Weights in which roles are looked for before anybody asks: 144 heads of 85 tokens."""


def numbers(record: Record, sentence: int, site: Site | None = None) -> pd.DataFrame | None:
    """The metrics of all heads, or of one site; None where measuring them would take long."""
    steps = record.steps if site is None else (record.step(site),)
    if sum(step.num_heads * step.shape[2] * step.shape[3] for step in steps) > MOST_CELLS:
        return None
    return cache.head_metrics(record, sentence, *([] if site is None else [site]))


def open_on_the_clearest(source: Source, request: Request) -> None:
    """Look at the head of a pretrained model with the clearest role in the page's record, where nobody chose a head."""
    if not source.facts or source.card or state.get(look.SITE) is not None or state.get(look.SHOW) is not None:
        return
    with suppress(AttnvizError):  # the page says why the text cannot be run
        record = cache.record(source, edits.put(state.now(), source, request))
        table = numbers(record, 0)
        row = None if table is None else clearest(table)
        if row is not None:
            head = table.iloc[row]
            look.look_at(Site(head["kind"], int(head["layer"])), int(head["head"]))


def by_weights(row: pd.Series) -> str:
    """Role of a head by its weights on this text; "" where they match no role that has a name."""
    meanings = [(role, words.ROLES.get(role.name)) for role in roles(row)]
    descriptions = [f"{role.name} {role.value:.2f}{f' ({means})' if means else ''}" for role, means in meanings]
    return words.LOOKS_LIKE.format(roles=", ".join(descriptions)) if descriptions else ""


def measured(source: Source, site: Site, head: int | str) -> Behavior | None:
    """Measured behavior of a head of a model as it is now; None of one that is still in training."""
    return source.card.behavior(site, head) if source.card and source.step is None else None


def of_head(context: ViewContext, *, role: bool = True, place: DeltaGenerator | None = None) -> None:
    """Findings about the head that is shown; where there are none, a head to look at instead.

    Args:
        role: whether a pretrained head says what it looks like by its weights.
        place: where the role stands, if not here.
    """
    source, site, head = context.source, context.site, context.head
    if source.facts and not source.card:
        table = numbers(context.untouched, context.sentence, site) if role and isinstance(head, int) else None
        if table is not None and (text := by_weights(table.iloc[head])):
            large(text)
        quiet(words.PRETRAINED)
        return
    if source.card is None:
        own = source.provenance == "your own" or source.one_run
        more = words.NOT_MEASURED if own else words.NO_LANGUAGE
        quiet(f"{CAUTIONS[source.provenance].capitalize()}. {more}")
        return
    if behaviors := source.card.behaviors_of(site, head):
        _roles(context, behaviors, place)
        evidence(joined(behaviors))
        return
    with place or nullcontext():
        quiet(words.OTHER_HEAD if isinstance(head, int) else words.OF_COMBINED)
    behaviors = source.card.behaviors
    if behaviors:
        link(next((behavior for behavior in behaviors if behavior.site == site), behaviors[0]), "instead")


def _roles(context: ViewContext, behaviors: tuple[Behavior, ...], place: DeltaGenerator | None) -> None:
    """Behavior of a head on this text, then on others; of a model in training, its later behavior."""
    (first, *others), position = context.roles if context.source.step is None else (behaviors, None)
    if position is None:
        first, others = joined(behaviors), []
    often = words.OFTEN.format(rate=percent(first.rates[first.heads.index(context.head)])) if first.rates else ""
    often += words.IN_ORIGINAL if context.before is not None else ""
    text = words.THIS_HEAD if context.source.step is None else words.ONCE_TRAINED
    with place or nullcontext():
        large(text.format(does=first.does.rstrip(". "), often=often))
        if others:
            quiet(words.ELSEWHERE.format(does=joined(others).does.rstrip(". ")))


def evidence(behavior: Behavior) -> None:
    """How it is known what a head does, folded."""
    with st.expander(words.EVIDENCE):
        st.html(f'<ul class="quiet evidence">{points(behavior)}</ul>')


def points(behavior: Behavior) -> str:
    """The sentences of the evidence, as items of an HTML list."""
    sentences = SENTENCE_ENDS.split(f"{behavior.evidence.rstrip('. ')}.")
    return "".join(f"<li>{plain(sentence)}</li>" for sentence in sentences)


def link(behavior: Behavior, key: str) -> None:
    """A button that leads to the first head of a finding."""
    style = {"type": "tertiary", "icon": ":material/arrow_forward:", "key": f"to {key}"}
    title, place = behavior.site.head(*behavior.heads).capitalize(), (behavior.site, behavior.heads[0])
    st.button(title, on_click=look.look_at, args=place, **style)
