"""Plain English in the app, the documentation, the code and its tests."""

import ast
import re

import pytest
from repository import ROOT, nodes

INSTEAD = {
    r"Take away": "Export",
    r"^It (says|writes)\b|\bit says '|What A and B say": "Predictions, Translation",
    r"Nothing is changed: this is the model": "Original model",
    r"[Tt]he model's own mask|model's own mask": "built-in mask",
    r"Trained: after": "Training step",
    r"How that is known": "Evidence",
    r"\(looks\)|\(is looked at\)": "(from), (to)",
    r"Heads on\b": "Active heads",
    r"Beside it, heads|Weights from$": "Also show, Minimum weight",
    r"what is framed is|to let it go": "Selected cell outlined; Esc to clear",
    r": not here$": "not used",
    r"^Play$": "Try changes",
    r"^Across$|^Up$": "X axis, Y axis",
    r"it has to be tried": "Weights do not show importance: test it",
    r"Of what stands at": "is mixed from",
    r"What reaches what": "Attention rollout",
    r"^Of full attention": "Cost if blocked cells are skipped",
    r"closed and still|saw what it may": "Expected; blocked, no effect; allowed",
    r"\ban exhibit ": "example bug",
    r"row without a key|[Rr]ows without keys": "fully masked row",
    r"It holds: guessed": "Type: auto-detect",
    r"A is what is chosen above": "Compare with",
    r"^row moved|\b[AB] more\b": "difference per row, higher in A",
    r"could not be read in full": "The page opens without the link setting",
    r"gives vectors": "sentence embeddings",
    r"^So many\b|\bof it, kept\b": "a noun with its unit",
}
"""Patterns of words that are not written, and the words to write instead."""


RIDDLES = re.compile(r"\s*(Of|What|That|Those|Where|With which|From which|Which|Who)\b")
"""Pattern of the beginning of a docstring that does not say at once what a thing is or does."""


def texts() -> list[tuple[str, str]]:
    """Return each text of the interface and the documentation with its file: string constants of code, other lines."""
    code = [
        (file, node.value)
        for file, parts in (nodes() | nodes("docs")).items()
        for node in parts
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    places = ("attnviz/**/*", "assets/models/*/card.json", "README.md", "docs/**/*")
    endings = (".js", ".html", ".json", ".md", ".ipynb")
    files = [file for place in places for file in ROOT.glob(place) if file.suffix in endings]
    return code + [
        (str(file.relative_to(ROOT)), line) for file in files for line in file.read_text("utf-8").splitlines()
    ]


def test_words_of_the_field_are_used():
    """In the interface, docstrings, cards and documentation."""
    patterns = {re.compile(old, re.M): new for old, new in INSTEAD.items()}
    wrong = [
        f"{file}: {text[:80]!r}; say: {new}"
        for file, text in texts()
        for old, new in patterns.items()
        if old.search(text)
    ]

    assert wrong == []


@pytest.mark.parametrize("folder", ["attnviz", "tests"])
def test_docstrings_begin_with_a_noun_or_a_verb(folder):
    """Also docstrings of constants: not "What is read of ..." but "Text that is read from ..."."""
    wrong = [
        f"{file}:{node.lineno}: {node.value.value[:80]}"
        for file, parts in nodes(folder).items()
        for node in parts
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if RIDDLES.match(node.value.value)
    ]

    assert wrong == []
