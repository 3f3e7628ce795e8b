"""The first row of every page: the model and the text."""

import re
from dataclasses import replace
from itertools import islice

import streamlit as st

from attnviz import api
from attnviz.api import named_model
from attnviz.core.display import as_sentence, visible_text, without_surrogates
from attnviz.core.errors import AttnvizError, InputError, TooLong
from attnviz.core.request import Request
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui import cache, files, model_loading, pictures
from attnviz.ui.request import change, control, now, session
from attnviz.ui.text import literal, note, quiet

LONGEST = 20_000
"""Maximum number of characters in the text box; of a longer text only the beginning is shown, and not in a box."""
MOST_UNKNOWN = 4
"""Maximum number of unknown words that the message names."""
WORD = re.compile(r"\w+|[^\w\s]")
FOR_LEARNING = ("constructed", "scratch")
"""Models that know no language and only show how attention works; they come last in the list."""
OTHER = "other"
"""Entry in the list of models that opens a box for a name."""
MOST_FINDINGS = 2
"""Maximum number of findings about a model that are shown in full."""
LONGEST_SEARCHED = 100_000
"""Maximum length of texts for which another model is searched, because each candidate tokenizes them completely."""
PIECES = re.compile(r"\w+|[^\w\s]+")


def row(*, visible: bool = True) -> tuple[Source, Request] | None:
    """Draw the row; return the model and the request, or None after a message if one of them cannot be used.

    Args:
        visible: whether to draw the row; the page Learn chooses model and text itself.
    """
    top = st.container(horizontal=True, vertical_alignment="top", gap="xsmall", key="request") if visible else None
    source, wrong = None, ""
    try:
        source = opened(now()["model"], now()["step"])
    except AttnvizError as error:
        wrong = str(error)
    reads_text = source is not None and source.reads in ("text", "both")
    text = _chosen_text(source) if reads_text else ""
    if top is not None:
        with top:
            _model(source)
            files.button()
            if source is not None and source.reads != "text":
                pictures.row(source)
            if reads_text:
                _text(source, text)
        _load_named_model()
    if source is None:
        if wrong:
            note(wrong)
        return None
    if visible and source.findings:
        more = f" And {len(source.findings) - MOST_FINDINGS} more." if len(source.findings) > MOST_FINDINGS else ""
        note(" ".join(map(as_sentence, source.findings[:MOST_FINDINGS])) + more, "notice")
    try:
        texts = cache.texts(text, by_line=_by_line(text)) if reads_text else ("",)
        if reads_text:
            _note_unknown_words(source, texts)
        requested = _request(source, texts)
        return _with_chat(source), requested if source.reads == "text" else pictures.with_picture(source, requested)
    except AttnvizError as error:
        note(str(error), "error" if text.strip() or not reads_text else "notice")
    return None


def opened(text: str, step: int | None = None) -> Source | None:
    """Return the model that a link names; None while the model loads and the page shows the progress.

    Raises:
        AttnvizError: if there is no such model, or it does not take these parameters.
    """
    if text.startswith(files.PREFIX):
        return files.source(text)
    if not _is_here(text):
        return model_loading.opened(text)
    name, values = named_model(text)
    source = cache.source(name, step)
    return type(source)(**values) if values else source


def _is_here(text: str) -> bool:
    """Whether a model can be used at once: it ships with attnviz, belongs to this process, or is an opened file."""
    return text.startswith(files.PREFIX) or text.partition(":")[0] in (*api.SOURCES, *api.OFFERED)


def _model(source: Source | None) -> None:
    """Draw the box of models, which lists the available ones and takes any typed name."""
    suitable = [name for name, kind in api.SOURCES.items() if _can_read(kind, source) and name not in FOR_LEARNING]
    other = [] if model_loading.allowed() is not None else [OTHER]
    named = [*files.opened(), *model_loading.listed(), *other]
    names = dict.fromkeys([*api.OFFERED, *suitable, *named, *FOR_LEARNING, now()["model"]])
    control(
        st.selectbox,
        "Model",
        "model",
        [*names],
        step=_with_model,
        visible=False,
        format_func=lambda name: "Another model …" if name == OTHER else model_title(name),
        accept_new_options=True,
        width=180,
    )


