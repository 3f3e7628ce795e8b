"""Attention rollout: where the content of each position came from, through all layers."""

from dataclasses import replace

import numpy as np
import streamlit as st

from attnviz import figures
from attnviz.analysis import rollout as metric
from attnviz.analysis import sentences
from attnviz.analysis.rollout import Mixed
from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import AttnvizError, TooLong
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.figures.rollout import Traced
from attnviz.sources import estimate
from attnviz.ui import budget, cache
from attnviz.ui.overview import words
from attnviz.ui.shared import look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import QUERY, ViewContext
from attnviz.ui.shared.setting import Setting, choice, flag, session_setting, whole
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import block_html, details_html, in_words, lead, note, quiet, style

STACK = choice("stack", ("encoder", "decoder"))
AFTER = whole("after", None, 0, 999)
FOLLOWED: Setting[tuple] = session_setting("follow asked", ())
FLOW = flag("flow", False, "tab")
"""Whether the largest flow stands beside rollout."""

IN_PLACE = """.st-key-where > :is(.st-key-layer, .st-key-head) {display: none;}
.st-key-picture-reached .marks {max-width: 100%; height: auto;}"""
"""A stack and a position stand where other pages have a layer and a head, which rollout does not ask for."""

MOST = 2**18
"""Numbers of all layers, 12 of about 147 tokens: more are followed when somebody asks for it."""


def reach(bar: Toolbar) -> None:
    """Rollout of a stack after one of its layers as a map, and one row of it as bars, beside the flow if asked for."""
    context = bar.at
    lead(words.ROLLOUT_ASKS)
    style(IN_PLACE, "rollout")
    with bar.where:
        last = _last(context)
    if _is_long(context):
        _one_position(bar, last)
        return
    if not _wanted(context):
        return
    try:
        mixed, shares = _followed(context.record, last and last.kind, context.sentence)
    except AttnvizError as error:
        quiet(str(error))
        return
    traced = Traced(context.record, mixed, last.layer, shares[_layers(context, last).index(last.layer)])
    with bar.where:
        position = _position(context, mixed.kind, mixed.tokens)
    _draw(bar, traced, position)


def _position(context: ViewContext, kind: str, tokens: tuple[Token, ...]) -> int:
    """The row that is followed; nobody chose one: that of the selected cell, if it is of this stack."""
    chosen = context.cell[0] if context.cell and (context.site.kind == "encoder") == (kind == "encoder") else None
    return look.query(words.POSITION, tokens, opening=chosen, lead=words.POSITION)


def _layers(context: ViewContext, last: Site) -> list[int]:
    """Layers in the stack of a site."""
    return sorted(site.layer for site in context.record.sites if site.kind == last.kind)


def _last(context: ViewContext) -> Site | None:
    """The stack that is followed and its last layer, those at the end if nobody chose; None if there is none."""
    sites = [site for kind in KINDS[:2] for site in context.record.sites if site.kind == kind]
    if not sites:
        return None
    kind = state.one_of(STACK, [site.kind for site in sites], sites[-1].kind)
    layers = _layers(context, Site(kind, 0))
    last = Site(kind, state.one_of(AFTER, layers, layers[-1]))
    options = {"shown": last, "lead": "", "width": 205, "format_func": words.AFTER_LAYER.format}
    options["step"] = lambda now, site: now.put(STACK, site.kind).put(AFTER, site.layer)
    control(st.selectbox, words.STACK, AFTER, sites, **options)
    return last


def _numbers(context: ViewContext) -> int:
    """Count of the numbers of all layers."""
    return len(context.record.sites) * context.record.read[context.sentence].length ** 2


def _is_long(context: ViewContext) -> bool:
    """Whether there are too many to hold them, so that one position is followed at a time."""
    return _numbers(context) > metric.MOST_CELLS


