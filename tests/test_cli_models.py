"""The trained models in the shell, on tiny ones: what is shown if little is said, and what they say and know."""

import csv
import json
import re

import numpy as np
import pytest
import tiny

import attnviz
from attnviz import api
from attnviz.cli import parser, request
from attnviz.core.edits import Edits, Site, Take

CAT = "the black cat sleeps"


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield tiny.install(tmp_path_factory.mktemp("assets"), patch)
    tiny.forget()


# What is shown


def shown_by(*arguments):
    """Return the site and the head of a command."""
    inputs = request.read(parser.read(arguments))
    return inputs.site, inputs.head


@pytest.mark.parametrize(
    ("options", "site", "head"),
    [
        ([], Site("cross", 1), 2),
        (["--layer", "0"], Site("cross", 0), 0),
        (["--layer", "e1"], Site("encoder", 1), 0),
        (["--layer", "c1"], Site("cross", 1), 2),
        (["--layer", "d0", "--head", "1"], Site("decoder", 0), 1),
        (["--head", "mean"], Site("cross", 1), "mean"),
        (["--model", "story"], Site("decoder", 0), 1),
        (["--model", "story", "--step", "20"], Site("decoder", 0), 1),
        (["--model", "scratch"], Site("encoder", 0), 0),
        (["--model", "scratch", "--layer", "1"], Site("encoder", 1), 0),
    ],
)
def test_what_is_not_said_is_where_the_model_opens(options, site, head):
    """A layer without a kind has the kind of the opening layer; its head is taken only there."""
    assert shown_by("export", CAT, *options) == (site, head)


def test_a_model_can_be_seen_as_it_was_while_it_was_trained(run, tmp_path):
    for step in tiny.STEPS:
        run("export", CAT, "--layer", "e1", "--step", str(step), "-o", f"{step}.npz")

    drawn = [np.load(tmp_path / f"{step}.npz")["weights"] for step in tiny.STEPS]
    expected = api.analyze(CAT, step=20).step(Site("encoder", 1)).weights(0).numpy()
    assert np.array_equal(drawn[1], expected)
    assert not np.allclose(drawn[0], drawn[1])
    assert not np.allclose(drawn[1], drawn[2])


@pytest.mark.parametrize(
    ("heads", "off"),
    [
        ("2", {("cross", 1, 2)}),
        ("0.1", {("cross", 0, 1)}),
        ("c0.1", {("cross", 0, 1)}),
        ("c0.1,e1.0", {("cross", 0, 1), ("encoder", 1, 0)}),
        ("e1.0,d0.2,2", {("encoder", 1, 0), ("decoder", 0, 2), ("cross", 1, 2)}),
    ],
)
def test_heads_of_any_kind_can_be_off(heads, off):
    """Without a kind they are of the kind in view, without a layer of the layer in view."""
    inputs = request.read(parser.read(["export", CAT, "--off", heads]))

    assert inputs.request.edits.heads_off == frozenset((Site(kind, layer), head) for kind, layer, head in off)


# Masks


def test_the_mask_of_a_model_is_its_own(run, tmp_path):
    """A decoder's future; each row beside the word that the model predicts there."""
    run("export", CAT, "--form", "mask", "--model", "story", "-o", "mask.npz", "-o", "mask.svg")

    record = api.analyze(CAT, "story")
    mask = np.load(tmp_path / "mask.npz")
    assert mask["query_tokens"].tolist() == ["<sos>", *CAT.split()]
    assert np.array_equal(mask["may_attend"], np.tri(5, dtype=bool))
    svg = (tmp_path / "mask.svg").read_text("utf-8")
    for word in record.predicted(Site("decoder", 0)):
        assert word.replace("<", "&lt;").replace(">", "&gt;") in svg


# What a model says


def test_what_is_written_is_one_line_per_sentence(run):
    """Nothing else, so that it can be handed on."""
    texts = [CAT, "a dog eats"]

    assert run("predict", "\n".join(texts), "--lines") == (
        0,
        "".join(f"{api.analyze(t).targets[0].text}\n" for t in texts),
        "",
    )


