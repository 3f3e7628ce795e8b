"""Examples of README and documentation: those of a page run in order, as one session."""

import re
import shlex
from base64 import b64decode
from io import StringIO
from pathlib import Path
from zlib import decompress

import pytest

import attnviz
from attnviz import api, cli
from attnviz.cli import parser
from attnviz.core.amounts import percent

ROOT = Path(__file__).parents[1]
PAGES = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"\n]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SET_UP = r"(\w+=\S+ )?(make|pip|cp|hf|docker|python3 -m venv|\.venv/bin/\S+) "
"""How lines begin that change a machine or begin something long: these alone are not run."""
COMMAND = r"(?:\w+=\S+ )?(?:python -m )?attnviz ?(.*?)(?: +# exit status (\d))?"


def blocks(name: str) -> list[tuple[str, str, str, str | None]]:
    """List the examples of a page: language, file name, text, output. A line ... stands for any output."""
    found = []
    for match in BLOCK.finditer(TEXTS[name]):
        under = BLOCK.match(TEXTS[name], match.end() + 2)
        has_output = match[1] in ("python", "sh") and not match[2] and under and under[1] == "text" and not under[2]
        output = ".*".join(re.split(r"^\\.\\.\\.$", re.escape(under[3].strip()), flags=re.M)) if has_output else None
        found.append((*match.groups(default=""), output))
    return found


EXECUTED = [name for name in PAGES if {"python", "sh"} & {language for language, *_ in blocks(name)}]


@pytest.mark.parametrize("name", EXECUTED)
def test_the_examples_of_a_page_do_what_it_shows(name, tmp_path, monkeypatch, capsys):
    """One after the other, in one folder and one notebook: a block with a title is a file, and each output is shown."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    notebook: dict = {}
    for language, title, code, shown in blocks(name):
        if title:
            Path(title).write_text(code, encoding="utf-8")
        elif language == "python":
            exec(code, notebook)
        elif language == "sh":
            for line in code.splitlines():
                run(line)
        printed = capsys.readouterr().out

        assert shown is None or re.fullmatch(shown, printed.strip(), re.DOTALL), code


@pytest.mark.parametrize("name", ["story", "translator"])
def test_the_live_pages_of_the_documentation_are_what_the_code_writes(name):
    """Deflated weights may differ by the library that deflates; `make docs` writes the pages again."""
    model = re.compile(r'(?<=id="model">)[^<]*')
    made, kept = api.live(name), (ROOT / f"docs/live/{name}.html").read_text(encoding="utf-8")
    weights = [decompress(b64decode(model.search(page)[0])) for page in (made, kept)]

    assert model.sub("", made) == model.sub("", kept)
    assert weights[0] == weights[1]


def run(line: str) -> None:
    """Run a shell line of an example in this process, as a new process would load torch again."""
    if re.match(SET_UP, line) or not line:
        return
    piped = re.fullmatch(r"tr '\\n' ' ' < (\S+) \| (.*)", line)
    command = re.fullmatch(COMMAND, piped[2] if piped else line)
    assert command, line
    arguments = shlex.split(command[1])
    assert not set("|<>;&$`") & set(re.sub("'[^']*'|\"[^\"]*\"", "", command[1])), line
    if not arguments or arguments[0] in ("app", "open"):
        parser.read(arguments)  # a server
        return
    with pytest.MonkeyPatch.context() as patch:
        if piped:
            patch.setattr("sys.stdin", StringIO(Path(piped[1]).read_text(encoding="utf-8").replace("\n", " ")))
        assert cli.main(arguments) == int(command[2] or 0), line


def test_every_make_target_that_is_named_is_there():
    """`make something` in these pages and in CONTRIBUTING.md is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join([*TEXTS.values(), (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")])
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))

    assert named
    assert named <= targets


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_front_pages_lead_somewhere(name):
    """Files and headings; of the pages of the site the strict build says the same."""
    places = re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text(encoding="utf-8"))
    for place in (place for place in places if "://" not in place):
        file, _, anchor = place.partition("#")
        target = ROOT / (file or name)

        assert target.exists(), place
        assert not anchor or anchor in headings(target), place


def headings(page: Path) -> set[str]:
    """Return the anchors of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def row(name: str) -> str:
    """Return the row of a model in the table of models, with the first three measures of its card that have a goal."""
    card = attnviz.load(name).card
    meant = [measure for measure in card.measured if measure.goal is not None][:3]
    measured = "<br>".join(f"{percent(measure.value)} {measure.what}" for measure in meant)
    measured = measured or "a test holds each weight within 0.001 of what is said"
    return f"| `{name}` | {card.does} | {measured} |"


@pytest.mark.parametrize("name", [name for name in api.SOURCES if name != "scratch"])
def test_what_is_said_of_a_model_was_measured(name):
    """Number by number as on the card, which `make evidence` writes."""
    assert row(name) in TEXTS["docs/models.md"].splitlines()


def test_the_site_is_whole(tmp_path, monkeypatch):
    """Strict: each link and name leads somewhere. No page asks a network; each public name is in the reference."""
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path)))
    pages = {page: page.read_text(encoding="utf-8") for page in tmp_path.glob("**/*.html")}
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//")
    names = decompress((tmp_path / "objects.inv").read_bytes().split(b"zlib.\n", 1)[1]).decode()
    public = [getattr(attnviz, name) for name in attnviz.__all__ if name not in attnviz._MODULES]

    assert len(pages) > len(PAGES)
    assert [page.name for page, text in pages.items() if loaded.search(text)] == []
    assert [one for one in public if f"{one.__module__}.{one.__qualname__} " not in names] == []
    assert all(f'<h2 id="{name}">' in pages[tmp_path / "reference" / "shell.html"] for name in parser.COMMANDS)
