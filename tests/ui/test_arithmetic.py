"""The line of a cell on the page Steps: each number follows from the one before."""

import math
import re
from types import SimpleNamespace

import pytest
from pictures import SITE, record_of

from attnviz.analysis import steps
from attnviz.core.edits import Edits
from attnviz.core.masks import Painted, Subsequent
from attnviz.core.scoring import ALiBi
from attnviz.ui.pages.steps import HeadCall, arithmetic

WORDS = ["The", "cat", "sat", "down"]


def call(record, query, key):
    """A cell of head 1, as the page has it."""
    context = SimpleNamespace(site=SITE, sentence=0, tokens=record.tokens(SITE))
    return HeadCall(context, record, 1, query, key)


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


STEPS = {
    r"÷ √(\d+)": lambda value, d_k: value / math.sqrt(d_k),
    r"softcap (\S+)": lambda value, bound: bound * math.tanh(value / bound),
    r"([−+] bias )(\S+)": None,
    r"÷ (\S+) \(temperature\)": lambda value, by: value / by,
    r"− row's largest \((\S+)\)": lambda value, most: value - most,
    r"exp": lambda value: math.exp(value),
    r"÷ row's sum \((\S+)\)": lambda value, total: value / total,
}


@pytest.mark.parametrize("added", [{}, {"temperature": 0.5, "softcap": 4.0}, {"bias": (ALiBi(),)}])
def test_each_number_of_the_line_of_a_cell_follows_from_the_one_before(added):
    """A person with a pocket calculator comes from the product to the weight, by what the line says."""
    record = record_of(WORDS, edits=Edits(Subsequent(), **added))
    row = steps.row(record, SITE, 1, 2)
    first, *lines = [line for _, line in arithmetic(call(record, 2, 1))]
    value = number(first.rsplit("= ", 1)[1])

    assert value == pytest.approx(float(row.sums[1]), abs=1e-4)

    for step in lines:
        said, result = step.rsplit(" → ", 1)
        pattern = next(one for one in STEPS if re.fullmatch(one, said))
        found = re.fullmatch(pattern, said).groups()
        made = STEPS[pattern] or (lambda value, sign, much: value + much * (-1 if "−" in sign else 1))
        given = [one if STEPS[pattern] is None and i == 0 else number(one) for i, one in enumerate(found)]

        assert number(result) == pytest.approx(made(value, *given), abs=2e-4)

        value = number(result)
    assert [step for step in lines if step.startswith("÷ row's sum")]
    assert value == pytest.approx(float(row.weights[1]), abs=1e-4)


def test_the_line_of_a_blocked_cell_says_which_rule_blocks_it():
    """And that of a row without a key, that it has none."""
    record = record_of(WORDS, edits=Edits(Subsequent()))
    lines = arithmetic(call(record, 1, 2))

    assert ("mask", "causal blocks it → −∞") in lines
    assert lines[-1][1].endswith("→ 0.0000")

    empty = record_of(WORDS, edits=Edits(Painted(frozenset((1, i) for i in range(len(WORDS))))))

    _, text = arithmetic(call(empty, 1, 2))[-1]
    assert text.endswith("no key is left in this row, so its weight is 0.0000")
