"""Several figures with text and tables as one HTML file: for a lesson, to read, to print, without a network."""

import base64
import html
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from attnviz.charts.theme import LIGHT
from attnviz.export import spec
from attnviz.export.drawing import draw

TEMPLATE = Template(Path(__file__).with_name("handout.html").read_text(encoding="utf-8"))


@dataclass(frozen=True, eq=False)
class Section:
    """One part of a handout. All texts are plain.

    Attributes:
        heading: what stands above it.
        equation: a formula, "" for none.
        texts: paragraphs.
        figures: pictures, in the colors of light paper.
        tables: each a head and rows of texts.
        after: paragraphs behind these, such as a task.
        choices: answers to mark one of.
        room: empty lines to write on.
        end: paragraphs behind these, such as a solution.
    """

    heading: str
    equation: str = ""
    texts: tuple[str, ...] = ()
    figures: tuple[Any, ...] = ()
    tables: tuple[tuple[Sequence[str], Sequence[Sequence[str]]], ...] = ()
    after: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    room: int = 0
    end: tuple[str, ...] = ()


def handout(title: str, lead: Sequence[str], sections: Sequence[Section], *, deadline: float = 60.0) -> bytes:
    """All sections as one page that prints well, its pictures inside.

    Args:
        lead: paragraphs under the title.
        deadline: seconds that drawing may take.

    Raises:
        ExportError: if a picture cannot be drawn, or not in time.
    """
    until = time.monotonic() + deadline
    parts = "\n".join(_section(one, until) for one in sections)
    said = {"title": _text(title), "lead": "\n".join(map(_paragraph, lead)), "sections": parts}
    return TEMPLATE.substitute(said, ink=LIGHT.text, line=LIGHT.line).encode()


def _section(section: Section, until: float) -> str:
    equation = f'<p class="equation">{symbols(section.equation)}</p>' if section.equation else ""
    inside = [f"<h2>{_text(section.heading)}</h2>", equation, *map(_paragraph, section.texts)]
    if section.figures:
        inside.append(f'<div class="pictures">{"".join(_picture(figure, until) for figure in section.figures)}</div>')
    inside += [_table(head, rows) for head, rows in section.tables] + [*map(_paragraph, section.after)]
    if section.choices:
        inside.append(f'<ul class="choices">{"".join(f"<li>{_text(one)}</li>" for one in section.choices)}</ul>')
    inside += ['<p class="room"></p>'] * section.room + [*map(_paragraph, section.end)]
    return f"<section>\n{chr(10).join(filter(None, inside))}\n</section>"


def drawn(figure: Any, until: float) -> bytes:
    """A picture as SVG, before a moment of the monotonic clock."""
    return draw("svg", spec.to_json(spec.of(figure)), deadline=until - time.monotonic())


def _picture(figure: Any, until: float) -> str:
    picture = base64.b64encode(drawn(figure, until)).decode()
    return f'<img alt="{_text(figure.description)}" src="data:image/svg+xml;base64,{picture}">'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "\n".join(row("td", cells) for cells in rows)
    return (
        f'<div class="scrolls" role="region" aria-label="Table of {_text(", ".join(head))}" tabindex="0"><table>'
        f"<thead>{row('th', head)}</thead>\n<tbody>{body}</tbody></table></div>"
    )


def _paragraph(text: str) -> str:
    return f"<p>{_text(text)}</p>"


def symbols(text: str) -> str:
    """An equation as HTML: letters after an underscore are an index."""
    return re.sub(r"_(\w+)", r"<sub>\1</sub>", _text(text))


def _text(value: str) -> str:
    return html.escape(spec.clean(value))
