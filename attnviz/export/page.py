"""A picture as one HTML file that opens anywhere, without a network, today and in ten years."""

import base64
import hashlib
import html
import re
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from attnviz.charts.theme import LIGHT
from attnviz.export.draw import clean, javascript, json_text
from attnviz.export.numbers import as_text

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
LICENSES = Path(__file__).with_name("licenses.txt").read_text(encoding="utf-8")
"""The notices that the libraries inside a page ask to travel with them; vl-convert's bundle has none."""


def page(figure: Any, picture: dict) -> bytes:
    """The page of a figure; `picture` is its Vega-Lite."""
    library = javascript().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    background = picture.get("background") or picture.get("config", {}).get("background", "")
    if not re.fullmatch("#[0-9a-fA-F]{6}", background):
        background = LIGHT.background
    is_dark = sum(bytes.fromhex(background[1:])) < 3 * 128
    many = sum(map(len, picture.get("datasets", {}).values())) > MOST_SHAPES
    return TEMPLATE.substitute(
        policy=policy(library, START),
        title=escaped(figure.title),
        description=escaped(figure.description),
        scheme="dark" if is_dark else "light",
        ground=background,
        renderer="canvas" if many else "svg",
        numbers="" if figure.table is None else _numbers(figure.table),
        data=inert(json_text(picture)),
        licenses=f"\n{LICENSES}",
        library=library,
        start=START,
    ).encode()


def policy(*scripts: str, styles: str = "'unsafe-inline'") -> str:
    """A policy that runs these scripts and no others, and asks the network for nothing."""
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
    return html.escape(clean(value))


def _numbers(table: pd.DataFrame) -> str:
    """The table of a page, folded: as many rows as a browser lays out, and a line that says so."""
    kinds = [' class="number"' if pd.api.types.is_numeric_dtype(table[name].dtype) else "" for name in table]

    def row(tag: str, values: Any) -> str:
        cells = zip(kinds, map(as_text, values), strict=True)
        return f"<tr>{''.join(f'<{tag}{kind}>{html.escape(text)}</{tag}>' for kind, text in cells)}</tr>\n"

    rows = zip(*(table[name].head(MOST_ROWS).to_numpy() for name in table), strict=True)
    note = table.attrs.get("note", "")
    left_out = f"<p>The first {MOST_ROWS:,} of {len(table):,} rows; the CSV file has all.</p>\n"
    return (
        f"<details>\n<summary>Numbers ({len(table):,} {'row' if len(table) == 1 else 'rows'})</summary>\n"
        f"{note and f'<p>{escaped(note)}</p>'}{left_out if len(table) > MOST_ROWS else ''}"
        '<div class="numbers" role="region" aria-label="Numbers" tabindex="0">\n<table>\n'
        f"<thead>{row('th', table)}</thead>\n<tbody>\n{''.join(row('td', values) for values in rows)}</tbody>\n"
        "</table>\n</div>\n</details>"
    )
