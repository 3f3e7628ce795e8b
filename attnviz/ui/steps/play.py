"""Knobs that change this call or the whole model, each with what it does to the chosen row before and after.

In a link what is done in the shown call alone is ``after.add.dropout-0.3-7`` (share, seed).
"""

from dataclasses import replace

import streamlit as st

from attnviz import walk
from attnviz.core.amounts import digits
from attnviz.core.record import Record
from attnviz.ui.shared import cache, state
from attnviz.ui.shared.edits import TUNED
from attnviz.ui.shared.parameters import SETTINGS
from attnviz.ui.shared.setting import coded, reader
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import quiet
from attnviz.ui.steps import words
from attnviz.ui.steps.walked import Walk, table
from attnviz.walk import Knobs


def _knobs_text(knobs: Knobs) -> str:
    after, add = "after" * knobs.mask_after_softmax, "add" * (knobs.masking == "add")
    dropout = f"dropout-{knobs.dropout_p:g}-{knobs.dropout_seed}" if knobs.dropout_p else ""
    return ".".join(filter(None, (after, add, dropout)))


_read_knobs = reader(
    r"(after)?\.?(add)?\.?(?:dropout-(0\.\d{1,2})-(\d{1,9}))?",
    lambda m: Knobs(bool(m[1]), "add" if m[2] else "replace", float(m[3] or 0), int(m[4] or 0)),
    "after.add.dropout-0.3-7",
    _knobs_text,
)
KNOBS = coded("knobs", Knobs(), _knobs_text, _read_knobs, "edits")

TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
MEASURES = {
    "entropy": words.ENTROPY,
    "largest": words.LARGEST,
    "gradient": words.GRADIENT,
    "row_sum": words.ROW_SUM,
}


def play(at: Walk) -> None:
    """All knobs of a model; of one that is read-only none."""
    if at.source.read_only:
        quiet(at.source.read_only)
        return
    scores(at)
    _call(at)
    if words.WAYS.keys() <= set(at.source.settings()):
        _weights(at)


def scores(at: Walk) -> None:
    """The scale and the temperature of all calls."""
    control(st.toggle, words.DIVIDE, TUNED.part("scaled"))
    part = TUNED.part("temperature")
    options = sorted({*TEMPERATURES, state.get(part)})
    control(st.select_slider, words.TEMPERATURE, part, options, format_func=lambda one: f"{one:g}")
    plain = replace(at.edits, temperature=1.0, scale=None)
    before = at.record if plain == at.edits else cache.record(at.source, at.lines, plain)
    measures(at, before, at.record, (words.BEFORE, words.NOW) if before is not at.record else (words.NOW,))


def measures(at: Walk, before: Record, after: Record, named: tuple[str, ...] = (words.ORIGINAL, words.NOW)) -> None:
    """What a change did to the row; a column for each name, the last for after it."""
    found = walk.compare(before, after, at.site, at.head, at.query, sentence=at.sentence)
    sides = (found.before, found.after)[-len(named) :]
    rows = [[said, *(digits(getattr(side, name)) for side in sides)] for name, said in MEASURES.items()]
    row = words.ROW.format(query=at.tokens[0][at.query].text, position=at.query)
    table([row, *named], rows, numbers=(1, 2))


def _call(at: Walk) -> None:
    """What is done in the shown call alone."""
    knobs = at.knobs
    masked = at.record.step(at.site).mask is not None
    options = {"disabled": not masked, "help": "" if masked else words.NO_MASK}
    control(st.toggle, words.MASK_AFTER, KNOBS.part("mask_after_softmax"), **options)
    options = {"format_func": words.FILLS.get, "disabled": not masked or knobs.mask_after_softmax}
    control(st.segmented_control, words.MASKING, KNOBS.part("masking"), tuple(words.FILLS), **options)
    left, right = st.columns([3, 2])
    share, seed = KNOBS.part("dropout_p"), KNOBS.part("dropout_seed")
    control(left.slider, words.DROPOUT, share, 0.0, 0.9, None, 0.1, read=lambda share: round(share, 2))
    control(right.number_input, words.SEED, seed, 0, 999_999_999, disabled=not knobs.dropout_p)
    if not knobs.in_words:
        st.empty(), st.empty()  # what follows keeps its place
        return
    step, where = at.record.step(at.site), {"sentence": at.sentence}
    found = walk.exhibit(step, at.head, knobs, queries=at.windows["queries"], **where)
    quiet(found.says)
    _rows_beside(at, found, found.queries.index(at.query))


def _rows_beside(at: Walk, found: walk.Exhibit, row: int) -> None:
    """The weights of the chosen query before and after, and their sums."""
    keys, window = at.tokens[1], range(len(at.tokens[1]))[at.windows["keys"]]
    rows = [
        [f"{keys[i].text} ({i})", digits(found.before[row, i]), digits(found.after[row, i])]
        for i in window
        if found.before[row, i] != found.after[row, i]
    ][:8]
    more = words.CHANGED if len(rows) < 8 else words.FIRST_CHANGED
    rows.append([words.ROW_SUM, digits(found.sums_before[row]), digits(found.sums_after[row])])
    table([more, words.BEFORE, words.AFTER], rows, numbers=(1, 2))


def _weights(at: Walk) -> None:
    """Random weights can also be made in another way; the settings are those of the model above."""
    for name, label in words.WAYS.items():
        control(st.toggle, label, SETTINGS[name], at="play", whole_page=True)
    other = replace(at.source, **{name: SETTINGS[name].default for name in words.WAYS})
    if other != at.source:
        measures(at, cache.record(other, at.lines, at.edits), at.record)
