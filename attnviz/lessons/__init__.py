"""The course of the Learn page, and the museum of bugs, read from files in `assets/lessons`.

A chapter of the course is a text, a link of the app and a question. The documentation has a page with the right and the
wrong map of each bug.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from attnviz.core import assets

Link = dict[str, list[str]]
"""URL parameters, each with its list of values."""


@dataclass(frozen=True)
class Term:
    """A technical term, explained at its first use.

    Attributes:
        source: paper that introduced the term; "" for a general term.
    """

    name: str
    means: str
    source: str = ""


@dataclass(frozen=True)
class LessonStep:
    """One chapter of the course.

    Attributes:
        title: topic of the chapter.
        idea: explanation of one idea, in paragraphs.
        do: task to try that leads to the answer.
        question: question at the end.
        choices: possible answers; empty if the answer is only shown.
        right: correct answer, one of `choices`.
        hint: reply to a wrong answer.
        answer: reply to the correct answer, or the answer that is shown.
        link: choices of the app at the beginning, as URL parameters.
        shows: names of the scenes that the Learn page draws.
        page: page of the app on which the user can continue.
        terms: technical terms that the chapter explains.
    """

    title: str
    idea: str
    link: Link
    shows: tuple[str, ...]
    do: str = ""
    question: str = ""
    choices: tuple[str, ...] = ()
    right: str = ""
    hint: str = ""
    answer: str = ""
    page: str = "Heads"
    terms: tuple[Term, ...] = ()

    @classmethod
    def of(cls, data: dict[str, Any]) -> Self:
        """Build a chapter from its table in the file `course.toml`."""
        fields = {name: value.strip() if isinstance(value, str) else value for name, value in data.items()}
        fields["link"] = link_of(data["link"])
        fields["terms"] = tuple(Term(**term) for term in data.get("terms", ()))
        fields["shows"], fields["choices"] = tuple(data.get("shows", ())), tuple(data.get("choices", ()))
        return cls(**fields)


@dataclass(frozen=True)
class Lesson:
    """Chapters of a course in order.

    Attributes:
        closing: text shown once the last chapter is answered.
    """

    title: str
    steps: tuple[LessonStep, ...]
    closing: str = ""


def link_of(text: str) -> Link:
    """Parse the URL parameters of a whole link, or of its part after the question mark."""
    return parse_qs(urlsplit(text).query if "?" in text else text, keep_blank_values=True)


@cache
def course() -> Lesson:
    """Read the twelve chapters of the Learn page."""
    data = tomllib.loads(assets.path("lessons/course.toml").read_text(encoding="utf-8"))
    return Lesson(data["title"], tuple(map(LessonStep.of, data["step"])), data["closing"])


@dataclass(frozen=True)
class Bug:
    """A real bug in attention code.

    Attributes:
        name: single word for the link.
        symptom: first visible effect of the bug.
        because: cause of the bug.
        fix: code diff: lines of the bug begin with "-", lines of the fix with "+", all others with a space.
        seen_in: public project or place where the bug happened, in words.
        source: URL of this project or place.
        rule: name of the check in docs/reference/check.md that finds the bug; "" if none does.
        found_by: other way to find the bug, if no check does.
    """

    name: str
    title: str
    symptom: str
    because: str
    fix: str
    seen_in: str
    source: str
    rule: str = ""
    found_by: str = ""


@cache
def museum() -> tuple[Bug, ...]:
    """Read all bugs, in order."""
    data = tomllib.loads(assets.path("lessons/bugs.toml").read_text(encoding="utf-8"))
    return tuple(Bug(**{name: text.strip("\n") for name, text in bug.items()}) for bug in data["bug"])
