"""Hypothesis strategies for masks of any rule, made from the rules' parameters, so that every law tests a new rule."""

from hypothesis import reject
from hypothesis import strategies as st

from attnviz.core.errors import MaskError
from attnviz.core.masks import RULES, Mask, Parameter


def rules(batch: int = 2, longest: int = 11):
    """Draw a mask of one rule, for a batch of `batch` sentences."""
    named = [rule for rule in RULES.values() if rule.parameters() or rule.rule == "full"]
    return st.sampled_from(named).flatmap(lambda rule: of(rule, batch, longest))


@st.composite
def of(draw, rule: type[Mask], batch: int = 1, longest: int = 11):
    """Draw a mask of this rule."""
    try:
        return rule(**{one.name: draw(_values(rule, one, batch, longest)) for one in rule.parameters()})
    except MaskError:
        reject()


def _values(rule: type[Mask], one: Parameter, batch: int, longest: int):
    if one.kind == "cells":
        return st.lists(st.tuples(st.integers(0, longest), st.integers(0, longest)), max_size=6).map(tuple)
    if one.kind == "numbers":
        least, most = (batch, batch) if rule.rule == "padding" else (0, 4)
        return st.lists(st.integers(0, longest if least else 4), min_size=least, max_size=most).map(tuple)
    numbers = st.integers(-longest if one.signed else one.least, longest)
    return numbers if one.needed else st.none() | st.integers(0, longest)
