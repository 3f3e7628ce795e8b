"""Overview: every head of the model at once, what heads add to a word, what is known over many texts, and circuits."""

import streamlit as st

from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.ui import export_menu, work
from attnviz.ui.pages.overview import attribution, corpus, heads, model
from attnviz.ui.request import control, now
from attnviz.ui.toolbar import toolbar

PARTS = {
    "All heads": heads.every_head,
    "Contributions": attribution.contributions,
    "Logit lens": attribution.lens,
    "Rollout": attribution.rollout,
    "Gradients": attribution.gradients,
    "Corpus": corpus.corpus,
    "Circuits": model.circuits,
    "Model card": model.card,
}
"""What draws each part of the page, by its name in the link; it returns figures by their names in the export menu."""


def page(source: Source, lines: tuple[str, ...]) -> None:
    """Draw the page."""
    context = toolbar(source, lines)
    current = now()["part"] if now()["part"] in PARTS else next(iter(PARTS))
    name = control(
        st.segmented_control, "Part", "part", [*PARTS], value=current, visible=False, required=True, wrap=True
    )
    figures: dict[str, Figure] = {}
    with work.part():
        figures = PARTS[name](context)
    if figures:
        with context.export:
            export_menu.menu(figures, f"overview {name}")
