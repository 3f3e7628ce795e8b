"""The tabs of the mask lab. Each is a function of a `Lab`, in a module that is imported when its tab is opened."""

from importlib import import_module

import streamlit as st

from attnviz.ui.masks.base import Lab
from attnviz.ui.shared import state
from attnviz.ui.shared.state import control

TABS = (
    ("Compose", "compose"),
    ("Conventions", "conventions"),
    ("Empty rows", "numerics"),
    ("Leak test", "leaks"),
    ("Check", "checking"),
)
"""What each tab is called, and the module of this package whose function `tab(lab)` draws it."""

NAMES = tuple(name for name, _ in TABS)

TAB = state.choice("tab", NAMES, NAMES[0])


def tabs(lab: Lab) -> None:
    """All tabs, and what is in the open one. Which one that is stands in the link."""
    every = st.tabs(NAMES, **control(TAB))
    for place, (_, module) in zip(every, TABS, strict=True):
        if place.open:
            with place:
                import_module(f"attnviz.ui.masks.{module}").tab(lab)
