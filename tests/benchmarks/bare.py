"""Bare page: the least work of Streamlit for a click that changes a chart, as the measure of our pages."""

import numpy as np
import streamlit as st


@st.fragment
def page():
    with st.container(key="bare"):
        seed = st.pills("Seed", range(64), default=0, key="seed")
    weights = np.random.default_rng(seed).random((16, 16))
    cells = [{"q": q, "k": k, "w": float(weights[q, k])} for q in range(16) for k in range(16)]
    axes = {"x": {"field": "k", "type": "ordinal"}, "y": {"field": "q", "type": "ordinal"}}
    with st.container(key="picture head bare"):
        st.vega_lite_chart({"values": cells}, {"mark": "rect", "encoding": axes | {"color": {"field": "w"}}})


page()
