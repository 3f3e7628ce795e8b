"""The source whose weights are set by hand: any text, in batches too, and edits as in every other."""

import math
import os
import subprocess
import sys

import pytest
import torch

from attnviz.core.edits import Edits
from attnviz.models import constructed
from attnviz.sources.scratch import Constructed

SOURCE = Constructed()
BELOW, ABOVE = SOURCE.sites


def run(*texts, edits=Edits()):
    return SOURCE.run(SOURCE.tokenize(list(texts)), edits)


def test_any_text_is_read_and_says_where_its_weights_come_from():
    """No word is unknown, and no picture of it can be taken for something learned."""
    record = run("Zürich 猫 🐈 cat 猫")

    assert (record.source, record.provenance) == ("constructed", "constructed")
    assert record.sites == SOURCE.sites
    assert record.output.shape == (1, 5, SOURCE.d_model)
    assert record.prediction is None
    assert SOURCE.unknown(["Zürich 猫"]) == {}


def test_the_induction_head_looks_after_the_earlier_occurrence_and_needs_the_head_below():
    """The last 'the' looks at what followed the first one; without the previous-token head all look alike to it."""
    text = "the cat saw the"

    assert run(text).step(ABOVE).weights(0)[3, 1] > 0.999
    without = run(text, edits=Edits(heads_off={(BELOW, 0)}))
    assert torch.allclose(without.step(ABOVE).weights(0)[3, 1:], torch.full((3,), 1 / 3), atol=1e-3)


def haystack(tokens, depth):
    """A text in which "passcode" stands at a depth and at the end, "7041" after the first; and where that number is."""
    words = [f"w{i * 7919 % 997}" for i in range(tokens)]
    at = int(depth * (tokens - 3))
    words[at : at + 2] = ["passcode", "7041"]
    return " ".join([*words[:-1], "passcode"]), at + 1


def least_weight(sentence):
    """What the number must get at least, by the codes alone: no position is in the scores.

    The last token's code times the code before each key, times 120, is its score: 1 at the number, below it elsewhere.
    """
    codes = constructed.codes(torch.tensor([[token.id for token in sentence.tokens]]))[0].double()
    others = codes[1:-1] @ codes[-1]
    others = others[others < 0.99]
    rest = (constructed.ALIKE * (others - 1)).exp().sum() + math.exp(constructed.ALIKE * (constructed.NONE - 1))
    return float(1 / (1 + rest))


@pytest.mark.parametrize("depth", [0.0, 0.37, 0.99])
def test_a_needle_is_found_at_any_depth(depth):
    """The pair of heads gives it what its codes promise, however far away it stands."""
    (sentence,) = SOURCE.tokenize([haystack(3001, depth)[0]])
    found = SOURCE.run((sentence,)).step(ABOVE).weights(0, slice(3000, 3001))[0, haystack(3001, depth)[1]]

    assert least_weight(sentence) > 0.9999
    assert found > least_weight(sentence) - 1e-4


LONG = """
import sys
from pathlib import Path
from test_constructed_source import ABOVE, SOURCE, haystack
from attnviz import analysis

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

tokens = int(sys.argv[1])
text, at = haystack(tokens, 0.2)
SOURCE.run(SOURCE.tokenize(["a b a"]))
before = status("VmRSS")
step = SOURCE.run(SOURCE.tokenize([text])).step(ABOVE)
last = analysis.cells(step, 0, rows=slice(tokens - 512, tokens), columns=slice(at - 256, at + 256))
tiles = analysis.pooled(step, 0)
print(last.weights[-1, 256], tiles.sums.sum() / tokens, status("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says how much memory a process took at most")
@pytest.mark.parametrize("tokens", [4501, pytest.param(32_768, marks=pytest.mark.sweep)])
def test_a_long_text_is_read_without_a_matrix_of_its_square(tokens):
    """From the text to the needle's weight and the pooled map, in a process of its own, and what it takes at most."""
    command = [sys.executable, "-c", LONG, str(tokens)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    weight, sums, megabytes = map(float, done.stdout.split())

    assert weight > 0.999
    assert sums == pytest.approx(1, abs=1e-6)
    assert megabytes < 300 + 0.01 * tokens  # the matrices of the eight heads take 650 MB, and at 32,768 34 GB
