"""Explorer pages: all heads as one HTML file for any browser, without Python and without a network.

A page of a record contains its weights as 16-bit levels, low bytes before high bytes, deflated, one block per attention
call; very many weights are stored as 8-bit levels. explore.js reads and draws the weights. A live page contains a model
of `attnviz.models` instead: `live/*.js` runs the model with typed texts, masks and switched-off heads.
"""

import base64
import html
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from attnviz import analysis
from attnviz.analysis import sentences, views
from attnviz.charts import theme
from attnviz.charts.signs import POLICIES, Domain, adaptive_domain
from attnviz.core.display import in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.masks.base import KEYWORDS, Mask
from attnviz.core.masks.text import form
from attnviz.core.masks.writing import javascript
from attnviz.core.record import Record, Step
from attnviz.export.draw import clean, json_text
from attnviz.export.page import digest, escape_html, escape_json, policy

LARGE = 20_000_000
"""Characters of all encoded weights above which a page stores 8-bit levels."""
MOST_WEIGHTS = 80_000_000
"""Maximum number of weights of a page: as 8-bit levels about 80 MB, which a browser can still open."""

MOST_BYTES = 40_000_000  # maximum size of the weights of a live page
MOST_RULES = 254  # maximum number of combinations of rules, as each cell has one byte for its combination