def test_what_is_written_before_and_after_a_change(run):
    edits = Edits(heads_off={(Site("cross", 1), 2), (Site("cross", 1), 0)})
    before, after = (api.analyze(CAT, edits=e).targets[0].text for e in (Edits(), edits))
    _, out, _ = run("predict", CAT, "--off", "0,2")
    _, both, _ = run("predict", f"{CAT}\n{CAT}", "--lines", "--off", "0,2")
    _, listed, _ = run("predict", CAT, "--off", "0,2", "--json")

    assert before != after
    rows = [{"before": before, "after": after}]
    assert json.loads(listed) == {"texts": [CAT], "edits": edits.to_json(), "rows": rows}
    assert [line.split() for line in out.splitlines()] == [["before", "after"], [*before.split(), *after.split()]]
    assert len(both.splitlines()) == 3


def test_what_is_taken_from_another_text(run):
    """Its text is that of links; what it changes stands in the JSON."""
    take = "output-c1.2-the black dog sleeps"
    edits = Edits(taken=(Take.read(take), Take.read("stream-e0@2-the black dog sleeps")))
    taken = ("--take", take, "--take", "stream-e0@2-the black dog sleeps")
    _, listed, _ = run("predict", "the black cat sleeps", *taken, "--json")

    assert request.read(parser.read(["export", CAT, *taken])).request.edits == edits
    assert json.loads(listed)["edits"] == edits.to_json()
    code, _, error = run("predict", CAT, "--take", "head-1")
    assert code
    assert "write it like output-d0.1-The dog sat." in error


def test_the_next_words_and_how_probable_they_are(run):
    """The five most probable, after the last word of each sentence, not after its padding."""
    record = api.analyze(["the cat", CAT], "story")
    expected = record.prediction.most_probable(2, 5)
    _, out, _ = run("predict", f"the cat\n{CAT}", "--lines", "--model", "story")
    _, listed, _ = run("predict", f"the cat\n{CAT}", "--lines", "--model", "story", "--json")

    head, *lines = (line.split() for line in out.splitlines())
    assert head == ["sentence", "position", "token", "word", "probability"]
    assert [(number, word) for number, _, _, word, _ in lines[:5]] == [("1", word) for word, _ in expected]
    rows = json.loads(listed)["rows"][:5]
    assert [row["word"] for row in rows] == [word for word, _ in expected]
    assert [row["probability"] for row in rows] == pytest.approx([chance for _, chance in expected])


def test_where_nothing_is_left_to_look_at_nothing_is_written_and_it_says_so(run):
    """NaN is no word, and not JSON."""
    nothing = ["--mask", "~full", "--set", "empty=nan"]

    assert run("predict", CAT, *nothing)[1].rstrip().endswith("∅")
    _, listed, _ = run("predict", CAT, "--model", "story", *nothing, "--json")
    assert [row["probability"] for row in json.loads(listed)["rows"]] == [None] * 5


def test_what_a_model_says_can_be_drawn(run, tmp_path):
    """A translation word by word, the next word of a language model; its numbers are those of the record."""
    assert run("predict", CAT, "-o", "steps.csv", "-o", "steps.svg")[:2] == (0, "steps.csv\nsteps.svg\n")
    run("predict", f"the cat\n{CAT}", "--lines", "--model", "story", "--off", "1", "--sentence", "2", "-o", "next.csv")

    steps = list(csv.DictReader((tmp_path / "steps.csv").read_text("utf-8-sig").splitlines()))
    assert [row["token"] for row in steps] == list(api.analyze(CAT).targets[0].labels)
    first, *_ = csv.DictReader((tmp_path / "next.csv").read_text("utf-8-sig").splitlines())
    after = api.analyze(CAT, "story", Edits(heads_off={(Site("decoder", 0), 1)})).prediction
    word, chance = after.most_probable(4, 1)[0]
    assert (first["token"], first["word"], float(first["probability"])) == ("sleeps", word, pytest.approx(chance))


# Words that are not known


