"""The pictures of the page Heads with nothing around them: what no page that shows them can be faster than."""

import gc
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # the app's own script is at the top level

import streamlit as st
from streamlit import config

from attnviz import api, figures
from attnviz.analysis import sentences
from attnviz.core.edits import Edits
from attnviz.core.request import Request
from attnviz.ui import cache

TEXT = "the cat sat on a mat and saw two birds by some old tree near our"
config.set_option("runner.postScriptGC", False)  # as the app does


@st.cache_resource
def source():
    made = api.load("scratch", num_heads=8)
    gc.collect()
    gc.freeze()
    return made


@st.fragment
def page():
    with st.container(key="bare"):
        chosen = st.pills("Heads off, in binary", range(64), default=0, key="seed")
    made = source()
    site = made.sites[0]
    off = frozenset((site, head) for head in range(8) if chosen >> head & 1)
    record, before = (cache.record(made, Request((TEXT,), edits=edits)) for edits in (Edits(heads_off=off), Edits()))
    for name, figure in (
        ("heads", figures.heads(record, site, focused=0)),
        ("head", figures.head(record, site, 0)),
        ("change", figures.change(before, record)),
    ):
        spec, data, _ = cache.Screen.of(*figure.screen)
        with st.container(key=f"picture {name}"):
            st.vega_lite_chart(data, spec, key=name, theme=None, width="content", alt="Chart")
    st.html(sentences.cell(record, site, 0, 0, 0))


page()
