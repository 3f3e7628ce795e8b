"""The same answer however a model is run: no finding on models that are right, and each planted fault by its name."""

import json

import pytest
import torch
from own_models import WORDS, Server, Writer, tokenize

import attnviz
from attnviz.check.difference_causes import CAUSES
from attnviz.check.ways_to_run import RUNS
from attnviz.core.errors import InputError, NotFiniteError, UnsteadyError

TEXTS = ["the cat sat on the mat", "dog ran on cat mat the dog sat the", "mat sat the dog ran"]


def call(model, ids, tokens=None, positions=None, documents=None, cache=None):
    """Call the model, which counts positions itself except for packed texts."""
    positions = None if documents is None else positions
    return model(ids, positions=positions, documents=documents, padding=tokens, cache=cache)


def server(fault="", **options):
    torch.manual_seed(1)
    return Server(fault, **options).eval()


def compared(model, texts=TEXTS, runs=RUNS, **options):
    return attnviz.same_run(model, texts, runs, **{"call": call, "tokenizer": tokenize} | options)


def causes(test):
    """Return the cause of each way that gives another answer."""
    return {result.run: result.cause for result in test.results if not result.same}


def result_of(test, run):
    return next(result for result in test.results if result.run == run)


@pytest.mark.parametrize("rotary", [False, True])
def test_a_model_that_is_right_gives_the_same_in_every_way(rotary):
    test = compared(server(rotary=rotary))

    assert test.ok
    assert causes(test) == {}
    assert [result.run for result in test.results] == list(RUNS)
    assert all(result.difference <= 2e-6 < test.bound < 1e-5 for result in test.results)
    assert test.dtype == "float32"


CACHED = ("cached", "chunked", "written")
FAULTS = {
    "documents seen": {"packed": "mask"},
    "not reset": {"packed": "positions"},
    "padding seen": {"left": "mask", "written": "mask"},
    "not shifted": {"left": "positions", "written": "positions"},
    "mask cut": dict.fromkeys(CACHED, "cache"),
    "wrong corner": dict.fromkeys(CACHED, "cache"),
    "keys lost": {"cached": "cache", "chunked": "cache", "written": "not tried"},
    "window ignored": dict.fromkeys(CACHED, "window"),
    "window one more": dict.fromkeys(CACHED, "window"),
    "window one less": dict.fromkeys(CACHED, "window"),
    "boundary hidden": {"chunked": "mask"},
    "cache forgotten": {"cached": "positions", "chunked": "positions"},
    "keys cut": dict.fromkeys(CACHED, "cache"),
    "buffer seen": dict.fromkeys(CACHED, "cache"),
    "empty rows": dict.fromkeys(("left", "right", "written"), "mask"),
    "batch mixed": dict.fromkeys(("left", "right", "batched", "written"), "other"),
}


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_and_no_other(fault, rotary):
    """Rotary positions are relative: all of a text may be shifted."""
    is_right = rotary and fault in ("not reset", "not shifted")
    test = compared(server(fault, rotary=rotary))

    assert causes(test) == ({} if is_right else FAULTS[fault])
    assert test.ok == is_right


def test_a_model_whose_runs_differ_by_chance_is_compared_with_nothing():
    with pytest.raises(UnsteadyError, match="dropout in evaluation"):
        compared(server("dropout"))


@pytest.mark.parametrize(
    ("fault", "run", "words"),
    [
        ("not reset", "packed", "treats token 0 as if it were at position 6"),
        ("not shifted", "left", "treats token 0 as if it were at position 3"),
        ("padding seen", "left", "Text 1 sees padding (6 cells"),
        ("mask cut", "cached", "ends with the 3 keys of the cache"),
        ("wrong corner", "cached", "upper left corner"),
        ("keys lost", "chunked", "2 keys after 4 tokens"),
        ("window ignored", "cached", "no window where the text alone has a window of 4 tokens"),
        ("window one more", "cached", "a window of 5 tokens where the text alone has a window of 4"),
        ("boundary hidden", "chunked", "query 2 does not see key 0"),
        ("keys cut", "chunked", "ends with the 2 keys of the cache"),
        ("buffer seen", "cached", "7 keys after 4 tokens"),
        ("empty rows", "left", "gives NaN: query 0 of the row has no key left"),
        ("batch mixed", "batched", "same masks up to decoder layer 1"),
    ],
)
def test_each_fault_has_its_sentence(fault, run, words):
    assert words in result_of(compared(server(fault), runs=[run]), run).message


def test_a_model_in_training_mode_is_run_in_evaluation():
    """And left as it was."""
    torch.manual_seed(0)
    model = Writer().train()

    assert attnviz.same_run(model, TEXTS, "batched", tokenizer=tokenize).ok
    assert model.training


def test_ways_that_cannot_be_tried_are_named_and_do_not_pass():
    test = attnviz.same_run(server(), TEXTS, ("packed", "left", "cached"), tokenizer=tokenize)

    assert [result.cause for result in test.results] == ["not tried"] * 3
    assert not test.ok
    for argument, result in zip(("documents", "tokens", "cache"), test.results, strict=True):
        assert f"takes no {argument}" in result.message


def test_a_wrapped_model_is_padded_by_the_id_that_it_knows():
    """Its own mask hides the future alone, so padding on the left is seen."""
    torch.manual_seed(0)
    source = attnviz.wrap(Writer(), tokenize, TEXTS[0], words=WORDS, pad=0)
    test = attnviz.same_run(source, TEXTS)

    assert result_of(test, "right").same
    assert result_of(test, "batched").same
    assert causes(test) == {"left": "mask"} | dict.fromkeys(("packed", "cached", "chunked", "written"), "not tried")


def test_a_way_that_raises_is_no_pass():
    def broken(model, ids, cache=None):
        if cache is not None:
            raise ValueError("no cache here")
        return model(ids)

    result = compared(server(), runs="cached", call=broken).results[0]

    assert (result.same, result.cause) == (False, "not tried")
    assert "fails when it is run this way: " in result.message
    assert "no cache here" in result.message


def test_the_report_is_text_and_json():
    test = compared(server("mask cut"))
    report = json.loads(json.dumps(test.to_json()))

    assert [line.split(":")[0] for line in test.lines()[2:] if not line.startswith(" ")] == list(RUNS)
    assert {result["cause"] for result in report["results"]} <= set(CAUSES)
    assert report["ok"] is False
    assert report["bound"] == test.bound


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attnviz.same_run(server(), ["the cat"]), "tokenizer"),
        (lambda: compared(server(), []), "no text"),
        (lambda: compared(server(), [[]]), "without tokens"),
        (lambda: compared(server(), runs="sideways"), "no run 'sideways'. Available runs: packed, left"),
        (lambda: attnviz.same_run(3, ["the"]), "cannot be run"),
        (lambda: attnviz.same_run("scratch", ["the"]), "cannot be run in several ways"),
        (lambda: compared(torch.nn.Linear(3, 3)), "raised"),
    ],
)
def test_input_that_cannot_be_used_gives_one_sentence(call, message):
    with pytest.raises(InputError, match=message) as error:
        call()

    assert "\n" not in str(error.value)


def test_a_model_that_gives_no_numbers_cannot_be_compared():
    model = server()
    model.head.bias.data[0] = torch.nan

    with pytest.raises(NotFiniteError, match="Text 1, run alone, has an output at token 0"):
        compared(model)
