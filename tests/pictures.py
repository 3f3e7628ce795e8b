"""Records of any tokens, without a tokenizer, and pictures drawn in another process."""

import atexit
import base64
import io
import json
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from PIL import Image

from attnviz import figures
from attnviz.core.edits import Edits, Site
from attnviz.core.record import Prediction, Record
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token

SITE = Site("encoder", 0)
CROSS = Site("cross", 0)

HOSTILE = (
    "constructor",
    '"+alert(1)+"',
    "</script><b>",
    "\x00\x07\x1b\x7f\x85",
    "\ud83d\udc08"[0],
    "\ufffe\uffff",
    "👩‍👩‍👧‍👦",
    "שלום\u202e\u200f",
    "a" * 200,
    "datum.label",
    "{{x}}",
    "",
    " \t\n",
    "e" + "\u0301" * 50,
    "=1+1",
    "$x$",
)
"""Tokens that have broken a picture, a page or a process."""

_DRAW = """
import base64, json, sys
import vl_convert
def draw(spec):
    draw = vl_convert.vega_to_png if "/vega/" in spec["$schema"] else vl_convert.vegalite_to_png
    return base64.b64encode(draw(spec, allowed_base_urls=[])).decode()
for line in sys.stdin:
    print(*map(draw, json.loads(line)), flush=True)
"""


def record_of(words, *, heads=2, edits=Edits(), special=(), keys=None, scores=None):
    """Make a record of random queries and keys for these tokens; `keys` limits the keys, `scores` sets some scores.

    Args:
        special: positions of special tokens.
        scores: (head, query, key) -> a bias that is added to that score.
    """
    n, m = len(words), len(words) if keys is None else keys
    tokens = tuple(Token(word, i, 0, 0, special=i in special) for i, word in enumerate(words))
    generator = torch.Generator().manual_seed(7)
    query, key = (torch.randn(1, heads, length, 5, generator=generator) for length in (n, m))
    value = torch.randn(1, heads, m, 3, generator=generator)
    bias = torch.zeros(1, heads, n, m)
    for place, score in (scores or {}).items():
        bias[(0, *place)] = score
    tap = Tap(edits)
    output = tap.attend(query, key, value, site=SITE, scoring=Scoring(bias=bias if scores else None))
    sentence = Sentence(" ".join(words), tokens, n)
    return Record((sentence,), "test", "random", edits, tuple(tap.steps), output.transpose(1, 2).flatten(2))


def prediction_of(*positions, written=()):
    """Make a prediction from a dict of words and probabilities for each position."""
    vocabulary = tuple(dict.fromkeys(word for words in positions for word in words))
    logits = torch.tensor([[words.get(word, 0.0) for word in vocabulary] for words in positions]).log()
    return Prediction(logits.unsqueeze(0), vocabulary, written)


def story_of(words, *positions, edits=Edits(), length=None):
    """Make a record of a model that predicts words after each token; tokens after `length` are padding."""
    record = record_of(words, edits=edits, special=range(length or len(words), len(words)))
    sentence = replace(record.sentences[0], length=length or len(words))
    return replace(record, source="story", sentences=(sentence,), prediction=prediction_of(*positions))


def filled_of(words, blanks, *positions, edits=Edits()):
    """Make a record of a model that fills in blanks, from the probabilities of words at each position."""
    record = story_of(words, *positions, edits=edits)
    return replace(record, prediction=replace(record.prediction, blanks=(tuple(blanks),)))


def labels_of(words, logits, *, names=("bad", "so so", "good"), edits=Edits()):
    """Make a record of a model that classifies."""
    return replace(record_of(words, edits=edits), labels=(tuple(names), torch.tensor([logits])))


def vectors_of(texts, vectors, *, edits=Edits()):
    """Make a record of sentences with one vector each."""
    record = record_of(["w"], edits=edits)
    sentences = tuple(replace(record.sentences[0], text=text) for text in texts)
    return replace(record, sentences=sentences, vectors=torch.tensor(vectors))


