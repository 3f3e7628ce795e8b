"""Text generation on a page: the button *Continue*, the answer as text, and alternatives to each of its words."""

from dataclasses import dataclass, replace
from time import monotonic_ns

import streamlit as st

from attnviz.analysis import views
from attnviz.analysis.sentences import quoted
from attnviz.core import progress
from attnviz.core.amounts import percent
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError
from attnviz.core.request import Request
from attnviz.core.tokens import Sentence
from attnviz.generation import Generated, generate
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.sources.estimate import estimate
from attnviz.ui import cache, runs
from attnviz.ui.request import control, now, open_page, put, session
from attnviz.ui.text import literal, note, plain, quiet
from attnviz.ui.toolbar import Context

MOST_ALTERNATIVES = 5
"""Number of alternatives that are offered for a generated word."""
LONGEST = 2_000
"""Maximum number of tokens of an answer."""
MOST_WORDS = 300
"""Maximum number of words of an answer that can be clicked."""


@dataclass(frozen=True)
class AnswerJob:
    """A request to generate an answer.

    Attributes:
        request: the text with its edits; its `answer` is the given beginning of the new answer.
        count: largest number of new tokens.
        temperature, top_p, seed: settings of sampling; temperature 0 takes the most probable token.
        clicked: time of the click, in nanoseconds; a second click is another job, even with equal settings.
    """

    request: Request
    count: int
    temperature: float
    top_p: float
    seed: int
    clicked: int


def controls(context: Context) -> None:
    """Draw the buttons, a running generation and the finished answer; nothing if the model cannot generate text."""
    source, request = context.source, context.request
    if not source.generates or len(request.texts) != 1 or source.one_run:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="writing"):
        title = "Write again" if request.answer else "Continue"
        without_answer = replace(request, answer=())
        st.button(title, key="continue", icon=":material/edit_note:", on_click=_request_answer, args=(without_answer,))
        popover = st.popover("How", on_change="rerun", key="how written")
        if popover.open:  # drawing four boxes in a closed menu would take a tenth of the time of a click
            with popover:
                memory = session().memory
                for name, (label, least, most, _) in SAMPLING.items():
                    value = st.number_input(label, least, most, _sampling_setting(name), key=name)
                    memory["how"] = memory.get("how", {}) | {name: value}
        if request.answer:
            cleared = {"answer": (), "cell": None}
            st.button("Remove the answer", key="no answer", type="tertiary", on_click=put, kwargs=cleared)
        if source.can_chat:
            _chat()
    if job := session().memory.get("answer job"):
        with runs.part():
            _show_generation(source, job)
    if request.answer:
        _answer(context)


def _chat() -> None:
    """Draw the switch that wraps the text in the chat template, and the box for the system prompt."""

    def with_chat(choices: Choices, on: bool) -> Choices:
        return choices.put(chat="" if on else None, answer=(), cell=None)

    is_chat = control(st.toggle, "Chat", "chat", value=now()["chat"] is not None, apply=with_chat, part="on")
    if is_chat:
        options = {"placeholder": "System prompt (optional)", "width": 320}
        control(st.text_input, "System prompt", "chat", visible=False, **options)


def _request_answer(request: Request) -> None:
    """Store a request for an answer with the current sampling settings; the next run of the page generates it."""
    settings = [_sampling_setting(name) for name in SAMPLING]
    session().memory["answer job"] = AnswerJob(request, *settings, clicked=monotonic_ns())


SAMPLING = {
    "new tokens": ("New tokens", 1, LONGEST, 64),
    "sampling temperature": ("Sampling temperature; 0 takes the most probable", 0.0, 9.0, 0.0),
    "top p": ("Top p", 0.01, 1.0, 1.0),
    "sampling seed": ("Seed", 0, 9999, 0),
}
"""Label, bounds and default value of each control of sampling, in the order of `AnswerJob`."""


def _sampling_setting(name: str) -> float:
    """Return the value that the session keeps for a setting of `SAMPLING`, or its default."""
    *_, default = SAMPLING[name]
    return session().memory.get("how", {}).get(name, default)


def _show_generation(source: Source, job: AnswerJob) -> None:
    """Generate an answer, and show it once it is complete."""
    tokens = len(cache.sentences(source, job.request)[0].tokens) + job.count
    cost = estimate(source, min(tokens, source.longest or tokens), job.request.edits)
    try:
        ids = cache.result_of(_generate, source, job, cost=cost, runs_model=source, unit="tokens", writes=True)
    except AttnvizError as error:
        note(str(error), "notice")
        ids = None
    session().memory.pop("answer job", None)
    if ids is not None:
        put(answer=ids, cell=None)
        st.rerun()


