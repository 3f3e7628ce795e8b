"""Masks of published models with their intents, written from the papers: none is warned of, and mistakes are named."""

import numpy as np
import published
import pytest
from examples import sweeps

from attnviz.check import check

RIGHT = [(n, *pair) for n in (range(6, 33) if sweeps() else (7, 8)) for pair in published.right(n)]
CONVENTIONS = {"may-attend": lambda mask: mask, "true-is-masked": lambda mask: ~mask, None: lambda mask: mask}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_no_mask_of_a_published_model_is_warned_of(convention):
    """But of rows without a key, if it has such; as booleans, and as 0 and 1."""
    warned = []
    for n, text, mask in RIGHT:
        given = CONVENTIONS[convention](mask)
        for array in (given, given.astype(np.int64)):
            report = check(array, intent=text, convention=convention)
            rules = report.rules("warning", "error") - ({"empty-row"} if (~mask).all(-1).any() else set())
            if rules or report.question or report.convention not in (convention, "may-attend", "zero-is-masked"):
                warned.append((n, text, rules))

    assert warned == []


@pytest.mark.parametrize("mistake", ["inverted", "transposed", "leak", "hole"])
def test_every_mistake_that_leaves_a_trace_is_named(mistake):
    """The whole mask inverted or transposed, and one cell that is open or blocked, which is named."""
    missed, count = [], 0
    for n, text, mask in RIGHT:
        wrong = {"inverted": ~mask, "transposed": mask.T}.get(mistake, mask).copy()
        cells = np.argwhere(mask == (mistake == "hole"))
        if mistake in ("leak", "hole"):
            place = tuple(map(int, cells[n % len(cells)])) if len(cells) else (0, 0)
            wrong[place] ^= bool(len(cells))
        of_padding = mistake in ("leak", "hole") and "padding" in text  # nobody reads its rows
        if wrong.shape != mask.shape or np.array_equal(wrong, mask) or of_padding or text in ("causal", "two-way"):
            continue
        report, count = check(wrong, intent=text, convention="may-attend"), count + 1
        if mistake in ("leak", "hole"):
            named = place in {cell for finding in report.findings for cell in finding.cells if len(cell) == 2}
        else:
            named = bool(report.rules("error") - {"empty-row"})
        missed += [] if named else [(n, text)]

    assert missed == []
    assert count > 20
