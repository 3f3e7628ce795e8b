"""A picture as one HTML file that opens in any browser, without a network and without other files."""

import base64
import hashlib
import html
import re
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from attnviz.charts.theme import LIGHT
from attnviz.core.amounts import counted
from attnviz.export.draw import clean, javascript, json_text
from attnviz.export.numbers import as_text

MOST_ROWS = 5_000
"""Maximum number of rows of the table, so that a browser shows it without delay."""

MOST_SHAPES = 4_000
"""Maximum number of data rows of a picture that is drawn as SVG; if there are more, a canvas is much faster."""

START = """
const picture = JSON.parse(document.getElementById("data").textContent);
const place = document.getElementById("picture");
vegaEmbed(place, picture, {actions: false, ast: true, renderer: place.dataset.renderer}).catch(error => {
  console.error(error);
  document.getElementById("failed").hidden = false;
});
"""
"""Script that draws the picture. With `ast`, Vega interprets expressions, so the page need not allow `eval`."""

TEMPLATE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
LICENSES = Path(__file__).with_name("licenses.txt").read_text(encoding="utf-8")
"""License notices of the libraries inside a page, which vl-convert's bundle lacks."""


def page(figure: Any, picture: dict) -> bytes:
    """Write a figure as an HTML page with its picture, its table and its description; `picture` is its Vega-Lite."""
    library = javascript().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    background = picture.get("background") or picture.get("config", {}).get("background", "")
    if not re.fullmatch("#[0-9a-fA-F]{6}", background):
        background = LIGHT.background
    is_dark = sum(bytes.fromhex(background[1:])) < 3 * 128  # red + green + blue below their middle
    has_many_shapes = sum(map(len, picture.get("datasets", {}).values())) > MOST_SHAPES
    return TEMPLATE.substitute(
        policy=policy(library, START),
        title=escape_html(figure.title),
        description=escape_html(figure.description),
        scheme="dark" if is_dark else "light",
        ground=background,
        renderer="canvas" if has_many_shapes else "svg",
        numbers="" if figure.table is None else _numbers(figure.table),
        data=escape_json(json_text(picture)),
        licenses=f"\n{LICENSES}",
        library=library,
        start=START,
    ).encode()


def policy(*scripts: str, styles: str = "'unsafe-inline'") -> str:
    """Build a content security policy that allows only these scripts (their code) and no network."""
    return (
        f"default-src 'none'; script-src {' '.join(map(digest, scripts))}; style-src {styles}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(content: str) -> str:
    """Return the hash by which a content security policy allows a script or a style, given its code."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def escape_json(text: str) -> str:
    """Escape JSON so that it cannot end the HTML element that contains it."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def escape_html(value: str) -> str:
    """Escape a text for HTML, without characters that HTML forbids."""
    return html.escape(clean(value))


def _numbers(table: pd.DataFrame) -> str:
    """Write a table as HTML, in a collapsed element: the first MOST_ROWS rows, and a note if there are more."""
    classes = [' class="number"' if pd.api.types.is_numeric_dtype(table[name].dtype) else "" for name in table]

    def row(tag: str, values: Any) -> str:
        """Write a row of cells with a tag: "th" for column names, or "td"."""
        pairs = zip(classes, values, strict=True)
        cells = [f"<{tag}{css_class}>{html.escape(as_text(value))}</{tag}>" for css_class, value in pairs]
        return f"<tr>{''.join(cells)}</tr>\n"

    rows = zip(*(table[name].head(MOST_ROWS).to_numpy() for name in table), strict=True)
    notes = f"<p>{escape_html(table.attrs['note'])}</p>" if table.attrs.get("note") else ""
    if len(table) > MOST_ROWS:
        notes += f"<p>The first {MOST_ROWS:,} of {len(table):,} rows; the CSV file has all.</p>\n"
    return (
        f"<details>\n<summary>Numbers ({counted(len(table), 'row')})</summary>\n{notes}"
        '<div class="numbers" role="region" aria-label="Numbers" tabindex="0">\n<table>\n'
        f"<thead>{row('th', table)}</thead>\n<tbody>\n{''.join(row('td', values) for values in rows)}</tbody>\n"
        "</table>\n</div>\n</details>"
    )
