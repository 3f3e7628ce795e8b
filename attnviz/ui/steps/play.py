"""Knobs that change this call or the whole model, each with what it does to the chosen row before and after."""

from dataclasses import replace

import streamlit as st

from attnviz import walk
from attnviz.charts.digits import digits
from attnviz.core.record import Record
from attnviz.sources.scratch import Scratch
from attnviz.ui import cache
from attnviz.ui.notes import heading, quiet
from attnviz.ui.steps.base import Walk
from attnviz.ui.steps.html import table
from attnviz.walk import Knobs

TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
NAMES = {"entropy": "entropy (nats)", "largest": "largest weight", "gradient": "softmax gradient", "row_sum": "row sum"}


def play(at: Walk) -> None:
    """All knobs of a model; of one that is read-only none."""
    heading("Play")
    if at.source.read_only:
        quiet(at.source.read_only)
        return
    _scores(at)
    _call(at)
    if isinstance(at.source, Scratch):
        _weights(at)


def _scores(at: Walk) -> None:
    tuned = st.session_state["tuned"]
    st.session_state["scale on"] = tuned.scaled
    st.toggle("Divide by √d_k (the model's own scale)", key="scale on", on_change=_tune)
    nearest = min(TEMPERATURES, key=lambda one: abs(one - tuned.temperature))
    options = sorted({*TEMPERATURES, tuned.temperature}) if nearest != tuned.temperature else TEMPERATURES
    st.session_state["temperature"] = tuned.temperature
    st.select_slider("Temperature", options, key="temperature", on_change=_tune, format_func=lambda one: f"{one:g}")
    plain = replace(at.edits, temperature=1.0, scale=None)
    before = at.record if plain == at.edits else cache.record(at.source, at.lines, plain)
    _measures(at, before, at.record, ("before", "now"))


def _tune() -> None:
    kept = st.session_state
    kept["tuned"] = replace(kept["tuned"], temperature=kept["temperature"], scaled=kept["scale on"])


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
    st.session_state["mask after"], st.session_state["masking"] = knobs.mask_after_softmax, knobs.masking
    st.session_state["dropout"], st.session_state["dropout seed"] = knobs.dropout_p, knobs.dropout_seed
    masked = at.record.step(at.site).mask is not None
    help_mask = "" if masked else "This call has no mask. Set one above."
    behavior = {"on_change": _keep}
    st.toggle("Mask after the softmax (wrong)", key="mask after", disabled=not masked, help=help_mask, **behavior)
    options = {"format_func": {"replace": "replace with −∞", "add": "add −1e9"}.get, "required": True}
    options |= {"disabled": not masked or knobs.mask_after_softmax}
    st.segmented_control("Masking", ("replace", "add"), key="masking", **options, **behavior)
    left, right = st.columns([3, 2])
    left.slider("Dropout", 0.0, 0.9, step=0.1, key="dropout", **behavior)
    right.number_input("Seed", 0, 999_999_999, key="dropout seed", disabled=not knobs.dropout_p, **behavior)
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


def _keep() -> None:
    kept = st.session_state
    kept["knobs"] = Knobs(kept["mask after"], kept["masking"], round(kept["dropout"], 2), kept["dropout seed"] or 0)


def _weights(at: Walk) -> None:
    """Random weights can also be made in another way; the settings are those of the model above."""
    for name, said in (("positions", "Positions"), ("bias", "Biases"), ("cloned", "Clone W_Q as W_K, W_V, W_O")):
        st.session_state[f"play {name}"] = getattr(at.source, name)
        st.toggle(said, key=f"play {name}", on_change=_make, args=(name,))
    made = Scratch(at.source.tokenizer, sos=at.source.sos, **{n: getattr(at.source, n) for n in _SIZES})
    if made != replace(at.source, changes=()):
        other = replace(made, changes=at.source.changes)
        _measures(at, cache.record(other, at.lines, at.edits), at.record, ("as it begins", "now"))


_SIZES = ("d_model", "num_heads", "num_layers", "seed")


def _make(name: str) -> None:
    """Set it where the model is set, which is outside of what runs again by itself."""
    st.session_state[name] = st.session_state[f"play {name}"]
    st.session_state["model changed"] = True