def model_title(name: str) -> str:
    """Title of a model in a list."""
    shipped = api.SOURCES[name].title if name in api.SOURCES else ""
    return shipped or (name.removeprefix(files.PREFIX) if _is_here(name) else model_loading.title(name))


def _can_read(kind: type[Source], source: Source | None) -> bool:
    """Whether a model can read the current input: with a text and no picture, models of pictures alone cannot."""
    is_text = now()["text"] is not None and now()["picture"] is None
    return kind.reads in ("text", "both") or not is_text or (source is not None and source.reads == kind.reads)


def _with_model(choices: Choices, name: str) -> Choices:
    """Return the choices with another model, and with that model's example unless the text was typed.

    A model that must be found and loaded first is only stored, and the choices stay the same until it is loaded.
    """
    name = (name or "").strip()
    if name == OTHER or (name and not _is_here(name)):
        model_loading.forget(name)
        session().memory["named model"] = name
        return choices
    return choices.without("model").put(model=name) if name else choices


def _load_named_model() -> None:
    """Load the model that was named last and then choose it; after “Another model …”, draw a box for its name."""
    memory = session().memory
    name = memory.get("named model")
    if name == OTHER:

        def take_typed_name() -> None:
            change(lambda choices: _with_model(choices, st.session_state["model name"]))

        label = "Name of a Hugging Face model (gpt2, org/name, org/name@revision), or the path to a folder"
        st.text_input(label, key="model name", placeholder="org/name", on_change=take_typed_name, width=560)
    if name in (None, OTHER):
        return
    if memory.get("canceled") in model_loading.keys(name):
        memory["named model"] = memory["canceled"] = None
        return
    if model_loading.opened(name, leave=_forget_name) is not None:
        _forget_name()
        change(lambda choices: choices.without("model").put(model=name))
        st.rerun()


def _forget_name() -> None:
    session().memory["named model"] = None


def _chosen_text(source: Source) -> str:
    """Return the typed text; by default the first example of the model."""
    return _examples(source)[0] if now()["text"] is None else now()["text"]


def _text(source: Source, text: str) -> None:
    """Draw the text box, the box for a target and the menu of examples."""
    examples, fixed = _examples(source), bool(source.one_run)
    if len(text) > LONGEST:
        quiet(f"{visible_text(text[:1000])} … ({len(text):,} characters)")
        return
    with st.container(key="box"):
        control(
            st.text_area,
            "Text",
            "text",
            value=without_surrogates(text),
            step=lambda choices, typed: _with_text(choices, typed or ""),
            visible=False,
            height="content",
            placeholder="Type a sentence",
            disabled=fixed,
        )
    if source.writes and not fixed:
        with st.container(key="target-box"):
            widget = st.text_area if _by_line(text) else st.text_input
            control(widget, "Target", "target", visible=False, placeholder="Target: the model's own output")
    if not fixed:
        st.menu_button(
            "Examples",
            examples,
            key="example",
            format_func=lambda example: literal(example.replace("\n", " / ")[:60]),
            on_click=lambda: change(lambda choices: _with_text(choices, st.session_state["example"])),
        )


def _examples(source: Source) -> list[str]:
    """Return the example texts of a model; the first is its default text."""
    card = source.card.examples if source.card else ()
    return [*(card or source.examples or ("The cat sat on the mat because it was tired",))]


def _by_line(text: str) -> bool:
    """Whether each line is a text of its own: as chosen, or by default if there are several lines."""
    several = len(text.strip("\r\n").splitlines()) > 1
    return several if now()["lines"] is None else now()["lines"]


def _with_text(choices: Choices, text: str | None) -> Choices:
    """Return the choices with another text and without a selection."""
    return choices.without("text").put(text=text, lines=None)


