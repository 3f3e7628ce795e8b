"""Lessons: steps of text, each with a state of the app to look at and another one to reach.

A lesson is a file in TOML, so that a teacher can write one: `title`, `about`, and a table `step` for each step. States
are links of the app, as "Copy link" gives them: a step begins with its `link`, and is done once the app shows what one
of its `goal` links holds. A step may take a `chapter` of the course and say what is else, such as `notes`.
"""

import os
import tomllib
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from attnviz.core import assets
from attnviz.core.errors import InputError, did_you_mean, quoted

Link = dict[str, list[str]]
"""The parameters of an address, each with its values."""

FIGURES = (
    *("map", "heads", "head", "training step", "query", "future", "scores", "row", "d_k", "positions"),
    *("prediction", "peeking", "bugs"),
)
"""Names of all that a step can show, in this order: pictures of the app and the controls that change them."""
PAGES = ("Heads", "Overview", "Masks", "Steps", "Compare")
"""Pages of the laboratory that a step can lead to."""
FORMER_PAGES = {"Model": "Heads"}
"""Pages that lessons may still name, and the one that each opens."""


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
    """One screen of a lesson.

    Attributes:
        title: what it is about.
        idea: one idea, in paragraphs.
        do: what to do, so that the question answers itself.
        question: what is asked.
        choices: answers to choose from; none where what is done is the answer.
        right: which of them it is.
        hint: what is said to a wrong choice.
        answer: what is said once it is done.
        link: the state that it begins with.
        goal: states of which one is to be reached.
        wrong: what is said where another state than that was reached.
        finds: bugs of the museum that are to be found. Without that and a goal, looking is enough.
        shows: of `FIGURES`.
        page: where in the laboratory it goes on.
        terms: explained here.
        notes: for whoever teaches.
        minutes: how long it takes.
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
    goal: tuple[Link, ...] = ()
    wrong: str = ""
    finds: int = 0
    page: str = "Heads"
    terms: tuple[Term, ...] = ()
    notes: str = ""
    minutes: int | None = None

    @classmethod
    def read(cls, data: dict[str, Any]) -> Self:
        """Raises InputError: names what is missing or unknown."""
        if "chapter" in data:
            return _of_course(data)
        _check_names(data, cls, {"title", "idea", "link", "shows"})
        if unknown := [name for name in data["shows"] if name not in FIGURES]:
            raise InputError(f"A step shows {quoted(unknown[0])}. It can show: {', '.join(FIGURES)}.")
        page = data.get("page", "Heads")
        page = FORMER_PAGES.get(page, page)
        if page not in PAGES:
            raise InputError(f"A step leads to the page {quoted(page)}. There are: {', '.join(PAGES)}.")
        goal, choices = data.get("goal", []), tuple(data.get("choices", ()))
        if choices and data.get("right") not in choices:
            raise InputError(f"Of the choices {quoted(data.get('right', ''))} is to be right, which is none of them.")
        values = {"page": page, "link": link_of(data["link"]), "shows": tuple(data["shows"]), "choices": choices}
        values["goal"] = tuple(map(link_of, [goal] if isinstance(goal, str) else goal))
        values["terms"] = tuple(Term(**term) for term in data.get("terms", ()))
        stripped = {name: value.strip() if isinstance(value, str) else value for name, value in data.items()}
        return cls(**stripped | values)


@dataclass(frozen=True)
class Lesson:
    """Steps in their order.

    Attributes:
        about: what one knows afterwards, a sentence.
        minutes: how long it takes.
        closing: what is said at the end, once the last step is done.
    """

    title: str
    steps: tuple[LessonStep, ...]
    about: str = ""
    minutes: int | None = None
    closing: str = ""


def link_of(text: str) -> Link:
    """Parameters of a link, whole or from its question mark on."""
    return parse_qs(urlsplit(text).query if "?" in text else text, keep_blank_values=True)


SHIPPED = ("course", "20-minutes", "45-minutes", "90-minutes")
"""The lessons that there are; the first is what the page Learn opens with."""
OWN, FILE = "own", "ATTNVIZ_LESSON"
"""The name of a lesson of one's own, and the environment variable that names its file."""


def named(name: str) -> Lesson:
    """A lesson that ships with attnviz, or one's own, which is read anew each time.

    Raises:
        InputError: if there is none, or it cannot be read.
    """
    if name != OWN:
        return _shipped(name)
    if not (path := os.environ.get(FILE)):
        raise InputError("No lesson of your own is open. Open one with: attnviz lesson FILE.toml")
    return read(path)


@cache
def _shipped(name: str) -> Lesson:
    if name not in SHIPPED:
        raise InputError(f"There is no lesson {quoted(name)}. There are: {', '.join(SHIPPED)}.")
    return read(assets.path(f"lessons/{name}.toml"))


def course() -> Lesson:
    """The twelve chapters of the page Learn."""
    return _shipped(SHIPPED[0])


def _of_course(data: dict[str, Any]) -> LessonStep:
    """A chapter of the course, with what a lesson says of it besides."""
    chapters, number = course().steps, data["chapter"]
    if number not in range(1, len(chapters) + 1):
        raise InputError(f"There is no chapter {quoted(number)}; the course has 1 to {len(chapters)}.")
    changed = {name: value for name, value in data.items() if name != "chapter"}
    allowed = {"title", "idea", "do", "question", "answer", "notes", "minutes"}
    if unknown := sorted(changed.keys() - allowed):
        raise InputError(
            f"A chapter of the course takes no {quoted(unknown[0])}. It takes: {', '.join(sorted(allowed))}."
        )
    return replace(chapters[number - 1], **{k: v.strip() if isinstance(v, str) else v for k, v in changed.items()})


def read(path: str | Path) -> Lesson:
    """A lesson from its file.

    Raises:
        InputError: if there is no such file, or what in it cannot be read.
    """
    name = quoted(Path(path).name)
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        near = f"{did_you_mean(str(path), SHIPPED)} Those that ship are: {', '.join(SHIPPED)}."
        raise InputError(f"The lesson {name} cannot be opened: {error.strerror}.{near}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The lesson {name} is not TOML: {error}.") from error
    named = {key: value for key, value in data.items() if key != "step"}
    try:
        _check_names(named | {"steps": ()}, Lesson, {"title"})
        steps = tuple(map(LessonStep.read, data.get("step", ())))
    except InputError as error:
        raise InputError(f"The lesson {name} cannot be read: {error}") from error
    if not steps:
        raise InputError(f"The lesson {name} has no steps. Begin each with [[step]].")
    return Lesson(**named, steps=steps)


def _check_names(data: dict[str, Any], target: type, needed: set[str]) -> None:
    names = {field.name for field in fields(target)}
    if lacks := sorted(needed - data.keys()):
        raise InputError(f"It lacks {', '.join(lacks)}.")
    if unknown := sorted(data.keys() - names):
        raise InputError(f"There is no {quoted(unknown[0])} in it. There are: {', '.join(sorted(names))}.")
