"""Texts and figures as one HTML file: for a lesson, to read, to print, without a network."""

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

INLINE = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<strong>\S(?:.*?\S)?)\*\*"
    r"|\*(?P<em>[^\s*](?:[^*]*[^\s*])?)\*"
    r"|\[(?P<text>[^\]]+)\]\((?P<address>https?://[^\s)]+)\)"
)
"""Marks of Markdown inside of a paragraph."""


@dataclass(frozen=True, eq=False)
class Section:
    """One part of a handout. Texts are paragraphs of Markdown: emphasis, code, links, and lists with hyphens.

    Attributes:
        heading: its title.
        texts: paragraphs under it.
        figures: pictures, in the colors of light paper.
        after: paragraphs behind these, such as a task.
        choices: answers to mark one of.
        room: empty lines to write on.
        end: paragraphs behind these, such as a solution.
    """

    heading: str
    texts: tuple[str, ...] = ()
    figures: tuple[Any, ...] = ()
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
    parts = "\n".join(_section(section, until) for section in sections)
    texts = {"title": _text(title), "lead": "\n".join(map(markdown, lead)), "sections": parts}
    return TEMPLATE.substitute(texts, ink=LIGHT.text, line=LIGHT.line).encode()


def markdown(text: str) -> str:
    """Paragraphs and lists as HTML; blank lines stand between them."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        is_list = all(line.startswith("- ") for line in lines) and lines
        blocks.append(_list(line[2:] for line in lines) if is_list else f"<p>{_inline(block)}</p>")
    return "\n".join(blocks)


def _section(section: Section, until: float) -> str:
    inside = [f"<h2>{_text(section.heading)}</h2>", *map(markdown, section.texts)]
    if section.figures:
        inside.append(f'<div class="pictures">{"".join(_picture(figure, until) for figure in section.figures)}</div>')
    inside += map(markdown, section.after)
    if section.choices:
        inside.append(_list(section.choices, ' class="choices"'))
    inside += ['<p class="room"></p>'] * section.room
    inside += map(markdown, section.end)
    return f"<section>\n{chr(10).join(inside)}\n</section>"


def _picture(figure: Any, until: float) -> str:
    picture = draw("svg", spec.to_json(spec.of(figure)), deadline=until - time.monotonic())
    data = base64.b64encode(picture).decode()
    return f'<img alt="{_text(figure.description)}" src="data:image/svg+xml;base64,{data}">'


def _list(items: Any, attributes: str = "") -> str:
    return f"<ul{attributes}>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"


def _inline(text: str) -> str:
    """Marks of Markdown as HTML; all else is text."""
    parts, end = [], 0
    for match in INLINE.finditer(text):
        parts.append(_text(text[end : match.start()]))
        end = match.end()
        if match["code"]:
            parts.append(f"<code>{_text(match['code'])}</code>")
        elif match["text"]:
            parts.append(f'<a href="{_text(match["address"])}">{_text(match["text"])}</a>')
        else:
            tag = "strong" if match["strong"] else "em"
            parts.append(f"<{tag}>{_inline(match[tag])}</{tag}>")
    return "".join([*parts, _text(text[end:])])


def _text(value: str) -> str:
    return html.escape(spec.clean(value))