def _request(source: Source, texts: tuple[str, ...]) -> Request:
    """Build the request from the texts, their targets and their answer.

    Raises:
        InputError: if the number of targets differs from the number of texts.
    """
    answer = now()["answer"] if source.generates and len(texts) == 1 else ()
    typed = now()["target"] if source.writes and not source.one_run else ""
    if not typed.strip():
        return Request(texts, answer=answer)
    targets = [line for line in typed.splitlines() if line.strip()] if len(texts) > 1 else [typed.strip("\r\n")]
    if len(targets) != len(texts):
        raise InputError(f"There are {len(texts)} texts and {len(targets)} targets; type one target for each text.")
    return Request(texts, targets=tuple(targets), answer=answer)


def _with_chat(source: Source) -> Source:
    """Return the model with the chosen chat settings, if it has a chat template."""
    chat = now()["chat"]
    return source if chat is None or not source.can_chat else replace(source, chat=True, system=chat)


def _note_unknown_words(source: Source, lines: tuple[str, ...]) -> None:
    """Show which words the model does not know; if it does not know most words, offer a model that reads any text."""
    unknown = cache.unknown(source, lines)
    if not unknown:
        return
    title, words = source.title or source.id, {word.lower() for line in lines for word in WORD.findall(line)}
    if len(unknown) <= len(words) / 2:
        names = ", ".join(f"“{visible_text(word)}”" for word in list(unknown)[:MOST_UNKNOWN])
        more = "" if len(unknown) <= MOST_UNKNOWN else f" and {len(unknown) - MOST_UNKNOWN} more"
        note(f"{title} does not know {names}{more}: it reads <unk> instead.", "notice")
        return
    count = max(0, len(words) - len(unknown))
    note(f"This model knows {count} of {len(words)} words: it reads <unk> instead of the others.", "notice")
    reader = next((name for name in (*model_loading.listed(), "scratch") if name != now()["model"]), None)
    if reader is not None:
        st.button(
            f"Use {model_title(reader)}, which reads any text",
            key="reads any",
            icon=":material/translate:",
            on_click=change,
            args=(lambda choices: _with_model(choices, reader),),
        )


def offer_shorter(error: TooLong, source: Source, request: Request) -> None:
    """Show the error, a button that shortens each text, and a button for a model that reads the whole text."""
    note(str(error))
    with st.container(horizontal=True, gap="small", key="too long"):
        if error.longest:
            title = f"Use the first {error.longest} tokens"
            st.button(
                title, key="first tokens", icon=":material/content_cut:", on_click=_shorten, args=(source, request)
            )
        if other := _model_that_reads(request):
            action = {"on_click": change, "args": (lambda choices: choices.without("model", "text").put(model=other),)}
            st.button(f"Switch to {other}", key="other model", icon=":material/swap_horiz:", **action)


def _shorten(source: Source, request: Request) -> None:
    """Cut each text to as many whole words from its beginning as the model can read."""
    lines = "\n".join(_fitting_beginning(source, text) for text in request.texts)
    change(lambda choices: choices.without("text").put(text=lines))


def _fitting_beginning(source: Source, text: str) -> str:
    """Find the longest beginning of a text, in whole words, that the model can read; the whole text if no word fits."""
    ends = [match.end() for match in islice(PIECES.finditer(text), source.longest)]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if _reads(source, Request((text[: ends[middle - 1]],))):
            low = middle
        else:
            high = middle - 1
    return text[: ends[low - 1]] if low else text


def _reads(source: Source, request: Request) -> bool:
    """Whether a model can read the texts of a request within this server's limits."""
    try:
        cache.sentences(source, request)
    except AttnvizError:
        return False
    return True


def _model_that_reads(request: Request) -> str | None:
    """Find the first shipped model that can read these texts; None if there is none or the texts are too long."""
    if sum(map(len, request.texts)) > LONGEST_SEARCHED:
        return None
    for name, source_class in api.SOURCES.items():
        if source_class.reads == "text" and _reads(cache.source(name), request.prompt):
            return name
    return None
