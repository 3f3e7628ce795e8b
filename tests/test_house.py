"""The house keeps its word: a light door, a tidy top level, and nothing in it that belongs to one machine."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable

from repository import ROOT, nodes, texts, tracked

import attnviz

FACES = {
    "app.py",
    "assets",
    "attnviz",
    "deploy",
    "docs",
    "tests",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "mkdocs.yml",
    "pyproject.toml",
    "requirements.txt",
}

VAGUE = frozenset("found one at seen known drawn said given made says shown kept asked told".split())
"""Names that do not say what they name."""


def test_each_floor_loads_no_more_than_it_needs():
    """`import attnviz` loads no drawing, no server, no model hub and no torch; each comes when it is asked for.

    A model runs where there is nothing to draw with. A shipped one opens without the compiler and sympy of torch, a
    second of imports, which come where normal numbers are drawn for "meta".
    """
    code = "import sys\n" + "".join(
        f"{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})\n"
        for statement in (
            "import attnviz",
            "from attnviz.sources.scratch import Scratch; Scratch().run(Scratch().tokenize(['a b']))",
            "from attnviz import api; source = api.load(); source.run(source.tokenize(['the cat']))",
        )
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    light, model, shipped = (set(line.split()) for line in ran.stdout.splitlines())

    drawing = {"streamlit", "altair", "vl_convert", "transformers", "pandas"}
    assert light & (drawing | {"huggingface_hub", "torch", "tokenizers"}) == set()
    assert model & drawing == set()
    assert shipped & {"sympy", "mpmath"} == set()


def test_the_frame_of_the_app_waits_for_nothing_heavy():
    """A server answers, and its pages have their frame, before torch and what draws are imported beside it."""
    code = "import sys; from attnviz.ui import main, server; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert set(ran.stdout.split()) & {"torch", "numpy", "pandas", "altair", "attnviz.analysis"} == set()


def test_every_public_name_is_there():
    """Each name of `attnviz.__all__` can be imported, also if its module loads on demand."""
    assert attnviz.__all__

    for name in attnviz.__all__:
        assert getattr(attnviz, name) is not None
        assert name in dir(attnviz)


def test_the_top_level_holds_faces_only():
    """A newcomer sees what the project is at one glance; what is made or configured hides behind a dot."""
    seen = {path.relative_to(ROOT).parts[0] for path in tracked()}

    assert {name for name in seen if not name.startswith(".")} <= FACES


CPU_BUILDS = "--find-" + "links https://download.pytorch.org/whl/cpu/torch/"
"""Line of the requirements of a host that offers no other way to a small torch."""


def test_no_file_names_this_machine_or_where_packages_come_from():
    """Paths of one machine, package hosts and index options would break the next one."""
    hosts = "|".join(["pypi" r"\.org", "pythonhosted" r"\.org", "registry" r"\.npmjs", "deb" r"\.debian"])
    options = "--(extra-)?" + "index-url|--find-" + "links|--trusted-" + "host"
    places = "/(root" + "|work" + r"|home/(?!attnviz))/\w|/opt/" + "wheels"
    found = {
        f"{name}: {match[0]}"
        for name, text in texts().items()
        for match in re.finditer(f"({hosts}|{options}|(?<![\\w.:/-])(?:{places}))", text.replace(CPU_BUILDS, ""))
    }

    assert found == set()


def test_what_the_app_runs_on_is_pinned_exactly():
    """One version each, no addresses, no options; every range of pyproject.toml admits its pin."""
    files = ("requirements.txt", "tests/requirements.txt")
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
    pins = dict(line.split("==") for line in lines if line and not line.startswith(("#", "-r")))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ranges = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]

    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", f"{name}=={version}") for name, version in pins.items())

    from packaging.requirements import Requirement

    for requirement in map(Requirement, ranges):
        assert requirement.specifier.contains(pins[requirement.name]), requirement


def test_one_version_is_told_everywhere():
    """pyproject.toml, the package, the changelog and the citation agree; that version is supported."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert attnviz.__version__ == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"| {version.rpartition('.')[0]} | yes |" in (ROOT / ".github" / "SECURITY.md").read_text()


def test_contracts_name_tests_that_there_are():
    """A room's contract, CONTRACT.md beside its tests, says what holds each of its sentences."""
    contracts = {name: text for name, text in texts().items() if name.endswith("/CONTRACT.md")}
    tests = {
        test for name, text in texts().items() if name.endswith(".py") for test in re.findall(r"def (test_\w+)", text)
    }

    assert contracts
    for text in contracts.values():
        assert set(re.findall(r"`(test_\w+)`", text)) <= tests


