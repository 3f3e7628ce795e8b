"""The model writes: a button that continues the text, the answer in words, and other choices for each of them."""

from dataclasses import dataclass
from html import escape

import streamlit as st

from attnviz import views
from attnviz.core import progress
from attnviz.core.amounts import percent
from attnviz.core.display import visible_text
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError
from attnviz.generation import Generated, WritingProgress, first_difference, generate
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.ui.heads import words
from attnviz.ui.shared import cache, cores, runs, state
from attnviz.ui.shared.answer import ANSWER, CHAT, SYSTEM, AnsweredText
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.look import CELL, ViewContext
from attnviz.ui.shared.setting import Setting, State, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import note, quiet
from attnviz.words import quoted_token

MOST, CHOICES = 512, 5
"""New tokens at most, and other choices for a token that are named."""


@dataclass(frozen=True)
class AnswerRequest:
    """An answer that was asked for: of a text, with edits, from the first tokens on that it begins with."""

    text: str
    edits: Edits
    begin: tuple[int, ...] = ()


HOW = {
    "tokens": session_setting("new tokens", 64),
    "temperature": session_setting("sampling temperature", 0.0),
    "top_p": session_setting("top p", 1.0),
    "seed": session_setting("sampling seed", 0),
}
REQUESTED: Setting[AnswerRequest | None] = session_setting("answer asked", None, "text model")
BEFORE: Setting[tuple[int, ...]] = session_setting("answer before", (), "text model")
"""The answer that another one took the place of."""
WORD: Setting[int | None] = session_setting("written word", None, "text model")


def controls(context: ViewContext) -> None:
    """The button, the answer that comes, and the answer that is there; nothing where the model continues no text."""
    source, lines = context.source, context.lines
    if not source.generates or len(lines) != 1 or source.one_run:
        return
    ids = getattr(lines[0], "ids", ())
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="writing"):
        request = AnswerRequest(str(lines[0]), context.edits)
        title = words.WRITE_AGAIN if ids else words.CONTINUE
        options = {"icon": ":material/edit_note:", "help": words.CONTINUE_MEANS, "key": "continue"}
        st.button(title, on_click=state.put, args=(REQUESTED, request), **options)
        with st.popover(words.HOW_WRITTEN, key="how written"):
            control(st.number_input, words.NEW_TOKENS, HOW["tokens"], 1, MOST, required=True)
            control(st.number_input, words.TEMPERATURE, HOW["temperature"], 0.0, 9.0, help=words.GREEDY, required=True)
            control(st.number_input, words.TOP_P, HOW["top_p"], 0.01, 1.0, required=True)
            control(st.number_input, words.SEED, HOW["seed"], 0, 9999, required=True)
        if ids:
            st.button(words.TAKE_AWAY, key="no answer", on_click=state.change, args=(_without,))
        if source.can_chat:
            _chat()
    if state.get(REQUESTED) is not None:
        with runs.beside():
            _write(context, ids)
    if ids:
        _answer(context)


def _chat() -> None:
    """The switch that makes the text a user's turn, and what the system says before it."""

    def switch(now: State, is_on: bool) -> State:
        return now.without("text").put(TEXT, now[TEXT]).put(CHAT, is_on).put(ANSWER, ())

    control(st.toggle, words.CHAT, CHAT, help=words.CHAT_MEANS, step=switch, whole_page=True)
    if state.get(CHAT):
        options = {"placeholder": words.NO_SYSTEM, "label_visibility": "collapsed", "width": 320}
        control(st.text_input, words.SYSTEM, SYSTEM, whole_page=True, **options)


def _without(now: State) -> State:
    return now.put(ANSWER, ()).put(CELL, None)


