"""Knobs that change this call or the whole model, each with what it does to the chosen row before and after."""

from dataclasses import replace
from typing import Any

import streamlit as st

from attnviz import walk
from attnviz.core.amounts import digits
from attnviz.core.record import Record
from attnviz.ui.shared import cache, state
from attnviz.ui.shared.notes import heading, quiet
from attnviz.ui.shared.parameters import SETTINGS
from attnviz.ui.shared.state import Setting, State, control
from attnviz.ui.steps.base import Walk
from attnviz.ui.steps.html import table
from attnviz.ui.steps.link import Tuned, decode_knobs, decode_tuned, encode_knobs, encode_tuned
from attnviz.walk import Knobs

TUNED = state.coded("tuned", Tuned(), encode_tuned, decode_tuned)
KNOBS = state.coded("knobs", Knobs(), encode_knobs, decode_knobs)

TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
WAYS = {"positions": "Positions", "bias": "Biases", "cloned": "Clone W_Q as W_K, W_V, W_O"}
"""Settings of a source by which its weights are made in another way."""
NAMES = {"entropy": "entropy (nats)", "largest": "largest weight", "gradient": "softmax gradient", "row_sum": "row sum"}


def play(at: Walk) -> None:
    """All knobs of a model; of one that is read-only none."""
    heading("Play")
    if at.source.read_only:
        quiet(at.source.read_only)
        return
    _scores(at)
    _call(at)
    if WAYS.keys() <= set(at.source.settings()):
        _weights(at)


def _scores(at: Walk) -> None:
    tuned = state.get(TUNED)
    st.toggle("Divide by √d_k (the model's own scale)", **_field(TUNED, "scaled"))
    nearest = min(TEMPERATURES, key=lambda one: abs(one - tuned.temperature))
    options = sorted({*TEMPERATURES, tuned.temperature}) if nearest != tuned.temperature else TEMPERATURES
    st.select_slider("Temperature", options, **_field(TUNED, "temperature"), format_func=lambda one: f"{one:g}")
    plain = replace(at.edits, temperature=1.0, scale=None)
    before = at.record if plain == at.edits else cache.record(at.source, at.lines, plain)
    _measures(at, before, at.record, ("before", "now"))


def _field(setting: Setting, name: str) -> dict[str, Any]:
    """The control of one field of a setting."""

    def step(now: State, value: object) -> State:
        return now.put(setting, replace(now[setting], **{name: round(value, 2) if name == "dropout_p" else value}))

    return control(setting, getattr(state.get(setting), name), at=name, step=step)


def _measures(at: Walk, before: Record, after: Record, named: tuple[str, str]) -> None:
    where = {"sentence": at.sentence}
    found = walk.compare(before, after, at.site, at.head, at.query, **where)
    rows = [
        [said, digits(getattr(found.before, name)), digits(getattr(found.after, name))] for name, said in NAMES.items()
    ]
    table(["row of the query", *named], rows, numbers=(1, 2))


def _call(at: Walk) -> None:
    """What is done in the shown call alone."""
    knobs = at.knobs
    masked = at.record.step(at.site).mask is not None
    help_mask = "" if masked else "This call has no mask. Set one above."
    options = {"disabled": not masked, "help": help_mask, **_field(KNOBS, "mask_after_softmax")}
    st.toggle("Mask after the softmax (wrong)", **options)
    options = {"format_func": {"replace": "replace with −∞", "add": "add −1e9"}.get, "required": True}
    options |= {"disabled": not masked or knobs.mask_after_softmax}
    st.segmented_control("Masking", ("replace", "add"), **_field(KNOBS, "masking"), **options)
    left, right = st.columns([3, 2])
    left.slider("Dropout", 0.0, 0.9, step=0.1, **_field(KNOBS, "dropout_p"))
    right.number_input("Seed", 0, 999_999_999, disabled=not knobs.dropout_p, **_field(KNOBS, "dropout_seed"))
    if knobs.in_words:
        step, where = at.record.step(at.site), {"sentence": at.sentence}
        found = walk.exhibit(step, at.head, knobs, queries=at.windows["queries"], **where)
        quiet(found.says)
        row = found.queries.index(at.query)
        _rows_beside(at, found, row)


def _rows_beside(at: Walk, found: walk.Exhibit, row: int) -> None:
    """The weights of the chosen query before and after, and their sums."""
    keys, window = at.tokens[1], range(len(at.tokens[1]))[at.windows["keys"]]
    rows = [
        [f"{keys[i].text} ({i})", digits(found.before[row, i]), digits(found.after[row, i])]
        for i in window
        if found.before[row, i] != found.after[row, i]
    ][:8]
    more = "that changed" if len(rows) < 8 else "first that changed"
    rows.append(["row sum", digits(found.sums_before[row]), digits(found.sums_after[row])])
    table([more, "before", "after"], rows, numbers=(1, 2))


def _weights(at: Walk) -> None:
    """Random weights can also be made in another way; the settings are those of the model above."""
    for name, label in WAYS.items():
        st.toggle(label, **control(SETTINGS[name], at="play", whole_page=True))
    other = replace(at.source, **{name: SETTINGS[name].default for name in WAYS})
    if other != at.source:
        _measures(at, cache.record(other, at.lines, at.edits), at.record, ("as it begins", "now"))
