"""What the README says can be done, is done: every example runs, in the order in which it stands."""

import re
import shlex
from pathlib import Path

import pytest

import attnviz
from attnviz import api, cli
from attnviz.core.amounts import percent

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def after(language: str) -> list[tuple[str, str]]:
    """The blocks of a language, each with the text block that follows it and says what it prints."""
    following = [*BLOCKS[1:], ("", "")]
    return [
        (code, shown if kind == "text" else "")
        for (name, code), (kind, shown) in zip(BLOCKS, following, strict=True)
        if name == language
    ]


def test_python_examples_print_what_the_readme_shows(tmp_path, monkeypatch, capsys):
    """One after the other, as in one notebook."""
    monkeypatch.chdir(tmp_path)
    notebook: dict = {}
    for code, shown in after("python"):
        exec(code, notebook)

        assert capsys.readouterr().out.strip() == shown.strip(), code


@pytest.mark.parametrize(("code", "shown"), [b for b in after("sh") if re.match(r"(python -m )?attnviz ", b[0])])
def test_shell_examples_run(code, shown, tmp_path, monkeypatch, capsys):
    """Each line that a reader copies, cut as a shell cuts it; a process of its own for each would load torch again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for line in code.splitlines():
        before, _, arguments = line.partition("attnviz ")
        assert before in ("python -m ", "")
        assert not set("|<>;&$`*") & set(re.sub("'[^']*'|\"[^\"]*\"", "", arguments))
        assert cli.main(shlex.split(arguments)) == 0, line

    assert not shown or capsys.readouterr().out.strip() == shown.strip()


def test_every_make_target_it_names_is_there():
    """`make something` in the README or in CONTRIBUTING.md is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", README + (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))

    assert named
    assert named <= targets


def test_every_file_it_points_to_is_there():
    """Pictures and links that stay inside the project lead somewhere."""
    places = [place for place in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in place]

    assert places
    assert [place for place in places if not (ROOT / place).exists()] == []


def row(name: str) -> str:
    """A model in the README's table, with the first numbers of its card that it was meant to reach."""
    card = attnviz.load(name).card
    meant = [measure for measure in card.measured if measure.goal is not None][:3]
    measured = "<br>".join(f"{percent(measure.value)} {measure.what}" for measure in meant)
    return f"| `{name}` | {card.does} | {measured} |"


@pytest.mark.parametrize("name", [name for name in api.SOURCES if name != "scratch"])
def test_what_it_says_of_a_model_was_measured(name):
    """Number by number as on the card, which `make evidence` writes."""
    assert row(name) in README.splitlines()
