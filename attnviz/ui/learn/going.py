"""The steps of a lesson from state to state."""

from attnviz.lessons import Lesson, LessonStep
from attnviz.ui.learn.museum import BUGS_FOUND
from attnviz.ui.learn.progress import CHAPTER, LEARNED, PICKED, TRIED
from attnviz.ui.settings import LINKED
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import Link, State, read
from attnviz.ui.shared.welcome import FIRST


def begun(step: LessonStep) -> State:
    """The state that a step begins with."""
    return read(step.link, LINKED)


def opened(now: State, lesson: Lesson, number: int) -> State:
    """The state that a step begins with; what was learned and found stays."""
    there = begun(lesson.steps[number - 1]).put(CHAPTER, number)
    for setting in (LEARNED, BUGS_FOUND):
        there = there.put(setting, now[setting])
    return now.replaced(there)


def is_shown(step: LessonStep, now: State) -> bool:
    """Whether a step was opened, and the model and the text are those of this one."""
    return now[CHAPTER] is not None and _is_alike(step, now)


def _is_alike(step: LessonStep, now: State) -> bool:
    there = begun(step)
    return all(now[setting] == there[setting] for setting in (MODEL, TEXT))


def worth_keeping(now: State, step: LessonStep) -> State | None:
    """State before a step, if somebody chose another model or text; else None."""
    chosen = (now[TEXT] is not None or now[MODEL] != MODEL.default) and now.linked() != read(FIRST, LINKED).linked()
    return now.linked() if chosen and not _is_alike(step, now) else None


def reached(step: LessonStep, now: State) -> bool:
    """Whether the state holds what one of the goals of a step does, or as many bugs were found as it asks for."""
    return 0 < step.finds <= len(now[BUGS_FOUND]) or any(_holds(goal, now) for goal in step.goal)


def strayed(step: LessonStep, now: State) -> bool:
    """Whether something was done that a goal of a step is about, but not what it asks for."""
    there = begun(step)
    return not reached(step, now) and any(
        now[LINKED[name]] not in (there[LINKED[name]], LINKED[name].default) for goal in step.goal for name in goal
    )


def answered(step: LessonStep, now: State) -> bool:
    """Whether the question of a step is answered: by what was done, and where there are choices by the right one."""
    return (reached(step, now) or now[TRIED]) and (not step.choices or now[PICKED] == step.right)


def _holds(goal: Link, now: State) -> bool:
    def holds(name: str, values: list[str]) -> bool:
        wanted, there = LINKED[name].decode(values), now[LINKED[name]]
        return wanted <= there if isinstance(wanted, frozenset) else wanted == there

    return all(holds(name, values) for name, values in goal.items())
