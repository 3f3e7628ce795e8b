"""The course, one chapter at a time: an idea, a live picture, something to do, and a question that doing it answers.

In a link the steps that are done are ``learned=1-2-5``; nothing of it is kept at the server.
"""

from contextlib import nullcontext
from urllib.parse import urlencode

import streamlit as st

from attnviz import lessons
from attnviz.analysis.sentences import quoted
from attnviz.core.request import Request
from attnviz.core.stack import Stack
from attnviz.lessons import Lesson, LessonStep
from attnviz.sources.base import Source
from attnviz.ui.learn import scenes, slides, words
from attnviz.ui.learn.going import answered, is_shown, opened, reached, strayed, worth_keeping
from attnviz.ui.learn.museum import BUGS_FOUND
from attnviz.ui.learn.progress import CHAPTER, LEARNED, LEFT, PICKED, TRIED
from attnviz.ui.shared import edits, look, mask, pages, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import PROBLEMS
from attnviz.ui.shared.state import control
from attnviz.ui.text import block, heading, note, plain, quiet, title


def page(source: Source, request: Request) -> None:
    lesson = lessons.course()
    if state.drop_missing("lesson", len(lesson.steps)):
        st.rerun()
    number = min(state.get(CHAPTER) or 1, len(lesson.steps))
    step = lesson.steps[number - 1]
    if not is_shown(step, state.now()):
        _open(lesson, number)
    _tried(step, number)
    _above(lesson, number)
    context = _looked_at(source, request)

    beside = not scenes.fill(step.shows)  # the question stands beside the picture, else under the text
    with st.container(key="taught", horizontal=True, gap="medium"):
        text_column = st.container(width=400, key="told")
        picture_column = st.container(horizontal=beside, gap="medium", key="shown")
    with text_column:
        _explanation(step, number)
    with picture_column, st.container(key="seen") if beside else nullcontext():
        scenes.draw(step.shows, context)
    with picture_column.container(key="asked") if beside else text_column:
        _question(lesson, step, number, context, beside=beside)


def _question(lesson: Lesson, step: LessonStep, number: int, context: ViewContext, *, beside: bool) -> None:
    """The question, the answer and the buttons: where there is room these stay."""
    _ask(step)
    if not beside:
        _answered(lesson, step, number, context)
    _way_on(lesson, step, number)
    if beside:
        _answered(lesson, step, number, context)


def _open(lesson: Lesson, number: int) -> None:
    """Open a step from another page, whose state waits; what the link that led here has wrong is still said."""
    state.put(LEFT, worth_keeping(state.now(), lesson.steps[number - 1]))
    problems = state.get(PROBLEMS)
    state.change(opened, lesson, number)
    state.put(PROBLEMS, problems)
    st.rerun()


def _tried(step: LessonStep, number: int) -> None:
    """Note what is reached, and answered."""
    state.put(TRIED, state.get(TRIED) or reached(step, state.now()))
    if answered(step, state.now()):
        state.put(LEARNED, state.get(LEARNED) | {number})


