"""What reaches what: where the content of each position came from, through all layers."""

from dataclasses import replace

import numpy as np
import streamlit as st

from attnviz import figures, words
from attnviz.charts import rollout as chart
from attnviz.charts.rollout import Traced
from attnviz.core.display import shown
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.metrics import rollout as metric
from attnviz.metrics.rollout import Mixed
from attnviz.ui.shared import cache, looking, pictures, state
from attnviz.ui.shared.notes import in_words, label, note, quiet
from attnviz.ui.shared.state import Setting, control
from attnviz.ui.steps.rail import QUERY

STACK = state.choice("stack", ("encoder", "decoder"))
AFTER = state.whole("after", None, 0, 999)
FOLLOWED: Setting[tuple] = state.kept("follow asked", ())
ASKED_FLOW: Setting[tuple] = state.kept("flow asked", ())

WHAT = (
    "How much of each token is in what stands at each position? Attention rollout: every layer keeps half (the "
    "residual connection) and mixes in half of what its attention brings (the mean of its heads, those that are off "
    "too), layer after layer. It knows nothing of values and of feed-forward networks: it says which way content can "
    "go, not what of it is used. Source: Abnar and Zuidema 2020."
)

FLOW = (
    "The flow is the most that can come through all paths from one token, if each layer lets as much pass as it mixes "
    "in. Each token is asked alone, so together they may be more than 100%."
)

MOST = 2**18
"""Numbers of all layers, 12 of about 147 tokens: more are followed when somebody asks for it."""


def reach(run: tuple, record: Record, sentence: int) -> None:
    """Rollout of a stack after one of its layers as a map, and one row of it as bars, beside the flow if asked for.

    Args:
        run: what the record is of: its source, texts and edits.
    """
    run = (*run, sentence)
    quiet(WHAT)
    kinds = [kind for kind in ("encoder", "decoder") if any(site.kind == kind for site in record.sites)]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        kind = _pills(STACK, "Stack", kinds) if len(kinds) > 1 else next(iter(kinds), None)
        place = st.container(horizontal=True, vertical_alignment="center", gap="small")
    if not _wanted(run, record, sentence):
        return
    try:
        found, shares = _followed(record, kind, sentence)
    except AttnvizError as error:
        quiet(str(error))
        return
    with place:
        traced = _after(record, found, shares)
        position = _position(traced)
    in_words(words.reached(traced.shares, [token.text for token in found.tokens], position))
    _draw(run, traced, position)


def _wanted(run: tuple, record: Record, sentence: int) -> bool:
    """Whether it is small enough, or somebody asked for it."""
    length = record.read[sentence].length
    if len(record.sites) * length**2 <= MOST or state.get(FOLLOWED) == run:
        return True
    if not st.button("Follow all layers", key="follow", icon=":material/route:"):
        return False
    state.put(FOLLOWED, run)
    return True


@cache.kept
def _followed(record: Record, kind: str | None, sentence: int) -> tuple[Mixed, np.ndarray]:
    found = metric.mixed(record, kind, sentence=sentence)
    return found, metric.rollout(found).numpy()


@cache.kept
def _flow(record: Record, kind: str, sentence: int, layers: int, position: int) -> np.ndarray:
    """Through the first so many layers."""
    found, _ = _followed(record, kind, sentence)
    return metric.flow(replace(found, layers=found.layers[:layers]), position).numpy()


def _after(record: Record, found: Mixed, shares: np.ndarray) -> Traced:
    """After which layer."""
    layers = sorted(site.layer for site in record.sites if site.kind == found.kind)
    layer = layers[0]
    if len(layers) > 1:
        layer = _pills(AFTER, "After layer", layers)
    return Traced(record, found, layer, shares[layers.index(layer)])


def _pills(setting: Setting, said: str, options: list):
    """One of several, the last if nobody chose."""
    chosen = state.get(setting) if state.get(setting) in options else options[-1]
    label(said)
    looking.pills(said, options, **control(setting, chosen))
    return chosen


def _position(traced: Traced) -> int:
    """The row, which other pages call the query."""
    tokens = traced.found.tokens
    typed = [i for i, token in enumerate(tokens) if not token.special]
    chosen = state.get(QUERY)
    if chosen is None or chosen >= len(tokens):
        chosen = typed[-1] if typed else 0
    label("Position")
    names = [f"{i} · {shown(token.text)}" for i, token in enumerate(tokens)]
    options = {"format_func": names.__getitem__, "label_visibility": "collapsed", **control(QUERY, chosen)}
    st.selectbox("Position", range(len(tokens)), width=170, **options)
    return chosen


def _draw(run: tuple, traced: Traced, position: int) -> None:
    dark, tile = looking.is_dark(), chart.tile_of(traced)

    def clicked(point: dict | None) -> None:
        if point is not None and looking.counted(point, "reach"):
            state.put(QUERY, int(point["query"]) * tile)

    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            whole = figures.rollout.rollout(traced, selected=position, dark=dark, rev=looking.rev("reach"))
            pictures.picture(whole, "reach", select="cell", on_select=clicked)
            pictures.take_away(whole, "reach")
        with st.container(width=600, key="reached"):
            place = st.container()
            row = figures.rollout.row(traced, position, _asked_flow(run, traced, position), dark=dark)
            with place:
                pictures.picture(row, "reached")
            pictures.take_away(row, "reached")
            pictures.numbers(row, "reached")


def _asked_flow(run: tuple, traced: Traced, position: int) -> np.ndarray | None:
    """The flow to each token of this row, once it was asked for: of a long text it takes seconds."""
    layers = 1 + sorted(s.layer for s in traced.record.sites if s.kind == traced.found.kind).index(traced.layer)
    key = (*run, traced.found.kind, layers, position)
    place = st.empty()
    if state.get(ASKED_FLOW) != key:
        if not place.button("Add the flow", key="add the flow", icon=":material/water:"):
            return None
        state.put(ASKED_FLOW, key)
    try:
        with place, st.spinner("Looking for the largest flow to each token…"):
            flow = _flow(traced.record, traced.found.kind, run[-1], layers, position)
    except AttnvizError as error:
        note(str(error), "notice")
        return None
    with place:
        quiet(FLOW)
    return flow
