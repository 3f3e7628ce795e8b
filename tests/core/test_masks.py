"""Masks as values: the tensor is the predicate, cell by cell; laws; reasons; other conventions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rules import of
from strategies import B, K, Q, masks, randoms, slices

from attnviz.core.conventions import (
    from_additive,
    from_true_is_masked,
    from_zero_is_masked,
    to_additive,
    to_true_is_masked,
    to_zero_is_masked,
)
from attnviz.core.errors import MaskError
from attnviz.core.masks import (
    And,
    Blank,
    Blocks,
    Dilated,
    Documents,
    Full,
    Global,
    Not,
    Opened,
    Or,
    Padding,
    Painted,
    Prefix,
    Random,
    Shifted,
    Strided,
    Subsequent,
    Window,
    base,
    subsequent_mask,
)


def may_attend(mask, query, key, sentence):
    """Define each rule once more, for one cell and in plain numbers."""
    match mask:
        case Full():
            return True
        case Subsequent(offset):
            return key - query <= offset
        case Padding(lengths, left):
            return key < lengths[sentence] if left is None else key >= left - lengths[sentence]
        case Window(before, after):
            return -before <= key - query <= after
        case Prefix(length):
            return key < length
        case Blank(positions):
            return key not in positions
        case Documents(lengths):
            owners = [document for document, length in enumerate(lengths) for _ in range(length)]
            return 0 <= query < len(owners) and key < len(owners) and owners[query] == owners[key]
        case Painted(cells):
            return (query, key) not in cells
        case Opened(cells):
            return (query, key) in cells
        case Dilated(before, after, step):
            return key in [query + step * n for n in range(-before, after + 1)]
        case Global(positions):
            return query in positions or key in positions
        case Blocks(size, before, after, first):
            distance = math.floor(key / size) - math.floor(query / size)
            return -before <= distance <= after or key < size * first or 0 <= query < size * first
        case Strided(stride):
            return key in range(query, query - stride - 1, -1) or key in range(query, -1, -stride)
        case Shifted(part, offset):
            return may_attend(part, query + offset, key, sentence)
        case And(parts):
            return all(may_attend(part, query, key, sentence) for part in parts)
        case Or(parts):
            return any(may_attend(part, query, key, sentence) for part in parts)
        case Not(part):
            return not may_attend(part, query, key, sentence)
        case _:  # a rule with a test of its own, in test_rules.py
            return bool(mask.grid(query + 1, key + 1)[query, key]) if query >= 0 else _before(mask, query, key)


def _before(mask, query, key):
    """Whether a rule opens a cell for a query before the first, as in a mask that is shifted."""
    return bool(mask.shifted(query).grid(1, key + 1)[0, key])


def grid(text):
    """'x.' drawings: x = may attend."""
    return torch.tensor([[cell == "x" for cell in line] for line in text.split()])


def same(a, b):
    """Whether two masks are the same tensor for every sentence."""
    return torch.equal(a.tensor(Q, K).expand(B, 1, Q, K), b.tensor(Q, K).expand(B, 1, Q, K))


# What each rule looks like


@pytest.mark.parametrize(
    ("mask", "drawing", "words"),
    [
        (Full(), "xxxx xxxx xxxx", "full"),
        (Subsequent(), "x... xx.. xxx.", "causal"),
        (Subsequent(1), "xx.. xxx. xxxx", "causal (offset 1)"),
        (Padding((3,)), "xxx. xxx. xxx.", "padding"),
        (Padding((3,), left=4), ".xxx .xxx .xxx", "padding"),
        (Window(1), "x... xx.. .xx.", "window (1 before, 0 after)"),
        (Prefix(2), "xx.. xx.. xx..", "prefix of 2"),
        (Documents((1, 2)), "x... .xx. .xx.", "documents of 1, 2"),
        (Painted(((0, 3), (2, 0))), "xxx. xxxx .xxx", "painted"),
        (Opened(((0, 3), (2, 0))), "...x .... x...", "opened"),
        (Dilated(1, 1), "x.x. .x.x x.x.", "dilated window (1 before, 1 after, step 2)"),
        (Global((1, 1)), ".x.. xxxx .x..", "global tokens 1"),
        (Blocks(2, 0, 0), "xx.. xx.. ..xx", "blocks of 2 (0 before, 0 after)"),
        (Blocks(2, 0, 0, 1), "xxxx xxxx xxxx", "blocks of 2 (0 before, 0 after, first 1)"),
        (Strided(2), "x... xx.. xxx.", "strided by 2"),
        (Documents((2,)).shifted(-1), ".... xx.. xx..", "documents of 2 at offset -1"),
        (Window(1).shifted(1), "xx.. .xx. ..xx", "window (1 before, 0 after) at offset 1"),
        (~Subsequent(), ".xxx ..xx ...x", "not causal"),
        (~(Subsequent() & Prefix(1)), ".xxx .xxx .xxx", "not (causal and prefix of 1)"),
    ],
    ids=lambda x: str(x) if not isinstance(x, str) else "",
)
def test_each_rule_looks_as_it_is_named(mask, drawing, words):
    """Rows are queries, columns are keys, x may attend."""
    assert torch.equal(mask.grid(3, 4), grid(drawing))
    assert str(mask) == words


@given(masks())
def test_the_tensor_is_the_predicate_of_every_cell(mask):
    """(B or 1, 1, Q, K), boolean; `grid` is one sentence of it."""
    tensor = mask.tensor(Q, K)

    assert tensor.shape == (mask.batch_size or 1, 1, Q, K)
    assert tensor.dtype is torch.bool
    for sentence in range(B):
        expected = torch.tensor([[may_attend(mask, q, k, sentence) for k in range(K)] for q in range(Q)])
        assert torch.equal(tensor.expand(B, 1, Q, K)[sentence, 0], expected)
        assert torch.equal(mask.grid(Q, K, sentence=sentence), expected)


@given(masks(), slices(Q), slices(K))
def test_a_block_is_that_block_of_the_whole(mask, rows, columns):
    """Also empty blocks, and blocks that begin beyond the end."""
    assert torch.equal(mask.tensor(Q, K, rows=rows, columns=columns), mask.tensor(Q, K)[..., rows, columns])


def test_a_block_of_a_huge_mask_costs_the_block():
    """The whole would have 10¹² cells."""
    mask = Subsequent() & Window(5) & Documents((500_000, 500_000)) & Painted(((999_999, 999_999),))

    block = mask.tensor(10**6, 10**6, rows=slice(999_990, None), columns=slice(999_990, None))

    assert block.shape == (1, 1, 10, 10)
    assert not block[0, 0, -1, -1]
    assert block[0, 0, -1, -2]


@pytest.mark.parametrize("size", [0, 1, 2, 20])
def test_subsequent_mask_is_the_lower_triangle(size):
    """(1, size, size), boolean, as in the tutorials."""
    mask = subsequent_mask(size)

    assert mask.dtype is torch.bool
    assert torch.equal(mask, torch.ones(1, size, size).tril() == 1)
    with pytest.raises(MaskError, match="-1"):
        subsequent_mask(-1)


# Laws


@given(masks(), masks(), masks())
def test_masks_are_a_boolean_algebra(a, b, c):
    """De Morgan, double negation, idempotence, commutativity, associativity, distributivity, absorption, identity."""
    assert same(~(a & b), ~a | ~b)
    assert same(~(a | b), ~a & ~b)
    assert same(~~a, a)
    assert same(a & a, a)
    assert same(a | a, a)
    assert same(a & b, b & a)
    assert same(a | b, b | a)
    assert same((a & b) & c, a & (b & c))
    assert same(a & (b | c), (a & b) | (a & c))
    assert same(a | (a & b), a)
    assert same(a & Full(), a)
    assert same(a & ~a, ~Full())
    assert same(a | ~a, Full())


@given(masks(), masks(), masks())
def test_equal_masks_are_equal_values(a, b, c):
    """So results can be kept by them: grouping does not matter, and a double negation is none."""
    assert (a & b) & c == a & (b & c)
    assert hash((a | b) | c) == hash(a | (b | c))
    assert ~~a == a


def test_lists_and_whole_numbers_of_any_kind_make_the_same_mask():
    """Also a tensor of lengths, as a tokenizer gives it; cells once and in order."""
    assert Padding([3, 5]) == Padding(torch.tensor([3, 5])) == Padding((3, 5))
    assert Painted([(2, 1), (0, 1), (2, 1)]) == Painted(((0, 1), (2, 1)))


def test_masks_for_different_batches_do_not_combine():
    """With both numbers of sentences; a mask for any batch joins either."""
    with pytest.raises(MaskError, match="2 and 3"):
        Padding((1, 2)) & Padding((1, 2, 3))
    assert (Subsequent() & Padding((1, 2))).batch_size == 2
    assert (~Padding((1, 2))).batch_size == 2
    assert (Subsequent() | Prefix(1)).batch_size is None


# Queries and keys of different lengths


@given(masks(), st.integers(0, K), st.integers(0, B - 1))
def test_with_a_cache_a_mask_is_the_last_rows_of_the_full_one(mask, queries, sentence):
    """Shifted, for every rule and however they are joined; else it is the first rows."""
    full = mask.grid(K, sentence=sentence)

    assert torch.equal(mask.shifted(K - queries).grid(queries, K, sentence=sentence), full[K - queries :])
    assert torch.equal(mask.grid(queries, K, sentence=sentence), full[:queries])


@given(masks(), st.integers(-9, 9), st.integers(-9, 9))
def test_shifts_add_up(mask, once, again):
    """And have an inverse."""
    assert mask.shifted(once).shifted(again) == mask.shifted(once + again) or same(
        mask.shifted(once).shifted(again), mask.shifted(once + again)
    )
    assert same(mask.shifted(once).shifted(-once), mask)


def test_a_shift_of_a_known_rule_is_that_rule():
    """Subsequent has an offset of its own; what looks at keys alone is not shifted; rules joined are, each."""
    assert Subsequent(1).shifted(2) == Subsequent(3)
    for mask in (Padding((1, 2)), Prefix(3), Full()):
        assert mask.shifted(5) == mask
    assert (Subsequent() & ~Window(1)).shifted(2) == Subsequent(2) & ~Shifted(Window(1), 2)
    assert Window(1).shifted(0) == Window(1)
    assert (Window(1) & Subsequent()).shifted(-1).blocked_by(2, 3) == (
        "window (1 before, 0 after) at offset -1",
        "causal (offset -1)",
    )
    assert str(Shifted(Subsequent() | Prefix(1), 2)) == "(causal or prefix of 1) at offset 2"


@given(masks(), st.integers(0, B - 1), st.tuples(st.integers(1, 4), st.integers(4, 12)))
def test_the_keys_left_are_the_row_sums(mask, sentence, block):
    """In blocks of any size."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(base, "HIGH", block[0])
        patched.setattr(base, "BLOCK", block[1])
        left = mask.keys_left(Q, K, sentence=sentence)

    assert torch.equal(left, mask.grid(Q, K, sentence=sentence).sum(1))


