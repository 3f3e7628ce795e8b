"""The model writes: a button that continues the text, the answer in words, and other choices for each of them."""

import time
from dataclasses import replace
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis import views
from attnviz.analysis.sentences import quoted_token
from attnviz.core import progress
from attnviz.core.amounts import percent
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError
from attnviz.core.request import Request
from attnviz.generation import Generated, WritingProgress, first_difference, write
from attnviz.sources.base import Source
from attnviz.sources.estimate import estimate
from attnviz.ui import cache, cores, runs
from attnviz.ui.heads import words
from attnviz.ui.shared import state
from attnviz.ui.shared.answer import ANSWER, CHAT, MOST, SYSTEM
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.look import CELL, Cell, ViewContext
from attnviz.ui.shared.setting import Setting, State, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import literal, note, quiet

CHOICES = 5
"""Other choices for a token that are named."""
AT_ONCE = 64
"""Tokens of an answer that are on the page at once: each is a button."""
BEFORE_IT, AFTER_IT = 12, 36
"""Tokens of another answer that are named before the first one that differs, and from it on."""


HOW = {
    "tokens": session_setting("new tokens", 64),
    "temperature": session_setting("sampling temperature", 0.0),
    "top_p": session_setting("top p", 1.0),
    "seed": session_setting("sampling seed", 0),
}
REQUESTED: Setting[tuple[Request, int] | None] = session_setting("answer asked", None, "text model")
"""What to continue, from the first tokens of its answer on, and `time.monotonic_ns()` of the click: an answer that a
person stops halfway is nobody else's answer."""
BEFORE: Setting[tuple[int, ...]] = session_setting("answer before", (), "text model")
"""The answer that another one took the place of."""
PART: Setting[tuple[Cell | None, int]] = session_setting("part of the answer", (None, 0), "text model")
"""The part of the answer that was turned to, with the cell that was selected meanwhile: another one has its own."""


def controls(context: ViewContext) -> None:
    """The button, the answer that comes, and the answer that is there; nothing where the model continues no text."""
    source, ids = context.source, context.request.answer
    if not source.generates or len(context.request.texts) != 1 or source.one_run:
        return
    line = st.container(horizontal=True, gap="small", vertical_alignment="center", key="writing")
    with line:
        request = replace(context.request, answer=())
        title = words.WRITE_AGAIN if ids else words.CONTINUE
        options = {"icon": ":material/edit_note:", "help": words.CONTINUE_MEANS, "key": "continue"}
        st.button(title, on_click=_ask, args=(request,), **options)
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
        _answer(context, line)


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


def _ask(request: Request) -> None:
    state.put(REQUESTED, (request, time.monotonic_ns()))


