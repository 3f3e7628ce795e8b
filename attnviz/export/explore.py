"""A whole record as one HTML file: every head, to look through in any browser, without Python and without a network.

The weights are levels of 16 bits, the low bytes before the high bytes, deflated, one block for each attention call; of
very many weights they are levels of 8 bits. What reads and draws them is explore.js.
"""

import base64
import html
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from attnviz import metrics, views, words
from attnviz.charts import theme
from attnviz.charts.domain import POLICIES, Domain, adapted
from attnviz.core.display import in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Token
from attnviz.export import page, spec

LARGE = 20_000_000
"""Characters of all weights above which a page holds them in 8 bits."""

MOST_WEIGHTS = 80_000_000
"""Weights of a page at most: in 8 bits about 80 MB, which a browser still opens."""

MOST_RULES = 254
"""Combinations of rules that a cell's byte tells apart; any other is called `OTHER_RULES`."""

OTHER_RULES = "another combination of rules"

NAN = 2**16 - 1
"""The level of a weight that is not a number."""

TEMPLATE, STYLE, SCRIPT = (
    Path(__file__).with_name(f"explore.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
)


class Page(str):
    """The text of a page. As the last line of a notebook's cell it is shown there, in a frame that reaches nothing."""

    def __repr__(self) -> str:
        return f"<a page of {len(self):,} characters: write it to a file that ends in .html>"

    def _repr_html_(self) -> str:
        frame = 'sandbox="allow-scripts" style="width: 100%; height: 900px; border: 0"'
        return f'<iframe title="Every head of a record" {frame} srcdoc="{html.escape(self)}"></iframe>'


def explore(
    record: Record, *, before: Record | None = None, sentence: int = 0, site: Site | None = None, head: int = 0
) -> Page:
    """Every head of a record as one page: a mosaic, each head as a map, as lines and as a text, and what is predicted.

    Args:
        before: the run without changes, for what was predicted then.
        site, head: where the page opens; the first if they are not given.

    Raises:
        InputError: if there is no such sentence, site or head, or too many weights for a page.
    """
    steps = _steps(record, sentence)
    opens = [step.site for step in steps].index(record.step(site).site) if site else 0
    if not 0 <= head < steps[opens].num_heads:
        raise InputError(f"There is no {steps[opens].site.head(head)}; there are {steps[opens].num_heads}.")
    bits, blocks, sites, grids = _packed(record, steps, sentence)
    data = _facts(record) | {
        "bits": bits,
        "texts": [],
        "sites": sites,
        "grids": grids,
        "opens": [opens, head],
        "predicted": _predicted(record, before, sentence),
    }
    for facts, step in zip(sites, steps, strict=True):
        facts |= _axes(record, step, sentence, data["texts"])
    weights = (f'<script type="text/plain" id="weights-{i}">{block}</script>' for i, block in enumerate(blocks))
    return written(data, [*weights])


def _steps(record: Record, sentence: int) -> tuple[Step, ...]:
    """The attention calls of a page."""
    if not 0 <= sentence < len(record.sentences):
        have = f"there are {len(record.sentences)}, counted from 0"
        raise InputError(f"There is no sentence {sentence}; {have}.")
    if not record.steps:
        raise InputError(f"'{record.source}' has no attention to show.")
    weights = sum(step.num_heads * step.shape[2] * step.shape[3] for step in record.steps)
    if weights > MOST_WEIGHTS:
        most = f"a page holds {MOST_WEIGHTS:,} at most"
        raise InputError(f"All heads together have {weights:,} weights; {most}: shorten the text.")
    return record.steps


def written(
    data: dict[str, Any],
    blocks: Sequence[str],
    *,
    scripts: Sequence[str] = (),
    style: str = "",
    ask: str = "",
    side: str = "",
    more: str = "",
) -> Page:
    """The page: what it shows is data that no browser runs; its scripts and its style are known by their hashes.

    Args:
        blocks: elements that hold weights.
        scripts: those that run before the one that draws.
        style: more of it.
        ask, side, more: HTML that stands above the pictures, beside the large one, and under it.
    """
    dark = f"@media (prefers-color-scheme: dark) {{ {_colors(theme.DARK)} }}"
    style, scripts = "\n".join([_colors(theme.LIGHT), dark, STYLE, style]), [*scripts, SCRIPT]
    return Page(
        Template(TEMPLATE).substitute(
            policy=page.policy(*scripts, styles=page.digest(style)),
            title=page.escaped(data["title"]),
            style=style,
            ask=ask,
            side=side,
            more=more,
            data=page.inert(spec.to_json(spec.clean(data))),
            weights="\n".join(blocks),
            scripts="\n".join(f'<script type="module">{script}</script>' for script in scripts),
        )
    )


def _colors(colors: theme.Theme) -> str:
    named = "".join(f"--{name}: {value}; " for name, value in asdict(colors).items() if isinstance(value, str))
    return f":root {{ {named}--font: {theme.FONT}; --mono: {theme.MONO}; }}"


def _facts(record: Record) -> dict[str, Any]:
    """Texts of the whole page, and how it is drawn."""
    notes = [
        theme.CAUTIONS.get(record.provenance, ""),
        f"kept as {record.precision}" if record.precision else "",
        record.unseen,
        *record.findings,
        views.READ_ONLY if record.read_only else "",
    ]
    return {
        "title": f"Every head · {in_title(record.source)}",
        "about": [text for text in notes if text],
        "changed": [visible_text(text, 200).replace("␣", " ") for text in record.edits.in_words()],
        **drawing(),
    }


def drawing() -> dict[str, Any]:
    """Colors, and the words for scales and cells: what `explore.js` draws any page with."""
    return {
        "themes": {name: asdict(colors) for name, colors in (("light", theme.LIGHT), ("dark", theme.DARK))},
        "captions": {kind: Domain(kind).caption for kind in ("fixed", "shared", "log")},
        "policies": POLICIES,
        "filled": words.FILLED,
        "says": words.CELL | {"off": words.OFF},
    }


# Weights


def _packed(
    record: Record, steps: Sequence[Step], sentence: int
) -> tuple[int, list[str], list[dict[str, Any]], list[str]]:
    """How many bits a weight has, and the weights, facts and rules of every site: 16 bits, or 8 where that is large."""
    grids: dict[bytes, int] = {}
    sites, every = zip(*(_site(record, step, sentence, grids) for step in steps), strict=True)
    bits, blocks = 16, []
    for site_levels in every:
        blocks.append(deflated(planes(site_levels)))
        if sum(map(len, blocks)) > LARGE:
            bits, blocks = 8, [deflated(planes(coarse(site_levels))) for site_levels in every]
            break
    return bits, blocks, [*sites], [deflated(grid) for grid in grids]


def _site(record: Record, step: Step, sentence: int, grids: dict[bytes, int]) -> tuple[dict[str, Any], np.ndarray]:
    """The facts of a site and the levels of its weights; `grids` collects which rule blocks which cell, each once."""
    view = views.see(record, step.site, sentence=sentence)
    head_cells = metrics.cells_of(step, range(step.num_heads), sentence=sentence, scores=False)
    heads = [_head(step, head, cells, view, grids) for head, cells in enumerate(head_cells)]
    top = max([1.0, *(head["largest"] for head in heads)])
    facts = {
        "name": str(step.site),
        "kind": step.site.kind,
        "layer": step.site.layer,
        "shape": [*step.shape[2:]],
        "top": top,
        "policy": step.scoring.empty_rows,
        "reasons": _reasons(head_cells[0].reasons),
        "heads": heads,
    }
    return facts, levels(np.stack([cells.weights for cells in head_cells]), top)


def _head(
    step: Step, head: int, cells: metrics.Cells, view: views.AttentionView, grids: dict[bytes, int]
) -> dict[str, Any]:
    """How a head is colored, which rows are empty, and which rules block its cells."""
    scale = adapted(cells, view)
    facts: dict[str, Any] = {"largest": float(np.nanmax(cells.weights, initial=0))}
    if scale.kind == "adapts":
        facts["ends"], facts["caption"] = scale.top, scale.caption
    if cells.reasons:
        grid = np.minimum(cells.blocked, MOST_RULES + 1).astype(np.uint8).tobytes()
        facts["grid"] = grids.setdefault(grid, len(grids))
    if (empty := np.flatnonzero((cells.states == metrics.EMPTY).all(1))).size and cells.weights.shape[1]:
        facts["empty"] = empty.tolist()
    return facts | ({"off": True} if head in step.heads_off else {})


def _reasons(reasons: Sequence[str]) -> list[str]:
    """Names of the reasons that block a cell."""
    others = [f"blocked by {OTHER_RULES}"] if len(reasons) > MOST_RULES else []
    return [*map(words.blocked_by, reasons[:MOST_RULES]), *others]


def levels(weights: np.ndarray, top: float = 1.0) -> np.ndarray:
    """Weights as whole numbers of 16 bits: the last is NaN, the one before it `top`. The error is at most 0.000008."""
    whole = np.rint(np.clip(weights / top, 0, 1) * (NAN - 1))
    whole[np.isnan(whole)] = NAN
    return whole.astype("<u2")


def coarse(levels: np.ndarray) -> np.ndarray:
    """The same in 8 bits, of the roots of weights. The error is at most 0.004, less where weights are small."""
    table = np.rint(np.sqrt(np.arange(NAN + 1) / (NAN - 1)) * 254).astype(np.uint8)
    table[NAN] = 255
    return table[levels]


def planes(levels: np.ndarray) -> bytes:
    """All low bytes, then all high ones: deflate finds more in them."""
    flat = np.ascontiguousarray(levels).reshape(-1)
    return flat.view(np.uint8).reshape(-1, flat.itemsize).T.tobytes()


def deflated(content: bytes) -> str:
    """In base64. Weights repeat where they are 0, and hardly elsewhere, so that nothing else is looked for."""
    how = zlib.compressobj(strategy=zlib.Z_RLE)
    return base64.b64encode(how.compress(content) + how.flush()).decode()


# Tokens and predictions


def _axes(record: Record, step: Step, sentence: int, texts: list[list[list[Any]]]) -> dict[str, Any]:
    """Which texts the rows and columns of a site are; `texts` collects each once."""
    places = []
    for tokens in record.tokens(step.site, sentence=sentence):
        text = [_token(token) for token in tokens]
        if text not in texts:
            texts.append(text)
        places.append(texts.index(text))
    predicts = record.predicted(step.site, sentence=sentence) is not None
    return {"queries": places[0], "keys": places[1], "predicts": predicts}


def _token(token: Token) -> list[Any]:
    """How it is drawn; whether it was added, and whether it continues a word."""
    return [visible_text(token.text), int(token.special), int(token.joined)]


def _predicted(record: Record, before: Record | None, sentence: int) -> dict[str, Any]:
    """Predictions of the model: words after each position, what it wrote, labels; before a change as well."""
    facts: dict[str, Any] = {}
    if record.labels is not None:
        listed = metrics.labels(record, before=before, sentence=sentence)
        values = [[label.probability, label.before] for label in listed]
        if metrics.is_number(record):
            values = [
                [None if value is None else words.label_value(record, value) for value in pair] for pair in values
            ]
        facts["labels"] = [[visible_text(label.word), *pair] for label, pair in zip(listed, values, strict=True)]
    if (prediction := record.prediction) is None:
        return facts
    if prediction.written:
        runs = [run for run in (record, before) if run and run.prediction and run.prediction.written]
        facts["written"] = [visible_text(run.prediction.written[sentence], 2000).replace("␣", " ") for run in runs]
    fills = prediction.blanks is not None
    places = prediction.blanks[sentence] if fills else range(record.read[sentence].length)
    facts["where"] = "in place of" if fills else "after"
    if prediction.classes:
        facts["where"] = "of"
    facts["what"] = words.PREDICTED[facts["where"]]
    facts["words"] = {place: _next(record, before, place, sentence) for place in places}
    return facts


def _next(record: Record, before: Record | None, place: int, sentence: int) -> dict[str, Any]:
    """The words that may come after a position, and what is read there."""
    predictions = metrics.next_words(record, place, before=before, sentence=sentence)
    token = visible_text(metrics.token_at(record, place, sentence=sentence))
    rows = [[visible_text(prediction.word), prediction.probability, prediction.before] for prediction in predictions]
    return {"token": token, "words": rows}
