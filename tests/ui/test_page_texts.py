"""Texts of the interface stand in one place for each page, so that they can be translated."""

import ast
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from string import Formatter

import pytest
import test_new_app as new_app

from attnviz import ui
from attnviz.ui.shared import pages, words

FOLDER = Path(ui.__file__).parent
FOLDERS = sorted({str(path.parent.relative_to(FOLDER)) for path in FOLDER.rglob("*.py")} - {"steps"})
NEW = {*FOLDER.glob("pages/**/*.py"), *(FOLDER / f"{name}.py" for name in new_app.ROOMS)}
"""Files of the new app, whose texts stand where they are shown."""
MARKUP = re.compile(r"<[^<>]*>?|^[^<>]*>|\"? [\w-]+=\"|:material/\w*:?")
TEXT = re.compile(r"\W*([A-Z][a-z]+\b(?![.(\w])|[a-z]+ [a-z]+ [a-z]+)|.*[a-z]{2} [a-z]{2}.*[.:!?]$", re.S)
"""How a text begins or ends that is no name."""
PIECE = re.compile(r"[a-z]{2}[.,;:]? | [a-z]{2}")
"""A word beside a blank: a piece of a sentence that code glues together."""
NAMED = re.compile(r"\b(title|aria-label|alt|placeholder)=\"[^\"]")
"""What an element is called in HTML."""
NAMES = {*pages.TITLES, "Python 3"}


def texts(path: Path) -> Iterator[str]:
    """What in a module is for people to read: no names, and no code that it writes."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    others = {id(part) for node in nodes for one in _others(node) for part in ast.walk(one)}
    pieces = {id(piece) for node in nodes if isinstance(node, ast.JoinedStr) for piece in node.values}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in others:
            text = MARKUP.sub("", node.value)
            is_text = NAMED.search(node.value) or (PIECE.search if id(node) in pieces else TEXT.match)(text)
            if is_text and node.value not in NAMES:
                yield node.value


def _others(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of code with texts in them that no page shows: docstrings, types, keys, names of settings, code, CSS."""
    match node:
        case ast.Expr(ast.Constant()):
            yield node
        case ast.AnnAssign(annotation=kind) | ast.arg(annotation=kind) | ast.FunctionDef(returns=kind) if kind:
            yield kind
        case ast.Assign([ast.Name("key")], value):
            yield value
        case ast.Dict(keys, values):
            yield from filter(None, keys)
            yield from (value for key, value in zip(keys, values, strict=True) if getattr(key, "value", "") == "key")
        case ast.Call(function, arguments, keywords):
            yield from (one.value for one in keywords if one.arg in ("key", "css", "of"))
            yield from arguments[: getattr(function, "id", "") in ("session_setting", "reader")]
        case ast.JoinedStr(parts):
            text = "".join(part.value if isinstance(part, ast.Constant) else "x" for part in parts)
            if _is_code(text) or {*"{}"} & {*text}:
                yield node
        case ast.Constant(str(value)) if _is_code(value):
            yield node


def _is_code(text: str) -> bool:
    """Whether it is Python that does something: a call, or a value with a name."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text if not text.endswith(":") else f"{text} pass")
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.Call | ast.Assign | ast.For | ast.ImportFrom) for node in ast.walk(tree))


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_texts_of_a_page_stand_in_one_place(folder):
    """In its `words.py`, and nowhere else in its folder."""
    files = (path for path in (FOLDER / folder).glob("*.py") if path.name != "words.py" and path not in NEW)
    elsewhere = {path.name: [*texts(path)] for path in files}

    assert {name: found for name, found in elsewhere.items() if found} == {}


def test_no_text_stands_in_two_places():
    """What several pages say is in `shared/words.py` alone."""
    places: dict[str, set[str]] = {}
    for path in FOLDER.rglob("words.py"):
        for text in texts(path):
            places.setdefault(text, set()).add(path.parent.name)

    assert {text: found for text, found in places.items() if len(found) > 1} == {}


def _uses() -> Iterator[tuple[str, str, set[str] | None]]:
    """Each use of a text: its package, its name, and the fields that it is given; None where it is no call."""
    for path in FOLDER.rglob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        homes = {
            one.asname or one.name: node.module
            for node in nodes
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("attnviz.ui")
            for one in node.names
            if one.name == "words"
        }
        for node in nodes:
            match node:
                case ast.Attribute(ast.Name(name), text) if name in homes:
                    yield homes[name], text, None
                case ast.Call(ast.Attribute(ast.Attribute(ast.Name(name), text), "format"), _, given) if name in homes:
                    yield homes[name], text, {str(one.arg) for one in given}


def test_every_text_is_used_with_its_fields():
    """None is left over, none is missing, and each gets the values that it names."""
    modules = {home: import_module(f"{home}.words") for home in map(_home, FOLDER.rglob("words.py"))}
    held = {(home, name) for home, module in modules.items() for name in vars(module) if name.isupper()}
    uses = [*_uses()]

    assert {(home, name) for home, name, _ in uses} == held
    for home, name, given in uses:
        if given is not None:
            text = getattr(modules[home], name)
            assert given == {field for _, field, _, _ in Formatter().parse(text) if field}, (home, name)


def _home(path: Path) -> str:
    return ".".join(("attnviz", "ui", *path.relative_to(FOLDER).parent.parts))


def test_the_scripts_say_what_stands_with_the_words_of_the_pages():
    """Each text that a script asks for is there, none is left over, and each term of the glossary has its picture."""
    scripts = "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.js"))
    asked = [one for call in re.findall(r"[sS]ays\(([^)]*)\)", scripts) for one in re.findall(r'"([a-z ]+)"', call)]
    pictures = re.search(r"const PICTURES = \{\n(.*?)\n  \};", scripts, re.S)

    assert {*asked} == {*words.IN_BROWSER}
    assert re.findall(r'^    "([a-z ]+)": ', pictures[1], re.M) == [*words.TERMS]
    assert {*words.ALSO_CALLED.values()} <= {*words.TERMS}
    assert not re.findall(r'(?:textContent = |title = |"aria-label", |placeholder: )["`][^"`]', scripts)
