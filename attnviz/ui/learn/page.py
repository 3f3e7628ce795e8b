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
from attnviz.ui.shared.setting import Link, Setting, State, coded, each, kept, read, reader, whole
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import heading, quiet, title

MOST_STEPS = 99
_read_learned = each(reader(r"\d{1,2}", lambda m: int(m[0]), "does not name steps", "1-2-5"), MOST_STEPS)

CHAPTER = whole("chapter", 1, 1, MOST_STEPS)
LEARNED = coded(
    "learned",
    frozenset(),
    lambda done: "-".join(map(str, sorted(done))),
    lambda text: frozenset(_read_learned(text)),
)


LEFT: Setting[State | None] = kept("left for a lesson", None)
"""What another page showed before the lesson."""


def page(source: Source, lines: tuple[str, ...]) -> None:
    lesson = lessons.course()
    number = min(state.get(CHAPTER), len(lesson.steps))
    step = lesson.steps[number - 1]
    if not is_shown(step, state.now()):  # from another page: what was there waits
        state.put(LEFT, state.now().linked())
        state.change(opened, lesson, number)
        st.rerun()
    if reached(step, state.now()):
        state.put(LEARNED, state.get(LEARNED) | {number})
    _chapters(lesson, number)
    phone = look.room() is not None
    with st.container(horizontal=not phone, gap="small" if phone else "large", key="lesson"):
        with st.container(width="stretch" if phone else 420, key="told"):
            _told(step, number)
            if not phone:
                _answered(lesson, step, number)
        with st.container(width="stretch", key="shown"):
            _shown(step, source, lines)
            if phone:
                _answered(lesson, step, number)


def _chapters(lesson: Lesson, number: int) -> None:
    """All steps, of which those that are done have a check mark: by their numbers, on a phone as a list."""
    done, there = state.get(LEARNED), range(1, len(lesson.steps) + 1)

    def named(one: int) -> str:
        return f":material/check: {one}" if one in done else str(one)

    def titled(one: int) -> str:
        return f"{'✓ ' * (one in done)}{one} · {lesson.steps[one - 1].title}"

    options = {"shown": number, "lead": "", "step": lambda now, one: opened(now, lesson, one), "whole_page": True}
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chapters"):
        if look.room():
            control(st.selectbox, "Chapter", CHAPTER, there, format_func=titled, **options)
        else:
            control(st.segmented_control, "Chapter", CHAPTER, there, format_func=named, **options)
            quiet(f"{len(done & {*there})} of {len(lesson.steps)} done")
        if state.get(LEFT) and st.button("Back to my text", key="back", type="tertiary", icon=":material/undo:"):
            state.change(lambda now: now.replaced(now[LEFT]).put(LEFT, None))
            pages.go_to("Heads")


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
    """The idea, the words that are new in it, and what to do."""
    title(f"{number} · {step.title}")
    st.markdown(step.idea)
    if step.terms:
        with st.expander(f"In other words: {', '.join(one.name for one in step.terms)}"):
            for term in step.terms:
                source = f" *{term.source}*" if term.source else ""
                st.markdown(f"**{term.name}**: {term.means}.{source}")
    if step.do:
        heading("Try it")
        st.markdown(" ".join(filter(None, (step.do, step.question and f"**{step.question}**"))))


def _answered(lesson: Lesson, step: Step, number: int) -> None:
    """The answer once it is done, and the way on."""
    done = number in state.get(LEARNED) or not step.goal
    if done and step.answer:
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


def _shown(step: Step, source: Source, lines: tuple[str, ...]) -> None:
    """The live picture."""
    changed = edits.chosen(source, lines)
    site = state.one_of(look.SITE, source.sites, look.opening_site(source))
    head = state.one_of(look.SHOW, range(source.num_heads), look.opening_head(source))
    scenes.draw(step.shows, Look(source, lines, changed, 0, site, head))
