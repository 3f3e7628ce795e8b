"""Progress in the course."""

from attnviz.ui.learn import words
from attnviz.ui.shared.setting import Setting, State, coded, each, flag, reader, session_setting, whole

MOST_STEPS = 99
_read_learned = each(reader(r"\d{1,2}", lambda m: int(m[0]), "1-2-5"), MOST_STEPS)


def _lacks_chapter(chapters: int, chapter: int | None) -> str:
    return words.COURSE_HAS.format(chapters=chapters) if (chapter or 1) > chapters else ""


CHAPTER = whole("chapter", None, 1, MOST_STEPS, of="lesson", lacks=_lacks_chapter)
"""None until a step was opened: what is there then is another page's."""
LEARNED = coded(
    "learned",
    frozenset(),
    lambda done: "-".join(map(str, sorted(done))),
    lambda text: frozenset(_read_learned(text)),
)
LEFT: Setting[State | None] = session_setting("left for a lesson", None)
"""State of another page before the lesson."""
TRIED = flag("tried", False)
"""Whether the goal of the step was reached since it was opened."""
PICKED: Setting[str | None] = coded("answer", None, str, str)
"""The choice that was picked; one that the step does not have is none."""
