"""The course: chapters of text, each with a state of the app to look at and one question.

A state is a link of the app.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from attnviz.core import assets

Link = dict[str, list[str]]
"""The parameters of an address, each with its values."""


@dataclass(frozen=True)
class Term:
    """A word of the field at its first use.

    Attributes:
        source: the paper that it comes from, or "" for one that is older than the field.
    """

    name: str
    means: str
    source: str = ""


@dataclass(frozen=True)
class LessonStep:
    """One chapter.

    Attributes:
        title: what it is about.
        idea: one idea, in paragraphs.
        do: what to do, so that the question answers itself.
        question: what is asked.
        choices: answers to choose from; none where the answer is only shown.
        right: which of them it is.
        hint: what is said to a wrong choice.
        answer: what is said of the right choice.
        link: the state that it begins with.
        shows: scenes of the page Learn.
        page: where in the laboratory it goes on.
        terms: explained here.
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
        """A chapter from its table in the file."""
        texts = {name: value.strip() if isinstance(value, str) else value for name, value in data.items()}
        tuples = {name: tuple(data.get(name, ())) for name in ("shows", "choices")}
        terms = tuple(Term(**term) for term in data.get("terms", ()))
        return cls(**texts | tuples | {"link": link_of(data["link"]), "terms": terms})


@dataclass(frozen=True)
class Lesson:
    """Chapters in their order.

    Attributes:
        closing: what is said at the end, once the last chapter is done.
    """

    title: str
    steps: tuple[LessonStep, ...]
    closing: str = ""


def link_of(text: str) -> Link:
    """Parameters of a link, whole or from its question mark on."""
    return parse_qs(urlsplit(text).query if "?" in text else text, keep_blank_values=True)


@cache
def course() -> Lesson:
    """The twelve chapters of the page Learn."""
    data = tomllib.loads(assets.path("lessons/course.toml").read_text(encoding="utf-8"))
    return Lesson(data["title"], tuple(map(LessonStep.of, data["step"])), data["closing"])
