"""The input bar: the model and the sentences, the same on every page and kept across pages."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import streamlit as st

from attnviz import api
from attnviz.analysis.sentences import quoted
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError, TooLong
from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.ui import cache
from attnviz.ui.shared import (
    answer,
    examples,
    files,
    lengths,
    look,
    models,
    parameters,
    photos,
    pretrained,
    state,
    target,
    toolbar,
    words,
)
from attnviz.ui.shared.answer import ANSWER
from attnviz.ui.shared.arrivals import Arrival
from attnviz.ui.shared.examples import LEFT_OUT, LINES, OFFERED, TEXT
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import PROBLEMS, Setting
from attnviz.ui.shared.state import control
from attnviz.ui.shared.target import TARGET
from attnviz.ui.text import Markup, clean, note, plain

WHOLE, BEGINNING = 20_000, 1_000
"""Characters of a text that its box holds, and of the beginning of a longer one."""

MOST_UNKNOWN = 4
"""Unknown words that are named."""

MOST_PROBLEMS = 3
"""Things that are said to be wrong with a link, at most."""


def input_bar(
    settings: Mapping[str, Setting], about: Callable[[Source, Mapping[str, Setting]], None], *, visible: bool = True
) -> tuple[Source, Request] | None:
    """The model and the request; where either cannot be used, None, and what stands in the place of the page.

    Args:
        settings: all that a link holds, and so a file that is opened.
        about: draws the button beside the model that says what it is.
        visible: whether the bar is seen; else the state alone says what is chosen.
    """
    with toolbar.row_one(visible):
        source, wrong = _model(settings)
        ready = not isinstance(source, AttnvizError | Arrival)
        if ready and visible:
            about(source, settings)
        if ready:
            state.put(OFFERED, examples.of_model(source))
            state.put(photos.READS, source.reads)
            state.drop_missing("model", source)
            source = answer.in_chat(look.at_step(source))
        fixed = bool(source.one_run) if ready else files.is_file(state.get(MODEL))
        text = ""
        if ready and source.reads != "text":
            photos.box(source)
        if not ready or source.reads in ("text", "both"):
            text = _text_box(source, fixed=fixed, ready=ready)
    with st.container(gap="xsmall", key="notices"):
        return _checked(source, wrong, text)


def _text_box(source: Source | Arrival | AttnvizError, *, fixed: bool, ready: bool) -> str:
    """The text, its target and the examples; gives the text."""
    texts = {"": ""} if fixed and not ready else state.get(OFFERED) or _texts_before()
    text = _sentence(texts, fixed=fixed)
    if ready and source.writes:
        target.box(several=examples.by_line(state.now(), text))
    if not fixed:
        examples.menu(texts)
    return text


def _checked(
    source: Source | Arrival | AttnvizError, wrong: AttnvizError | None, text: str
) -> tuple[Source, Request] | None:
    """The model and the request, if both can be used, and what is to be said of them."""
    ready, error, request = not isinstance(source, AttnvizError | Arrival), None, Request(())
    try:
        if ready:
            request = _prompt(source, text)
            cache.sentences(source, request)
            request = _whole(source, request)
        else:
            _texts(text)
    except AttnvizError as raised:
        error = raised
    files.say()
    if ready and (waiting := photos.waiting(source)):
        note(waiting, "notice")
    _say_problems()
    if wrong:
        note(words.INSTEAD.format(why=wrong, model=source.name))
    if ready and isinstance(error, TooLong):
        lengths.offers(error, source, request)
        return None
    if ready and isinstance(error, cache.NoText):
        note(str(error), "notice")
        examples.offers(state.get(OFFERED))
        return None
    if not ready or error:
        _instead(source if not ready else error)
        if ready and isinstance(error, cache.TooManyLines):
            lengths.fewer(source, text)
        return None
    if left_out := state.get(LEFT_OUT):
        note(left_out, "notice")
    unknown_words(cache.unknown(source, request.texts), source.unknown_token)
    if TEXT.encode(text) is None:
        _say_kept_out(source, request, text)
    return source, request


def _prompt(source: Source, typed: str) -> Request:
    """The texts that a model reads, and the picture."""
    return photos.request(source, source.one_run or _texts(typed) if source.reads in ("text", "both") else ("",))


def _texts(typed: str) -> tuple[str, ...]:
    return cache.texts(clean(typed), by_line=examples.by_line(state.now(), typed))


def _whole(source: Source, request: Request) -> Request:
    """The request with the answer behind its text and with what was typed as its target, if the model reads these.

    Raises:
        InputError: if it cannot be read as that.
    """
    if source.generates and len(request.texts) == 1:
        request = replace(request, answer=state.get(ANSWER))
    if source.writes:
        request = replace(request, targets=target.targets(request.texts, clean(state.get(TARGET))))
    cache.sentences(source, request)
    cache.targets(source, request)
    return request


def _say_kept_out(source: Source, request: Request, text: str) -> None:
    """Say that the text is too long for the box or the link."""
    tokens = sum(sentence.length for sentence in cache.sentences(source, request))
    kept_out = words.NOT_IN_BOX if len(text) > WHOLE else words.NOT_IN_LINK
    note(kept_out.format(characters=len(text), tokens=tokens), "notice")


def _instead(reason: AttnvizError | Arrival) -> None:
    """Show in the place of a page one sentence, or a model on its way."""
    if isinstance(reason, Arrival):
        pretrained.ask_or_wait(reason)
    elif isinstance(reason, pretrained.NoModel):
        note(str(reason), "notice")
        pretrained.offers()
        pretrained.try_again()
    else:
        note(str(reason))
        if files.is_file(state.get(MODEL)):
            st.html(files.button(), width="content")
        pretrained.try_again()


def _texts_before() -> dict[str, str]:
    """The examples while there is no model yet."""
    return words.FIRST_EXAMPLE if state.get(MODEL) == pretrained.NAME else words.EXAMPLES


def _say_problems() -> None:
    if problems := state.get(PROBLEMS):
        more = len(problems) - MOST_PROBLEMS
        sentences = [*problems[:MOST_PROBLEMS], *([words.MORE_PROBLEMS.format(count=more)] if more > 0 else [])]
        note(" ".join(sentences), "notice")


def unknown_words(unknown: dict[str, tuple[str, ...]], read_as: str = "<unk>", who: str = words.THIS_MODEL) -> None:
    """Which words the model does not know, each with a known one that is spelled most like it."""
    if not unknown:
        return
    named = [
        words.DID_YOU_MEAN.format(word=quoted(word), near=near[0]) if near else quoted(word)
        for word, near in unknown.items()
    ]
    if len(named) > MOST_UNKNOWN:
        named[MOST_UNKNOWN:] = [words.MORE.format(count=len(named) - MOST_UNKNOWN)]
    *most, last = named
    listed = words.AND.format(most=", ".join(most), last=last) if most else last
    text = {1: words.UNKNOWN_WORD, 2: words.UNKNOWN_BOTH}.get(len(unknown), words.UNKNOWN_WORDS)
    mark = words.QUESTION_MARK if read_as == "<unk>" else visible_text(read_as)
    note(Markup(f'<span class="unknown">{plain(text.format(who=who, words=listed, mark=mark))}</span>'), "notice")


def _beginning(text: str, texts: dict[str, str], *, fixed: bool) -> None:
    """The first words of a long text, to be read only: a box with all of it would send it at each click."""
    begins = clean(text[:BEGINNING])
    blank = begins.rfind(" ")
    excerpt = begins[:blank] if blank > BEGINNING // 2 else begins  # one word may be longer than that
    with st.container(gap=None, key="box"):
        control(st.text_area, words.BEGINNING, TEXT, shown=f"{excerpt} …", lead="", at="begins", disabled=True)
        if not fixed:
            options = {
                "on_click": state.change,
                "args": (examples.with_text, "", texts),
                "help": words.UNDO_BRINGS_BACK,
            }
            st.button(words.REPLACE, key="analyze", **options)
            _lines(text)


def _sentence(texts: dict[str, str], *, fixed: bool) -> str:
    """The text as typed, or what the model opens with, and a button in the box that applies it, as Enter does.

    Args:
        fixed: whether the model is one run, of one text: what was typed for another waits.
    """
    text = next(iter(texts.values())) if state.get(TEXT) is None or fixed else state.get(TEXT)
    if len(text) > WHOLE:
        _beginning(text, texts, fixed=fixed)
        return text
    behavior = {"step": lambda now, typed: examples.with_text(now, typed or "", texts), "height": "content"}
    behavior["disabled"] = fixed
    behavior["placeholder"] = "" if fixed else words.TYPE_A_SENTENCE
    with st.container(gap=None, key="box"):
        control(st.text_area, words.SENTENCE, TEXT, shown=clean(text) if fixed else text, lead="", **behavior)
        if not fixed:
            st.button(words.ANALYZE, key="analyze")
            _lines(text)
    return text


def _lines(text: str) -> None:
    """Under a text with line breaks: whether each line is a text of its own."""
    if examples.has_lines(text):
        options = {"shown": examples.by_line(state.now(), text), "help": words.BY_LINE_MEANS}
        options["step"] = lambda now, by_line: now.without("text").put(LINES, by_line)
        control(st.checkbox, words.BY_LINE, LINES, **options)


def _model(settings: Mapping[str, Setting]) -> tuple[Source | Arrival | AttnvizError, AttnvizError | None]:
    """The model, and what is wrong with the chosen one if another stands in.

    In the place of the model may stand what is wrong with its name or its sizes, or that it is on its way.
    """
    options = {"lead": "", "step": examples.with_other_model(MODEL), "width": 160}
    offered = (*files.names(state.get(MODEL)), *pretrained.offered())
    if state.get(MODEL) not in offered:  # a person's own model that is shown no more
        state.put(MODEL, api.DEFAULT)
    chosen = control(st.selectbox, words.MODEL, MODEL, offered, format_func=files.title, **options)
    files.box(MODEL, settings)
    st.html(models.lines(offered), width="content")
    if chosen == pretrained.NAME:
        return pretrained.field(), None
    pretrained.leave()
    if files.is_file(chosen):
        return files.source(chosen), None
    source, wrong = cache.loadable(chosen)
    return parameters.chosen(source), wrong
