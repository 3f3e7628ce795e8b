"""All that is known of a rule stands in its own file, and every rule is known everywhere."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnviz
from attnviz.core import masks
from attnviz.core.masks import RULES
from attnviz.core.masks.symbols import Symbol

OWN = [rule for rule in RULES.values() if rule.__module__.startswith(masks.rules.__name__)]


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.rule)
def test_a_rule_is_one_file(rule):
    """Its class is in the module of its name, among the masks and at the top of the package, and says what it does."""
    assert rule.__module__.rpartition(".")[2].rstrip("_") == rule.rule
    assert getattr(masks, rule.__name__) is getattr(attnviz, rule.__name__) is rule
    assert rule.meaning
    assert rule.meaning[0].islower()
    assert all(one.label for one in rule.parameters())
    assert masks.from_json(rule.started(7, (5,)).to_json()) == rule.started(7, (5,))


def test_no_file_of_a_rule_is_left_out():
    """What lies in the folder is found."""
    files = {path.stem.rstrip("_") for path in Path(masks.rules.__file__).parent.glob("[a-z]*.py")}

    assert files == {rule.rule for rule in OWN}


NUMBERS = st.integers(-9, 9)


@given(a=NUMBERS, b=NUMBERS, c=NUMBERS, data=st.data())
def test_a_symbol_prints_what_python_computes(a, b, c, data):
    """Any expression of sums, products, comparisons and truths, read back by Python, with its parentheses."""

    def number(depth):
        if depth == 0:
            return data.draw(st.sampled_from([("a", a), ("b", b), ("c", c)]))
        left, right = number(depth - 1), data.draw(st.sampled_from([number(depth - 1), (3, 3)]))
        sign = data.draw(st.sampled_from(["+", "-", "*", "//", "%"]))
        right = (3, 3) if sign in ("//", "%") else right
        return _applied(left, sign, right)

    def truth(depth):
        if depth == 0:
            return _applied(number(2), data.draw(st.sampled_from(["<", "<=", ">", ">=", "=="])), number(1))
        left, right = truth(depth - 1), truth(depth - 1)
        if data.draw(st.booleans()):
            left = ~_symbol(left[0]), ~left[1]
        return _applied(left, data.draw(st.sampled_from(["&", "|"])), right)

    symbol, value = truth(2)
    read = eval(symbol.text, {"a": torch.tensor(a), "b": torch.tensor(b), "c": torch.tensor(c)})

    assert bool(read) == bool(value)


def _symbol(one):
    return Symbol(one, frozenset("Q")) if isinstance(one, str) else one


def _applied(left, sign, right):
    """An operator applied to symbols, and to the tensors that they stand for."""
    names = {"x": _symbol(left[0]), "y": _symbol(right[0])}
    values = {"x": torch.as_tensor(left[1]), "y": torch.as_tensor(right[1])}
    return eval(f"x {sign} y", {}, names), eval(f"x {sign} y", {}, values)