LONGEST = 60
"""Lines of a function at most, its docstring left out."""


def test_functions_are_short():
    """A function that does two things is two functions."""
    functions = (
        (path, part)
        for path, parts in nodes().items()
        for part in parts
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
    )

    assert [f"{name}: {part.name}" for name, part in functions if _lines(part) > LONGEST] == []


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[1 if ast.get_docstring(function) is not None and len(function.body) > 1 else 0]
    return function.end_lineno - first.lineno + 1


def bound_names(node: ast.AST) -> list[str]:
    """Names that a node of the code binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr]
    return [node.arg] if isinstance(node, ast.arg) else []


def test_names_say_what_a_thing_is():
    """Words such as "found", "seen" or "one" say nothing of a value: of all names at most 0.3 % are these."""
    names = [name for parts in nodes().values() for node in parts for name in bound_names(node)]
    vague = Counter(name for name in names if name.strip("_").lower() in VAGUE)

    assert vague.total() <= 0.003 * len(names), vague


ELSEWHERE = {"Edits.at"}
"""Public names that wait for the folders that use them."""


def public_names(body: list[ast.stmt], owner: str = "") -> list[str]:
    """Public functions, parameters and attributes of a module or class: "load", "load(text)", "Record.steps"."""
    names = []
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            names += [node.name, *public_names(node.body, f"{node.name}.")]
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            names.append(f"{owner}{node.name}")
            names += [f"{owner}{node.name}({part.arg})" for part in ast.walk(node.args) if isinstance(part, ast.arg)]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names += [f"{owner}{name}" for part in ast.walk(node) for name in bound_names(part)]
    return names


def test_public_names_say_what_a_thing_is():
    """A caller of the code reads no vague word: each name is a noun or a verb of the field."""
    names = {name for parts in nodes().values() for name in public_names(parts[0].body)}

    assert {name for name in names if re.split(r"[.(]", name.strip(")"))[-1].lower() in VAGUE} == ELSEWHERE


def files_with(is_wrong: Callable[[ast.AST], bool]) -> set[str]:
    """Files of the package with a node of that kind."""
    return {path for path, parts in nodes().items() if any(map(is_wrong, parts))}


def is_conditional_product(node: ast.AST) -> bool:
    """Whether it is a text, a number or a list times a condition: `"," * (len(parts) > 1)`."""
    if not isinstance(node, ast.BinOp | ast.AugAssign) or not isinstance(node.op, ast.Mult):
        return False
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    of_literal = any(isinstance(side, ast.Constant | ast.JoinedStr | ast.List | ast.Tuple) for side in sides)
    return of_literal and any(map(is_condition, sides))


def is_condition(node: ast.AST) -> bool:
    """Whether a node is a comparison, a `not`, an `and` or `or`, or is named as a boolean is: `is_new`, `has_sink`."""
    called = node.func if isinstance(node, ast.Call) else node
    name = getattr(called, "id", getattr(called, "attr", ""))
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, ast.Compare | ast.BoolOp) or bool(re.match(r"(is|has)_|bool$|isinstance$", name))


def is_nested_conditional(node: ast.AST) -> bool:
    return isinstance(node, ast.IfExp) and sum(isinstance(part, ast.IfExp) for part in ast.walk(node)) > 1


def extends_options(node: ast.AST) -> bool:
    """Whether a function extends a dict by `|=`: one that it hands on as `**options`, or by a dict that it writes."""
    if not isinstance(node, ast.FunctionDef):
        return False
    parts = list(ast.walk(node))
    passed = {part.value.id for part in parts if isinstance(part, ast.keyword) and is_double_star(part)}
    joined = [part for part in parts if isinstance(part, ast.AugAssign) and isinstance(part.op, ast.BitOr)]
    names = [part for part in joined if isinstance(part.target, ast.Name)]
    return any(part.target.id in passed or any(isinstance(x, ast.Dict) for x in ast.walk(part.value)) for part in names)


def is_double_star(keyword: ast.keyword) -> bool:
    return keyword.arg is None and isinstance(keyword.value, ast.Name)


def test_code_is_plain():
    """A condition is an `if`, one at a time; what a call gets stands in the call, or in one dict before it."""
    assert files_with(is_conditional_product) == set()
    assert files_with(is_nested_conditional) == set()
    assert files_with(extends_options) == set()


def test_no_two_classes_have_one_name():
    """A name in a message or a page of the documentation is then one class."""
    classes = Counter(node.name for parts in nodes().values() for node in parts if isinstance(node, ast.ClassDef))

    assert not {name for name, count in classes.items() if count > 1}


def test_colors_are_in_the_theme_only():
    """A color that stands elsewhere would not follow light and dark."""
    found = {
        f"{name}: {match[0]}"
        for name, text in texts().items()
        if name.startswith("attnviz/") and name != "attnviz/charts/theme.py" and name.endswith(".py")
        for match in re.finditer(r"""["']#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3})["']""", text)
    }

    assert found == set()


