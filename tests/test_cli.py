"""Words in, files out: each command run in this process, and its files opened."""

import csv
import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from attnviz import export
from attnviz.analysis import contributions
from attnviz.api import analyze, load
from attnviz.cli import main, parser
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Subsequent
from attnviz.studies import ablation, gradients
from attnviz.studies.ablation import logit_falls

CAT = "The cat sat on the mat"
SCRATCH = ("--model", "scratch")


def test_a_head_becomes_a_picture_and_its_numbers(run, tmp_path):
    """The ending says the format; the numbers are those of the run from Python."""
    changed = ["--layer", "1", "--head", "2", "--mask", "subsequent", "--off", "0.3", "--temperature", "0.5"]
    status, out, err = run("export", CAT, *SCRATCH, *changed, "-o", "head.png", "-o", "head.npz", "-o", "head.csv")

    record = analyze(CAT, "scratch", edits=Edits(Subsequent(), {(Site("encoder", 0), 3)}, temperature=0.5))
    weights = record.step(Site("encoder", 1)).weights(2).numpy()
    assert (status, out, err) == (0, "head.png\nhead.npz\nhead.csv\n", "")
    assert Image.open(tmp_path / "head.png").format == "PNG"
    assert np.array_equal(np.load(tmp_path / "head.npz")["weights"], weights)
    rows = list(csv.DictReader((tmp_path / "head.csv").read_text("utf-8-sig").splitlines()))
    assert [row["key_token"] for row in rows[:6]] == CAT.split()
    assert [float(row["weight"]) for row in rows] == pytest.approx(weights.flatten().tolist(), abs=1e-6)


def test_contributions_are_those_of_python(run, tmp_path):
    """As JSON and as a table to read, with a head off and each other one in turn; the picture has the same numbers."""
    text, changed = (
        "the cat sat down . the cat",
        ["--model", "induction", "--off", "0.1", "--word", "sat", "--minus", "cat"],
    )
    source, edits = load("induction"), Edits(heads_off={(Site("decoder", 0), 1)})
    logit = contributions(analyze(text, source, edits, stream=True), "sat", minus="cat")
    falls = logit_falls(source, source.tokenize([text]), edits, token="sat", minus="cat")
    status, out, err = run("predict", text, "--show", "contributions", *changed, "--switch-off", "--json")

    found = json.loads(out)
    assert (status, err) == (0, "")
    whole = {(row["kind"], row["layer"], row["head"]): row for row in found["rows"]}
    for row in falls.to_dict("records"):
        assert whole[row["kind"], row["layer"], row["head"]]["fall"] == pytest.approx(row["fall"], abs=1e-6)
    _, plain, _ = run("predict", text, "--show", "contributions", *changed, "--json")
    assert [row["contribution"] for row in json.loads(plain)["rows"]] == pytest.approx(
        [*logit.table["contribution"]], abs=1e-6
    )
    assert found["words"] == logit.in_words(falls)
    status, out, _ = run("predict", text, "--show", "contributions", *changed, "--switch-off")
    assert out.splitlines()[0] == logit.in_words(falls)
    run("export", text, "--form", "contributions", *changed, "-o", "parts.csv")
    rows = list(csv.DictReader((tmp_path / "parts.csv").read_text("utf-8-sig").splitlines()))
    assert [float(row["contribution"]) for row in rows] == pytest.approx([*logit.table["contribution"]], abs=1e-6)


def test_the_settings_of_a_model_stand_in_its_name(run, tmp_path):
    """After a colon, as a link has them."""
    model = "scratch:d_model=12,num_heads=3,num_layers=1,seed=7,positions=false,bias=false,tokenizer=characters"
    status, *_ = run("export", CAT, "--form", "heads", "--model", model, "-o", "heads.npz")

    settings = {"d_model": 12, "num_heads": 3, "num_layers": 1, "seed": 7, "positions": False, "bias": False}
    record = analyze(CAT, "scratch", tokenizer="characters", **settings)
    assert status == 0
    assert np.array_equal(
        np.load(tmp_path / "heads.npz")["weights"], [record.steps[0].weights(head).numpy() for head in range(3)]
    )


