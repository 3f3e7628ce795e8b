"""A lesson, one step at a time: an idea, a live picture, something to do, and a question that doing it answers.

In a link the steps that are done are ``learned=1-2-5``; nothing of it is kept at the server.
"""

from urllib.parse import urlencode

import streamlit as st

from attnviz import lessons
from attnviz.lessons import Lesson, Step
from attnviz.sources.base import Source
from attnviz.ui.learn import scenes, teaching
from attnviz.ui.learn.going import CHAPTER, LEARNED, LEFT, LESSON, PRESENT, is_shown, opened, reached, worth_keeping
from attnviz.ui.shared import edits, look, pages, state
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import block, heading, plain, quiet, title

ALONE = """.stApp :is(.st-key-chapters > :not(.st-key-end-presenting), .st-key-on, [class*="st-key-pages"],
[data-testid="stExpander"]) {display: none;}"""
"""Nothing but the step, for a projector. In the style sheet it would be asked whether that is so at every click."""


def page(source: Source, lines: tuple[str, ...]) -> None:
    lesson = lessons.named(state.get(LESSON))
    number = min(state.get(CHAPTER) or 1, len(lesson.steps))
    step = lesson.steps[number - 1]
    if not is_shown(step, state.now()):  # from another page: what was there waits
        state.put(LEFT, worth_keeping(state.now(), step))
        state.change(opened, lesson, number)
        st.rerun()
    if reached(step, state.now()):
        state.put(LEARNED, state.get(LEARNED) | {number})
    _above(lesson, number)
    if state.get(PRESENT):
        st.html(f"<style>{ALONE}</style>")
    phone = look.room() is not None
    with st.container(key="presented" if state.get(PRESENT) else "taught", horizontal=not phone, gap="large"):
        with st.container(width="stretch" if phone else 420, key="told"):
            _told(step, number)
            if not phone:
                _answered(lesson, step, number)
        with st.container(width="stretch", key="shown"):
            _shown(step, source, lines)
            if phone:
                _answered(lesson, step, number)


def _above(lesson: Lesson, number: int) -> None:
    """All steps, what is for teachers, and the way back to what was open before."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chapters"):
        _chapters(lesson, number)
        _kept()
        teaching.menu(lesson)
        if state.get(LEFT) and st.button("Back to my text", key="back", type="tertiary", icon=":material/undo:"):
            state.change(lambda now: now.replaced(now[LEFT]).put(LEFT, None))
            pages.go_to("Heads")


def _chapters(lesson: Lesson, number: int) -> None:
    """All steps, of which those that are done have a check mark: by their numbers, on a phone as a list."""
    done, there = state.get(LEARNED), range(1, len(lesson.steps) + 1)

    def named(one: int) -> str:
        return f":material/check: {one}" if one in done else str(one)

    def titled(one: int) -> str:
        return f"{'✓ ' * (one in done)}{one} · {lesson.steps[one - 1].title}"

    options = {"shown": number, "lead": "", "step": lambda now, one: opened(now, lesson, one), "whole_page": True}
    if look.room():
        control(st.selectbox, "Chapter", CHAPTER, there, format_func=titled, **options)
        return
    control(st.segmented_control, "Chapter", CHAPTER, there, format_func=named, **options)
    quiet(f"{len(done & {*there})} of {len(lesson.steps)} done")


def _kept() -> None:
    """The mark by which the browser keeps how far one is, and the place of the way back there."""
    link = urlencode(state.link(), doseq=True)
    named = {"lesson": state.get(LESSON), "done": LEARNED.encode(state.get(LEARNED)), "link": plain(link)}
    block("", "quiet learned", "p", **{f"data-{name}": value for name, value in named.items()})


def _told(step: Step, number: int) -> None:
    """The idea, the words that are new in it, and what to do."""
    title(f"{number} · {step.title}")
    st.markdown(step.idea)
    if step.terms:
        with st.expander(f"Definitions: {', '.join(one.name for one in step.terms)}"):
            for term in step.terms:
                source = f" *{term.source}*" if term.source else ""
                st.markdown(f"**{term.name}**: {term.means}.{source}")
    if step.do:
        heading("Try it")
        st.markdown(" ".join(filter(None, (step.do, step.question and f"**{step.question}**"))))


def _answered(lesson: Lesson, step: Step, number: int) -> None:
    """The answer once it is done, and the way on."""
    done = number in state.get(LEARNED) or not (step.goal or step.finds)
    if done and step.answer:
        st.success(step.answer, icon=":material/check_circle:")
    with st.container(horizontal=True, gap="small", key="on"):
        if number < len(lesson.steps):
            _button("Next chapter", "next", lesson, number + 1, type="primary" if done else "secondary")
        if number > 1:
            _button("Back", "back", lesson, number - 1, type="tertiary")
        _button("Reset this chapter", "again", lesson, number, type="tertiary")
        if st.button(f"Open on the page {step.page}", key="laboratory", type="tertiary", icon=":material/science:"):
            pages.go_to(step.page)
    teaching.notes(step)


def _button(name: str, key: str, lesson: Lesson, number: int, **options) -> None:
    """A button for a step of the lesson, as it begins; the whole page shows it."""
    if st.button(name, key=f"lesson {key}", on_click=state.change, args=(opened, lesson, number), **options):
        st.rerun()


def _shown(step: Step, source: Source, lines: tuple[str, ...]) -> None:
    """The live picture."""
    changed = edits.of(state.now(), source, lines)
    site = state.one_of(look.SITE, source.sites, look.opening_site(source))
    head = state.one_of(look.SHOW, range(source.num_heads), look.opening_head(source))
    scenes.draw(step.shows, Look(source, lines, changed, 0, site, head))
