"""`attnviz batch`: many texts into a folder, each as a command alone makes it; what is interrupted goes on."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import attnviz
from attnviz import cli, files
from attnviz.cli import folder as folders
from attnviz.cli.batch import NUMBERS
from attnviz.core.edits import Edits, Site

TEXTS = ("the cat sat", "a dog", "=1+1", "the cat sat")
SCRATCH = ("--model", "scratch", "--num-layers", "1", "--num-heads", "2", "--d-model", "8")
NAMES = ["00001-the-cat-sat.csv", "00002-a-dog.csv", "00003-1-1.csv", "00004-the-cat-sat.csv"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Makes numbers of texts.txt in the folder "made"; gives status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n\n", "utf-8")

    def run(*words: str) -> tuple[int, str, str]:
        status = cli.main(("batch", *(words or ("texts.txt", "--as", "numbers")), *SCRATCH, "-o", "made"))
        return status, *capsys.readouterr()

    return run


def contents(path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir()}


def manifest(path) -> list[dict]:
    return [json.loads(line) for line in (path / "made" / "manifest.jsonl").read_bytes().splitlines()]


def test_each_text_gives_what_a_command_alone_gives(run, tmp_path, capsys):
    """The same bytes; the manifest says which text is in which file, and where it came from."""
    status, out, err = run()

    assert (status, err) == (0, "")
    assert out == "4 texts: 4 made, 0 kept, 0 failed. made/manifest.jsonl says which file is of which.\n"
    assert sorted(contents(tmp_path / "made")) == [*NAMES, "manifest.jsonl"]
    assert [(one["text"], one["origin"], one["file"]) for one in manifest(tmp_path)[1:]] == [
        (text, f"texts.txt:{n}", name) for n, (text, name) in enumerate(zip(TEXTS, NAMES, strict=True), 1)
    ]
    cli.main(("head", TEXTS[2], *SCRATCH, "-o", "alone.csv"))
    assert (tmp_path / "alone.csv").read_bytes() == (tmp_path / "made" / NAMES[2]).read_bytes()


class Killed(BaseException):
    """As if the process had ended."""


@pytest.mark.parametrize("moment", range(10))
def test_a_run_that_ended_at_any_moment_goes_on(run, tmp_path, monkeypatch, moment):
    """Before and after each file has its name, and in the middle of a line: in the end the folder is as of one run."""
    run()
    whole = contents(tmp_path / "made")
    (tmp_path / "made").rename(tmp_path / "whole")
    replace, add, at = os.replace, folders.Folder._add, iter(range(100))

    def interrupted(*places):
        if next(at) == moment:
            raise Killed
        replace(*places)

    def cut(folder, entry):
        add(folder, entry)
        if next(at) == moment:
            with open(tmp_path / "made" / "manifest.jsonl", "rb+") as file:
                file.seek(-7, os.SEEK_END)
                file.truncate()
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        patch.setattr(folders.Folder, "_add", cut)
        if moment < 9:
            with pytest.raises(Killed):
                run()
    status, out, _ = run()

    assert status == 0
    assert f"{4 - max(0, moment - 1) // 2} made" in out or moment == 9
    assert contents(tmp_path / "made") == whole


def test_a_process_that_is_killed_goes_on(run, tmp_path):
    """By the signal that no process can answer, while the second file is being written."""
    kill = "import os; from pathlib import Path; from attnviz.cli import main; write = Path.write_bytes\n"
    kill += "n = iter('123')\n"
    kill += "Path.write_bytes = lambda path, content: write(path, content[:9]) and os.kill(os.getpid(), 9)"
    kill += " if next(n) == '3' else write(path, content)\n"
    kill += f"main({('batch', 'texts.txt', '--as', 'numbers', *SCRATCH, '-o', 'made')!r})"
    ended = subprocess.run([sys.executable, "-c", kill], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert ended.returncode == -9
    unfinished, *whole = sorted(contents(tmp_path / "made"))
    assert unfinished.endswith(".part")
    assert whole == [NAMES[0], "manifest.jsonl"]
    first = (tmp_path / "made" / NAMES[0]).stat()

    status, out, _ = run()

    assert (status, out.split(".")[0]) == (0, "4 texts: 3 made, 1 kept, 0 failed")
    assert (tmp_path / "made" / NAMES[0]).stat() == first
    assert sorted(contents(tmp_path / "made")) == [*NAMES, "manifest.jsonl"]


def test_what_is_damaged_or_gone_is_made_again_and_nothing_else(run, tmp_path):
    run()
    whole = contents(tmp_path / "made")
    (tmp_path / "made" / NAMES[0]).write_bytes(whole[NAMES[0]][:-1])
    (tmp_path / "made" / NAMES[1]).unlink()

    assert "2 made, 2 kept" in run()[1]
    assert {name: contents(tmp_path / "made")[name] for name in NAMES} == {name: whole[name] for name in NAMES}


def test_one_text_that_fails_ends_nothing_and_is_tried_again(run, tmp_path):
    """Each is named with its line; the exit status says that something is missing."""
    lines = ['"the cat"', "{", '{"text": 7}', '{"text": "a dog", "label": 1}', '"  "']
    (tmp_path / "texts.jsonl").write_text("\n".join(lines), "utf-8")

    status, out, err = run("texts.jsonl", "--as", "numbers")

    assert (status, out.split(".")[0]) == (1, "5 texts: 2 made, 0 kept, 3 failed")
    assert err.splitlines() == [
        "attnviz: texts.jsonl:2: This line is not valid JSON.",
        'attnviz: texts.jsonl:3: This line holds no text: give a string, or an object with a "text".',
        "attnviz: texts.jsonl:5: The text is empty.",
    ]
    assert [one["number"] for one in manifest(tmp_path)[1:] if "error" in one] == [2, 3, 5]
    (tmp_path / "texts.jsonl").write_text(
        "\n".join([lines[0], '"mended"', '"too"', lines[3], '"."', '"more"']), "utf-8"
    )
    assert "6 texts: 4 made, 2 kept, 0 failed" in run("texts.jsonl", "--as", "numbers")[1]


def test_a_fault_of_a_model_at_one_text_ends_nothing(run, monkeypatch):
    """Whatever it raises."""
    analyze = attnviz.api.analyze

    def fails(text, *rest):
        return analyze(text, *rest) if text != "a dog" else 1 / 0

    monkeypatch.setattr("attnviz.api.analyze", fails)
    status, out, err = run()

    assert (status, "3 made, 0 kept, 1 failed" in out) == (1, True)
    assert err == "attnviz: texts.txt:2: ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("texts.txt", "--as", "numbers", "--head", "1"), "has other settings (head: null there, 1 here)"),
        (("texts.txt", "--as", "numbers", "--seed", "7"), "seed"),
        (("texts.txt", "--as", "case"), 'as: "numbers" there, "case" here'),
        (("other.txt", "--as", "numbers"), "Text 2 of 'made' is 'a dog', not 'another'"),
        (("none.txt",), "'none.txt' cannot be read"),
        (("texts.txt", "--as", "bars"), "There is no --as 'bars'. There are: picture, numbers, page, case."),
        (("texts.txt", "--of", "tail"), "There is no --of 'tail'."),
        (
            ("texts.txt", "--as", "numbers", "--format", "png"),
            f"--as numbers has no format 'png'. It has: {', '.join(NUMBERS)}.",
        ),
        (("texts.txt", "--head", "2"), "There is no head 2 of encoder layer 0; there are 2"),
        (("texts.txt", "--layer", "1"), "'scratch' has no encoder layer 1"),
        (("texts.txt", "--as", "page", "--head", "mean"), "A page opens on one head"),
        (("empty.txt",), "There is no text"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence_and_changes_nothing(run, tmp_path, words, said):
    run()
    before = contents(tmp_path / "made")
    (tmp_path / "other.txt").write_text("the cat sat\nanother\n")
    (tmp_path / "empty.txt").write_text("\n")

    status, out, err = run(*words)

    assert (status, out) == (2, "")
    assert said in err
    assert contents(tmp_path / "made") == before


@pytest.mark.parametrize("head", [b"", b"{}\n", b"[1]\n", b'{"attnviz batch": 2, "settings": {}}\n', b"\xff\n"])
def test_a_folder_of_something_else_is_left_alone(run, tmp_path, head):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "thesis.csv").write_bytes(b"mine")
    assert "holds other files" in run()[2]
    (tmp_path / "made" / "manifest.jsonl").write_bytes(head)

    status, _, err = run()

    assert (status, "is not of attnviz batch" in err) == (2, True)
    assert (tmp_path / "made" / "thesis.csv").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "line",
    ["null", "{", '{"number": "1"}', '{"number": 1, "text": "the cat sat", "origin": "", "file": "../secret"}'],
)
def test_a_line_of_the_manifest_that_somebody_changed_is_no_reason_to_keep_a_file(run, tmp_path, line):
    run()
    path = tmp_path / "made" / "manifest.jsonl"
    head, _, *rest = path.read_text().splitlines()
    path.write_text("\n".join([head, line, *rest]) + "\n")

    assert "1 made, 3 kept" in run()[1]


def test_cases_pages_and_arrays(run, tmp_path, monkeypatch, capsys):
    """Of whole files and of stdin; cases are those of `attnviz save`."""
    off = ("--off", "0.1", "--whole")
    assert run("texts.txt", "--as", "case", *off)[0] == 0
    (case,) = (tmp_path / "made").glob("*.attn")
    record = files.read(case)
    assert record.sentences[0].text == "\n".join(TEXTS)
    assert record.edits == Edits(heads_off={(Site("encoder", 0), 1)})
    assert cli.main(("verify", str(case))) == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("a b c"))
    assert (
        cli.main(("batch", "-", "--as", "numbers", "--of", "heads", "--format", "npz", *SCRATCH, "-o", "numbers")) == 0
    )
    assert np.load(tmp_path / "numbers" / "00001-a-b-c.npz")["weights"].shape == (2, 3, 3)
    assert cli.main(("batch", "texts.txt", "--as", "page", "--off", "0.0", *SCRATCH, "-o", "pages")) == 0
    assert "Head 0" not in (tmp_path / "pages" / "00002-a-dog.html").read_text()[:200]
    assert len([*(tmp_path / "pages").glob("*.html")]) == 4


def test_ctrl_c_says_that_the_same_command_goes_on(run, monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("attnviz.api.analyze", press)
        status, _, err = run()

    assert (status, err) == (130, "attnviz: Canceled. The same command goes on where this ended.\n")
    assert "4 made" in run()[1]


def test_a_terminal_sees_a_bar(run, monkeypatch):
    """A file or a pipe does not."""

    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    run("texts.txt", "--of", "overview", "--format", "json")

    assert terminal.getvalue().startswith("\rbatch [#######.......................]  25%  1 of 4\x1b[K")
    assert terminal.getvalue().endswith("\rbatch [##############################] 100%  4 of 4\x1b[K\n")