def translation_of(words, *positions, edits=Edits(), heads=2):
    """Make a record of an encoder-decoder, whose decoder reads <sos> and its own predictions except the last."""
    prediction = prediction_of(*positions)
    read = ["<sos>", *prediction.words()[:-1]]
    prediction = replace(prediction, written=(" ".join(read[1:]),))
    record = record_of(read, keys=len(words), heads=heads, edits=edits)
    tokens = tuple(Token(word, i, 0, 0) for i, word in enumerate(words))
    targets = (replace(record.sentences[0], text=prediction.written[0]),)
    steps = tuple(replace(step, site=CROSS) for step in record.steps)
    source = (Sentence(" ".join(words), tokens, len(words)),)
    return replace(record, source="translator", sentences=source, steps=steps, targets=targets, prediction=prediction)


@cache
def _drawing() -> subprocess.Popen:
    """Start the process that draws the pictures of all tests; its first picture takes as long as ten later ones."""
    process = subprocess.Popen(
        [sys.executable, "-c", _DRAW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="ascii"
    )
    atexit.register(process.kill)
    return process


def draw(*specs):
    """Draw specifications; return the pixels of each, (height, width, 3)."""
    process = _drawing()
    patience = threading.Timer(120, process.kill)
    patience.start()
    try:
        print(json.dumps(specs), file=process.stdin, flush=True)
        answer = process.stdout.readline()
    finally:
        patience.cancel()
    if not answer:
        _drawing.cache_clear()
        raise AssertionError("vl-convert ended; what it said stands in stderr.")
    pictures = (Image.open(io.BytesIO(base64.b64decode(part))) for part in answer.split())
    return [np.asarray(picture.convert("RGB")).astype(int) for picture in pictures]


WRITTEN, CHECKED = {}, set()
"""The last charts as Vega-Lite, by their id, and the specifications that Vega-Lite's schema has accepted."""


def written(chart):
    """Return a chart as Vega-Lite; each form is checked against the schema only once, which takes 0.1 s."""
    if id(chart) not in WRITTEN:
        if len(WRITTEN) == 8:
            WRITTEN.clear()
        spec = chart.to_dict(validate=False)
        form = json.dumps([spec | {"datasets": None}, sorted(spec.get("datasets", {}))])
        if form not in CHECKED:
            chart.to_dict()
            CHECKED.add(form)
        WRITTEN[id(chart)] = chart, spec
    return WRITTEN[id(chart)][1]


def data(chart, name):
    """The rows of a named dataset of a chart."""
    return written(chart)["datasets"][name]


def color_legend(chart):
    """The color of a chart that has a legend."""
    return next(layer["encoding"]["color"] for layer in written(chart)["layer"] if "color" in layer["encoding"])


def title(chart):
    """The title of a chart, as one line."""
    return " ".join(written(chart)["title"]["text"])


def lines(chart):
    """The lines under the title of a chart."""
    return written(chart)["title"].get("subtitle", [])


def legend(chart):
    """The texts of the legend of signs."""
    return [row["says"][3:] for row in data(chart, "legend") if row["says"][3:]]


def notes(chart):
    """The texts at the ends of the rows of a grid that have one."""
    return [row["note"] for row in data(chart, "rows") if row.get("note")]


def names(chart):
    """The names beside rows of bars."""
    return [row["name"] for row in data(chart, "rows")]


def bars(chart, column=0, field="share"):
    """Return the bars of a column as shares of the longest, without those that are not numbers."""
    return [row[f"{field}_{column}"] for row in data(chart, "rows") if row[f"{field}_{column}"] is not None]


def texts(chart, column=0):
    """The texts of a column beside names."""
    return [row[f"text_{column}"] for row in data(chart, "rows")]


def said(chart):
    """The lines under the title of a chart, as one."""
    return " ".join(lines(chart))


def without_data(chart):
    return {name: part for name, part in written(chart).items() if name != "datasets"}


def drawn(figure):
    """A figure's chart, as a file holds it, by the arguments of the figure."""
    return lambda *given, **options: figure(*given, **options).chart


heatmap, heads, mask_grid, leaks = map(drawn, (figures.head, figures.heads, figures.mask, figures.leaks))
strand_lines, text_strip, overview = map(drawn, (figures.lines, figures.text_strip, figures.overview))
change, labels = map(drawn, (figures.change, figures.labels))
next_word, step_by_step = map(drawn, (figures.next_word, figures.step_by_step))
