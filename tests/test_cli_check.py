"""The command `check`: files and pasted numbers in, findings and an exit status for CI out."""

import io
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from attnviz.check import check
from attnviz.cli import main

CAUSAL = np.tril(np.ones((4, 4), dtype=bool))


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Function that runs `check` in an empty folder; it returns status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        status = main(["check", *arguments])
        return status, *capsys.readouterr()

    return run


def test_the_exit_status_says_what_was_found(run):
    """0: nothing, 1: errors, with --strict warnings too, 2: it cannot be read, 3: it has to be said what is meant."""
    np.save("good.npy", CAUSAL)
    np.save("leaks.npy", np.tril(np.ones((5, 5), dtype=bool), 1))
    np.save("unknown.npy", np.tril(np.ones((5, 5), dtype=bool), 2))
    np.save("padded.npy", CAUSAL & (np.arange(4) < 3) & (np.arange(4) < 3)[:, None])

    assert run("good.npy", "--strict")[0] == 0
    assert run("good.npy", "--convention", "true-is-masked", "--intent", "causal")[0] == 1
    assert run("leaks.npy")[0] == run("unknown.npy")[0] == 3
    assert run("leaks.npy", "--intent", "causal")[0] == 1
    assert run("leaks.npy", "--intent", "two-way")[0] == 1
    assert (run("padded.npy")[0], run("padded.npy", "--strict")[0]) == (0, 1)
    assert run("missing.npy")[0] == 2


def test_a_finding_is_a_rule_a_sentence_cells_and_a_fix(run):
    np.save("mask.npy", ~CAUSAL)
    status, out, err = run("mask.npy", "--convention", "may-attend", "--intent", "causal")

    assert (status, err) == (1, "")
    assert out.split("\n\n")[1].splitlines() == [
        "error inverted: The whole mask is inverted.",
        "  at: query 0 key 0; query 0 key 1; query 0 key 2; ... (16 in all)",
        "  fix: Pass ~mask, or state the other convention.",
    ]
    assert out.splitlines()[0] == "mask, may-attend, causal, (B, H, Q, K) = (1, 1, 4, 4)"
    assert out.splitlines()[-1] == "1 error"


def test_json_is_the_report_of_the_library(run):
    """The same function answers in Python and in the shell."""
    weights = torch.rand(2, 3, 5, 5)
    save_file({"weights": weights}, "a.safetensors")
    status, out, _ = run("a.safetensors", "--json", "--shape", "2,3,5,5")

    report = check(weights, kind="weights", shape=(2, 3, 5, 5))
    assert json.loads(out) == json.loads(json.dumps([{"array": "weights", **report.to_json()}]))
    assert status == 1 - report.ok == 1


def test_several_arrays_are_checked_by_their_names(run):
    """Arrays named mask, weights or scores are checked; any other array is given by name."""
    weights = torch.randn(2, 5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf).softmax(-1).numpy()
    np.savez("all.npz", mask=~CAUSAL, weights=weights, keys=np.arange(5), about=np.array("words"))
    status, out, _ = run("all.npz", "--convention", "true-is-masked")

    heads = [line for line in out.splitlines() if "(B, H, Q, K) =" in line]
    assert status == 0
    assert heads == [
        "'mask': mask, true-is-masked, causal, (B, H, Q, K) = (1, 1, 4, 4)",
        "'weights': weights, causal, (B, H, Q, K) = (1, 2, 5, 5)",
    ]
    assert run("all.npz", "--array", "keys")[1].startswith("'keys': scores")
    assert "no array 'key'" in run("all.npz", "--array", "key")[2]


def test_what_this_project_writes_passes(run):
    """Its mask says by its name how it is meant."""
    assert main(["export", "the cat sleeps", "--form", "heads", "--layer", "d0", "-o", "heads.npz"]) == 0
    assert main(["export", "the cat sleeps", "--layer", "d0", "-o", "head.npz"]) == 0

    assert run("heads.npz")[0] == 0
    status, out, _ = run("head.npz", "--intent", "causal")
    assert (status, "'may_attend': mask, may-attend, causal" in out) == (0, True)


def test_numbers_can_be_pasted(run):
    """Printed digits are rounded, and said to be no bug."""
    weights = torch.rand(6, 6).softmax(-1)

    assert run("-", stdin=repr(weights))[0] == 0
    assert run("-", stdin=repr(weights * 0.9))[0] == 1
    assert run("-", "--kind", "mask", stdin="0 1\n1 0")[0] == 0


def test_what_is_meant_is_said_by_name_or_as_a_mask(run):
    """Then what looks ahead is known to be meant, or a causal mask with a leak; else it is asked about."""
    np.save("ahead.npy", np.tril(np.ones((6, 6), dtype=bool), 2))

    assert "question: What is the mask meant to be?" in run("ahead.npy")[1]
    status, out, _ = run("ahead.npy", "--intent", "causal")
    assert (status, "error future-leak" in out, "(9 in all)" in out) == (1, True, True)
    assert run("ahead.npy", "--intent", "subsequent(2)")[0] == 0
    assert run("ahead.npy", "--intent", "subsequent | prefix(2)")[0] == 1
    assert run("ahead.npy", "--intent", "causal | prefix(2)")[0] == 1
    assert run("ahead.npy", "--intent", "causal(2) & window(6, 2)")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["mask.npy", "--intent", "triangle"], "", "No mask is called 'triangle'. Say causal or two-way"),
        (["mask.npy", "--intent", "window("], "", "Character 8 of the mask 'window(': 'before' is missing; it must"),
        (["mask.npy", "--intent", "windo(2)"], "", "there is no rule 'windo'. Did you mean 'window'?"),
        (["missing.npy"], "", "'missing.npy' cannot be read: No such file or directory."),
        (["."], "", "cannot be read: Is a directory"),
        (["a\0.npy"], "", "cannot be read"),
        (["pickled.npy"], "", "is damaged, holds a pickle"),
        (["mask.npy", "--array", "x"], "", "There is no array 'x'"),
        (["mask.npy", "--kind", "logits"], "", "Available kinds: mask, weights, scores"),
        (["mask.npy", "--convention", "sdpa"], "", "Available conventions: may-attend"),
        (["mask.npy", "--shape", "2,3"], "", "is four whole numbers above 0, B,H,Q,K; given (2, 3)"),
        (["-"], "", "is empty"),
        (["-"], "words", "cannot be read as rows or nested lists of numbers"),
        ([], "", "There is nothing to check; give a file of numbers"),
    ],
)
def test_what_cannot_be_read_is_one_line(run, tmp_path, arguments, stdin, message):
    np.save("mask.npy", CAUSAL)
    (tmp_path / "pickled.npy").write_bytes(pickle.dumps([1]))
    status, out, err = run(*arguments, stdin=stdin)

    assert (status, out) == (2, "")
    assert message.lower() in err.lower()
    assert err.count("\n") == 1


def test_checking_loads_no_model_and_no_picture(tmp_path):
    """It can run on every push."""
    np.save(tmp_path / "mask.npy", CAUSAL)
    code = "import sys; from attnviz.cli import main; main(['check', sys.argv[1]]); print(*sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "mask.npy")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.splitlines()[-1].split())

    assert loaded & {"streamlit", "altair", "vl_convert", "transformers", "pandas", "attnviz.sources"} == set()
