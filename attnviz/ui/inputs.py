"""The input bar: the model and the sentences, the same on every page and kept across pages."""

from urllib.parse import quote

import streamlit as st

from attnviz import tokenizers
from attnviz.core.attention import EMPTY_ROWS
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.scratch import BOUNDS, Scratch
from attnviz.ui import cache, state
from attnviz.ui.looking import DOMAINS, FOCUS
from attnviz.ui.notes import clean, note

EXAMPLES = {
    "The cat sat on the mat": "The cat sat on the mat",
    "The cat sat down": "The cat sat down",
    "because it was tired": "The cat sat on the mat because it was tired.",
    "two sentences, padded": "The cat sat on the mat\nThe cat sat down",
}

LONGEST_LINK = 30_000
"""How many characters a sentence may take in the address of the page."""

MOST_PROBLEMS = 3
"""So many of the things that are wrong with a link are said."""

ALLOWED: dict[str, object] = {
    "text": str,
    "tokenizer": tokenizers.NAMES,
    **{name: range(0 if name == "seed" else 1, most + 1) for name, most in BOUNDS.items()},
    **dict.fromkeys(("bias", "positions", "padding", "sums", "sos"), ("true", "false")),
    "before": range(0, 4097),
    "after": range(0, 4097),
    "prefix": range(0, 4097),
    "layer": range(0, BOUNDS["num_layers"]),
    "sentence": range(1, cache.MOST_SENTENCES + 1),
    "show": (*FOCUS, *map(str, range(BOUNDS["num_heads"]))),
    "colors": tuple(DOMAINS),
    "empty": EMPTY_ROWS,
}
"""What each bound parameter of a link may be."""


def input_bar() -> tuple[Scratch, tuple[str, ...]]:
    """The model and the sentences. Stops the page with one sentence if either cannot be used."""
    state.read_link(ALLOWED)
    left_out = _too_long_for_a_link()
    if st.session_state.get("left out") and not left_out:
        st.session_state["text"] = st.session_state["text"]  # set from here, it enters the link again
    st.session_state["left out"] = left_out
    with st.container(horizontal=True, vertical_alignment="top", gap="small"):
        with st.container(width=250, gap="xsmall"):
            source = _model()
        with st.container(width=600, gap="xsmall"):
            typed = st.text_area(
                "Sentence",
                next(iter(EXAMPLES.values())),
                key="text",
                height=80,
                label_visibility="collapsed",
                placeholder="Type a sentence. A new line begins another one.",
                bind=None if left_out else "query-params",
            )
        with st.container(width="stretch"):
            st.pills("Examples", EXAMPLES, key="example", on_change=_take_example, label_visibility="collapsed")
    error, lines = None, ()
    try:
        if isinstance(source, InputError):
            raise source
        lines = cache.texts(clean(typed or ""))
        tokens = len(cache.sentences(source, lines)[0].tokens)
        state.drop_missing(source.sites, source.num_heads, tokens + 1, tokens + 1)  # one more where <sos> stands first
    except AttnvizError as found:
        error = found
    if problems := st.session_state["link_problems"]:
        more = f" And {len(problems) - MOST_PROBLEMS} more." if len(problems) > MOST_PROBLEMS else ""
        said = " ".join(problems[:MOST_PROBLEMS])
        note(f"The link could not be read in full, so a default is shown. {said}{more}", "notice")
    if error:
        note(str(error))
        state.write_link()
        st.stop()
    if left_out:
        note("This text is too long for a link: the address of this page leaves it out.", "notice")
    return source, lines


def _too_long_for_a_link() -> bool:
    """Servers refuse addresses above 64 kB."""
    return len(quote(clean(st.session_state.get("text") or ""))) > LONGEST_LINK


def _take_example() -> None:
    if st.session_state["example"] in EXAMPLES:
        st.session_state["text"] = EXAMPLES[st.session_state["example"]]
        st.session_state["cell"] = None
    st.session_state["example"] = None


def _model() -> Scratch | InputError:
    """The source: its settings behind one button that says what it is, and the tokenizer under it."""
    bound = {"bind": "query-params"}
    with st.popover("scratch · random weights", icon=":material/tune:", width="stretch"):
        st.caption("Random weights: shows the mechanics, not meaning. Everything comes from one seed.")
        sizes = {}
        left, right = st.columns(2)
        for column, name, title, default in (
            (left, "d_model", "d_model", 64),
            (right, "num_heads", "Heads", 4),
            (left, "num_layers", "Layers", 2),
            (right, "seed", "Seed", 0),
        ):
            least = 0 if name == "seed" else 1
            options = {"key": name, "bind": state.binding(name)}
            sizes[name] = column.number_input(title, least, BOUNDS[name], default, **options)
        positions = left.toggle("Positions", True, key="positions", **bound)
        bias = right.toggle("Bias", True, key="bias", **bound)
    tokenizer = st.segmented_control(
        "Tokenizer",
        tokenizers.NAMES,
        default=tokenizers.NAMES[0],
        key="tokenizer",
        required=True,
        label_visibility="collapsed",
        width="stretch",
        **bound,
    )
    try:
        return Scratch(tokenizer or tokenizers.NAMES[0], positions=positions, bias=bias, **sizes)
    except InputError as error:
        return error