@pytest.mark.parametrize(
    ("masks", "rows"),
    [
        (["full"], "1111 1111 1111 1111"),
        (["window(0, 1)"], "1100 0110 0011 0001"),
        (["causal | prefix(2)"], "1100 1100 1110 1111"),
        (["subsequent", "window(1, 1)"], "1000 1100 0110 0011"),
        (["~causal"], "0111 0011 0001 0000"),
        (["blocked(0-3:0, 1:1)"], "0111 0011 0111 0111"),
    ],
)
def test_masks_are_said_in_a_few_letters(run, tmp_path, masks, rows):
    """Several masks hold together, as with &; a bar means either, ~ the opposite."""
    options = [option for mask in masks for option in ("--mask", mask)]
    status, *_ = run("export", "a b c d", "--form", "map", *SCRATCH, *options, "-o", "map.npz")

    drawn = np.load(tmp_path / "map.npz")["may_attend"].astype(int)
    assert status == 0
    assert " ".join("".join(map(str, row)) for row in drawn) == rows


def test_one_of_several_sentences_is_drawn(run, tmp_path):
    """With --lines each line is a sentence; the shorter one is padded."""
    run("export", "A dog ran\n\nThe cat", "--lines", *SCRATCH, "--sentence", "2", "-o", "head.npz")

    head = np.load(tmp_path / "head.npz")
    assert head["key_tokens"].tolist() == ["The", "cat", "<pad>"]
    assert head["may_attend"].tolist() == [[True, True, False]] * 3


def test_without_a_file_name_the_picture_is_named_after_what_it_shows(run, tmp_path):
    _, out, _ = run("export", CAT, *SCRATCH, "--head", "1", "--ppi", "300")

    assert out == "scratch-encoder-layer-0-head-1-The-cat-sat-on-the-mat-300dpi.png\n"
    assert Image.open(tmp_path / out.strip()).info["dpi"] == pytest.approx((300, 300), abs=1)


def test_tokens_as_a_table(run):
    _, out, _ = run("predict", "unbelievable\tcat\n\u202e", "--show", "tokens", "--model", "scratch:tokenizer=bpe")

    lines = out.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["1", "0", "un", "284", "0", "2", "False", "False"],
        ["1", "1", "believ", "783", "2", "8", "False", "True"],
    ]
    assert "\u202e" not in out


def test_a_text_keeps_its_line_breaks(run):
    """It is one text, unless --lines is given."""
    _, out, _ = run("predict", "A dog\n\nran", "--show", "tokens", *SCRATCH, "--json")
    _, both, _ = run("predict", "A dog\n\nran", "--show", "tokens", "--lines", *SCRATCH, "--json")

    assert json.loads(out)["texts"] == ["A dog\n\nran"]
    assert json.loads(both)["texts"] == ["A dog", "ran"]