def test_an_unknown_word_is_told_on_stderr_with_known_ones_like_it(run, tmp_path):
    """The picture is made all the same."""
    status, out, err = run("export", "The cats sleep quixotically", "-o", "head.svg")

    assert (status, out) == (0, "head.svg\n")
    words = "“cats” (it knows “cat”), “sleep” (it knows “sleeps”), “quixotically”"
    assert err == f"attnviz: 'translator' does not know {words} and reads <unk>.\n"
    _, _, err = run("predict", "\n".join(f"zz{letter}" for letter in "abcdefghijklm"), "--lines", "--show", "tokens")
    assert err.endswith("“zzj” and 3 more words and reads <unk>.\n")


# Models


def test_all_models_are_listed_with_where_their_weights_come_from(run):
    """Also one whose files are missing: its line says so."""
    status, out, _ = run("models")

    *listed, blank, others = out.splitlines()
    lines = {line.split()[0]: line for line in listed}
    assert (status, blank) == (0, "")
    assert others.startswith("Also any model on Hugging Face, by its name (sentence-transformers/all-MiniLM-L6-v2)")
    assert tuple(lines) == tuple(api.SOURCES)
    assert "trained here  Says something at random." in lines["story"]
    assert "'induction' are missing" in lines["induction"]
    assert "random " in lines["scratch"]


def test_a_card_says_what_was_measured_and_how(run):
    _, out, _ = run("models", "translator")

    for part in (
        "Seen once.",
        "12.5%  of 100 sentences are right  (goal 90%)",
        "Measured before it shipped:",
        "12,345 parameters",
    ):
        assert re.sub(" +", " ", part) in re.sub(" +", " ", out)
    assert "head 2 of cross layer 1 looks about" in out
    assert "What it cannot do:\n  translate a sentence." in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["export", CAT, "--model", "no name"], "'no name' is no name of a model"),
        (["export", CAT, "--model", "gpt2", "--step", "1"], "A model of Hugging Face has no setting 'step'"),
        (
            ["models", "storry!"],
            "There is no model 'storry!'. Did you mean 'story'? The models that ship with attnviz are: ",
        ),
        (["models", "induction"], "The weights of 'induction' are missing"),
        (
            ["export", CAT, "--step", "3"],
            "'translator' has no weights of training step 3; it has those of the steps 0, 20, 300",
        ),
        *((["export", CAT, "--off", head], "cannot be read") for head in ("x1.2", "c2", "c1.2.3", "", "c1.٣")),
        (["predict", CAT, "--model", "scratch"], "'scratch' predicts no words."),
        (["predict", "the " * 13], "Line 1 has 14 tokens; translator reads up to 13."),
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


def test_circuits_are_printed(run):
    """A table of each of three kinds."""
    heads = run("models", "story", "--circuits")[1].splitlines()
    values = run("models", "story", "--circuits", "eigenvalues")[1].splitlines()

    assert heads[0].split()[:5] == ["kind", "layer", "head", "copying", "previous_token"]
    assert values[0].split() == ["kind", "layer", "head", "real", "imaginary"]
    assert len(values) > 2 * api.load("story").num_heads
    assert (
        "Circuits are computed from a model's weights; name it: attnviz models NAME --circuits"
        in run("models", "--circuits")[2]
    )


def test_the_mask_of_a_saved_run_is_drawn_for_each_head_also_if_only_its_weights_are_known(run):
    """A mask of numbers, another for each head; of weights, the cells of weight 0 are blocked."""
    lower = np.tril(np.ones((3, 3), bool))
    masks = np.stack([lower, np.eye(3, dtype=bool)])
    query, key, value = np.random.default_rng(0).normal(size=(3, 1, 2, 3, 4)).astype("float32")
    weights = (masks / masks.sum(-1, keepdims=True)).astype("float32")
    attnviz.save(attnviz.from_arrays(query=query, key=key, value=value, mask=masks[None], tokens=[*"abc"]), "run.attn")
    attnviz.save(attnviz.from_arrays(weights[None], tokens=[*"abc"]), "weights.attn")

    for file in ("run.attn", "weights.attn"):
        for head in (0, 1):
            assert run("export", file, "--form", "mask", "--head", str(head), "-o", "mask.npz")[0] == 0
            assert np.array_equal(np.load("mask.npz")["may_attend"], masks[head])