# Random keys


@given(randoms(), st.integers(1, 3))
def test_every_query_draws_its_count_out_of_every_stretch(mask, stretches):
    """Neither more nor fewer, whatever the seed."""
    drawn = mask.grid(Q, mask.every * stretches).reshape(Q, stretches, mask.every).sum(-1)

    assert torch.equal(drawn, torch.full((Q, stretches), mask.count))


@pytest.mark.parametrize(("count", "every"), [(1, 2), (2, 7), (3, 16), (5, 101)])
def test_random_keys_are_drawn_evenly_and_anew(count, every):
    """Each key as often as any other, within five standard deviations; queries, stretches and seeds draw apart."""
    queries, share = 4000, count / every
    drawn = Random(count, every).grid(queries, 2 * every)

    assert (drawn.double().mean(0) - share).abs().max() < 5 * math.sqrt(share * (1 - share) / queries)
    for other in (drawn.roll(1, 0), drawn.roll(every, 1), Random(count, every, 1).grid(queries, 2 * every)):
        both = (drawn & other).double().mean()
        assert abs(both - share**2) < 5 * share / math.sqrt(queries)


def test_random_keys_are_the_same_everywhere():
    """They are part of links, so these stay as they are."""
    assert [row.nonzero().flatten().tolist() for row in Random(2, 9, seed=4).grid(4, 9)] == [
        [2, 5],
        [1, 2],
        [4, 7],
        [1, 5],
    ]


