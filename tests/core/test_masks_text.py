"""The text of a mask, for links, the shell, lessons and Python: it reads back, and a mistake in it is pointed at."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules import of, rules
from strategies import B

import attnviz
from attnviz.core.errors import MaskError
from attnviz.core.masks import (
    RULES,
    And,
    Documents,
    Full,
    Mask,
    Media,
    Or,
    Padding,
    Painted,
    Prefix,
    Subsequent,
    Window,
    mask_from_text,
)
from attnviz.core.masks.text import JOINS, Entry, Stack, stack_from_text

RULE = [rule for rule in RULES.values() if rule.parameters() or rule is Full]


def has_text(mask):
    try:
        return bool(mask.text)
    except MaskError:
        return False


operators = st.recursive(
    rules(B),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        inner.map(lambda mask: ~mask),
        st.builds(lambda mask, offset: mask.shifted(offset), inner, st.integers(-9, 9)),
    ),
    max_leaves=6,
).filter(has_text)
"""Masks as &, | and ~ make them."""


@pytest.mark.parametrize("rule", RULE, ids=lambda rule: rule.rule)
@given(data=st.data())
def test_a_mask_of_any_rule_is_read_as_it_is_written(rule, data):
    """With all its numbers; with one below the least that a control offers it has no text, as that is a slip."""
    mask = data.draw(of(rule))
    numbers = [(one, getattr(mask, one.name)) for one in rule.parameters() if one.kind == "number"]

    assert has_text(mask) == all(value is None or value >= one.least for one, value in numbers)
    assert not has_text(mask) or mask_from_text(mask.text) == mask


@given(operators)
def test_masks_that_are_joined_are_read_as_they_are_written(mask):
    """With as few parentheses as it takes; spaces are free."""
    assert mask_from_text(mask.text) == mask
    assert mask_from_text(mask.text.replace(" ", "")) == mask_from_text(f"  ({mask.text}) ") == mask


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("causal", Subsequent()),
        ("causal & window(4)", Subsequent() & Window(4)),
        ("documents(3, 5)", Documents((3, 5))),
        ("padding(5, 3, left=7)", Padding((5, 3), left=7)),
        ("~(prefix(3) | window(2, 1))", ~(Prefix(3) | Window(2, 1))),
        ("causal & window(4) | prefix(3)", (Subsequent() & Window(4)) | Prefix(3)),
        ("media(0, 4, size=3)", Media((0, 4), 3)),
        ("blocked(0:1, 2-3:3-4)", Painted(((0, 1), (2, 3), (2, 4), (3, 3), (3, 4)))),
        ("blocked", Painted(())),
        ("media([], size=3)", Media((), 3)),
        ("causal(2) & shifted(window(2), -1)", Subsequent(2) & Window(2).shifted(-1)),
    ],
)
def test_a_text_is_what_a_person_would_write(text, mask):
    assert mask.text == text
    assert attnviz.mask(text) == mask


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("window(before=2, after=1)", "window(2, 1)"),
        ("padding([5, 3], 7)", "padding(5, 3, left=7)"),
        ("padding(lengths=[5, 3], left=None)", "padding(5, 3)"),
        ("subsequent", "causal"),
        ("painted(1:0)", "blocked(1:0)"),
    ],
)
def test_other_spellings_are_read_too(text, mask):
    """Numbers by name, lists in brackets; names and signs of before."""
    assert mask_from_text(text).text == mask


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("causal & windw(4)", "Character 10 of the mask 'causal & windw(4)': there is no rule 'windw'. Did you mean"),
        ("", "Character 1 of the mask '': a rule is missing; write one, such as causal"),
        ("nonsense", "there is no rule 'nonsense'. Available rules: blank, block_diffusion, blocked, blocks, causal"),
        ("causal and window(2)", "(2)': 'and' cannot stand here. Write & for it."),
        ("not causal", "there is no rule 'not'. Write ~ for it."),
        ("(causal", "Character 8 of the mask '(causal': the parenthesis that opens at character 1 is not closed."),
        ("window", "'window' needs 'before'; write window(before, after=0)."),
        ("window(2, 1, 0)", "Character 14 of the mask 'window(2, 1, 0)': 'window' does not take this; write"),
        ("window(befor=2)", "'window' does not take this; write window(before, after=0). Did you mean 'before'?"),
        ("window(-3)", "Character 8 of the mask 'window(-3)': 'before' is '-3'; it must be a whole number from 0"),
        ("window(٣)", "'before' is '٣'; it must be a whole number from 0 to 100,000."),
        ("window(1 2)", "Character 10 of the mask 'window(1 2)': a comma or a parenthesis is missing"),
        ("blocked(1)", "cells are written query:key, such as 3:0 or, for several, 4-6:0-2."),
        ("blocked(5-0:0)", "'5-0:0' holds no cell, or there are more than 100,000."),
        (" | ".join(["blocked(0-99:0-99)"] * 11), "holds no cell, or there are more than 100,000."),
        ("random(9, 2)", "9 keys of every 2 cannot be chosen"),
        ("padding([])", "at least one sentence"),
        ("off: causal", "Character 1 of the mask 'off: causal': only a rule of the app's list can be off."),
        ("~" * 5000 + "causal", "nested more than 32 deep."),
        ('{"rule": "full"}', "A mask is not read as JSON any more; write it as text, such as causal & window(4)."),
        ("shifted(causal)", "Character 15 of the mask 'shifted(causal)': a mask and a number of positions are missing"),
    ],
    ids=lambda text: text[:30],
)
def test_what_cannot_be_read_is_pointed_at(text, message):
    """In one sentence, with the character at which it stands and what may be meant."""
    with pytest.raises(MaskError) as refused:
        mask_from_text(text)

    assert message in str(refused.value)
    assert len(str(refused.value)) < 300


@given(st.text(max_size=60) | st.text("causlwindo(),&|~:=[]- 0123456789", max_size=60))
def test_any_other_text_is_refused_with_a_sentence(text):
    """Whatever a link holds: never another exception, and what is taken is a mask that works."""
    try:
        mask = mask_from_text(text)
    except MaskError as error:
        assert str(error).endswith((".", "?"))
    else:
        assert mask_from_text(mask.text) == mask


def test_a_mask_without_a_name_has_no_text():
    class Mine(Mask):
        def allows(self, query, key, sentence):
            return key == query

    for mask in (Mine(), Mine() & Subsequent(), ~Mine(), Window(-3), Window(-3).shifted(1), Painted(((-1, 0),))):
        with pytest.raises(MaskError, match="has no text"):
            mask.text  # noqa: B018


entries = st.builds(Entry, operators, st.sampled_from(JOINS), st.booleans(), st.booleans())


@given(st.lists(entries, max_size=5).map(Stack))
def test_a_stack_is_read_as_it_is_written(stack):
    """Rules, order, not and off come back, and how each is joined.

    But of the first, which is joined to nothing; and if it is joined of several, each of them becomes an entry.
    """
    again = stack_from_text(stack.text)
    first = stack.entries[0] if stack.entries else Entry(Full())
    whole = first.negated or not first.on or not isinstance(first.mask, And | Or)

    assert again.mask() == stack.mask()
    if whole:
        alone = ([(e.on, Stack((replace(e, on=True),)).mask()) for e in one.entries] for one in (again, stack))
        assert next(alone) == next(alone)
        assert [e.join for e in again.entries[1:]] == [e.join for e in stack.entries[1:]]
        assert again.text == stack.text


def test_a_stack_reads_as_its_mask_does():
    """With parentheses where the order of the rules asks for them; a rule that is off says so."""
    causal, prefix, window = Entry(Subsequent()), Entry(Prefix(3), "or"), Entry(Window(2), negated=True)

    assert Stack((causal, prefix, window)).text == "(causal | prefix(3)) & ~window(2)"
    assert Stack((causal, window, prefix)).text == "causal & ~window(2) | prefix(3)"
    assert Stack((causal, Entry(Window(2), "and", True, False))).text == "causal & off: ~window(2)"
    assert Stack().text == "none"
