"""The first row of every page: the model and the text."""

import re
from dataclasses import replace
from functools import partial
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
"""Pattern of a word or a single punctuation mark."""
FOR_LEARNING = ("constructed", "scratch")
"""Models that know no language and only show how attention works; they come last in the list."""
OTHER = "other"
"""Entry in the list of models that opens a box for a name."""
MOST_FINDINGS = 2
"""Maximum number of findings about a model that are shown in full."""
LONGEST_SEARCHED = 100_000
"""Maximum length of texts for which another model is searched, because each candidate tokenizes them completely."""
PIECES = re.compile(r"\w+|[^\w\s]+")
"""Pattern of a word or a run of punctuation marks; a text is shortened at the end of one of them."""


def row(*, visible: bool = True) -> tuple[Source, Request] | None:
    """Draw the row; return the model and the request, or None after a message if one of them cannot be used.

    Args:
        visible: whether to draw the row; the Learn page chooses model and text itself.
    """
    container = None
    if visible:
        container = st.container(horizontal=True, vertical_alignment="top", gap="xsmall", key="request")
    source, load_error = None, ""
    try:
        source = open_model(now()["model"], now()["step"])
    except AttnvizError as error:
        load_error = str(error)
    reads_text, text = source is not None and source.reads in ("text", "both"), ""
    if reads_text:
        text = _examples(source)[0] if now()["text"] is None else now()["text"]
    if container is not None:
        with container:
            _model(source)
            files.button()
            if source is not None and source.reads != "text":
                pictures.row(source)
            if reads_text:
                _text(source, text)
        _load_named_model()
    if source is None:
        if load_error:
            note(load_error)
        return None
    if visible and source.findings:
        more = f" And {len(source.findings) - MOST_FINDINGS} more." if len(source.findings) > MOST_FINDINGS else ""
        note(" ".join(map(as_sentence, source.findings[:MOST_FINDINGS])) + more, "notice")
    try:
        texts = ("",)
        if reads_text:
            texts = cache.texts(text, by_line=_by_line(text))
            _note_unknown_words(source, texts)
        request = _request(source, texts)
        if source.reads != "text":
            request = pictures.with_picture(source, request)
        if source.can_chat and now()["chat"] is not None:  # the system prompt, maybe ""
            source = replace(source, chat=True, system=now()["chat"])
        return source, request
    except AttnvizError as error:
        has_no_text_yet = reads_text and not text.strip()
        note(str(error), "notice" if has_no_text_yet else "error")
    return None


def open_model(text: str, step: int | None = None) -> Source | None:
    """Return the model that a link names, at a training step; None while it loads and the page shows the progress.

    Raises:
        AttnvizError: if there is no such model, or it does not take these parameters.
    """
    if text.startswith(files.PREFIX):
        return files.source(text)
    if not _needs_no_loading(text):
        return model_loading.load_or_ask(text)
    name, parameters = named_model(text)
    source = cache.source(name, step)
    return type(source)(**parameters) if parameters else source


def _needs_no_loading(name: str) -> bool:
    """Whether a model can be used at once: it ships with attnviz, belongs to this process, or is an opened file."""
    return name.startswith(files.PREFIX) or name.partition(":")[0] in (*api.SOURCES, *api.OFFERED)


def _model(source: Source | None) -> None:
    """Draw the list of available models, in which any other name can be typed; `source` is the current model.

    If the user typed a text and chose no picture, shipped models are listed if they read text or `source`'s input.
    """
    inputs = [model.reads for model in api.SOURCES.values()]
    if now()["text"] is not None and now()["picture"] is None:
        inputs = ["text", "both"] if source is None else ["text", "both", source.reads]
    shipped = [name for name, model in api.SOURCES.items() if model.reads in inputs and name not in FOR_LEARNING]
    loaded = [*files.open_files(), *model_loading.listed_names()]
    if model_loading.allowed_names() is None:  # this server loads any model
        loaded.append(OTHER)
    names = dict.fromkeys([*api.OFFERED, *shipped, *loaded, *FOR_LEARNING, now()["model"]])
    options = {"apply": _with_model, "visible": False, "accept_new_options": True, "width": 180}
    control(st.selectbox, "Model", "model", [*names], format_func=model_title, **options)


def model_title(name: str) -> str:
    """Return the title of a model in a list."""
    if name == OTHER:
        return "Another model …"
    if name in api.SOURCES and api.SOURCES[name].title:
        return api.SOURCES[name].title
    return name.removeprefix(files.PREFIX) if _needs_no_loading(name) else model_loading.title(name)


def _with_model(choices: Choices, name: str | None) -> Choices:
    """Return the choices with another model; without a typed text, the page then shows an example of that model.

    The name of a model that must be loaded first is kept for `_load_named_model`, and the choices stay the same.
    """
    name = (name or "").strip()
    if not name:
        return choices
    if name != OTHER and _needs_no_loading(name):
        return choices.without("model").put(model=name)
    model_loading.forget(name)
    session().memory["named model"] = name
    return choices


