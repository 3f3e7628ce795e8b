"""A mask and its biases in the link: short, readable, and nothing else gets through."""

from dataclasses import replace

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
stacks = st.lists(entries, max_size=8).map(
    lambda found: Stack((*(replace(one, join=one.mask.join) for one in found[:1]), *found[1:]))
)
"""Of the first entry, which is joined to nothing, a link says no join."""


@given(st.none() | stacks)
def test_every_mask_survives_the_link(stack):
    """Rules, parameters, order, joins, not and off come back; no choice and the choice of none are two things."""
    assert link.decode_stack(link.encode_stack(stack)) == stack


@pytest.mark.parametrize(
    ("stack", "text"),
    [
        (None, ""),
        (Stack(), "none"),
        (Stack((Entry(Subsequent()),)), "causal"),
        (Stack((Entry(Subsequent()), Entry(Prefix(2), "or"), Entry(Window(2)))), "(causal | prefix(2)) & window(2)"),
        (Stack((Entry(Window(4, 1), negated=True, on=False),)), "off: ~window(4, 1)"),
        (Stack((Entry(Padding((3, 5), left=5)),)), "padding(3, 5, left=5)"),
        (Stack((Entry(Painted(((0, 1), (2, 3), (2, 4), (3, 3), (3, 4)))),)), "blocked(0:1, 2-3:3-4)"),
        (Stack((Entry(Subsequent()), Entry(Window(1) | Prefix(1)))), "causal & (window(1) | prefix(1))"),
    ],
)
def test_a_mask_in_a_link_is_its_text(stack, text):
    assert link.encode_stack(stack) == text
    assert link.decode_stack(text) == stack


@pytest.mark.parametrize(
    ("former", "text"),
    [
        ("subsequent", "causal"),
        ("subsequent.prefix.window", "(causal | prefix(2)) & window(2)"),
        ("subsequent.and-prefix", "causal & prefix(2)"),
        ("off-subsequent.and-not-prefix", "off: causal & ~prefix(2)"),
        ("not-off-window-4-1", "off: ~window(4, 1)"),
        ("not-subsequent", "~causal"),
        ("subsequent-n1.and-prefix-3", "causal(-1) & prefix(3)"),
        ("subsequent.window-4-1.or-prefix-3", "causal & window(4, 1) | prefix(3)"),
        ("subsequent.window-4-0", "causal & window(4)"),
        ("window-90-90", "window(90, 90)"),
        ("padding-3_5-5", "padding(3, 5, left=5)"),
        ("padding-4_3_2", "padding(4, 3, 2)"),
        ("documents-3_3", "documents(3, 3)"),
        ("subsequent.global-0.off-strided", "(causal | global(0)) & off: strided(3)"),
        ("subsequent.prefix-3.padding-5.off-window", "(causal | prefix(3)) & padding(5) & off: window(2)"),
        ("subsequent.prefix-3.not-window-1.off-padding-5-7.painted-6_0", ""),
        ("painted-0_1-2_3_3_4", "blocked(0:1, 2-3:3-4)"),
        ("painted", "blocked"),
        ("subsequent.opened-1_5", "causal | opened(1:5)"),
        ("subsequent.painted-4_0_4_2-5_1_5_2-6_0_6_2", "causal & blocked(4:0-2, 5:1-2, 6:0-2)"),
        ("random-2-9-5", "random(2, 9, 5)"),
        ("block_diffusion", "block_diffusion(2, 4)"),
        ("blocks-2-1-1-1.random-1-7", "blocks(2, first=1) | random(1, 7)"),
        ("media-0_4-3", "media(0, 4, size=3)"),
        ("media--3", "media([], size=3)"),
        ("dilated-4-2", "dilated(4, 2)"),
        ("neighborhood-3-8", "neighborhood(3, 8)"),
        ("window-1.or-global-0_5", "window(1) | global(0, 5)"),
        ("subsequent.or-not-off-prefix-3", "causal | off: ~prefix(3)"),
        ("padding-5-.documents-2_3", "padding(5) & documents(2, 3)"),
        ("not-painted-0_0.and-opened-2_2_3_4", "~blocked(0:0) & opened(2-3:2-4)"),
        ("none", "none"),
    ],
)
def test_links_of_before_open_the_same(former, text):
    """Rules with dots between them; the numbers that a rule begins with go without saying."""
    text = text or "(causal | prefix(3)) & ~window(1) & off: padding(5, left=7) & blocked(6:0)"

    assert link.encode_stack(link.decode_stack(former)) == text
    assert link.decode_stack(text) == link.decode_stack(former)


def test_a_long_link_of_before_opens_and_can_be_written():
    """Single cells take more characters now; a link that could not be written again is refused, not opened."""
    cells = [f"{q}_{k}" for q in range(60) for k in range(q % 2, 45, 2)][:1060]
    former = "-".join(["painted", *cells])
    stripes = ", ".join([*(f"{q}:0-99" for q in range(0, 99, 2)), *(f"0-99:{k}" for k in range(0, 99, 2))])

    assert 5_800 < len(former) <= 6_000 < len(link.encode_stack(link.decode_stack(former)))
    with pytest.raises(InputError, match="Paint fewer cells"):
        link.decode_stack(f"blocked({stripes})")


@pytest.mark.parametrize("name", BY_NAME)
def test_a_link_of_before_may_leave_numbers_out(name):
    """Only rules that list something need more than their name."""
    rule = BY_NAME[name]
    if any(f.kind == "numbers" for f in rule.parameters()):
        with pytest.raises(InputError, match="needs "):
            link.decode_stack(rule.rule)
    else:
        (entry,) = link.decode_stack(rule.rule).entries
        assert entry.mask == rule(**{f.name: () if f.kind == "cells" else f.default for f in rule.parameters()})


@given(
    st.text(max_size=60)
    | st.text("subequntwidorpf.-_0123456789", max_size=60)
    | st.text("causlofwind(): &|~,0123", max_size=40)
)
def test_any_other_text_is_refused_with_a_sentence(text):
    """A link may hold anything; it is read, or refused by the one error whose words can be shown."""
    try:
        assert link.decode_stack(link.encode_stack(link.decode_stack(text))) == link.decode_stack(text)
    except InputError as error:
        assert str(error).endswith((".", "?"))


@pytest.mark.parametrize(
    "text",
    [
        "window-2-0-1",
        "window-x",
        "window-٣",
        "window-9999",
        "window(9999)",
        "causal & window",
        "causal &",
        "blocked(0-400:0-400)",
        " | ".join(["window(1)"] * 25),
        "or-and-window",
        "off-not-window",
        "documents-3_x",
        "painted-5_5_0_0",
        "painted-0_0_99999_99999",
        "random-9-2",
        "and",
        "nonsense",
        "window.",
        ".".join(["window"] * 25),
        "padding-1_2.padding-1_2_3",
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

    assert stack.mask().keys_left(7, 7).tolist() == [0, 0, 1, 2, 3, 4, 5]


def test_every_rule_of_the_core_that_can_be_composed_is_offered():
    """What is left out is made by joining, negating or aligning others."""
    assert {rule.rule for rule in RULES} == set(masks.RULES) - {"full", "and", "or", "not", "shifted"}
