"""The input bar: the model and the sentences, the same on every page and kept across pages."""

from urllib.parse import quote

import streamlit as st

from attnviz import api, tokenizers
from attnviz.core.attention import EMPTY_ROWS
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.base import Source
from attnviz.sources.scratch import BOUNDS, Scratch
from attnviz.sources.trained import Trained
from attnviz.ui import cache, state
from attnviz.ui.looking import DOMAINS
from attnviz.ui.notes import clean, note, quiet, unknown_words

EXAMPLES = {
    "The cat sat on the mat": "The cat sat on the mat",
    "The cat sat down": "The cat sat down",
    "because it was tired": "The cat sat on the mat because it was tired.",
    "two sentences, padded": "The cat sat on the mat\nThe cat sat down",
}

SIZES = {"d_model": ("d_model", 64), "num_heads": ("Heads", 4), "num_layers": ("Layers", 2), "seed": ("Seed", 0)}
"""Of random weights: what a setting is called, and what it begins with."""

LONGEST_LABEL = 26
"""Characters of an example on its pill."""

LONGEST_LINK = 30_000
"""How many characters a sentence may take in the address of the page."""

MOST_PROBLEMS = 3
"""So many of the things that are wrong with a link are said."""

ALLOWED: dict[str, object] = {
    "model": tuple(api.SOURCES),
    "text": str,
    "tokenizer": tokenizers.NAMES,
    **{name: range(0 if name == "seed" else 1, most + 1) for name, most in BOUNDS.items()},
    **dict.fromkeys(("bias", "positions", "own_mask", "sums", "sos"), ("true", "false")),
    "before": range(0, 4097),
    "after": range(0, 4097),
    "prefix": range(0, 4097),
    "sentence": range(1, cache.MOST_SENTENCES + 1),
    "colors": tuple(DOMAINS),
    "empty": EMPTY_ROWS,
}
"""What each bound parameter of a link may be."""


def input_bar() -> tuple[Source, tuple[str, ...]]:
    """The model and the sentences. Stops the page with one sentence if either cannot be used."""
    state.read_link(ALLOWED)
    with st.container(horizontal=True, vertical_alignment="top", gap="small", key="input"):
        with st.container(width=250, gap="xsmall"):
            source, wrong = _model()
        texts = examples(source)
        with st.container(width=600, gap="xsmall"):
            typed, left_out = _sentence(opening_text(source))
        with st.container(width="stretch"):
            options = {"key": "example", "on_change": _take_example, "args": (texts,)}
            st.pills("Examples", texts, label_visibility="collapsed", **options)
    error, lines = None, ()
    try:
        if isinstance(source, InputError):
            raise source
        state.drop_missing(source.sites, source.num_heads, source.steps if isinstance(source, Trained) else ())
        lines = cache.texts(clean(typed or ""))
        cache.sentences(source, lines)
    except AttnvizError as found:
        error = found
    _say_problems()
    if wrong:
        note(f"{wrong} Here is '{source.name}' instead.")
    if error:
        note(str(error))
        state.write_link()
        st.stop()
    unknown_words(cache.unknown(source, lines))
    if left_out:
        note("This text is too long for a link: the address of this page leaves it out.", "notice")
    return source, lines


def _say_problems() -> None:
    if problems := st.session_state["link_problems"]:
        more = f" And {len(problems) - MOST_PROBLEMS} more." if len(problems) > MOST_PROBLEMS else ""
        said = " ".join(problems[:MOST_PROBLEMS])
        note(f"The link could not be read in full, so a default is shown. {said}{more}", "notice")


def _sentence(opening: str) -> tuple[str | None, bool]:
    """The text as typed, and whether it is too long for a link."""
    left_out = len(quote(clean(st.session_state.get("text") or ""))) > LONGEST_LINK  # servers refuse 64 kB
    if st.session_state.get("left out") and not left_out:
        st.session_state["text"] = st.session_state["text"]  # set from here, it enters the link again
    st.session_state["left out"] = left_out
    typed = st.text_area(
        "Sentence",
        opening,
        key="text",
        height=80,
        label_visibility="collapsed",
        placeholder="Type a sentence. A new line begins another one.",
        bind=None if left_out else "query-params",
    )
    return typed, left_out


def opening_text(source: Source | InputError) -> str:
    """The text that a model opens with."""
    return next(iter(examples(source).values()))


def examples(source: Source | InputError) -> dict[str, str]:
    """Texts that show what a model can do, by what is written on their pills; the first is the one it opens with."""
    if isinstance(source, InputError) or source.card is None:
        return EXAMPLES
    return {_label(text, source.card.examples): text for text in source.card.examples}


def _label(text: str, others: tuple[str, ...]) -> str:
    """A text in short, but for what tells it from the others."""
    for longest in range(LONGEST_LABEL, len(text)):
        if sum(other.startswith(text[:longest]) for other in others) == 1:
            return f"{text[:longest].rstrip()} …".replace("\n", " / ")
    return text.replace("\n", " / ")


def _take_example(texts: dict[str, str]) -> None:
    if st.session_state["example"] in texts:
        st.session_state["text"] = texts[st.session_state["example"]]
        st.session_state["cell"] = None
    st.session_state["example"] = None


def _model() -> tuple[Source | InputError, AttnvizError | None]:
    """The model, with where its weights come from under it, and what is wrong with the chosen one if another stands in.

    An InputError in the place of the model says what is wrong with the sizes of random weights.
    """
    names = tuple(api.SOURCES)
    chosen = st.selectbox("Model", names, key="model", label_visibility="collapsed", bind="query-params")
    source, wrong = cache.loadable(chosen or api.DEFAULT)
    made = _scratch() if isinstance(source, Scratch) else source
    if source.card:
        quiet(f"{source.card.title} · {source.provenance}")
    before = st.session_state.get("model in use", source.name)
    st.session_state["model in use"] = source.name
    if before != source.name:
        _switch(cache.loadable(before)[0], source)
    return made, wrong


def _switch(before: Source, source: Source) -> None:
    """Another model was chosen: begin with what it opens with, but keep the masks, and what somebody has typed."""
    for name in ("off", "cell", "site", "show", "step", "effect"):
        st.session_state[name] = state.ENCODED[name][2]
    if st.session_state.get("text") in examples(before).values():
        st.session_state["text"] = opening_text(source)


def _scratch() -> Scratch | InputError:
    """Random weights: their settings behind one button that says what they are, and the tokenizer under it."""
    bound = {"bind": "query-params"}
    with st.popover("random weights", icon=":material/tune:", width="stretch"):
        st.caption("Random weights: shows the mechanics, not meaning. Everything comes from one seed.")
        sizes = {}
        left, right = st.columns(2)
        for i, (name, (title, default)) in enumerate(SIZES.items()):
            least = 0 if name == "seed" else 1
            options = {"key": name, "bind": state.binding(name)}
            sizes[name] = (left, right)[i % 2].number_input(title, least, BOUNDS[name], default, **options)
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
