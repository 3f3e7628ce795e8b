"""The first row of every page: the model and the text."""

from dataclasses import replace
from typing import Any

import streamlit as st

from attnviz import api
from attnviz.core.display import visible_text, without_surrogates
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.parameters import parameters
from attnviz.core.request import Request
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui import cache, files, pictures
from attnviz.ui.request import change, control, now
from attnviz.ui.text import literal, note, quiet

LONGEST = 20_000
"""Characters that a text box holds; a longer text is shown by its beginning and changed by a file."""
MOST_UNKNOWN = 4
"""Unknown words that are named."""


def row(*, visible: bool = True) -> tuple[Source, Request] | None:
    """Draw the row; returns the model and the request, or None if either cannot be used, and the page says why.

    Args:
        visible: whether the row is drawn; the page Learn chooses model and text itself.
    """
    try:
        source = _opened(now()["model"], now()["step"])
    except AttnvizError as error:
        source, wrong = None, str(error)
    reads_text = source is not None and source.reads in ("text", "both")
    text = _chosen_text(source) if reads_text else ""
    if visible:
        with st.container(horizontal=True, vertical_alignment="top", gap="xsmall", key="request"):
            _model()
            files.button()
            if source is not None and source.reads != "text":
                pictures.row(source)
            if reads_text:
                _text(source, text)
    if source is None:
        note(wrong)
        return None
    try:
        texts = cache.texts(text, by_line=_by_line(text)) if reads_text else ("",)
        if reads_text:
            _unknown(source, texts)
        asked = _request(source, texts)
        return _in_chat(source), asked if source.reads == "text" else pictures.with_picture(source, asked)
    except cache.NoText:
        _offer(source)
    except AttnvizError as error:
        note(str(error))
    return None


def named_model(text: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters of a model in the link: "scratch:d_model=32,positions=false"."""
    name, _, written = text.partition(":")
    declared = {parameter.name: parameter for parameter in parameters(api.SOURCES.get(name, object))}
    values: dict[str, Any] = {}
    for part in filter(None, written.split(",")):
        key, _, value = part.partition("=")
        if key not in declared:
            raise InputError(f"The model {name} has no {key!r}. It has {', '.join(declared) or 'no settings'}.")
        kind = declared[key].kind
        if kind == "flag":
            values[key] = value == "true"
        else:
            values[key] = int(value) if kind == "number" and value.isdecimal() else value
    return name, values


def model_text(name: str, values: dict[str, Any]) -> str:
    """A model with parameters as the link writes it; those that are as usual are left out."""
    usual = {parameter.name: parameter.default for parameter in parameters(api.SOURCES[name])}
    written = [f"{key}={str(value).lower()}" for key, value in values.items() if value != usual[key]]
    return f"{name}:{','.join(written)}" if written else name


def _opened(text: str, step: int | None) -> Source:
    """The model of the link.

    Raises:
        AttnvizError: if there is none, or it cannot be made so.
    """
    if text.startswith(files.PREFIX):
        return files.source(text)
    name, values = named_model(text)
    source = cache.source(name, step)
    return type(source)(**values) if values else source


def _model() -> None:
    """The choice of a model; what was typed stays, an example gives way to what the other model opens with."""
    names = {name: source.title or name for name, source in api.SOURCES.items()}
    names |= {name: name.removeprefix(files.PREFIX) for name in files.opened()}
    names.setdefault(now()["model"], now()["model"].removeprefix(files.PREFIX))
    control(
        st.selectbox,
        "Model",
        "model",
        [*names],
        step=lambda choices, name: _with_text(choices, None).without("model").put(model=name),
        visible=False,
        format_func=lambda name: names.get(name, name),
        width=180,
    )


def _chosen_text(source: Source) -> str:
    """The typed text; where nobody typed one, the example that the model opens with."""
    return _examples(source)[0] if now()["text"] is None else now()["text"]


def _text(source: Source, text: str) -> None:
    """The box of the text and the menu of examples."""
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
    """Texts that show what a model does; it opens with the first."""
    card = source.card.examples if source.card else ()
    return [*(card or source.examples or ("The cat sat on the mat because it was tired",))]


def _offer(source: Source) -> None:
    """The first examples as buttons, where no text is typed."""
    quiet("Type a sentence above, or begin with one of these.")
    with st.container(horizontal=True, gap="small"):
        for example in _examples(source)[:3]:
            st.button(
                literal(example.replace("\n", " / ")),
                key=f"example {example}",
                on_click=change,
                args=(lambda choices, example=example: _with_text(choices, example),),
            )


def _by_line(text: str) -> bool:
    """Whether each line is a text of its own; where nobody chose, it is."""
    several = len(text.strip("\r\n").splitlines()) > 1
    return several if now()["lines"] is None else now()["lines"]


def _with_text(choices: Choices, text: str | None) -> Choices:
    """Another text; what was selected in the one before is cleared."""
    return choices.without("text").put(text=text, lines=None)


def _request(source: Source, texts: tuple[str, ...]) -> Request:
    """The texts with the target and the answer that belong to them.

    Raises:
        InputError: if there are fewer or more targets than texts.
    """
    answer = now()["answer"] if source.generates and len(texts) == 1 else ()
    typed = now()["target"] if source.writes and not source.one_run else ""
    if not typed.strip():
        return Request(texts, answer=answer)
    targets = [line for line in typed.splitlines() if line.strip()] if len(texts) > 1 else [typed.strip("\r\n")]
    if len(targets) != len(texts):
        raise InputError(f"There are {len(texts)} texts and {len(targets)} targets; type one target for each text.")
    return Request(texts, targets=tuple(targets), answer=answer)


def _in_chat(source: Source) -> Source:
    """The model with the chat that is chosen, if it has a template for one."""
    chat = now()["chat"]
    return source if chat is None or not source.can_chat else replace(source, chat=True, system=chat)


def _unknown(source: Source, lines: tuple[str, ...]) -> None:
    """Name the words that the model does not know."""
    unknown = cache.unknown(source, lines)
    if unknown:
        names = ", ".join(f"“{visible_text(word)}”" for word in list(unknown)[:MOST_UNKNOWN])
        more = "" if len(unknown) <= MOST_UNKNOWN else f" and {len(unknown) - MOST_UNKNOWN} more"
        note(f"{source.title or source.id} does not know {names}{more}: it reads each as <unk>.", "notice")