def _write(context: ViewContext, ids: tuple[int, ...]) -> None:
    """Write what was asked for, and show it when it is whole."""
    (request, number), how = state.get(REQUESTED), {name: state.get(setting) for name, setting in HOW.items()}
    tokens = len(cache.sentences(context.source, request.prompt)[0].tokens) + how["tokens"]
    cost = estimate(context.source, min(tokens, context.source.longest or tokens), request.edits)
    options = {"cost": cost, "unit": words.TOKENS_WRITTEN, "writes": True}
    try:
        written = cache.worked(_written, context.source, request, number, tuple(how.values()), **options)
    except AttnvizError as error:
        state.put(REQUESTED, None)
        note(str(error), "notice")
        return
    state.put(REQUESTED, None)
    state.put(BEFORE, ids)
    state.put(PART, (None, (first_difference(ids, written) or 0) // AT_ONCE if ids else 0))
    state.change(lambda now: now.put(ANSWER, written).put(CELL, None))
    st.rerun()


def _written(source: Source, request: Request, number: int, how: tuple) -> tuple[int, ...]:
    """Ids of an answer; what is written so far is told with each token, and is the answer if that is enough."""
    count, temperature, top_p, seed = how
    begin = request.answer
    if begin and begin[-1] in source.ends:  # the end was chosen in the place of a token
        return begin[:-1]
    sentence = cache.sentences(source, request.prompt)[0]
    with progress.counted(count) as report, cores.used_by(source):

        def tell(written: WritingProgress) -> bool:
            return report(written.done, written.of, written.text)

        options = {"sampling_temperature": temperature, "top_p": top_p, "seed": seed, "report": tell}
        return write(sentence, source, count, request.edits, begin=begin, **options).ids


def _answer(context: ViewContext, line: DeltaGenerator) -> None:
    """The written words, one of which may be chosen: its row is outlined, and other choices for it are offered."""
    request, sentence = context.request, context.record.sentences[0]
    prompt = len(sentence.tokens) - len(request.answer)
    generated = Generated(context.record, prompt, len(request.texts[0]), False, 0.0)
    labels = dict(enumerate((visible_text(token.text) for token in generated.tokens), prompt))
    cell, (turned_at, turned_to) = state.get(CELL), state.get(PART)
    chosen = cell[0] + 1 if cell and cell[0] + 1 in labels else None
    part = turned_to if turned_at == cell else ((chosen or prompt) - prompt) // AT_ONCE
    places = [*labels][part * AT_ONCE :][:AT_ONCE]

    def choose(now: State, position: int | None) -> State:
        weights = views.see(context.record, context.site)
        cell = None if position is None else weights.strongest_cell(context.head, position - 1)
        return now.put(CELL, cell).put(PART, (cell, part))

    if len(labels) > AT_ONCE:
        with line:
            _turn(cell, part, len(labels))
    options = {
        "format_func": lambda place: literal(labels[place]),
        "required": False,
        "lead": "",
        "step": choose,
        "at": "answer",
    }
    with st.container(key="answer words"):
        control(st.pills, words.WRITTEN, CELL, places, shown=chosen if chosen in places else None, **options)
    _compared(context, generated)
    if chosen is not None:
        _choices(context, generated, chosen)


def _turn(cell: Cell | None, part: int, count: int) -> None:
    """Which tokens of a long answer are there, with buttons to those before and after them."""
    last = (count - 1) // AT_ONCE
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center", width="content", key="part"):
        for to, icon, title in ((part - 1, "chevron_left", words.EARLIER), (part + 1, "chevron_right", words.LATER)):
            options = {"disabled": not 0 <= to <= last, "help": title, "icon": f":material/{icon}:"}
            st.button(title, key=f"icon {icon}", on_click=state.put, args=(PART, (cell, to)), **options)
        first, end = part * AT_ONCE + 1, min(count, (part + 1) * AT_ONCE)
        quiet(words.PART.format(first=first, last=end, all=count))


def _compared(context: ViewContext, generated: Generated) -> None:
    """The answer that stood here before, with its first token that differs marked."""
    before = state.get(BEFORE)
    if not before or before == generated.ids:
        return
    read = cache.sentences(context.source, replace(context.request, answer=before))[0]
    labels = [token.text for token in read.tokens[generated.prompt :]]
    first = first_difference(before, generated.ids)
    begin, end = max(0, first - BEFORE_IT), first + AFTER_IT
    parts = [escape(label) for label in (*labels, words.ENDED)]
    parts[first] = f"<u>{parts[first]}</u>"
    parts = [*(["…"] if begin else []), *parts[begin:end], *(["…"] if end < len(labels) else [])]
    st.html(f'<div class="says small"><span>{words.BEFORE.format(token=first + 1)} {" ".join(parts)}</span></div>')


def _choices(context: ViewContext, generated: Generated, position: int) -> None:
    """Other choices for a token, each with its probability; one that is taken is written instead, and so on from it."""
    token = generated.sentence.tokens[position]
    row = quoted_token(generated.sentence.tokens[position - 1].text, position - 1)
    share = percent(float(context.record.prediction.logits[0, position - 1].softmax(-1)[token.id]))
    quiet(words.WRITTEN_FROM.format(token=quoted_token(token.text, position), row=row, share=share))
    begin = generated.ids[: position - generated.prompt]
    with st.container(horizontal=True, gap="small", key="instead"):
        for id, text, share in generated.alternatives(position, CHOICES):
            is_it = id == token.id
            request = replace(context.request, answer=(*begin, id))
            title = f"{literal(visible_text(text.strip() or text))} {percent(share)}"
            options = {"disabled": is_it, "help": words.IT_IS if is_it else words.INSTEAD}
            st.button(title, key=f"instead {id}", on_click=_ask, args=(request,), **options)
