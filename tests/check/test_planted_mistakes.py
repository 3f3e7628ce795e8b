"""Mistakes planted in the masks of published models: which the check names, and that it warns of no right one."""

from collections import Counter

import numpy as np
import published
import pytest
from examples import sweeps

from attnviz.check import check

SIZES = range(3, 33) if sweeps() else (7,)
"""Queries of each mask; all thirty in `make sweep`."""

NAMES = {
    "inverted": {"inverted"},
    "transposed": {"transposed", "wrong-axis"},  # of padding both are one matrix
    "shifted": {"shifted", "future-leak", "blocks-itself"},
    "leak": {"future-leak", "deviation"},
}
"""The rules that name a mistake."""

RANDOM = "BigBird"
"""A mask with random keys, in which a mistake in single cells, or turning it, may leave other random keys."""

RIGHT = [(n, name, mask) for n in SIZES for name, mask in published.right(n)]


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_one_open_cell_of_the_future_is_named_however_small_the_causal_mask(n):
    """It is not taken for the slip of another mask, read the other way. Key 1 open to query 0 is a prefix of 2."""
    for query, key in zip(*np.triu_indices(n, 1), strict=True):
        mask = np.tril(np.ones((n, n), dtype=int))
        mask[query, key] = 1
        found = check(mask)

        assert found.convention == "zero-is-masked"
        assert found.rules("warning") == (set() if (query, key) == (0, 1) else {"future-leak"})
        assert not found.rules("error")


def planted(n, name, mask, mistake):
    """The mask with a mistake in it, or None where it cannot be made or leaves no trace."""
    square = mask.shape[0] == mask.shape[1]
    if name == RANDOM and mistake in ("transposed", "leak"):
        return None
    if mistake == "inverted":
        wrong = ~mask
    elif mistake == "transposed":
        wrong = mask.T if square else mask
    elif mistake == "shifted":
        wrong = np.vstack([mask[1:], mask[-1:]]) if square else mask
    else:
        wrong = mask.copy()
        closed = np.argwhere(~mask & (np.arange(mask.shape[1]) > np.arange(len(mask))[:, None]))
        if len(closed):
            wrong[tuple(closed[n % len(closed)])] = True
    return None if np.array_equal(wrong, mask) or published.is_published(wrong) else wrong


def rates(mistake, **said):
    """How many of the planted mistakes are named, and those that are not."""
    count, missed = Counter(), []
    for n, name, mask in RIGHT:
        wrong = planted(n, name, mask, mistake)
        if wrong is None:
            continue
        found = check(wrong, convention="may-attend", **said).rules() & NAMES[mistake]
        count[bool(found)] += 1
        missed += [] if found else [(n, name)]
    return count, missed


def test_no_mask_of_a_published_model_is_warned_of():
    """But of rows without a key, if it has such; whether it is said how to read it or not, as booleans or 0 and 1."""
    warned = []
    for at, (n, name, mask) in enumerate(RIGHT):
        for array, said in ((mask.astype([bool, np.int64][at % 2]), {}), (mask, {"convention": "may-attend"})):
            report = check(array, **said)
            rules = report.rules("warning", "error") - ({"empty-row"} if (~mask).all(-1).any() else set())
            if rules or report.convention == "true-is-masked":
                warned.append((n, name, rules))

    assert warned == []


@pytest.mark.parametrize("mistake", ["inverted", "transposed"])
def test_every_mistake_that_leaves_a_trace_is_named(mistake):
    """Every one whose result is no published mask itself."""
    count, missed = rates(mistake)

    assert missed == [], count
