"""A source that a person's own file builds, in the shell: `--model my_model.py:build`."""

import sys

import pytest

from attnviz import api
from attnviz.cli import main

FILE = """
import torch
from parts import SEED
from attnviz import analyze
from attnviz.sources.scratch import Scratch

class Mine(Scratch):
    name = "mine"

def build():
    return Mine(seed=SEED)

made = build()

def look(edits):
    return analyze("a b", made, edits)

def fails():
    return 1 / 0

def other():
    return [1]

def model():
    return torch.nn.Linear(2, 2)

def sized(layers=2):
    return Mine(seed=SEED, num_layers=layers)
"""


@pytest.fixture
def shell(capsys, tmp_path, monkeypatch):
    """Function that runs a command in a folder with such a file; it returns status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_model.py").write_text(FILE)
    (tmp_path / "parts.py").write_text("SEED = 7\n")
    (tmp_path / "wrong.py").write_text("x = 1\nx = = 2\n")
    (tmp_path / "stops.py").write_text("import sys\n\nsys.exit(3)\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        return status, *capsys.readouterr()

    yield run
    for name in ("my_model", "parts", "wrong", "stops"):
        sys.modules.pop(name, None)
    api.OFFERED.clear()


@pytest.mark.parametrize("name", ["build", "made", "look", "sized"])
def test_what_a_file_builds_is_a_model(shell, name):
    """It imports what stands beside it, and is said to be run."""
    status, out, err = shell("predict", "a b", "--show", "tokens", "--model", f"my_model.py:{name}")

    assert (status, err) == (0, f"attnviz: the code of my_model.py is run, then {name}.\n")
    assert len(out.splitlines()) == 3
    assert sys.modules["my_model"].made.seed == 7


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("no.py:build", "There is no file '"),
        ("my_model.py:buid", "my_model.py has no 'buid'. It has: Mine, build, made, look, fails, other, model, sized."),
        ("my_model.py:fails", "Line 19 of my_model.py raised ZeroDivisionError: division by zero"),
        ("my_model.py:other", "my_model.py:other gives 'list', which is no source; let it give attnviz.wrap(model, "),
        ("my_model.py:model", "my_model.py:model gives 'Linear', which is no source; let it give attnviz.wrap(model"),
        ("wrong.py:build", "Line 2 of wrong.py raised SyntaxError: invalid syntax"),
        ("stops.py:build", "Line 3 of stops.py raised SystemExit: 3"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_sentence(shell, model, said):
    """With the line of the file, where its code raised."""
    status, out, err = shell("predict", "a b", "--show", "tokens", "--model", model)

    assert (status, out) == (2, "")
    assert err.splitlines()[1].startswith(f"attnviz: {said}")
    assert len(err.splitlines()) == 2


def test_the_app_opens_on_what_a_file_builds(shell, monkeypatch):
    """On the check of that model."""
    from attnviz.ui import launch

    opened = []
    monkeypatch.setattr(launch, "launch", lambda *given: opened.append(given))
    status, _, err = shell("app", "my_model.py:build", "--no-browser")

    assert (status, err) == (0, "attnviz: the code of my_model.py is run, then build.\n")
    assert opened == [("127.0.0.1", 8501, False, "masks?model=mine&lab=model")]
    assert api.OFFERED["mine"].seed == 7
