"""The same answer however a model is run: no finding on models that are right, and each planted fault by its name."""

import json

import pytest
import torch
from own_models import IDS, WORDS, Server, Writer, tokenize

import attnviz
from attnviz.core.errors import InputError, NotFiniteError
from attnviz.same.results import CAUSES, RUNS

TEXTS = ["the cat sat on the mat", "dog ran on cat mat the dog sat the", "mat sat the dog ran"]


def pack(documents):
    lengths = torch.tensor([len(ids) for ids in documents])
    return {
        "ids": torch.tensor([sum(documents, [])]),
        "positions": torch.cat([torch.arange(length) for length in lengths])[None],
        "documents": torch.arange(len(documents)).repeat_interleave(lengths)[None],
    }


def pad(documents, side):
    longest = max(map(len, documents))
    rows = [(ids, [0] * (longest - len(ids))) for ids in documents]
    ids = torch.tensor([padding + ids if side == "left" else ids + padding for ids, padding in rows])
    return {"ids": ids, "padding": ids != 0}


def step(model, ids, cache):
    return model(ids, cache=cache)


def server(fault="", **options):
    torch.manual_seed(1)
    return Server(fault, **options).eval()


def compared(model, texts=TEXTS, runs=RUNS, **options):
    functions = {"pack": pack, "pad": pad, "step": step, "tokenizer": tokenize}
    return attnviz.same_run(model, texts, runs, **functions | options)


def causes(test):
    """The cause of each way that is not the same."""
    return {result.run: result.cause for result in test.results if not result.same}


def result_of(test, run):
    return next(result for result in test.results if result.run == run)


@pytest.mark.parametrize("rotary", [False, True])
def test_a_model_that_is_right_gives_the_same_in_every_way(rotary):
    test = compared(server(rotary=rotary))

    assert test.ok
    assert causes(test) == {}
    assert [result.run for result in test.results] == list(RUNS)
    assert all(result.difference <= 1e-6 < test.bound < 1e-5 for result in test.results)
    assert (test.reference, test.dtype) == ("float64", "float32")


FAULTS = {
    "documents seen": {"packed": "mask"},
    "not reset": {"packed": "positions"},
    "padding seen": {"left": "mask"},
    "not shifted": {"left": "positions"},
    "mask cut": {"cached": "cache", "chunked": "cache"},
    "wrong corner": {"cached": "cache", "chunked": "cache"},
    "keys lost": {"cached": "cache", "chunked": "cache"},
    "window ignored": {"cached": "window", "chunked": "window"},
    "window one more": {"cached": "window", "chunked": "window"},
    "window one less": {"cached": "window", "chunked": "window"},
    "boundary hidden": {"chunked": "mask"},
    "cache forgotten": {"cached": "positions", "chunked": "positions"},
    "batch mixed": dict.fromkeys(("left", "right", "batched"), "other"),
    "dropout": dict.fromkeys(RUNS, "dropout"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_and_no_other(fault):
    test = compared(server(fault))

    assert causes(test) == FAULTS[fault]
    assert not test.ok


ROTARY = set(FAULTS) - {"not reset", "not shifted"}
"""Rotary positions are relative: all of a text may be shifted."""


@pytest.mark.parametrize("fault", sorted(ROTARY))
def test_faults_of_a_model_with_rotary_positions_are_named(fault):
    assert causes(compared(server(fault, rotary=True))) == FAULTS[fault]


@pytest.mark.parametrize("fault", ["not reset", "not shifted"])
def test_shifted_rotary_positions_are_no_fault(fault):
    assert compared(server(fault, rotary=True)).ok