# Why a cell is blocked


@given(masks(), st.integers(0, B - 1), slices(Q), slices(K))
def test_reasons_are_given_for_exactly_the_blocked_cells(mask, sentence, rows, columns):
    """`reasons`, `blocked_by` and the tensor agree in every cell, and no reason is listed that occurs nowhere."""
    reasons, codes = mask.reasons(Q, K, sentence=sentence, rows=rows, columns=columns)
    allowed = mask.grid(Q, K, sentence=sentence)

    assert codes.shape == allowed[rows, columns].shape
    assert set(codes.unique().tolist()) - {0} == set(range(1, len(reasons) + 1))
    assert len(set(reasons)) == len(reasons)
    for i, query in enumerate(range(Q)[rows]):
        for j, key in enumerate(range(K)[columns]):
            blockers = mask.blocked_by(query, key, sentence=sentence)
            code = int(codes[i, j])
            assert (code == 0) == (not blockers) == bool(allowed[query, key])
            if len(blockers) != 1:  # one alone has no parentheses
                assert " and ".join(blockers) == (reasons[code - 1] if code else "")
            rules = reasons[code - 1].rules if code else ()
            assert tuple(mask.rules()[place] for place, _ in rules) == blockers


def test_more_rules_than_a_number_has_bits():
    """Seventy rules at once are still told apart."""
    mask = And(tuple(Window(before) for before in range(70)))

    reasons, codes = mask.reasons(75, 1)

    assert len(reasons) == 70
    assert codes[:, 0].tolist() == [0, *codes[1:71, 0].tolist(), *[codes[70, 0].item()] * 4]
    for query in (1, 40, 69, 74):
        assert reasons[codes[query, 0] - 1].split(" and ") == list(mask.blocked_by(query, 0))


