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
    after = "after" if knobs.mask_after_softmax else ""
    add = "add" if knobs.masking == "add" else ""
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


def play(context: Walk) -> None:
    """All knobs of a model; of one that is read-only none."""
    if context.source.read_only:
        quiet(context.source.read_only)
        return
    scores(context)
    _call(context)
    if words.WAYS.keys() <= set(context.source.settings()):
        _weights(context)


def scores(context: Walk) -> None:
    """The scale and the temperature of all calls."""
    control(st.toggle, words.DIVIDE, TUNED.part("scaled"))
    part = TUNED.part("temperature")
    options = sorted({*TEMPERATURES, state.get(part)})
    control(st.select_slider, words.TEMPERATURE, part, options, format_func=lambda temperature: f"{temperature:g}")
    plain = replace(context.edits, temperature=1.0, scale=None)
    before = context.record if plain == context.edits else cache.record(context.source, context.lines, plain)
    measures(
        context, before, context.record, (words.BEFORE, words.NOW) if before is not context.record else (words.NOW,)
    )


def measures(
    context: Walk, before: Record, after: Record, named: tuple[str, ...] = (words.ORIGINAL, words.NOW)
) -> None:
    """Effect of a change on the row; a column for each name, the last for after it."""
    comparison = walk.compare(before, after, context.site, context.head, context.query, sentence=context.sentence)
    sides = (comparison.before, comparison.after)[-len(named) :]
    rows = [[title, *(digits(getattr(side, name)) for side in sides)] for name, title in MEASURES.items()]
    row = words.ROW.format(query=context.tokens[0][context.query].text, position=context.query)
    table([row, *named], rows, numbers=(1, 2))


def _call(context: Walk) -> None:
    """Controls of the shown call alone."""
    knobs = context.knobs
    masked = context.record.step(context.site).mask is not None
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
    step, where = context.record.step(context.site), {"sentence": context.sentence}
    exhibit = walk.exhibit(step, context.head, knobs, queries=context.windows["queries"], **where)
    quiet(exhibit.message)
    _rows_beside(context, exhibit, exhibit.queries.index(context.query))


def _rows_beside(context: Walk, exhibit: walk.Exhibit, row: int) -> None:
    """The weights of the chosen query before and after, and their sums."""
    keys, window = context.tokens[1], range(len(context.tokens[1]))[context.windows["keys"]]
    rows = [
        [f"{keys[i].text} ({i})", digits(exhibit.before[row, i]), digits(exhibit.after[row, i])]
        for i in window
        if exhibit.before[row, i] != exhibit.after[row, i]
    ][:8]
    more = words.CHANGED if len(rows) < 8 else words.FIRST_CHANGED
    rows.append([words.ROW_SUM, digits(exhibit.sums_before[row]), digits(exhibit.sums_after[row])])
    table([more, words.BEFORE, words.AFTER], rows, numbers=(1, 2))


def _weights(context: Walk) -> None:
    """Random weights can also be made in another way; the settings are those of the model above."""
    for name, label in words.WAYS.items():
        control(st.toggle, label, SETTINGS[name], at="play", whole_page=True)
    other = replace(context.source, **{name: SETTINGS[name].default for name in words.WAYS})
    if other != context.source:
        measures(context, cache.record(other, context.lines, context.edits), context.record)
