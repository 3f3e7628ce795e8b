"""Texts of the interface stand in one place for each page, so that they can be translated."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnviz import ui
from attnviz.ui.shared import pages

FOLDER = Path(ui.__file__).parent
IN_ONE_PLACE = ("learn", "model")
"""Pages whose texts are in their ``words.py``."""
TEXT = re.compile(r"[A-Z][a-z]+( |$)|(?!for )[a-z]+ [a-z]+ [a-z]+")
"""How a text begins that is no name; "for" begins lines of code."""
NAMES = {*pages.TITLES, "Python 3"}


def texts(path: Path) -> Iterator[str]:
    """What in a module is for people to read: no docstrings, no names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    refused = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Call | ast.Dict) for part in _names(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in notes | refused:
            continue
        if TEXT.match(node.value) and node.value not in NAMES:
            yield node.value


def _names(node: ast.Call | ast.Dict) -> list[ast.expr | None]:
    """Parts of an expression that name things: keys, also of widgets, and what declares a setting."""
    if isinstance(node, ast.Dict):
        return node.keys
    keys = [one.value for one in node.keywords if one.arg == "key"]
    return keys + (node.args if isinstance(node.func, ast.Name) and node.func.id in ("kept", "reader") else [])


@pytest.mark.parametrize("page", IN_ONE_PLACE)
def test_the_texts_of_a_page_stand_in_one_place(page):
    """In its `words.py`, and nowhere else in its folder."""
    elsewhere = {path.name: [*texts(path)] for path in (FOLDER / page).glob("*.py") if path.name != "words.py"}

    assert {name: found for name, found in elsewhere.items() if found} == {}
    assert [*texts(FOLDER / page / "words.py")]