TEMPLATE, STYLE, SCRIPT = (
    Path(__file__).with_name(f"explore.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
)


class Page(str):
    """HTML of a page. A notebook shows it as the result of a cell, in a sandboxed frame."""

    def __repr__(self) -> str:
        return f"<a page of {len(self):,} characters: write it to a file that ends in .html>"

    def _repr_html_(self) -> str:
        frame = 'sandbox="allow-scripts" style="width: 100%; height: 900px; border: 0"'
        return f'<iframe title="Every head of a record" {frame} srcdoc="{html.escape(self)}"></iframe>'


def explore(
    record: Record, *, before: Record | None = None, sentence: int = 0, site: Site | None = None, head: int = 0
) -> Page:
    """Write all heads of a record as one page: thumbnails, each head as map, lines and text, and the predictions.

    Args:
        before: run without changes, to show its predictions for comparison.
        site, head: head that is shown first; by default the first head of the first site that is on the page.

    Raises:
        InputError: if there is no such sentence, site or head, or too many weights for a page.
    """
    if not 0 <= sentence < len(record.sentences):
        raise InputError(f"There is no sentence {sentence}; there are {len(record.sentences)}, counted from 0.")
    steps = [step for step in record.steps if step.mixing == "softmax"]
    linear = ", ".join(str(step.site) for step in record.steps if step.mixing == "linear")
    left_out = f"not on this page: {linear} (linear attention, whose weights may be negative)" if linear else ""
    if not steps:
        raise InputError(f"'{record.source}' has no attention to show{left_out and f'; {left_out}'}.")
    count = sum(step.num_heads * step.shape[2] * step.shape[3] for step in steps)
    if count > MOST_WEIGHTS:
        limit = f"a page holds {MOST_WEIGHTS:,} at most"
        raise InputError(f"All heads together have {count:,} weights; {limit}: shorten the text.")
    first = record.step(site) if site and record.step(site).mixing == "softmax" else steps[0]
    if not 0 <= head < first.num_heads:
        raise InputError(f"There is no {first.site.head(head)}; there are {first.num_heads}.")
    texts: list[list[list[Any]]] = []
    grids: dict[bytes, int] = {}
    sites, levels_by_site = zip(*(_site(record, step, sentence, texts, grids) for step in steps), strict=True)
    bits, blocks = 16, [deflate(planes(site_levels)) for site_levels in levels_by_site]
    if sum(map(len, blocks)) > LARGE:
        weights = np.append(np.arange(2**16 - 1) / (2**16 - 2), np.nan)  # weight of each 16-bit level
        bits, level_8_bit = 8, levels(weights, bits=8)  # 8-bit level by 16-bit level
        blocks = [deflate(planes(level_8_bit[site_levels])) for site_levels in levels_by_site]
    notes = [
        theme.CAUTIONS.get(record.provenance, ""),
        f"kept as {record.precision}" if record.precision else "",
        record.unseen,
        left_out,
        *record.findings,
        views.READ_ONLY if record.read_only else "",
    ]
    data = {
        "title": f"Every head · {in_title(record.source)}",
        "about": [text for text in notes if text],
        "changed": [visible_text(text, 200).replace("␣", " ") for text in record.edits.in_words()],
        "bits": bits,
        "texts": texts,
        "sites": sites,
        "grids": [deflate(grid) for grid in grids],
        "opens": [[step.site for step in steps].index(first.site), head],
        "predicted": _predictions(record, before, sentence),
    }
    elements = [f'<script type="text/plain" id="weights-{i}">{block}</script>' for i, block in enumerate(blocks)]
    return fill_page(data, elements)


def fill_page(
    data: dict[str, Any], blocks: Sequence[str], scripts: Sequence[str] = (), style: str = "", **parts: str
) -> Page:
    """Write a page with data and scripts; its security policy allows only these scripts and styles, by their hash.

    Args:
        data: content of the page, see `explore`.
        blocks: HTML elements that contain weights.
        scripts, style: JavaScript that runs before explore.js, and CSS after explore.css.
        parts: HTML above the pictures (ask), beside the large picture (side), and below it (more).
    """
    drawing = {
        "themes": {name: asdict(colors) for name, colors in (("light", theme.LIGHT), ("dark", theme.DARK))},
        "captions": {kind: Domain(kind).caption for kind in ("fixed", "shared", "log")},
        "policies": POLICIES,
        "filled": sentences.FILLED,
        "says": sentences.CELL | {"off": sentences.OFF},
    }
    dark = f"@media (prefers-color-scheme: dark) {{ {_colors(theme.DARK)} }}"
    style, scripts = "\n".join([_colors(theme.LIGHT), dark, STYLE, style]), [*scripts, SCRIPT]
    return Page(
        Template(TEMPLATE).substitute(
            {"ask": "", "side": "", "more": ""} | parts,
            policy=policy(*scripts, styles=digest(style)),
            title=escape_html(data["title"]),
            style=style,
            data=escape_json(json_text(clean(drawing | data))),
            weights="\n".join(blocks),
            scripts="\n".join(f'<script type="module">{script}</script>' for script in scripts),
        )
    )


def _colors(colors: theme.Theme) -> str:
    """Write the colors and fonts of a theme as CSS variables."""
    named = "".join(f"--{name}: {value}; " for name, value in asdict(colors).items() if isinstance(value, str))
    return f":root {{ {named}--font: {theme.FONT}; --mono: {theme.MONO}; }}"


def _site(
    record: Record, step: Step, sentence: int, texts: list[list[list[Any]]], grids: dict[bytes, int]
) -> tuple[dict[str, Any], np.ndarray]:
    """Return a description of an attention call for explore.js, and its weights (H, Q, K) as integers, see `levels`.

    Args:
        texts: token lists of all calls, to which new lists are added. A token is a list of its label, whether it is
            special, and whether it continues a word.
        grids: index of each grid (Q, K) of blocking rules, as bytes, to which new grids are added.
    """
    view = views.see(record, step.site, sentence=sentence)
    cells_by_head = analysis.cells_of(step, range(step.num_heads), sentence=sentence, scores=False)
    reasons = [*map(sentences.blocked_by, cells_by_head[0].reasons[:MOST_RULES])]
    if len(cells_by_head[0].reasons) > MOST_RULES:
        reasons.append("blocked by another combination of rules")
    heads = []
    for head, cells in enumerate(cells_by_head):
        scale = adaptive_domain(cells, view)
        facts: dict[str, Any] = {"largest": float(np.nanmax(cells.weights, initial=0))}
        if scale.kind == "adapts":
            facts["ends"], facts["caption"] = scale.top, scale.caption
        if cells.reasons:
            grid = np.minimum(cells.blocked, MOST_RULES + 1).astype(np.uint8).tobytes()
            facts["grid"] = grids.setdefault(grid, len(grids))  # equal grids are stored once
        masked_rows = np.flatnonzero((cells.states == analysis.EMPTY).all(1)).tolist()
        if masked_rows and cells.weights.shape[1]:
            facts["empty"] = masked_rows
        if head in step.heads_off:
            facts["off"] = True
        heads.append(facts)
    sides = []
    for tokens in record.tokens(step.site, sentence=sentence):
        text = [[visible_text(token.text), int(token.special), int(token.joined)] for token in tokens]
        if text not in texts:
            texts.append(text)
        sides.append(texts.index(text))
    top = max([1.0, *(facts["largest"] for facts in heads)])
    site = {
        "name": str(step.site),
        "kind": step.site.kind,
        "layer": step.site.layer,
        "shape": [*step.shape[2:]],
        "top": top,
        "policy": step.scoring.empty_rows,
        "reasons": reasons,
        "heads": heads,
        "queries": sides[0],
        "keys": sides[1],
        "predicts": record.predicted(step.site, sentence=sentence) is not None,
    }
    return site, levels(np.stack([cells.weights for cells in cells_by_head]) / top)


def levels(shares: np.ndarray, bits: int = 16) -> np.ndarray:
    """Quantize weights, as shares of the largest weight, to integers: 1.0 becomes 2**bits - 2, and NaN 2**bits - 1.

    The error is at most 0.000008; with 8 bits, square roots are quantized with an error of at most 0.004.
    """
    shares = np.clip(shares, 0, 1)
    scaled = np.rint((shares if bits == 16 else np.sqrt(shares)) * (2**bits - 2))
    return np.where(np.isnan(scaled), 2**bits - 1, scaled).astype(f"<u{bits // 8}")  # low bytes first


def planes(integers: np.ndarray) -> bytes:
    """Return the low bytes of all integers, then the high bytes; deflate compresses this order better."""
    flat = np.ascontiguousarray(integers).reshape(-1)
    return flat.view(np.uint8).reshape(-1, flat.itemsize).T.tobytes()


def deflate(content: bytes) -> str:
    """Deflate bytes and encode them as base64; only runs are compressed, because weights other than 0 rarely repeat."""
    compressor = zlib.compressobj(strategy=zlib.Z_RLE)
    return base64.b64encode(compressor.compress(content) + compressor.flush()).decode()


def _predictions(record: Record, before: Record | None, sentence: int) -> dict[str, Any]:
    """Collect the predictions of both runs for explore.js: labels, generated text, and words at each position.

    A word or label is a list of its text, its probability (or number), and the same number in the run `before`.
    """
    facts: dict[str, Any] = {}
    if record.labels is not None:
        for label in analysis.labels(record, before=before, sentence=sentence):
            values = [label.probability, label.before]
            if analysis.is_number(record):
                values = [None if value is None else sentences.label_value(record, value) for value in values]
            facts.setdefault("labels", []).append([visible_text(label.word), *values])
    if (prediction := record.prediction) is None:
        return facts
    if prediction.written:
        runs = [run for run in (record, before) if run and run.prediction and run.prediction.written]
        facts["written"] = [visible_text(run.prediction.written[sentence], 2000).replace("␣", " ") for run in runs]
    positions, where = range(record.read[sentence].length), "after"
    if prediction.blanks is not None:
        positions, where = prediction.blanks[sentence], "in place of"
    where = "of" if prediction.classes else where
    facts.update({"where": where, "what": sentences.PREDICTED[where], "words": {}})
    for position in positions:
        words = analysis.next_words(record, position, before=before, sentence=sentence)
        token = visible_text(analysis.token_at(record, position, sentence=sentence))
        rows = [[visible_text(next_word.word), next_word.probability, next_word.before] for next_word in words]
        facts["words"][position] = {"token": token, "words": rows}
    return facts


FILES = ("text.js", "model.js", "record.js", "live.js")
NOT_HERE = ("padding", "random", "media")
"""Rules that do not exist in a live page, because they need a batch, a 64-bit hash or pictures."""


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
        weights: content of a file from `attnviz.models.trained.write`: float16 weights with the sizes of the model.
        reads: input vocabulary by token id, `Vocabulary.names`.
        text: text in the input box when the page opens.
        writes: output vocabulary of a translator, by token id.
        name: name of the model, for the title and for file names.
        about: sentences under the title.

    Raises:
        InputError: if `weights` is no file of a model, or a vocabulary does not have the size of the model.
    """
    for names, size in zip((reads, writes), _vocabulary_sizes(weights), strict=True):
        if len(names) != size:
            raise InputError(f"The weights of '{name}' are for {size:,} words; the vocabulary has {len(names):,}.")
    empty_data = {"changed": [], "bits": 16, "texts": [], "sites": [], "grids": [], "opens": [0, 0], "predicted": {}}
    content = {
        "title": f"{in_title(name[:1].upper() + name[1:])}: attention, live",
        "about": [*about, "Nothing you type leaves this page."],
        "live": {"name": visible_text(name), "text": text, "reads": [*reads], "writes": [*writes]},
    }
    rules = [_rule_script(rule) for rule in dict.fromkeys(KEYWORDS.values()) if rule.keyword not in NOT_HERE]
    constants = f"const RULES = {{{', '.join(rules)}}};", f"const NOT_HERE = {json.dumps(NOT_HERE)};"
    label = "Sentence to translate" if writes else "Text"
    parts = {part: Template(_live_file(f"{part}.html")).substitute(label=label) for part in ("ask", "side", "more")}
    block = f'<script type="text/plain" id="model">{deflate(weights)}</script>'
    script = "\n".join([*constants, *map(_live_file, FILES)])
    return fill_page(empty_data | content, [block], [script], _live_file("live.css"), **parts)


def _live_file(name: str) -> str:
    """Read a file of the folder `live`: JavaScript, HTML or CSS of live pages."""
    return (Path(__file__).with_name("live") / name).read_text("utf-8")


def _vocabulary_sizes(weights: bytes) -> tuple[int, int]:
    """Read the sizes of the input and of the output vocabulary from a safetensors file of `trained.write`."""
    try:
        header_size = int.from_bytes(weights[:8], "little")
        header = json.loads(weights[8 : 8 + header_size])
        sizes = json.loads(header.pop("__metadata__")["config"])
        formats = {tensor["dtype"] for tensor in header.values()}
        counts = int(sizes["vocabulary"]), int(sizes["written"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        advice = "write them with attnviz.models.trained.write"
        raise InputError(f"These weights are not a model of attnviz.models; {advice}.") from None
    if formats != {"F16"} or len(weights) > MOST_BYTES:
        what = f"These weights have {len(weights):,} bytes of {', '.join(sorted(formats))}"
        raise InputError(f"{what}; a page takes F16 and up to {MOST_BYTES:,} bytes.")
    return counts


def _rule_script(rule: type[Mask]) -> str:
    """Write a rule in JavaScript: its keyword, syntax and parameters, and a function that builds its predicate."""
    fields = {"name": "name", "kind": "kind", "least": "least", "required": "required", "fallback": "default"}
    numbers = [{name: getattr(part, field) for name, field in fields.items()} for part in rule.parameters()]
    facts = f"form: {json.dumps(form(rule))}, numbers: {json.dumps(numbers)}, make: {javascript(rule)}"
    return f"{rule.keyword}: {{{facts}}}"