def test_the_app_and_the_pictures_stand_on_the_same_ground():
    """The page's background, text and accent are those of the charts, in light and in dark."""
    from attnviz.charts.theme import DARK, LIGHT

    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["theme"]

    for name, colors in (("light", LIGHT), ("dark", DARK)):
        assert config[name]["backgroundColor"] == colors.background
        assert config[name]["textColor"] == colors.text
        assert config[name]["primaryColor"] == colors.accent


def test_the_server_is_for_this_machine_and_tells_nobody():
    """No statistics, no other address, no traceback to visitors, no font or theme from another host."""
    text = (ROOT / ".streamlit" / "config.toml").read_text()
    config = tomllib.loads(text)

    assert config["browser"]["gatherUsageStats"] is False
    assert config["server"]["address"] == "127.0.0.1"
    assert set(config["server"]["allowedHosts"]) == {"localhost", "127.0.0.1"}
    assert config["client"]["showErrorDetails"] == "none"
    assert "://" not in text


SHEET = ROOT / "attnviz/ui/style.css"
FOREIGN = re.compile(r"data-testid|data-stale|\.st[A-Z]|role=")
"""Pattern of selectors that name an element of Streamlit."""


def _selectors(sheet: str) -> list[str]:
    """The selectors of a style sheet, in order, as they stand before their braces; of "@media" those inside."""
    plain = re.sub(r"/\*.*?\*/", "", sheet, flags=re.S)
    return [" ".join(found.split()) for found in re.findall(r"([^{}]+)\{(?=[^{}]*\})", plain)]


def test_the_style_sheet_is_short():
    """Under 200 lines of at most 160 characters: what Streamlit's parameters can say is said in Python."""
    lines = SHEET.read_text(encoding="utf-8").splitlines()

    assert len(lines) < 200
    assert max(map(len, lines)) <= 160


def test_the_style_sheet_names_few_elements_of_streamlit():
    """At most 15 selectors, which an upgrade of Streamlit may break; each has its reason before it."""
    foreign = [selector for selector in _selectors(SHEET.read_text(encoding="utf-8")) if FOREIGN.search(selector)]

    assert 0 < len(foreign) <= 15


def test_html_of_the_app_has_a_style():
    """Each class in HTML that a page writes stands in the style sheet, or a script looks for it."""
    named = SHEET.read_text(encoding="utf-8") + "".join(path.read_text() for path in SHEET.parent.glob("*.js"))
    pages = "".join(path.read_text(encoding="utf-8") for path in SHEET.parent.rglob("*.py"))
    classes = {name for names in re.findall(r'class="([a-z][a-z -]*)"', pages) for name in names.split()}

    assert len(classes) > 2
    assert {name for name in classes if not re.search(rf"\.{name}\b", named)} == set()


def test_the_style_sheet_styles_what_there_is():
    """Each key and class that it names stands in a page or a script, else what it styled is gone."""
    sheet = re.sub(r"/\*.*?\*/", "", SHEET.read_text(encoding="utf-8"), flags=re.S)
    pages = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "attnviz").rglob("*") if path.suffix in (".py", ".js")
    )
    keys = set(re.findall(r"st-key-([a-z][\w-]*)", sheet))
    classes = set(re.findall(r"\.(?!st[-A-Z])([a-z][\w-]*)", " ".join(_selectors(sheet))))

    assert [key for key in keys if not re.search(rf"\W{key.strip('-').replace('-', '[ -]')}", pages)] == []
    assert [one for one in classes if not re.search(rf"\W{one}\b", pages)] == []


def test_the_style_sheet_asks_has_of_named_elements_alone():
    """Each click changes hundreds of elements: asked of all of them, or about any child, :has() took a tenth of it."""
    sheet = re.sub(r"/\*.*?\*/", "", SHEET.read_text(encoding="utf-8"), flags=re.S)

    assert re.findall(r"\.stApp\S*:has\(.*", sheet) == []
    assert re.findall(r"(?:\*|> |^ *):has\(.*|:has\([^)]*> \*", sheet, re.M) == []
