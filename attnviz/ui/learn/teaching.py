"""Tools for teachers: other lessons, a view for a projector, and the notes of a step."""

import os

import streamlit as st

from attnviz import lessons
from attnviz.lessons import Lesson, LessonStep
from attnviz.ui.learn import handout, words
from attnviz.ui.learn.progress import CHAPTER, LEARNED, LESSON, PRESENT
from attnviz.ui.shared import state
from attnviz.ui.shared.setting import State
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import quiet


def menu(lesson: Lesson) -> None:
    """Which lesson, and the view for a projector."""
    if state.get(PRESENT):
        st.button(words.END, key="end presenting", on_click=state.put, args=(PRESENT, False), icon=":material/close:")
        return
    opened = state.menu(words.TEACHERS, icon=":material/co_present:", type="tertiary", key="teachers")
    if not opened.open:
        return
    with opened:
        offered = [*lessons.SHIPPED, *([lessons.OWN] if os.environ.get(lessons.FILE) else [])]
        titles = {name: lessons.named(name).title for name in offered}
        options = {"format_func": lambda name: titles.get(name, name), "step": _other, "whole_page": True, "width": 340}
        control(st.selectbox, words.LESSON, LESSON, offered, **options)
        quiet(" ".join(filter(None, (lesson.about, lesson.minutes and words.ABOUT.format(minutes=lesson.minutes)))))
        control(st.toggle, words.PRESENTER, PRESENT, help=words.PRESENTER_HELP)
        handout.button(lesson)
        quiet(words.OWN_LESSON)


def _other(now: State, name: str) -> State:
    """Another lesson, from its beginning."""
    return now.put(LESSON, name).put(CHAPTER, None).put(LEARNED, frozenset())


def notes(step: LessonStep) -> None:
    """The notes for whoever teaches a step, and its answer."""
    if not step.notes or state.get(PRESENT):
        return
    with st.expander(words.FOR_TEACHER_IN.format(minutes=step.minutes) if step.minutes else words.FOR_TEACHER):
        st.markdown(step.notes)
        if step.answer:
            st.markdown(f"**{words.SOLUTION}.** {step.answer}")
