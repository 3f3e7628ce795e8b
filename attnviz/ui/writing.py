"""The model writes: *Continue*, the answer as text, and for each of its words what else it could have written."""

from dataclasses import dataclass, replace
from time import monotonic_ns

import streamlit as st

from attnviz.analysis import views
from attnviz.analysis.sentences import quoted_token
from attnviz.core import progress
from attnviz.core.amounts import percent
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError
from attnviz.core.request import Request
from attnviz.generation import Generated, WritingProgress, write
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.sources.estimate import estimate
from attnviz.ui import cache, cores, runs
from attnviz.ui.request import change, control, put, session
from attnviz.ui.text import literal, note, quiet
from attnviz.ui.toolbar import Context

CHOICES = 5
"""Other words that are offered in place of a written one."""
LONGEST = 2_000
"""Tokens of an answer."""


@dataclass(frozen=True)
class AnswerJob:
    """An answer to write.

    Attributes:
        request: the text with its edits; its answer is what the new one begins with.
        count: tokens to write at most.
        temperature, top_p, seed: how tokens are drawn; temperature 0 takes the most probable.
        clicked: time of the click: an answer that is stopped halfway belongs to it alone.
    """

    request: Request
    count: int
    temperature: float
    top_p: float
    seed: int
    clicked: int


def controls(context: Context) -> None:
    """The buttons, the answer that comes, and the answer that is there; nothing where the model continues no text."""
    source, request = context.source, context.request
    if not source.generates or len(request.texts) != 1 or source.one_run:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="writing"):
        title = "Write again" if request.answer else "Continue"
        begin = replace(request, answer=())
        st.button(title, key="continue", icon=":material/edit_note:", on_click=_ask, args=(begin,))
        with st.popover("How", key="how written"):
            st.number_input("New tokens", 1, LONGEST, 64, key="new tokens")
            st.number_input(
                "Sampling temperature; 0 takes the most probable", 0.0, 9.0, 0.0, key="sampling temperature"
            )
            st.number_input("Top p", 0.01, 1.0, 1.0, key="top p")
            st.number_input("Seed", 0, 9999, 0, key="sampling seed")
        if request.answer:
            nothing = {"answer": (), "cell": None}
            st.button("Remove the answer", key="no answer", type="tertiary", on_click=put, kwargs=nothing)
        if source.can_chat:
            _chat()
    if job := session().memory.get("answer job"):
        with runs.part():
            _write(source, job)
    if request.answer:
        _answer(context)


def _chat() -> None:
    """The switch that makes the text a user's turn, and the system prompt before it."""

    def switch(choices: Choices, on: bool) -> Choices:
        return choices.put(chat="" if on else None, answer=(), cell=None)

    is_chat = control(st.toggle, "Chat", "chat", value=_is_chat(), step=switch, part="on")
    if is_chat:
        options = {"placeholder": "System prompt (optional)", "width": 320}
        control(st.text_input, "System prompt", "chat", visible=False, **options)


def _is_chat() -> bool:
    return session().choices["chat"] is not None


def _ask(request: Request) -> None:
    """Note what is to be written; the page writes it in its next run."""
    how = {name: st.session_state.get(name, usual) for name, usual in HOW.items()}
    session().memory["answer job"] = AnswerJob(request, *how.values(), clicked=monotonic_ns())


HOW = {"new tokens": 64, "sampling temperature": 0.0, "top p": 1.0, "sampling seed": 0}
"""How an answer is written, by the keys of its controls."""


def _write(source: Source, job: AnswerJob) -> None:
    """Write an answer, and show it when it is whole."""
    tokens = len(cache.sentences(source, job.request)[0].tokens) + job.count
    cost = estimate(source, min(tokens, source.longest or tokens), job.request.edits)
    try:
        ids = cache.worked(_written, source, job, cost=cost, unit="tokens", writes=True)
    except AttnvizError as error:
        note(str(error), "notice")
        ids = None
    session().memory.pop("answer job", None)
    if ids is not None:
        put(answer=ids, cell=None)
        st.rerun()


def _written(source: Source, job: AnswerJob) -> tuple[int, ...]:
    """Ids of an answer; what is written so far is told with each token, and is the answer if that is enough."""
    begin = job.request.answer
    if begin and begin[-1] in source.ends:  # the end was chosen in place of a word
        return begin[:-1]
    sentence = cache.sentences(source, replace(job.request, answer=()))[0]
    with progress.counted(job.count) as report, cores.used_by(source):

        def tell(written: WritingProgress) -> bool:
            return report(written.done, written.of, written.text)

        drawn = {"sampling_temperature": job.temperature, "top_p": job.top_p, "seed": job.seed}
        return write(sentence, source, job.count, job.request.edits, begin=begin, report=tell, **drawn).ids


def _answer(context: Context) -> None:
    """The answer as text to copy, and a word of it to ask about."""
    sentence, answer = context.record.sentences[0], context.request.answer
    prompt = len(sentence.tokens) - len(answer)
    generated = Generated(context.record, prompt, len(context.request.texts[0]), False, 0.0)
    st.code(sentence.text[len(context.request.texts[0]) :].strip() or "(nothing)", None, wrap_lines=True)
    labels = dict(enumerate((visible_text(token.text) for token in generated.tokens), prompt))
    chosen = context.cell[0] + 1 if context.cell and context.cell[0] + 1 in labels else None

    def ask(choices: Choices, position: int | None) -> Choices:
        """Select the row that a word was written from."""
        if position is None:
            return choices.put(cell=None)
        return choices.put(cell=views.see(context.record, context.site).strongest_cell(context.head, position - 1))

    control(
        st.selectbox,
        "A word of the answer",
        "cell",
        [*labels],
        value=chosen,
        step=ask,
        part="answer",
        visible=False,
        format_func=lambda position: f"{position} · {labels[position]}",
        index=None,
        placeholder="Ask about a word of the answer",
        width=280,
    )
    if chosen is not None:
        _instead(context, generated, chosen)


def _instead(context: Context, generated: Generated, position: int) -> None:
    """The row that a word was written from, and buttons that write another word there and go on from it."""
    token = generated.sentence.tokens[position]
    row = quoted_token(generated.sentence.tokens[position - 1].text, position - 1)
    share = percent(float(context.record.prediction.logits[0, position - 1].softmax(-1)[token.id]))
    quiet(f"After {row} the model wrote {quoted_token(token.text, position)} ({share}). Write instead:")
    begin = generated.ids[: position - generated.prompt]
    with st.container(horizontal=True, gap="small", key="instead"):
        for id, text, probability in generated.alternatives(position, CHOICES):
            request = replace(context.request, answer=(*begin, id))
            title = f"{literal(visible_text(text.strip() or text))} {percent(probability)}"
            st.button(title, key=f"instead {id}", disabled=id == token.id, on_click=_ask, args=(request,))
        st.button(
            f"Why “{literal(visible_text(token.text))}”?",
            key="why",
            type="tertiary",
            on_click=change,
            args=(lambda choices: choices.put(part="contributions", word=token.text.strip()),),
        )
