"""A mask and its biases in the link: short, readable, and nothing else gets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core import masks
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask, Padding, Painted, Parameter, Prefix, Subsequent, Window
from attnviz.core.stack import JOINS, Entry, Stack
from attnviz.ui.masks.presets import PRESETS
from attnviz.ui.shared import mask_link as link
from attnviz.ui.shared.edits import ADDED
from attnviz.ui.shared.mask_link import BY_NAME, RULES


def values(f: Parameter):
    if f.kind == "cells":
        return st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=20).map(tuple)
    numbers = st.integers(f.least, f.most)
    if f.kind == "numbers":
        return st.lists(numbers, min_size=1, max_size=1 if f.name == "lengths" else 5).map(tuple)
    return numbers if f.needed else st.none() | numbers


def masks_of(rule: type[Mask]):
    made = st.fixed_dictionaries({f.name: values(f) for f in rule.parameters()})
    if rule.rule == "random":
        made = made.filter(lambda given: given["count"] <= given["every"])
    return made.map(lambda given: rule(**given))


entries = st.sampled_from(RULES).flatmap(
    lambda rule: st.builds(Entry, masks_of(rule), st.sampled_from(JOINS), st.booleans(), st.booleans())
)
stacks = st.lists(entries, max_size=8).map(lambda found: Stack(tuple(found)))


@given(st.none() | stacks)
def test_every_mask_survives_the_link(stack):
    """Rules, parameters, order, joins, not and off come back; no choice and the choice of none are two things."""
    assert link.decode_stack(link.encode_stack(stack)) == stack


@given(stacks)
def test_a_mask_in_a_link_needs_no_escapes(stack):
    """Letters, digits, dots, hyphens and underscores: what a browser writes into an address as it is."""
    assert set(link.encode_stack(stack)) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-_")


@pytest.mark.parametrize(
    ("stack", "text"),
    [
        (None, ""),
        (Stack(), "none"),
        (Stack((Entry(Subsequent()),)), "subsequent"),
        (Stack((Entry(Subsequent()), Entry(Prefix(2), "or"), Entry(Window(2)))), "subsequent.prefix.window"),
        (Stack((Entry(Window(4, 1), negated=True, on=False),)), "not-off-window-4-1"),
        (Stack((Entry(Subsequent(-1)), Entry(Prefix(3)))), "subsequent-n1.and-prefix-3"),
        (Stack((Entry(Padding((3, 5), left=5)),)), "padding-3_5-5"),
        (Stack((Entry(Painted(((0, 1), (2, 3), (2, 4), (3, 3), (3, 4)))),)), "painted-0_1-2_3_3_4"),
    ],
)
def test_a_mask_in_a_link_reads_well(stack, text):
    """The usual join and the numbers that a rule begins with go without saying."""
    assert link.encode_stack(stack) == text
    assert link.decode_stack(text) == stack


@pytest.mark.parametrize("name", BY_NAME)
def test_a_rule_can_be_written_with_the_numbers_it_begins_with(name):
    """Only rules that list something need more than their name."""
    lists = any(f.kind == "numbers" for f in BY_NAME[name].parameters())
    if lists:
        with pytest.raises(InputError, match="names no"):
            link.decode_stack(name)
    else:
        assert link.encode_stack(link.decode_stack(name)) == name


@given(st.text(max_size=60) | st.text("subequntwidorpf.-_0123456789", max_size=60))
def test_any_other_text_is_refused_with_a_sentence(text):
    """A link may hold anything; it is read, or refused by the one error whose words can be shown."""
    try:
        assert link.decode_stack(link.encode_stack(link.decode_stack(text))) == link.decode_stack(text)
    except InputError as error:
        assert str(error).endswith(".")


@pytest.mark.parametrize(
    "text",
    [
        "window-2-0-1",
        "window-x",
        "window-٣",
        "window-9999",
        "or-and-window",
        "off-not-window",
        "documents-3_x",
        "painted-5_5_0_0",
        "painted-0_0_99999_99999",
        "painted-0_0_90_90-100_100_190_190",
        "random-9-2",
        "and",
        "nonsense",
        "window.",
        ".".join(["window"] * 25),
        "padding-1_2.padding-1_2_3",
        "documents-" + "_".join(["1"] * 65),
        "x" * 9000,
    ],
)
def test_what_is_no_mask_is_refused(text):
    """Names, order, counts, bounds and the number of rules are all checked, before anything large is built."""
    with pytest.raises(InputError):
        link.decode_stack(text)


def test_a_mask_that_fills_the_link_is_refused():
    """A chessboard of painted cells has no rectangle to save characters with."""
    board = Painted(tuple((q, k) for q in range(64) for k in range(64) if (q + k) % 2))
    with pytest.raises(InputError, match="Paint fewer cells"):
        link.encode_stack(Stack((Entry(board),)))


@given(st.sets(st.tuples(st.integers(0, 12), st.integers(0, 12))))
def test_rectangles_hold_each_cell_once(cells):
    """Nothing is left out and nothing comes twice."""
    found = []
    for box in link.rectangles(cells):
        top, left, bottom, right = box if len(box) == 4 else box * 2
        found += [(q, k) for q in range(top, bottom + 1) for k in range(left, right + 1)]

    assert sorted(found) == sorted(cells)


def test_a_painted_square_is_one_rectangle():
    """However large a square is, the link holds its corners."""
    square = [(q, k) for q in range(3, 40) for k in range(5, 50)]

    assert link.rectangles(square) == [(3, 5, 39, 49)]


@pytest.mark.parametrize(
    "text", ["alibi.", "softcap-0", "softcap-5.alibi", "relative", "relative-٣", "alibi softcap-1"]
)
def test_what_is_no_bias_is_refused(text):
    """Order, bounds and digits are checked."""
    with pytest.raises(InputError, match="cannot be read"):
        ADDED.decode([text])


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("keys", [1, 2, 7])
def test_every_known_mask_fits_every_sentence_and_the_link(name, keys):
    """Also a sentence of one token."""
    stack = PRESETS[name](keys, (max(1, keys - 2),))

    assert stack.mask().grid(keys, keys).shape == (keys, keys)
    assert link.decode_stack(link.encode_stack(stack)) == stack


def test_left_padding_with_a_causal_mask_leaves_rows_empty():
    """The known mask that is there to show it."""
    stack = PRESETS["left padding with a causal mask"](7, (5,))

    assert stack.keys_left(7, 7).tolist() == [0, 0, 1, 2, 3, 4, 5]


def test_every_rule_of_the_core_that_can_be_composed_is_offered():
    """What is left out is made by joining, negating or aligning others."""
    assert set(BY_NAME) == set(masks.RULES) - {"full", "and", "or", "not", "shifted"}
