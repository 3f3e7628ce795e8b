"""What is known of the model without a text: circuits of its weights, and its card."""

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.analysis.circuits import NUMBERS, Circuits, bytes_of, seconds
from attnviz.analysis.circuits import circuits as circuits_of
from attnviz.core.amounts import percent
from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.sources.cards import Card, Measure
from attnviz.sources.estimate import Estimate
from attnviz.ui import work
from attnviz.ui.pages.overview.heads import choose_row, open_head
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import control, now
from attnviz.ui.shared import cache, cores
from attnviz.ui.shared.text import block, heading, large, literal, quiet, table
from attnviz.ui.toolbar import Context

COLUMNS = {
    "copying": (
        "Copying",
        "OV circuit: sum of the eigenvalues / sum of their sizes. 1: a token that is attended to becomes more probable "
        "itself; -1: less probable.",
    ),
    "eigenvalue": ("Largest eigenvalue", "OV circuit: real part of the eigenvalue with the largest size."),
    "previous_token": (
        "Previous token",
        "QK circuit: mean weight on the position before, of the learned vectors of positions alone.",
    ),
    "induction": (
        "Induction",
        "QK circuit through an earlier head: sum of the eigenvalues / sum of their sizes. 1: it looks for its own "
        "token where the earlier head looked.",
    ),
}
"""Title of each number of a head's circuits, and its meaning."""
LACKING = {
    "copying": "No copying score: no head writes what words are read from, or the embeddings are no table.",
    "previous_token": "No previous-token score: positions are no vectors that are added, such as rotary ones.",
    "induction": "No induction score: no keys read what an earlier head writes, queries and keys are more than a "
    "projection, or the embeddings are no table.",
}
"""Why no head has a number."""
COMPOSITIONS = {"K: keys": "k", "Q: queries": "q", "V: values": "v"}
"""Input of a later head that an earlier one writes into."""


def circuits(context: Context) -> dict[str, Figure]:
    """Circuits of the weights: a row for each head, and how heads compose."""
    source = context.source
    quiet(
        "Circuits of the weights: what heads can read from each other and write. No text is run (Elhage et al. 2021)."
    )
    search = Estimate(1, 0.0, 0, 0, unit="heads")
    cost = cache.worked(_cost, source, cost=search, unit="searches for projections")
    if not work.is_requested("measure circuits", source, cost, "Measure circuits"):
        return {}
    measured = cache.worked(_circuits, source, cost=cost)
    rows = measured.heads
    names = [name for name in NUMBERS if rows[name].notna().any()]
    columns = {
        name: st.column_config.NumberColumn(title, help=means, format="%.3f")
        for name, (title, means) in COLUMNS.items()
    }
    columns["name"] = st.column_config.TextColumn("Head (layer.head)", pinned=True)
    columns["through"] = st.column_config.TextColumn("Through", help="Earlier head with which its keys compose most.")
    through = ["through"] if rows["through"].notna().any() else []
    choose_row(context, rows, [*names, *through], columns, "table circuits")
    quiet(*(sentence for name, sentence in LACKING.items() if name not in names))
    if measured.left_out:
        quiet("Heads of cross-attention are left out: their keys are words of another text.")
    every = _composition(context, measured)
    quiet(
        "Weights show what a head can do, not that it does it on a text: test that by switching it off. Norms count "
        "with their gains, not with what they divide by. Biases and feed-forward layers are left out."
    )
    return every


def _cost(source: Source) -> Estimate:
    """Cost of the circuits, by the sizes of the weights."""
    with cores.used_by(source):
        weights = source.model_weights()
    return Estimate(sum(weights.num_heads.values()), seconds(weights), bytes_of(weights), 0, unit="heads")


def _circuits(source: Source) -> Circuits:
    with cores.used_by(source):
        return circuits_of(source.model_weights())


