"""The words that people of the field use: none of those that stood in their place comes back."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
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
"""Patterns of what is not written, and the words instead."""


def texts(file: Path) -> list[str]:
    """What a file says to people: the string constants of code, the lines of everything else."""
    if file.suffix != ".py":
        return file.read_text(encoding="utf-8").splitlines()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def said() -> list[tuple[Path, str]]:
    folders = ("attnviz/**/*", "assets/models/*/card.json", "README.md", "docs/**/*")
    files = [file for folder in folders for file in ROOT.glob(folder)]
    read = [file for file in files if file.suffix in (".py", ".js", ".html", ".json", ".md", ".ipynb")]
    return [(file.relative_to(ROOT), text) for file in read if "training" not in file.parts for text in texts(file)]


def test_no_old_word_is_said():
    """Neither in the interface nor in the docstrings, cards and documentation."""
    found = [
        f"{file}: {text[:80]!r}; say: {new}"
        for file, text in said()
        for old, new in INSTEAD.items()
        if re.search(old, text, re.M)
    ]

    assert found == []
