"""A lesson, one step at a time: an idea, a live picture, something to do, and a question that doing it answers.

In a link the steps that are done are ``learned=1-2-5``; nothing of it is kept anywhere else.
"""

import streamlit as st

from attnviz import lessons
from attnviz.lessons import Lesson, Step
from attnviz.sources.base import Source
from attnviz.ui.learn import scenes
from attnviz.ui.shared import edits, look, pages, state
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import Link, State, coded, each, read, reader, whole
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import block, heading, quiet, title

MOST_STEPS = 99
_read_learned = each(reader(r"\d{1,2}", lambda m: int(m[0]), "does not name steps", "1-2-5"), MOST_STEPS)

CHAPTER = whole("chapter", 1, 1, MOST_STEPS)
LEARNED = coded(
    "learned",
    frozenset(),
    lambda done: "-".join(map(str, sorted(done))),
    lambda text: frozenset(_read_learned(text)),
)


def page(source: Source, lines: tuple[str, ...]) -> None:
    lesson = lessons.course()
    number = min(state.get(CHAPTER), len(lesson.steps))
    step = lesson.steps[number - 1]
    if is_shown(step, state.now()) and reached(step, state.now()):
        state.put(LEARNED, state.get(LEARNED) | {number})
    _chapters(lesson, number)
    phone = look.room() is not None
    with st.container(horizontal=not phone, gap="small" if phone else "large", key="lesson"):
        with st.container(width="stretch" if phone else 420, key="told"):
            _told(step, number)
            if not phone:
                _asked(lesson, step, number)
        with st.container(width="stretch", key="shown"):
            _shown(step, number, source, lines)
    if phone:
        _asked(lesson, step, number)


def _chapters(lesson: Lesson, number: int) -> None:
    """All steps by their numbers; those that are done have a check mark."""
    done = state.get(LEARNED)

    def named(one: int) -> str:
        return f":material/check: {one}" if one in done else str(one)

    options = {"shown": number, "format_func": named, "lead": "", "step": lambda now, one: opened(now, lesson, one)}
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chapters"):
        control(st.segmented_control, "Chapter", CHAPTER, range(1, len(lesson.steps) + 1), whole_page=True, **options)
        quiet(f"{len(done & {*range(1, len(lesson.steps) + 1)})} of {len(lesson.steps)} done")


def opened(now: State, lesson: Lesson, number: int) -> State:
    """The state that a step begins with; what was learned stays."""
    from attnviz.ui import settings

    begun = read(lesson.steps[number - 1].link, settings.LINKED)
    return now.replaced(begun).put(CHAPTER, number).put(LEARNED, now[LEARNED])


def is_shown(step: Step, now: State) -> bool:
    """Whether the model and the text are those of the step."""
    from attnviz.ui import settings

    begun = read(step.link, settings.LINKED)
    return all(now[one] == begun[one] for one in (MODEL, TEXT))


def reached(step: Step, now: State) -> bool:
    """Whether the state holds what one of the goals of a step does."""
    return any(_holds(goal, now) for goal in step.goal)


def _holds(goal: Link, now: State) -> bool:
    from attnviz.ui import settings

    def holds(name: str, values: list[str]) -> bool:
        wanted, there = settings.LINKED[name].decode(values), now[settings.LINKED[name]]
        return wanted <= there if isinstance(wanted, frozenset) else wanted == there

    return all(holds(name, values) for name, values in goal.items())


def _told(step: Step, number: int) -> None:
    """The idea, and the words that are new in it."""
    title(f"{number} · {step.title}")
    st.markdown(step.idea)
    if step.terms:
        with st.expander(f"In other words: {', '.join(one.name for one in step.terms)}"):
            for term in step.terms:
                source = f" *{term.source}*" if term.source else ""
                st.markdown(f"**{term.name}**: {term.means}.{source}")


def _asked(lesson: Lesson, step: Step, number: int) -> None:
    """What to do, the question, the answer once it is done, and the way on."""
    done = number in state.get(LEARNED)
    with st.container(key="task"):
        heading("Try it")
        st.markdown(step.do)
        if step.question:
            st.markdown(f"**{step.question}**")
        if done or not step.goal:
            block("Done", "unseen", "p", role="status")
            st.success(step.answer, icon=":material/check_circle:")
    with st.container(horizontal=True, gap="small", key="on"):
        if number < len(lesson.steps):
            _button("Next chapter", "next", opened, lesson, number + 1, type="primary" if done else "secondary")
        _button("Start again", "again", opened, lesson, number, type="tertiary")
        if st.button(f"Open on the page {step.page}", key="laboratory", type="tertiary", icon=":material/science:"):
            pages.go_to(step.page)


def _button(name: str, key: str, step, *args: object, **options) -> None:
    """A button for a step to another state, with the whole page."""
    if st.button(name, key=f"lesson {key}", on_click=state.change, args=(step, *args), **options):
        st.rerun()


def _shown(step: Step, number: int, source: Source, lines: tuple[str, ...]) -> None:
    """The live picture."""
    if not is_shown(step, state.now()):
        quiet("Another model or text is open. The chapter has an example of its own.")
        _button("Show the example", "example", opened, lessons.course(), number, type="primary")
        return
    changed = edits.chosen(source, lines)
    site = state.one_of(look.SITE, source.sites, look.opening_site(source))
    head = state.one_of(look.SHOW, range(source.num_heads), look.opening_head(source))
    scenes.draw(step.shows, Look(source, lines, changed, 0, site, head))