def _composition(context: Context, measured: Circuits) -> dict[str, Figure]:
    """The map of how strongly each earlier head writes into each later one."""
    kinds = [name for name, kind in COMPOSITIONS.items() if measured.composition[kind].notna().any()]
    if not kinds:
        return {}
    name = now()["form"] if now()["form"] in kinds else kinds[0]
    name = control(st.segmented_control, "Composition", "form", kinds, value=name, part="composition", required=True)
    figure = figures.composition(measured, COMPOSITIONS[name], model=context.source.name, dark=context.dark)
    picture(figure, "composition")
    quiet("Rows: earlier heads, which write. Columns: later heads, which read it. 0: nothing is written, or read.")
    numbers(figure, "composition")
    return {"Composition": figure}


def card(context: Context) -> dict[str, Figure]:
    """What was measured of the model before it shipped; of another model how it is made."""
    source = context.source
    large(f"{source.title or source.id}. {source.card.does if source.card else source.does}")
    if source.card is None:
        quiet(*filter(None, (source.read_only, source.alone, source.unseen)))
        if described := source.described():
            table(described, numbers=(1,))
        quiet("What its heads do was not measured here.")
        return {}
    _behaviors(context, source.card)
    left, right = st.columns(2)
    with left:
        heading("How well it does")
        table([(_measured(measure), percent(measure.value)) for measure in source.card.measured], numbers=(1,))
        heading("What it cannot do")
        st.markdown("\n".join(f"- {literal(sentence)}" for sentence in source.card.cannot))
    with right:
        heading("What it was trained on")
        block(source.card.trained_on, "text")
        quiet(source.card.origin)
        heading("Sizes")
        table([(name, f"{size:,}") for name, size in source.card.sizes.items()], numbers=(1,))
    quiet("Measured before it shipped: these numbers do not follow your text.")
    return {}


def _behaviors(context: Context, known: Card) -> None:
    """Each role of a head with its numbers; a selected row opens the head on Heads."""
    rows = []
    for behavior in known.behaviors:
        for i, head in enumerate(behavior.heads):
            off = behavior.off[i] if behavior.off else None
            rows.append(
                {
                    "kind": behavior.site.kind,
                    "layer": behavior.site.layer,
                    "head": head,
                    "does": f"{behavior.does[:1].upper()}{behavior.does[1:]}",
                    "often": behavior.rates[i] if behavior.rates else None,
                    "weight": behavior.shares[i] if behavior.shares else None,
                    "chance": behavior.chance,
                    "on": behavior.on,
                    "off": off,
                    "evidence": behavior.evidence,
                }
            )
    if not rows:
        return
    heading("What its heads do")
    table_of_heads = pd.DataFrame(rows)
    titles = {
        "often": ("Looks there", "Share of the rows whose largest weight is where the role says."),
        "weight": ("Weight there", "Share of the head's weight that is where its role says."),
        "chance": ("By chance", "The same for a head that looks anywhere."),
        "on": ("Right, head on", "How much the model gets right with all heads on."),
        "off": ("Right, head off", "How much it gets right with this head off."),
    }
    columns = {
        name: st.column_config.NumberColumn(title, help=means, format="percent")
        for name, (title, means) in titles.items()
    }
    columns["name"] = st.column_config.TextColumn("Head (layer.head)", pinned=True)
    columns["does"] = st.column_config.TextColumn("What it does", width="large")
    columns["evidence"] = st.column_config.TextColumn("Evidence", width="large")
    there = [name for name in titles if table_of_heads[name].notna().any()]
    choose_row(context, table_of_heads, ["does", *there, "evidence"], columns, "table of roles")
    st.button(
        f"Open {context.site.head(context.head)} on Heads" if isinstance(context.head, int) else "Open on Heads",
        key="open head",
        icon=":material/arrow_forward:",
        on_click=open_head,
        args=(context.site, context.head),
    )


def _measured(measure: Measure) -> str:
    """A measure and, where it has a goal, whether it was reached."""
    if measure.goal is None:
        return measure.what
    reached = "reached" if measure.value >= measure.goal else "not reached"
    return f"{measure.what} (goal {percent(measure.goal)}: {reached})"