def _one_position(bar: Toolbar, last: Site) -> None:
    """One position of a long text; what that costs is said before."""
    context, kind, step = bar.at, last.kind, bar.at.record.step(last)
    with bar.where:
        position = _position(context, kind, context.record.tokens(last, sentence=context.sentence)[0])
    below = _layers(context, last).index(last.layer)
    cost, key = (
        estimate.of_maps(step, below * step.num_heads),
        (*context.run, context.sentence, kind, last.layer, position),
    )
    if cost.seconds > budget.SILENT and state.get(FOLLOWED) != key:
        quiet(words.ONE_POSITION.format(cost=cost))
        icon = {"icon": ":material/route:", "key": "follow", "on_click": state.put, "args": (FOLLOWED, key)}
        st.button(words.FOLLOW, **icon)
        return
    where = {"layers": below + 1, "sentence": context.sentence}
    try:
        mixed, rows = cache.worked(metric.rows, context.record, (position,), kind, cost=cost, **where)
    except TooLong:
        raise
    except AttnvizError as error:
        quiet(str(error))
        return
    traced = Traced(context.record, mixed, last.layer, {position: rows[0].numpy()})
    in_words(_position_in_words(traced, position))
    pictures.show(figures.rollout_row(traced, position, dark=context.dark), "reached", menu=bar.export, table=True)


def _position_in_words(traced: Traced, position: int) -> str:
    """Mixture of a position in words; says where it is of the decoder alone, without cross-attention."""
    text = sentences.reached(traced.shares[position], traced.texts, position)
    return words.DECODER_ALONE.format(says=text) if traced.mixed.note else text


def _wanted(context: ViewContext) -> bool:
    """Whether it is small enough, or somebody asked for it; what cannot be followed says so unasked."""
    run = (*context.run, context.sentence)
    if _numbers(context) <= MOST or state.get(FOLLOWED) == run:
        return True
    if not st.button(words.FOLLOW_ALL, key="follow", icon=":material/route:"):
        return False
    state.put(FOLLOWED, run)
    return True


@cache.cached
def _followed(record: Record, kind: str | None, sentence: int) -> tuple[Mixed, np.ndarray]:
    mixed = metric.mixed(record, kind, sentence=sentence)
    return mixed, metric.rollout(mixed).numpy()


@cache.cached
def _flow(record: Record, kind: str, sentence: int, layers: int, position: int) -> np.ndarray:
    """Through the first so many layers."""
    mixed, _ = _followed(record, kind, sentence)
    return metric.flow(replace(mixed, layers=mixed.layers[:layers]), position).numpy()


def _draw(bar: Toolbar, traced: Traced, position: int) -> None:
    """The map, and beside it one of its rows, the flow, the row's numbers and how they are computed."""
    context = bar.at
    clicked = look.clicks("reach", lambda point: state.put(QUERY, int(point["query"])))
    sentence = _position_in_words(traced, position)
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            whole = figures.rollout(traced, selected=position, rev=look.rev("reach"), **context.styled)
            pictures.show(whole, "reach", menu=bar.export, select="cell", on_select=clicked)
        with st.container(width="stretch", key="about-row"):
            in_words(sentence)
            place = st.container()
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                flow = _requested_flow(context, traced, position)
                row = figures.rollout_row(traced, position, flow, dark=context.dark)
                pictures.take_away(row, "reached", words.THIS_POSITION)
            with place:
                pictures.picture(row, "reached")
            if flow is not None:
                quiet(words.FLOW)
            how = details_html(common.HOW_COMPUTED, block_html(words.ROLLOUT_IS, "quiet"))
            st.html(block_html(words.ROLLOUT_SHOWS, "quiet") + how)
            pictures.numbers(row, "reached")


def _requested_flow(context: ViewContext, traced: Traced, position: int) -> np.ndarray | None:
    """The flow to each token of this row, if it is switched on: of a long text it takes seconds."""
    if not control(st.toggle, words.ADD_FLOW, FLOW):
        return None
    kind = traced.mixed.kind
    layers = 1 + _layers(context, Site(kind, 0)).index(traced.layer)
    try:
        with st.spinner(words.SEEKING_FLOW):
            return _flow(context.record, kind, context.sentence, layers, position)
    except AttnvizError as error:
        note(str(error), "notice")
        return None
