"""The input bar: the model and the sentences, the same on every page and kept across pages."""

from urllib.parse import quote

import streamlit as st

from attnviz import api, tokenizers
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.scoring import EMPTY_ROWS
from attnviz.sources.base import Source
from attnviz.sources.scratch import BOUNDS, Scratch
from attnviz.sources.trained import Trained
from attnviz.ui import cache, examples, pretrained, state
from attnviz.ui.arrivals import Arrival
from attnviz.ui.glance import numbers as glance
from attnviz.ui.lab.choices import LINKED
from attnviz.ui.lab.tabs import NAMES
from attnviz.ui.looking import DOMAINS
from attnviz.ui.notes import clean, note, quiet, unknown_words
from attnviz.ui.steps import changes
from attnviz.ui.steps.link import PARTS

SIZES = {"d_model": ("d_model", 64), "num_heads": ("Heads", 4), "num_layers": ("Layers", 2), "seed": ("Seed", 0)}
"""Of random weights: what a setting is called, and what it begins with."""

LONGEST_LINK = 30_000
"""How many characters a sentence may take in the address of the page."""

MOST_PROBLEMS = 3
"""So many of the things that are wrong with a link are said."""

CLONED = "W_K, W_V and W_O begin as copies of W_Q, as in a tutorial: the scores are then symmetric."

ALLOWED: dict[str, object] = {
    "model": (*api.SOURCES, pretrained.NAME),
    "hf": str,
    "text": str,
    "tokenizer": tokenizers.NAMES,
    **{name: range(0 if name == "seed" else 1, most + 1) for name, most in BOUNDS.items()},
    **dict.fromkeys(("bias", "positions", "cloned", "own_mask", "sums", "sos"), ("true", "false")),
    "sentence": range(1, cache.MOST_SENTENCES + 1),
    "colors": tuple(DOMAINS),
    "empty": EMPTY_ROWS,
    "tab": NAMES,
    **glance.LINKED,
    "part": PARTS,
    "dk": tuple(str(2**i) for i in range(11)),
    **LINKED,
}
"""What each bound parameter of a link may be."""


def input_bar() -> tuple[Source, tuple[str, ...]]:
    """The model and the sentences. Stops the page with one sentence if either cannot be used."""
    state.read_link(_allowed(pretrained.listed()))
    with st.container(horizontal=True, vertical_alignment="top", gap="small", key="input"):
        with st.container(width=250, gap="xsmall"):
            source, wrong = _model()
        ready = not isinstance(source, AttnvizError | Arrival)
        texts = examples.of_model(source) if ready else _texts_before()
        if ready:
            examples.follow(_called(source), texts)
        with st.container(width=600, gap="xsmall"):
            typed, left_out = _sentence(next(iter(texts.values())))
        with st.container(width="stretch"):
            examples.pills(texts)
    error, lines = None, ()
    try:
        lines = cache.texts(clean(typed or ""))
        if ready:
            steps = source.steps if isinstance(source, Trained) else ()
            state.drop_missing(source.sites, source.num_heads, steps)
            cache.sentences(source, lines)
    except AttnvizError as found:
        error = found
    _say_problems()
    if wrong:
        note(f"{wrong} Here is '{source.name}' instead.")
    if not ready or error:
        _stop(source if not ready else error)
    unknown_words(cache.unknown(source, lines), pretrained.unknown_token(source))
    if left_out:
        note("This text is too long for a link: the address of this page leaves it out.", "notice")
    return changes.applied(source, lines), lines


def _allowed(names: tuple[str, ...] | None) -> dict[str, object]:
    """What each bound parameter may be where only models of these names are offered; of all, if that is None."""
    if names is None:
        return ALLOWED
    if names:
        return ALLOWED | {"hf": names}
    return {name: values for name, values in ALLOWED.items() if name != "hf"} | {"model": tuple(api.SOURCES)}


def _stop(instead: AttnvizError | Arrival) -> None:
    """End the page with what stands in the place of its pictures: one sentence, or a model on its way."""
    if isinstance(instead, Arrival):
        pretrained.ask_or_wait(instead)
    else:
        note(str(instead))
        pretrained.try_again()
    state.write_link()
    st.stop()


def _called(source: Source) -> str:
    """What tells a model from the others."""
    return source.model if source.provenance == "pretrained" else f"{type(source).__name__} {source.name}"


def _texts_before() -> dict[str, str]:
    """The examples while there is no model: those of the model before, if there was one."""
    known = st.session_state.get("examples in use")
    if known:
        return known
    return examples.FIRST if st.session_state.get("model") == pretrained.NAME else examples.EXAMPLES


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


def _model() -> tuple[Source | Arrival | AttnvizError, AttnvizError | None]:
    """The model, with where its weights come from under it, and what is wrong with the chosen one if another stands in.

    In the place of the model may stand what is wrong with its name or its sizes, or that it is on its way.
    """
    offered = (*api.SOURCES, *([] if pretrained.listed() == () else [pretrained.NAME]))
    chosen = st.selectbox("Model", offered, key="model", label_visibility="collapsed", bind="query-params")
    if chosen == pretrained.NAME:
        return pretrained.field(), None
    pretrained.leave()
    source, wrong = cache.loadable(chosen or api.DEFAULT)
    if source.card:
        quiet(f"{source.card.title} · {source.provenance}")
    return _scratch() if isinstance(source, Scratch) else source, wrong


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
        cloned = left.toggle("Cloned weights", False, key="cloned", help=CLONED, **bound)
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
        return Scratch(tokenizer or tokenizers.NAMES[0], positions=positions, bias=bias, cloned=cloned, **sizes)
    except InputError as error:
        return error
