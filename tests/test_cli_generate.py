"""The command `generate`: the answer on stdout, what else there is to say on stderr, and pictures."""

import json

import pytest

import attnviz

TEXT = "the cat sat on"


def test_the_answer_is_written(run):
    """As Python gives it."""
    status, out, err = run("generate", TEXT, "--model", "story", "--max-new-tokens", "6")

    assert (status, out, err) == (0, f"{attnviz.generate(TEXT, 'story', 6).answer}\n", "")


def test_with_a_change_both_answers_are_told_apart(run):
    """The place of the first token that differs stands on stderr."""
    edits = attnviz.Edits(heads_off=frozenset({(attnviz.Site("decoder", 1), 0)}))
    before, after = attnviz.generate(TEXT, "story", 6), attnviz.generate(TEXT, "story", 6, edits)
    place = after.first_difference(before) - after.prompt + 1
    _, out, err = run("generate", TEXT, "--model", "story", "--max-new-tokens", "6", "--off", "d1.0")

    assert out == f"{after.answer}\n"
    assert f"different from token {place} on:{before.answer}" in err


def test_json_has_each_token_with_its_alternatives(run):
    _, out, _ = run("generate", TEXT, "--model", "story", "--max-new-tokens", "3", "--json")
    answer, generated = json.loads(out), attnviz.generate(TEXT, "story", 3)

    assert answer["answer"] == generated.answer
    assert [token["id"] for token in answer["tokens"]] == list(generated.ids)
    assert all(token["alternatives"][0]["id"] == token["id"] for token in answer["tokens"])


def test_a_head_is_drawn_over_prompt_and_answer(run, tmp_path):
    status, out, _ = run("generate", TEXT, "--model", "story", "--max-new-tokens", "3", "-o", "answer.csv")

    assert (status, out.splitlines()[-1]) == (0, "answer.csv")
    assert "mats" in (tmp_path / "answer.csv").read_text("utf-8-sig")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "translator"], "'translator' predicts no next token of a text"),
        (["--model", "story", "--top-p", "3"], "top_p is 3.0; give a number from"),
        (["--model", "story", "--chat"], "The source 'story' has no setting 'chat'."),
    ],
)
def test_what_cannot_be_written_is_2_and_one_line(run, options, message):
    status, out, err = run("generate", TEXT, *options)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
