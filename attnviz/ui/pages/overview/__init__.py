"""The Overview page: all heads, contributions to a word, statistics over many texts, and circuits of the weights.

Each part of the page is a function that draws the part and returns its figures by their names in the export menu.
"""

import streamlit as st

from attnviz import figures
from attnviz.analysis.circuits import NUMBERS, Circuits, bytes_of, seconds
from attnviz.analysis.circuits import circuits as circuits_of
from attnviz.core.amounts import percent
from attnviz.core.request import Request
from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.ui import cache, export_menu, runs
from attnviz.ui.pages.overview import attribution, corpus, heads
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import choice
from attnviz.ui.text import block, heading, large, literal, quiet, table
from attnviz.ui.toolbar import Context, toolbar

CIRCUITS = {
    "copying": ("Copying", "OV circuit, from -1 to 1. 1: attention to a token makes the same token more probable."),
    "eigenvalue": ("Largest eigenvalue", "OV circuit: real part of the eigenvalue with the largest absolute value."),
    "previous_token": ("Previous token", "QK circuit of the position vectors: mean weight on the previous position."),
    "induction": (
        "Induction",
        "QK circuit through an earlier head. 1: each query matches the keys that attended to its token in that head.",
    ),
}
"""Title and meaning of each metric of a head's circuits."""
COMPOSITIONS = {"K: keys": "k", "Q: queries": "q", "V: values": "v"}
"""Inputs of a later head that can read the output of an earlier head."""


def page(source: Source, request: Request) -> None:
    """Draw the page."""
    context = toolbar(source, request)
    name = choice(st.segmented_control, "Part", "part", [*PARTS], visible=False, required=True, wrap=False)
    drawn: dict[str, Figure] = {}
    with runs.part():
        drawn = PARTS[name](context)
    if drawn:
        with context.export:
            export_menu.menu(context, drawn, f"overview {name}")


def circuits(context: Context) -> dict[str, Figure]:
    """Draw the metrics of the QK and OV circuits, one row per head, and the composition scores of pairs of heads."""
    source = context.source
    quiet("What each head can read and write, computed from the weights alone, without a text (Elhage et al. 2021).")
    no_cost = Estimate(1, 0.0, 0, 0, unit="heads")  # 0 s and 0 bytes: the job only finds the weights
    cost = cache.result_of(_cost, source, cost=no_cost, runs_model=source, unit="searches for projections")
    if not runs.is_requested("measure circuits", source, cost, "Measure circuits"):
        return {}
    measured = cache.result_of(_circuits, source, cost=cost, runs_model=source)
    names = [name for name in NUMBERS if measured.heads[name].notna().any()]
    columns = heads.columns_of(CIRCUITS, "%.3f")
    columns["through"] = st.column_config.TextColumn("Through", help="Earlier head with the largest K-composition.")
    through = ["through"] if measured.heads["through"].notna().any() else []
    heads.choose_row(context, measured.heads, [*names, *through], columns, "circuits")
    if missing := [title for name, (title, _) in CIRCUITS.items() if name not in names]:
        quiet(f"These numbers cannot be computed from the weights of this model: {', '.join(missing)}.")
    if measured.left_out:
        quiet("Heads of cross-attention are left out: their keys are words of another text.")
    quiet(
        "Weights show what a head can do, not what it does on a text: test that by switching it off. The gains "
        "of norms are included, their division by the token's norm is not. Biases and feed-forward layers are left out."
    )
    kinds = [name for name, kind in COMPOSITIONS.items() if measured.composition[kind].notna().any()]
    if not kinds:
        return {}
    name = choice(st.segmented_control, "Composition", "form", kinds, part="composition", required=True)
    figure = figures.composition(measured, COMPOSITIONS[name], model=source.name, dark=context.dark)
    picture(figure, "composition")
    numbers(figure, "composition")
    return {"Composition": figure}


def _cost(source: Source) -> Estimate:
    """Estimated cost of computing the circuits, from the sizes of the weights."""
    weights = source.model_weights()
    num_heads = sum(weights.num_heads.values())
    return Estimate(num_heads, seconds(weights), bytes_of(weights), 0, unit="heads")


def _circuits(source: Source) -> Circuits:
    return circuits_of(source.model_weights())


def card(context: Context) -> dict[str, Figure]:
    """Draw the model card of a shipped model with its measured results, or the architecture of another model."""
    source, facts = context.source, context.source.card
    large(f"{source.title or source.id}. {facts.does if facts else source.does}")
    if facts is None:
        quiet(*filter(None, (source.read_only, source.alone, source.unseen)))
        table(source.described(), numbers=(1,))
        quiet("What its heads do was not measured.")
        return {}
    corpus.known_roles(context)
    heads.opener(context.site, context.head)
    left, right = st.columns(2)
    with left:
        heading("How well it does")
        table([(measure.what, percent(measure.value)) for measure in facts.measured], numbers=(1,))
        heading("What it cannot do")
        st.markdown("\n".join(f"- {literal(sentence)}" for sentence in facts.cannot))
    with right:
        heading("What it was trained on")
        block(facts.trained_on, "text")
        quiet(facts.origin)
        heading("Sizes")
        table([(name, f"{size:,}") for name, size in facts.sizes.items()], numbers=(1,))
    quiet("Measured before the model shipped: these numbers do not depend on your text.")
    return {}


PARTS = {
    "All heads": heads.every_head,
    "Contributions": attribution.contributions,
    "Logit lens": attribution.lens,
    "Rollout": attribution.rollout,
    "Gradients": attribution.gradients,
    "Corpus": corpus.corpus,
    "Circuits": circuits,
    "Model card": card,
}
"""Functions that draw the parts of the page, by their names in the link."""
