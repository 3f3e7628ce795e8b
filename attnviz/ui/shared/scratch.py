"""The model with random weights: its sizes, and how its tokens are cut."""

import streamlit as st

from attnviz import tokenizers
from attnviz.core.errors import InputError
from attnviz.sources.scratch import BOUNDS, Scratch
from attnviz.ui.shared import state
from attnviz.ui.shared.state import control

SIZES = {"d_model": ("d_model", 64), "num_heads": ("Heads", 4), "num_layers": ("Layers", 2), "seed": ("Seed", 0)}
"""Of random weights: what a setting is called, and what it begins with."""

NUMBERS = tuple(state.whole(n, first, 0 if n == "seed" else 1, BOUNDS[n]) for n, (_, first) in SIZES.items())
POSITIONS, BIAS, CLONED = state.flag("positions", True), state.flag("bias", True), state.flag("cloned", False)
TOKENIZER = state.choice("tokenizer", tokenizers.NAMES, tokenizers.NAMES[0])

COPIES = "W_K, W_V and W_O begin as copies of W_Q, as in a tutorial: the scores are then symmetric."


def source() -> Scratch | InputError:
    """Random weights: their settings behind one button that says what they are, and the tokenizer under it."""
    with st.popover("random weights", icon=":material/tune:", width="stretch"):
        st.caption("Random weights: shows the mechanics, not meaning. Everything comes from one seed.")
        left, right = st.columns(2)
        for i, size in enumerate(NUMBERS):
            least = 0 if size.name == "seed" else 1
            (left, right)[i % 2].number_input(SIZES[size.name][0], least, BOUNDS[size.name], **control(size))
        left.toggle("Positions", **control(POSITIONS))
        right.toggle("Bias", **control(BIAS))
        left.toggle("Cloned weights", **control(CLONED), help=COPIES)
    options = {"required": True, "label_visibility": "collapsed", "width": "stretch"}
    st.segmented_control("Tokenizer", tokenizers.NAMES, **control(TOKENIZER), **options)
    chosen = (TOKENIZER, *NUMBERS, POSITIONS, BIAS, CLONED)
    try:
        return Scratch(**{setting.name: state.get(setting) for setting in chosen})
    except InputError as error:
        return error
