"""A picture as one HTML file that opens anywhere, without a network, today and in ten years."""

import base64
import hashlib
import html
import re
from pathlib import Path
from string import Template
from typing import Any

from attnviz.charts.theme import LIGHT
from attnviz.export import data, spec

MOST_ROWS = 5_000
"""Rows of the table at most, as many as a browser lays out at once."""

MOST_SHAPES = 4_000
"""Rows of data up to which the picture is SVG; above, a canvas is much faster."""

START = """
const picture = JSON.parse(document.getElementById("data").textContent);
const place = document.getElementById("picture");
vegaEmbed(place, picture, {actions: false, ast: true, renderer: place.dataset.renderer}).catch(error => {
  console.error(error);
  document.getElementById("failed").hidden = false;
});
"""
"""`ast` has Vega interpret its expressions, so that the page needs no permission to evaluate text as code."""

TEMPLATE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
"""The page. The picture says its title itself, so the heading is for screen readers alone."""

LICENSES = Path(__file__).with_name("licenses.txt").read_text(encoding="utf-8")
"""The notices that the libraries inside a page ask to travel with them; vl-convert's bundle has none."""


def write(figure: Any, picture: dict, library: str) -> bytes:
    """The page of a figure.

    Args:
        picture: Vega-Lite, already clean.
        library: Vega, Vega-Lite and Vega-Embed as one script.
    """
    library = library.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    config = picture.get("config", {})
    background = picture.get("background") or config.get("background") or LIGHT.background
    if not re.fullmatch("#[0-9a-fA-F]{6}", background):
        background = LIGHT.background
    many = sum(map(len, picture.get("datasets", {}).values())) > MOST_SHAPES
    return TEMPLATE.substitute(
        policy=policy(library, START),
        title=escaped(figure.title),
        description=escaped(figure.description),
        scheme="dark" if _is_dark(background) else "light",
        ground=background,
        renderer="canvas" if many else "svg",
        numbers="" if figure.table is None else _numbers(figure.table),
        data=inert(spec.to_json(picture)),
        licenses=f"\n{LICENSES}",
        library=library,
        start=START,
    ).encode()


def _is_dark(color: str) -> bool:
    return sum(int(color[i : i + 2], 16) for i in (1, 3, 5)) < 3 * 128


def policy(*scripts: str, styles: str = "'unsafe-inline'") -> str:
    """Run these scripts and no others, ask the network for nothing."""
    return (
        f"default-src 'none'; script-src {' '.join(map(digest, scripts))}; style-src {styles}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(content: str) -> str:
    """Hash by which a policy names a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def inert(text: str) -> str:
    """JSON that cannot end the element it stands in."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def escaped(value: str) -> str:
    return html.escape(spec.clean(value))


def _numbers(table: Any) -> str:
    kinds = [' class="number"' if data.is_number(table[name]) else "" for name in table]

    def row(tag: str, cells: Any) -> str:
        inside = (f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{''.join(inside)}</tr>\n"

    note = table.attrs.get("note", "")
    left_out = f"<p>The first {MOST_ROWS:,} of {len(table):,} rows; the CSV file has all.</p>\n"
    return (
        f"<details>\n<summary>Numbers ({len(table):,} {'row' if len(table) == 1 else 'rows'})</summary>\n"
        f"{note and f'<p>{escaped(note)}</p>'}{left_out if len(table) > MOST_ROWS else ''}"
        f'<div class="numbers" role="region" aria-label="Numbers" tabindex="0">\n<table>\n'
        f"<thead>{row('th', table)}</thead>\n"
        f"<tbody>\n{''.join(row('td', cells) for cells in data.rows(table, MOST_ROWS))}</tbody>\n"
        "</table>\n</div>\n</details>"
    )