def _generate(source: Source, job: AnswerJob) -> tuple[int, ...]:
    """Generate the token ids of an answer, and report the text after each token; if stopped, return the ids so far."""
    begin = job.request.answer
    if begin and begin[-1] in source.ends:  # the user chose the end token as the alternative to a word
        return begin[:-1]
    sentence = cache.sentences(source, replace(job.request, answer=()))[0]
    with progress.count_items(job.count) as report:

        def report_text(answer: str, count: int) -> bool:
            return report(count, job.count, answer)

        settings = {"sampling_temperature": job.temperature, "top_p": job.top_p, "seed": job.seed}
        return generate(sentence, source, job.count, job.request.edits, begin=begin, report=report_text, **settings).ids


def _answer(context: Context) -> None:
    """Draw the answer as text, with a button that copies it; a click on a word shows its alternatives."""
    sentence, typed_length = context.record.sentences[0], len(context.request.texts[0])
    prompt_tokens = len(sentence.tokens) - len(context.request.answer)
    text = sentence.text[typed_length:].strip()
    if not text:
        quiet("The model wrote nothing more.")
        return
    words = {i: word for i, word in enumerate(_words(sentence, prompt_tokens), prompt_tokens) if word.strip()}
    chosen = None
    if context.cell and context.cell[0] + 1 in words:  # row i predicts the word at i + 1
        chosen = context.cell[0] + 1

    def with_word(choices: Choices, position: int | None) -> Choices:
        """Select the row whose prediction is the word at this position."""
        if position is None:
            return choices.put(cell=None)
        return choices.put(cell=views.see(context.record, context.site).strongest_cell(context.head, position - 1))

    options = {"value": chosen, "apply": with_word, "part": "answer", "visible": False, "format_func": words.get}
    with st.container(key="answer"):
        label = "The answer: a click on a word shows its alternatives"
        control(st.pills, label, "cell", [*words][:MOST_WORDS], wrap=True, **options)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button("Copy", key="copy", icon=":material/content_copy:", type="tertiary")  # keys.js copies what follows
        st.html(f'<span hidden class="copied">{plain(text)}</span>', width="content")
        quiet("Click a word to see why the model wrote it, and its alternatives." if chosen is None else "")
    if chosen is not None:
        generated = Generated(sentence, prompt_tokens, typed_length, ended=False, run=lambda: context.record)
        _alternatives(context, generated, chosen)


def _words(sentence: Sentence, first: int) -> list[str]:
    """Label the tokens from position `first` on, with a no-break space before tokens that follow a space."""
    labels = []
    for token in sentence.tokens[first:]:
        character_before = sentence.text[token.start - 1 : token.start]
        has_space = token.text[:1].isspace() or character_before.isspace()
        label = literal(visible_text(token.text.strip()))
        labels.append(f"\N{NO-BREAK SPACE}{label}" if has_space else label)
    return labels


def _alternatives(context: Context, generated: Generated, position: int) -> None:
    """Draw the probability of a generated word, and buttons that replace it and generate the rest again."""
    before, token = generated.sentence.tokens[position - 1 : position + 1]
    previous, word = quoted(before.text.strip() or before.text), quoted(token.text.strip() or token.text)
    word_probability = percent(float(context.record.prediction.probabilities(position - 1)[token.id]))
    quiet(f"After {previous} the model wrote {word} ({word_probability}). Write this instead:")
    begin = generated.ids[: position - generated.prompt]  # of the answer, up to the word
    with st.container(horizontal=True, gap="small", key="instead"):
        for id, text, probability in generated.alternatives(position, MOST_ALTERNATIVES):
            request = replace(context.request, answer=(*begin, id))
            title = f"{literal(visible_text(text.strip() or text))} {percent(probability)}"
            st.button(title, key=f"instead {id}", disabled=id == token.id, on_click=_request_answer, args=(request,))
        why = f"Why “{literal(visible_text(token.text.strip()))}”?"
        action = {"on_click": open_page, "args": ("Overview",), "kwargs": {"part": "Contributions", "word": token.text}}
        st.button(why, key="why", type="tertiary", **action)
