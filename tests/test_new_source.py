"""A new source is one file in attnviz/sources, and the app, the shell and notebooks have it."""

import subprocess
import sys
from pathlib import Path

from attnviz.sources import base
from attnviz.sources.scratch import Scratch

MIRROR = '''
from dataclasses import dataclass

import torch

from attnviz import tokenizers
from attnviz.core.edits import Edits, Site
from attnviz.core.parameters import parameter
from attnviz.core.record import Record
from attnviz.core.tap import Tap
from attnviz.sources.base import Source


@dataclass(frozen=True)
class Mirror(Source):
    """Each token looks most at itself."""

    sharpness: int = parameter("Sharpness", default=3, least=1, most=9)

    names = ("mirror",)
    name = "mirror"
    provenance = "constructed"
    title = "Mirror"
    does = "Each token looks most at itself."
    sites = (Site("encoder", 0),)
    num_heads = 2
    d_model = 8

    def tokenize(self, texts):
        return tokenizers.batch(tokenizers.load("words"), texts)

    def run(self, sentences, edits=Edits(), targets=()):
        self.check_targets(targets)
        n = len(sentences[0].tokens)
        x = self.sharpness * torch.eye(n).expand(len(sentences), 2, n, n)
        tap = Tap(edits)
        output = tap.attend(x, x, x, site=self.sites[0])
        return Record(sentences, self.name, self.provenance, edits, tuple(tap.steps), output.mean(1))
'''

FIND = """
import sys
import attnviz.sources
attnviz.sources.__path__.append(sys.argv[1])
"""

NOTEBOOK = """
import attnviz
record = attnviz.analyze("a b c", "mirror", sharpness=9)
assert record.source == "mirror"
assert record.steps[0].weights(0).argmax(-1).tolist() == [0, 1, 2]
"""

SHELL = """
import os
from attnviz.cli import main
os.chdir(sys.argv[1])
assert main(["models"]) == 0
assert main(["models", "mirror"]) == 0
assert main(["export", "a b c", "--model", "mirror:sharpness=2", "-o", "a.npz"]) == 0
assert main(["export", "a b c", "--model", "translator:sharpness=2"]) == 2
"""

APP = """
from streamlit.testing.v1 import AppTest

page = "import streamlit as st; from attnviz.ui import inputs, main, request; request.read_address(main.FIRST)"
page += "; st.session_state['model and request'] = inputs.row(); main.body('Heads')"
app = AppTest.from_string(page, default_timeout=60)
app.query_params["model"] = "mirror:sharpness=5"
app.run()
assert not app.exception, app.exception
assert app.get("vega_lite_chart")
app.selectbox(key="model").set_value("mirror").run()
assert not app.exception, app.exception
"""


def test_a_new_source_is_found_at_every_door(tmp_path):
    """Its name, its one sentence and its own setting; nothing else of attnviz names it."""
    (tmp_path / "mirror.py").write_text(MIRROR)

    done = subprocess.run(
        [sys.executable, "-c", FIND + NOTEBOOK + SHELL + APP, str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert "mirror       constructed   Each token looks most at itself." in done.stdout


def test_a_class_that_derives_from_a_source_takes_no_name_from_it():
    """Whoever changes what a source does for a trial leaves what others load as it is."""
    before = dict(base.CLASSES)
    type("Trial", (Scratch,), {})

    assert before == base.CLASSES