def _load_named_model() -> None:
    """Load and choose the model whose name was typed; after “Another model …”, draw a box for the name."""
    memory = session().memory
    name = memory.get("named model")
    if name == OTHER:

        def take_typed_name() -> None:
            change(lambda choices: _with_model(choices, st.session_state["model name"]))

        label = "Name of a Hugging Face model (gpt2, org/name, org/name@revision), or the path to a folder"
        st.text_input(label, key="model name", placeholder="org/name", on_change=take_typed_name, width=560)
    if name in (None, OTHER):
        return
    if memory.get("canceled") in model_loading.keys(name):  # the user canceled the search or the download
        memory["named model"] = memory["canceled"] = None
        return
    forget_name = partial(memory.update, {"named model": None})
    if model_loading.load_or_ask(name, on_failure=forget_name) is not None:
        forget_name()
        change(lambda choices: choices.without("model").put(model=name))
        st.rerun()


def _text(source: Source, text: str) -> None:
    """Draw the text box, the box for a target and the menu of examples; a saved run has only its fixed text."""
    examples, fixed = _examples(source), bool(source.one_run)
    if len(text) > LONGEST:
        quiet(f"{visible_text(text[:1000])} … ({len(text):,} characters)")
        return

    def with_text(choices: Choices, new_text: str) -> Choices:
        """Return the choices with another text and without a selection."""
        return choices.without("text").put(text=new_text, lines=None)

    with st.container(key="box"):
        value = {"value": without_surrogates(text), "apply": lambda choices, typed: with_text(choices, typed or "")}
        options = {"visible": False, "height": "content", "placeholder": "Type a sentence", "disabled": fixed}
        control(st.text_area, "Text", "text", **value, **options)
    if source.writes and not fixed:
        with st.container(key="target-box"):
            widget = st.text_area if _by_line(text) else st.text_input
            control(widget, "Target", "target", visible=False, placeholder="Target: the model's own output")
    if not fixed:

        def use_example() -> None:
            change(lambda choices: with_text(choices, st.session_state["example"]))

        options = {"key": "example", "format_func": lambda example: literal(example.replace("\n", " / ")[:60])}
        st.menu_button("Examples", examples, on_click=use_example, **options)


def _examples(source: Source) -> list[str]:
    """Return the example texts of a model; the first is its default text."""
    card = source.card.examples if source.card else ()
    return [*(card or source.examples or ("The cat sat on the mat because it was tired",))]


def _by_line(text: str) -> bool:
    """Whether each line is a text of its own; by default if there are several lines."""
    if now()["lines"] is not None:
        return now()["lines"]
    return len(text.strip("\r\n").splitlines()) > 1


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


def _note_unknown_words(source: Source, lines: tuple[str, ...]) -> None:
    """Show which words the model does not know; if it knows less than half, offer a model that reads any text."""
    unknown = cache.unknown(source, lines)
    if not unknown:
        return
    title, words = source.title or source.id, {word.lower() for line in lines for word in WORD.findall(line)}
    if len(unknown) <= len(words) / 2:
        names = ", ".join(f"“{visible_text(word)}”" for word in list(unknown)[:MOST_UNKNOWN])
        more = "" if len(unknown) <= MOST_UNKNOWN else f" and {len(unknown) - MOST_UNKNOWN} more"
        note(f"{title} does not know {names}{more}: it reads <unk> instead.", "notice")
        return
    num_known = max(0, len(words) - len(unknown))
    note(f"This model knows {num_known} of {len(words)} words: it reads <unk> instead of the others.", "notice")
    other_models = [name for name in (*model_loading.listed_names(), "scratch") if name != now()["model"]]
    if other_models:
        title = f"Use {model_title(other_models[0])}, which reads any text"
        action = {"on_click": change, "args": (lambda choices: _with_model(choices, other_models[0]),)}
        st.button(title, key="reads any", icon=":material/translate:", **action)


def offer_shorter(error: TooLong, source: Source, request: Request) -> None:
    """Show the error, a button that shortens each text, and a button for a model that reads the whole text."""

    def shorten() -> None:
        """Cut each text to as many whole words from its beginning as the model can read."""
        lines = "\n".join(_fitting_beginning(source, text) for text in request.texts)
        change(lambda choices: choices.without("text").put(text=lines))

    note(str(error))
    with st.container(horizontal=True, gap="small", key="too long"):
        if error.longest:
            st.button("Shorten to what fits", key="first tokens", icon=":material/content_cut:", on_click=shorten)
        if other := _model_that_reads(request):
            action = {"on_click": change, "args": (lambda choices: choices.without("model", "text").put(model=other),)}
            st.button(f"Switch to {other}", key="other model", icon=":material/swap_horiz:", **action)


def _fitting_beginning(source: Source, text: str) -> str:
    """Find the longest beginning of a text, in whole words, that the model can read; the whole text if no word fits."""
    word_ends = [match.end() for match in islice(PIECES.finditer(text), source.longest)]
    fits, most = 0, len(word_ends)  # numbers of words, narrowed by a binary search
    while fits < most:
        middle = (fits + most + 1) // 2
        if _reads(source, Request((text[: word_ends[middle - 1]],))):
            fits = middle
        else:
            most = middle - 1
    return text[: word_ends[fits - 1]] if fits else text


def _reads(source: Source, request: Request) -> bool:
    """Whether a model can read the texts of a request within this server's limits."""
    try:
        cache.sentences(source, request)
    except AttnvizError:
        return False
    return True


def _model_that_reads(request: Request) -> str | None:
    """Find the first shipped model that can read these texts; None if there is none, or above LONGEST_SEARCHED."""
    if sum(map(len, request.texts)) > LONGEST_SEARCHED:
        return None
    for name, source_class in api.SOURCES.items():
        if source_class.reads == "text" and _reads(cache.source(name), request.prompt):
            return name
    return None