@pytest.mark.parametrize("ask", ["grid", "reasons", "blocked_by"])
@pytest.mark.parametrize("sentence", [2, -1])
def test_a_sentence_that_is_not_there_is_refused(ask, sentence):
    """With the number there is."""
    with pytest.raises(MaskError, match=f"no sentence {sentence}"):
        getattr(Padding((1, 2)) & Subsequent(), ask)(3, 3, sentence=sentence)


# Other conventions


@given(masks())
def test_every_convention_goes_out_and_comes_back(mask):
    """And no two of them are the same for the same mask."""
    ours = mask.grid(Q, K)

    assert torch.equal(from_true_is_masked(to_true_is_masked(ours)), ours)
    assert torch.equal(from_zero_is_masked(to_zero_is_masked(ours)), ours)
    assert torch.equal(from_additive(to_additive(ours)), ours)
    assert torch.equal(to_true_is_masked(ours), ~ours)
    assert torch.equal(to_zero_is_masked(ours), ours.long())
    assert torch.equal(to_additive(ours, torch.float16), torch.zeros(Q, K).half().masked_fill(~ours, -math.inf))


@pytest.mark.parametrize("fill", [-math.inf, -1e9, torch.finfo(torch.float32).min, -65504.0])
def test_additive_masks_may_be_filled_with_anything_very_negative(fill):
    """-inf, the tutorials' -1e9, the smallest number of a dtype."""
    assert from_additive(torch.tensor([0.0, fill])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("adapter", "mask", "says"),
    [
        (from_true_is_masked, torch.tensor([0.0, -math.inf]), "True = masked holds 0 and 1 only"),
        (from_zero_is_masked, torch.tensor([0, 2]), r"0 = masked holds 0 and 1 only; this one holds \[0, 2\]"),
        (from_additive, torch.tensor([0.0, -1.5]), "0 = may attend"),
        (from_additive, torch.tensor([0.0, math.nan]), "0 = may attend"),
        (from_additive, torch.tensor([0, -100_000]), "holds floats"),
        (to_true_is_masked, torch.tensor([0, 1]), r"holds booleans.*torch\.int64"),
        (to_zero_is_masked, torch.tensor([0.0, 1.0]), "holds booleans"),
    ],
)
def test_a_mask_of_another_convention_is_not_taken_for_this_one(adapter, mask, says):
    """A bias is no mask, and ours is boolean."""
    with pytest.raises(MaskError, match=says):
        adapter(mask)


def test_a_rule_that_is_itself_a_combination_stands_in_parentheses_beside_others():
    """Else "causal or prefix of 1 and padding" could be read two ways; alone it is read one way."""
    mask = (Subsequent() | Prefix(1)) & Padding((2,))

    group = "(causal or prefix of 1)"
    assert set(mask.reasons(3, 3)[0]) == {"causal or prefix of 1", "padding", f"{group} and padding"}


@given(mask=masks(B, of(Padding, B)), sentence=st.integers(0, B - 1))
def test_a_mask_of_one_sentence_is_that_of_the_batch(mask, sentence):
    """Whatever it is joined of."""
    alone = mask.of_sentence(sentence)

    assert alone.batch_size in (None, 1)
    assert torch.equal(alone.grid(Q, K), mask.grid(Q, K, sentence=sentence))