def _above(lesson: Lesson, number: int) -> None:
    """All chapters, and the way back to what was open before."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chapters"):
        _chapters(lesson, number)
        _progress_mark()
        if state.get(LEFT) and st.button(words.BACK_TO_TEXT, key="back", type="tertiary", icon=":material/undo:"):
            state.change(lambda now: now.replaced(now[LEFT]).put(LEFT, None))
            pages.go_to("Heads")


def _chapters(lesson: Lesson, number: int) -> None:
    """All steps by their titles, of which those that are done have a check mark."""
    done, there = state.get(LEARNED), range(1, len(lesson.steps) + 1)

    def titled(chapter: int) -> str:
        mark = "✓ " if chapter in done else ""
        return f"{mark}{chapter} · {lesson.steps[chapter - 1].title}"

    options = {
        "shown": number,
        "lead": "",
        "step": lambda now, chapter: opened(now, lesson, chapter),
        "whole_page": True,
    }
    control(st.selectbox, words.CHAPTER, CHAPTER, there, format_func=titled, **options)
    after = words.COMES_NEXT.format(title=titled(number + 1)) if number + 1 in there else ""
    quiet(words.OF_ALL.format(number=number, done=len(done & {*there}), all=len(lesson.steps)) + after)


def _progress_mark() -> None:
    """The mark by which the browser keeps how far one is, and the place of the way back there."""
    link = urlencode(state.link(), doseq=True)
    named = {"lesson": "course", "done": LEARNED.encode(state.get(LEARNED)), "link": plain(link)}
    block("", "quiet learned", "p", **{f"data-{name}": value for name, value in named.items()})


def _explanation(step: LessonStep, number: int) -> None:
    """The idea, what to do, and the words that are new."""
    title(f"{number} · {step.title}")
    st.markdown(step.idea)
    if step.do:
        heading(words.TRY_IT)
        st.markdown(step.do)
    if step.terms:
        with st.expander(words.DEFINITIONS.format(names=", ".join(term.name for term in step.terms))):
            for term in step.terms:
                source = f" *{term.source}*" if term.source else ""
                st.markdown(f"**{term.name}**: {term.means}.{source}")


def _ask(step: LessonStep) -> None:
    """The question and its choices."""
    if step.question:
        st.markdown(f"**{step.question}**")
    if step.choices:
        options = {"lead": "", "at": step.title, "selection_mode": "single", "shown": _answer(step)}
        control(st.pills, words.YOUR_ANSWER, PICKED, step.choices, **options)


def _answer(step: LessonStep) -> str | None:
    """The choice that was picked."""
    return state.one_of(PICKED, step.choices, None)


def _hints(step: LessonStep, context: ViewContext) -> None:
    """Hints on the changes and the choice so far, until they are right."""
    now = state.now()
    if answered(step, now):
        return
    if step.wrong and strayed(step, now):
        note(_picked(step, context) + step.wrong, "notice")
    if picked := _answer(step):
        first = words.FIND_MORE.format(more=step.finds - len(now[BUGS_FOUND])) if step.finds else words.FIRST_TRY
        note(first if picked == step.right else words.NOT_THIS.format(hint=step.hint), "notice")


def _picked(step: LessonStep, context: ViewContext) -> str:
    """Which cell or head was picked, where a goal is about one."""
    goal_names = {name for goal in step.goal for name in goal}
    if "cell" in goal_names and context.cell:
        query, key = (quoted(part[i].text) for part, i in zip(context.tokens, context.cell, strict=True))
        return words.PICKED_CELL.format(query=query, key=key)
    return words.PICKED_HEAD.format(head=context.head) if goal_names & {look.SHOW.name, *look.SHOW.former} else ""


def _is_done(step: LessonStep, number: int) -> bool:
    return number in state.get(LEARNED) or not (step.goal or step.finds)


def _answered(lesson: Lesson, step: LessonStep, number: int, context: ViewContext) -> None:
    """Hints; the answer once the task is done."""
    _hints(step, context)
    nothing_to_do = not (step.goal or step.finds)
    if step.answer and (answered(step, state.now()) or nothing_to_do):  # not yet where a chapter is done once more
        st.success(step.answer, icon=":material/check_circle:")
    if _is_done(step, number) and number == len(lesson.steps) and lesson.closing:
        _closing(lesson)


def _way_on(lesson: Lesson, step: LessonStep, number: int) -> None:
    """The buttons of a step."""
    with st.container(horizontal=True, gap="small", key="on"):
        if number < len(lesson.steps):
            _button(words.NEXT, "next", lesson, number + 1, type="primary" if _is_done(step, number) else "secondary")
        if number > 1:
            _button(common.BACK, "back", lesson, number - 1, type="tertiary")
        _button(words.AGAIN, "again", lesson, number, type="tertiary")
        there = words.OPEN_ON.format(page=step.page)
        if st.button(there, key="laboratory", type="tertiary", icon=":material/science:", wrap=False):
            pages.go_to(step.page)
        slides.slide_button(step, state.now().linked())
    pictures.reason_not_made()


def _closing(lesson: Lesson) -> None:
    """The end of a lesson, and where to go from there."""
    heading(words.THE_END)
    st.markdown(lesson.closing)
    for page, why in words.FROM_HERE.items():
        if st.button(why, key=f"from here {page}", icon=":material/arrow_forward:", type="tertiary"):
            pages.go_to(page)


def _button(name: str, key: str, lesson: Lesson, number: int, **options) -> None:
    """A button for a step of the lesson, as it begins; the whole page shows it."""
    if st.button(name, key=f"lesson {key}", on_click=state.change, args=(opened, lesson, number), **options):
        st.rerun()


def _looked_at(source: Source, request: Request) -> ViewContext:
    state.put(mask.OPENING, Stack())  # A lesson that sets no mask has none, whatever another page opens with.
    request = edits.put(state.now(), source, request)
    site = state.one_of(look.SITE, source.sites, look.opening_site(source))
    head = state.one_of(look.SHOW, range(source.num_heads), look.opening_head(source))
    return ViewContext(source, request, 0, site, head)