def _write(context: ViewContext, ids: tuple[int, ...]) -> None:
    """Write what was asked for, and show it when it is whole."""
    request, how = state.get(REQUESTED), {name: state.get(setting) for name, setting in HOW.items()}
    tokens = len(cache.sentences(context.source, (request.text,))[0].tokens) + how["tokens"]
    cost = Estimate(tokens, runs.ANEW + 1, 0, 0)
    try:
        written = cache.worked(
            _generated, context.source, request, tuple(how.values()), cost=cost, unit=words.TOKENS_WRITTEN
        )
    except AttnvizError as error:
        state.put(REQUESTED, None)
        note(str(error), "notice")
        return
    state.put(REQUESTED, None)
    state.put(BEFORE, ids)
    state.put(WORD, None)
    state.change(lambda now: now.put(ANSWER, written).put(CELL, None))
    st.rerun()


def _generated(source: Source, request: AnswerRequest, how: tuple) -> tuple[int, ...]:
    """Ids of an answer; what is written so far is told with each token."""
    count, temperature, top_p, seed = how
    sentence = cache.sentences(source, (request.text,))[0]
    with progress.counted(count) as report, cores.used_by(source):

        def tell(written: WritingProgress) -> None:
            report(written.done, written.of, words.AS_IT_COMES.format(text=written.text, rate=written.per_second))

        options = {"sampling_temperature": temperature, "top_p": top_p, "seed": seed, "report": tell}
        return generate(sentence, source, count, request.edits, begin=request.begin, **options).ids


def _answer(context: ViewContext) -> None:
    """The written words, one of which may be chosen: its row is outlined, and other choices for it are offered."""
    text, sentence = context.lines[0], context.record.sentences[0]
    prompt = len(sentence.tokens) - len(text.ids)
    generated = Generated(context.record, prompt, len(text), False, 0.0)
    labels = {place: token.text for place, token in enumerate(generated.tokens)}

    def choose(now: State, place: int | None) -> State:
        now = now.put(WORD, place)
        if place is None:
            return now
        weights = views.see(context.record, context.site)
        return now.put(CELL, weights.strongest_cell(context.head, prompt + place - 1))

    options = {"format_func": labels.get, "required": False, "lead": words.WRITTEN, "step": choose}
    chosen = control(st.pills, words.WRITTEN, WORD, list(labels), shown=_there(labels), **options)
    _compared(context, generated)
    if chosen is not None:
        _choices(context, generated, prompt + chosen)


def _there(labels: dict[int, str]) -> int | None:
    place = state.get(WORD)
    return place if place in labels else None


def _compared(context: ViewContext, generated: Generated) -> None:
    """The answer that stood here before, with its first token that differs marked."""
    before = state.get(BEFORE)
    if not before or before == generated.ids:
        return
    lines = (AnsweredText(str(context.lines[0]), before),)
    tokens = cache.sentences(context.source, lines)[0].tokens[generated.prompt :]
    first = first_difference(before, generated.ids)
    parts = [f"<u>{escape(token.text)}</u>" if i == first else escape(token.text) for i, token in enumerate(tokens)]
    st.html(f'<div class="says small"><span>{words.BEFORE} {" ".join(parts)}</span></div>')


def _choices(context: ViewContext, generated: Generated, position: int) -> None:
    """Other choices for a token, each with its probability; one that is taken is written instead, and so on from it."""
    token = generated.sentence.tokens[position]
    row = quoted_token(generated.sentence.tokens[position - 1].text, position - 1)
    quiet(words.WRITTEN_FROM.format(token=quoted_token(token.text, position), row=row))
    begin = generated.ids[: position - generated.prompt]
    with st.container(horizontal=True, gap="small", key="instead"):
        for id, text, share in generated.alternatives(position, CHOICES):
            is_it = id == token.id
            request = AnswerRequest(str(context.lines[0]), context.edits, (*begin, id))
            title = f"{visible_text(text.strip() or text)} {percent(share)}"
            options = {"disabled": is_it, "help": words.IT_IS if is_it else words.INSTEAD}
            st.button(title, key=f"instead {id}", on_click=state.put, args=(REQUESTED, request), **options)