def test_a_target_is_read_by_the_decoder(run, tmp_path):
    """For the translator, a translation of the user's own."""
    run("export", "the black cat", "--target", "le chat", "--layer", "d1", "-o", "head.npz")

    assert np.load(tmp_path / "head.npz")["key_tokens"].tolist() == ["<sos>", "le", "chat"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["paint"], "There is no command 'paint'. Available commands: app, export, explore,"),
        (["lesson", "20-minutes"], "The command lesson was removed. Instead: attnviz app learn."),
        (["export"], "required: TEXT"),
        (["export", " \n", *SCRATCH], "There is no text; give a sentence"),
        (["export", "the", "cat"], "Unrecognized arguments: cat. Put a text of several words in quotes."),
        (["export", "a", *SCRATCH, "--heads", "2"], "no option '--heads'. Did you mean '--head'?"),
        (["export", "a", *SCRATCH, "--row-sums"], "The option --row-sums was removed. Instead: attnviz check FILE.npz"),
        (["models", "a", "--layer", "1"], "attnviz models has no option '--layer'. See attnviz models"),
        (["export", "a", *SCRATCH, "--head", "9"], "There is no head 9; there are 4, counted from 0."),
        (["export", "a", *SCRATCH, "--head", "median"], "--head: 'median' cannot be read; it should look like 0 or"),
        (["export", "a", *SCRATCH, "--layer", "2"], "It has: encoder layer 0, encoder layer 1."),
        (["export", "a", *SCRATCH, "--off", "x"], "--off: 'x' cannot be read; it should look like d1.0."),
        (["export", "a", *SCRATCH, "--off", "4"], "There is no head 4 of encoder layer 0"),
        (["export", "a", *SCRATCH, "--mask", "casual"], "there is no rule 'casual'. Did you mean 'causal'?"),
        (["export", "a", *SCRATCH, "--temperature", "0"], "--temperature: '0' cannot be read; it should look"),
        (["export", "a", *SCRATCH, "--set", "empty=none"], "it should look like zero or nan or uniform or error"),
        (["export", "a", "--set", "foo=1"], "A link has no setting 'foo'."),
        (["export", "a", "--own-mask", "false"], "--own-mask is not an option, but a setting of a link. Type: --set"),
        (["export", "a", "--model", "scratch:foo=1"], "The model scratch has no 'foo'. It has tokenizer, d_model,"),
        (["export", "a", "--model", "scratch:d_model=65"], "num_heads must divide d_model"),
        (["app", "--memory", "nan"], "'nan' is not an amount; give a number, 0 or more."),
        (["generate", "a", "--model", "story", "--max-new-tokens", "0"], "max_new_tokens is 0; give a number from 1"),
        (["export", "a", *SCRATCH, "--sentence", "2"], "There is no sentence 2; there are 1, counted from 1."),
        (
            ["export", "a", *SCRATCH, "-o", "head.gif"],
            f"in a format: {', '.join(f'.{name}' for name in export.NAMES)}.",
        ),
        (["export", "a", *SCRATCH, "-o", "nowhere/head.svg"], "there is no folder 'nowhere'; make it first."),
        (["save", "a", *SCRATCH, "-o", "a.zip"], "'a.zip' cannot be the name of a saved run: it must end in .attn."),
        (["explore", "a", *SCRATCH, "-o", "a.png"], "'a.png' cannot be the name of a page: it must end in .html."),
        (["predict", "a", "--json", "-o", "a.png"], "Give --json or -o, not both."),
        (["predict", "a", "--model", "story", "--word", "the"], "add --show contributions"),
        (["predict", "a", "--model", "story", "--show", "patching"], "Patching needs a second text"),
        (["export", "a", *SCRATCH, "--form", "change"], "Nothing is changed; give --mask, --off, --take, --temp"),
    ],
)
def test_a_mistake_is_answered_in_one_line(run, tmp_path, arguments, reason):
    """Status 2, no traceback, no usage, no file."""
    status, out, err = run(*arguments)

    assert (status, out) == (2, "")
    assert err.startswith("attnviz: ")
    assert reason in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_file_on_a_full_disk_is_named_with_the_reason(run, tmp_path, monkeypatch):
    """An error without a file name, as from print, is about "the output"."""

    def print_to_full_disk(options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("attnviz.cli.tables.models", print_to_full_disk)
    (tmp_path / "head.svg").symlink_to("/dev/full")

    full = "cannot be written: No space left on device. Free some space."
    assert run("export", CAT, *SCRATCH, "-o", "head.svg") == (2, "", f"attnviz: 'head.svg' {full}\n")
    assert run("models") == (2, "", f"attnviz: The output {full}\n")


def test_a_python_without_the_libraries_is_told_from_one_with_them():
    """As of whoever types `python` where `make run` has filled another one."""
    command = [sys.executable, "-S", "-m", "attnviz", "predict", "a"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"attnviz: The Python that runs this, {sys.executable}, has no '")
    assert done.stderr.count("\n") == 1


def test_bytes_on_stdin_that_are_no_text(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\x00"), "utf-8"))

    assert run("predict", "-", *SCRATCH) == (2, "", "attnviz: The text on stdin is not UTF-8.\n")


def test_help_names_every_command_and_every_format(run, capsys):
    for arguments, words in (
        (["--help"], [*parser.COMMANDS, "atlas query atlas/"]),
        (["export", "--help"], [f".{format}" for format in export.NAMES]),
    ):
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
        out = capsys.readouterr().out
        assert all(word in out for word in words)


def test_the_examples_of_the_help_run(run, tmp_path):
    """Each as it stands there."""
    import shlex

    (tmp_path / "texts.txt").write_text(CAT)
    for line in parser.EXAMPLES.splitlines()[1:]:
        status, _, err = run(*shlex.split(line.strip().removeprefix("attnviz ")))

        assert (status, err) == (0, "")
    files = {"head.png", "head.csv", "lines.svg", "case.html", "case.attn", "texts.txt", "atlas"}
    assert {file.name for file in tmp_path.iterdir()} == files


def test_explore_writes_a_page_with_what_was_predicted_before(run, tmp_path):
    """It opens where `--layer` and `--head` say."""
    status, out, _ = run("explore", "the black cat sleeps .", "--off", "c1.3", "--head", "2", "-o", "case.html")
    page = (tmp_path / "case.html").read_text("utf-8")

    assert (status, out) == (0, "case.html\n")
    assert '"opens":[5,2]' in page
    assert '"changed":["head 3 of cross layer 1 off"]' in page


def test_a_run_that_takes_long_says_what_it_costs(run, monkeypatch):
    """Before it runs, on stderr."""
    monkeypatch.setattr("attnviz.cli.request.SILENT", 0.0)
    status, _, err = run("predict", "the boy finds a ball", "--model", "story")

    assert (status, err) == (0, "attnviz: 6 tokens: about 1 s and 46.3 kB.\n")


def test_gradients_are_those_of_python(run, tmp_path):
    """Integrated gradients of each token for a word, printed and drawn."""
    source = load("story")
    expected = gradients.integrated(source, analyze("the boy finds a ball", source), "the")
    command = ("the boy finds a ball", "--model", "story", "--word", "the")
    status, out, err = run("predict", *command, "--show", "gradients", "--json")
    run("export", *command, "--form", "gradients", "-o", "a.csv")

    assert (status, err) == (0, "")
    assert [row["attribution"] for row in json.loads(out)["rows"]] == pytest.approx([*expected.table["attribution"]])
    assert "attribution" in (tmp_path / "a.csv").read_text("utf-8-sig")


@pytest.mark.parametrize("form", ["lens", "heads", "mask", "change", "overview"])
def test_the_table_of_any_form_is_printed_as_it_is_exported(run, form):
    """Every row, under the words of the figure."""
    command = ("the cat sat", "--model", "story", "--off", "0.1")
    _, out, _ = run("predict", *command, "--show", form, "--json")
    run("export", *command, "--form", form, "-o", "a.csv")
    printed, written = json.loads(out), pd.read_csv("a.csv", encoding="utf-8-sig")

    assert [*printed["rows"][0]] == [*written]
    assert len(printed["rows"]) == len(written)
    assert printed["words"] in run("predict", *command, "--show", form)[1]


@pytest.mark.parametrize("command", parser.GONE)
def test_a_command_that_is_gone_says_what_to_type(run, command):
    """The message names an existing command or a page of the documentation."""
    status, out, err = run("export", "a", command) if command.startswith("-") else run(command, "a text")

    assert (status, out) == (2, "")
    assert err.endswith(f" {command} was removed. Instead: {parser.GONE[command]}.\n")
    typed = re.match(r"attnviz (\w+)", parser.GONE[command])
    assert typed is None or typed[1] in parser.COMMANDS


def test_help_and_mistakes_import_no_torch():
    """They are answered at once."""
    code = "import sys; from attnviz.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
    code += "assert not {'torch', 'altair', 'streamlit'} & {*sys.modules}"
    for arguments in (["--help"], ["export", "--help"], ["compare"], ["exprt"]):
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)


def test_a_link_is_drawn_without_streamlit(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    code = "import sys; sys.modules['streamlit'] = None; from attnviz.cli import main\n"
    code += "sys.exit(main(['export', '?model=story&text=the+cat', '-o', 'a.csv']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, env=environment)

    assert (done.returncode, done.stdout) == (0, b"a.csv\n")


def test_patching_is_that_of_python(run, tmp_path):
    """The part of the way from the text to another that each head carries, printed and drawn."""
    source, text = load("story"), "the cat sat on the mat"
    expected = ablation.carried(source, source.tokenize([text]), "the dog ran on the mat")
    command = (text, "--model", "story", "--compare", "text=the dog ran on the mat")
    status, out, _ = run("predict", *command, "--show", "patching", "--json")
    run("export", *command, "--form", "patching", "-o", "carried.csv")

    assert status == 0
    assert [row["carried"] for row in json.loads(out)["rows"]] == pytest.approx([*expected.table["carried"]], abs=1e-5)
    assert "carried" in (tmp_path / "carried.csv").read_text("utf-8-sig")
