"""A model that was trained here as one HTML file: typed texts, masks and switched-off heads run in any browser.

The page is that of `explore`, with the weights of the model and a box to type in; `live/*.js` runs the model.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from attnviz.core.display import in_title, visible_text
from attnviz.core.errors import InputError
from attnviz.core.masks.base import KEYWORDS, Mask
from attnviz.core.masks.text import form
from attnviz.core.masks.writing import javascript
from attnviz.export.explore import Page, deflated, drawing, written

FOLDER = Path(__file__).with_name("live")
FILES = ("text.js", "model.js", "record.js", "svg.js", "live.js")
NOT_HERE = ("padding", "random", "media")
"""Rules that the app alone has: of a batch, of a hash in 64 bits, and of pictures."""

MOST_BYTES = 40_000_000
"""Bytes of the weights of a page at most."""


def live_page(
    weights: bytes,
    reads: Sequence[str],
    text: str,
    *,
    writes: Sequence[str] = (),
    name: str = "model",
    about: Sequence[str] = (),
) -> Page:
    """Write a page that runs a model of `attnviz.models` in the browser.

    Args:
        weights: the file that `attnviz.models.trained.write` wrote: float16, with the sizes of the model.
        reads: what the model reads, by id: `Vocabulary.names`.
        text: what stands in the box when the page opens.
        writes: what a translator writes, by id.
        name: of the model, for the title and for the names of files.
        about: sentences under the title.

    Raises:
        InputError: if the weights are not such a file, or there are not as many words as it has vectors.
    """
    sizes = _sizes(weights)
    for names, wanted in ((reads, sizes["vocabulary"]), (writes, sizes["written"])):
        if len(names) != wanted:
            raise InputError(f"The weights of '{name}' are for {wanted:,} words; the vocabulary has {len(names):,}.")
    nothing = {"changed": [], "bits": 16, "texts": [], "sites": [], "grids": [], "opens": [0, 0], "predicted": {}}
    shown = {
        "title": f"{in_title(name[:1].upper() + name[1:])}: attention, live",
        "about": [*about, "Nothing you type leaves this page."],
        "live": {"name": visible_text(name), "text": text, "reads": [*reads], "writes": [*writes]},
    }
    block = f'<script type="text/plain" id="model">{deflated(weights)}</script>'
    label = "Sentence to translate" if writes else "Text"
    controls = {name: Template((FOLDER / f"{name}.html").read_text("utf-8")) for name in ("ask", "side", "more")}
    parts = {name: template.substitute(label=label) for name, template in controls.items()}
    style = (FOLDER / "live.css").read_text("utf-8")
    return written(drawing() | nothing | shown, [block], scripts=[_script()], style=style, **parts)


def _sizes(weights: bytes) -> dict[str, Any]:
    """The sizes that a file of weights states."""
    try:
        size = int.from_bytes(weights[:8], "little")
        header = json.loads(weights[8 : 8 + size])
        sizes = json.loads(header.pop("__metadata__")["config"])
        formats = {tensor["dtype"] for tensor in header.values()}
        known = {name: int(sizes[name]) for name in ("vocabulary", "written")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        what = "These weights are not a model of attnviz.models"
        raise InputError(f"{what}; write them with attnviz.models.trained.write.") from None
    if formats != {"F16"} or len(weights) > MOST_BYTES:
        what = f"These weights have {len(weights):,} bytes of {', '.join(sorted(formats))}"
        raise InputError(f"{what}; a page takes F16 and up to {MOST_BYTES:,} bytes.")
    return known


def _script() -> str:
    """The scripts of a live page as one: the mask rules, printed from their predicates, and the files."""
    rules = (rule for rule in KEYWORDS.values() if rule.keyword not in NOT_HERE)
    listed = ", ".join(f"{rule.keyword}: {_rule(rule)}" for rule in dict.fromkeys(rules))
    parts = [f"const RULES = {{{listed}}};", f"const NOT_HERE = {json.dumps(NOT_HERE)};"]
    return "\n".join([*parts, *((FOLDER / name).read_text("utf-8") for name in FILES)])


def _rule(rule: type[Mask]) -> str:
    """A rule in JavaScript: how it is written, its numbers, and the function that makes its predicate."""
    numbers = [
        {"name": p.name, "kind": p.kind, "least": p.least, "required": p.required, "fallback": p.default}
        for p in rule.parameters()
    ]
    return f"{{form: {json.dumps(form(rule))}, numbers: {json.dumps(numbers)}, make: {javascript(rule)}}}"
