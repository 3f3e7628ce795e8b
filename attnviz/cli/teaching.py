"""Lessons from the shell."""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

from attnviz import lessons
from attnviz.core import whole
from attnviz.core.errors import InputError, quoted


def listed() -> Iterator[str]:
    """The lessons that ship, a line each."""
    width = max(map(len, lessons.SHIPPED)) + 2
    for name in lessons.SHIPPED:
        lesson = lessons.named(name)
        yield f"{name:{width}}{lesson.about} ({lesson.minutes} minutes)"


def handout(name: str, file: Path, *, solved: bool = False) -> None:
    """Write a lesson as an HTML file to hand out.

    Raises:
        AttnvizError: if the lesson cannot be read, or the file is to be something else.
    """
    from attnviz.ui.learn import handout as paper  # Streamlit: for this alone

    if file.suffix != ".html":
        raise InputError(f"A handout is an .html file, not {quoted(file.name)}. A browser prints it, also to PDF.")
    lesson = lessons.named(name) if name in lessons.SHIPPED else lessons.read(name)
    whole.write(file, paper.page(lesson, solved=solved))


def link(lesson: str, *, present: bool = False) -> str:
    """The link that opens a lesson, one that ships or that of a file, which the server then reads.

    Raises:
        InputError: if the file is not there or cannot be read.
    """
    name = lesson
    if lesson not in lessons.SHIPPED:
        lessons.read(lesson)
        os.environ[lessons.FILE] = str(Path(lesson).absolute())
        name = lessons.OWN
    return "learn?" + urlencode({"lesson": name} | ({"present": "true"} if present else {}))
