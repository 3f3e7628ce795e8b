"""Every rule speaks where it should, with its cells, and is silent about what is right."""

import math

import numpy as np
import pytest
import torch
from arrays import B, H, N, additive, causal, padded, scores, weights

from attnviz.check import NOT_SURE, check
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.masks import Documents, Padding, Subsequent


def at(array, place, value):
    changed = array.clone()
    changed[place] = value
    return changed


CAUSAL = {"intent": "causal", "convention": "may-attend"}

WRONG = {
    "broadcast": (padded((N, 2), N)[:, 0], {"shape": (2, 2, N, N)}, "error"),
    "convention": (~causal(), {}, "note"),
    "values": (scores(), {"kind": "mask"}, "error"),
    "nan": (at(weights(), (0, 1, 2, 3), math.nan), {}, "error"),
    "inf": (at(scores(), (1, 2, 3, 4), math.inf), {}, "error"),
    "inverted": (~causal(), CAUSAL, "error"),
    "transposed": (causal().T, CAUSAL, "error"),
    "shifted": (torch.ones(N, N).bool().tril(3).triu(-1), {"intent": "window(2, 2)"}, "error"),
    "deviation": (at(torch.ones(N, N).bool().tril(2).triu(-2), (1, 5), True), {"intent": "window(2, 2)"}, "error"),
    "ambiguous": (padded((2,), 5), {}, "note"),
    "empty-row": (causal() & (torch.arange(N) != 3)[:, None], {"convention": "may-attend"}, "error"),
    "future-leak": (at(weights(causal()), (0, 0, 2, 5), 0.3), {"intent": "causal"}, "error"),
    "blocks-itself": (torch.ones(N, N).tril(-1).bool(), CAUSAL, "error"),
    "weak-fill": (additive(causal(), -100.0), {}, "warning"),
    "range": (scores(), {"kind": "weights"}, "error"),
    "row-sum": (weights() * 1.3, {}, "error"),
    "wrong-axis": (scores().softmax(-2), {}, "error"),
    "masked-after-softmax": (weights() * causal(), {}, "error"),
}
RIGHT = {
    "weights": (weights(), {}),
    "padded weights": (weights(padded((N, 3), N)), {}),
    "cross weights": (weights(shape=(B, H, 5, 11)), {}),
    "float16 kept as float32": (weights(causal()).half().float(), {}),
    "bfloat16": (weights(padded((N, 3), N)).bfloat16(), {}),
    "two digits": (torch.round(weights(), decimals=2), {}),
    "scores": (scores(), {}),
    "scores from before the mask": (scores(), {"intent": "causal"}),
    "masked scores": (scores().masked_fill(~causal(), -math.inf), {}),
    "causal mask": (causal(), CAUSAL),
    "additive mask": (additive(causal(), -1e9), {}),
    "mask of nn.MultiheadAttention": (~causal(), CAUSAL | {"convention": "true-is-masked"}),
    "a mask that is all open": (torch.ones(N, N, dtype=torch.bool), {"convention": "may-attend"}),
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_rule_speaks_where_something_is_wrong(rule):
    """With its severity, a sentence, a way to mend it and cells that show it, if there are any."""
    array, said, severity = WRONG[rule]
    found = [one for one in check(array, **said).findings if one.rule == rule]

    assert [one.severity for one in found] == [severity]
    assert found[0].message.endswith((".", "?"))
    assert found[0].fix
    assert found[0].cells or severity == "note" or rule == "broadcast"
    assert found[0].total >= len(found[0].cells)


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_against_what_is_right(name):
    array, said = RIGHT[name]

    assert check(array, **said).rules("error", "warning") == set()


def test_cells_are_places_in_the_array_as_it_was_given():
    """With as many indices as it has axes, or fewer for rows and heads; the total counts those that are not listed."""
    leak = check(at(weights(causal())[0, 0], (2, 5), 0.3), intent="causal", kind="weights").findings
    two = {one.rule: one for one in leak}

    assert (two["future-leak"].axes, two["future-leak"].cells) == (("query", "key"), ((2, 5),))
    assert (two["row-sum"].axes, two["row-sum"].cells) == (("query",), ((2,),))

    many = check(torch.full((B, H, N, N), math.nan)).findings[0]
    assert many.total == B * H * N
    assert many.places(2) == "batch 0 head 0 query 0; batch 0 head 0 query 1; ... (42 in all)"

    large = check(torch.full((1, 1, 1100, 1), math.nan)).findings[0]
    assert (len(large.cells), large.total) == (1000, 1100)


def test_arrays_of_numpy_are_read_as_they_are():
    """Also read-only, turned, of the other byte order, or of whole numbers that are added to scores."""
    found = weights(causal()).numpy().astype(">f8")
    found.flags.writeable = False
    masks = [additive(causal(), -1e4).long(), additive(causal(), -1e4).numpy().astype(np.int16)]

    assert check(found, intent="causal").findings == ()
    assert check(found[:, :, ::-1], intent="causal").rules() == {"future-leak"}
    assert check(weights()[0, 0].tolist()).findings == ()
    for mask in masks:
        report = check(mask)
        assert (report.convention, report.causal, report.findings) == ("additive", True, ())
        assert check(mask * 0 + 255 * (mask == 0), kind="mask").rules("error") == {"values"}


@pytest.mark.parametrize(
    ("array", "said", "message"),
    [
        (torch.zeros(()), {}, "0 axes"),
        (torch.zeros(2, 2, 2, 2, 2), {}, "one layer at a time"),
        (torch.zeros(3, 0), {}, "no cells"),
        (torch.zeros(2, 2, dtype=torch.complex64), {}, "complex64"),
        (weights().numpy().astype(object), {}, "object"),
        ([[1, 2], [3]], {}, "different lengths"),
        (torch.zeros(2, 2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2), {}, "float4"),
        (causal(), {"kind": "picture"}, "Available kinds: mask, weights, scores"),
        (causal(), {"convention": "sdpa"}, "Available conventions: may-attend"),
        (causal(), {"convention": "additive"}, "booleans or 0 and 1"),
        (additive(causal()), {"convention": "may-attend"}, "other numbers than 0 and 1"),
        (weights(), {"kind": "weights", "convention": "additive"}, "Only a mask has a convention"),
        (causal(), {"shape": (1, 2, 3)}, "four whole numbers"),
        (causal(), {"shape": (1, 0, 3, 3)}, "four whole numbers"),
    ],
)
def test_what_cannot_be_checked_is_refused_in_one_sentence(array, said, message):
    with pytest.raises((InputError, ShapeError), match=message) as refused:
        check(array, **said)

    assert str(refused.value).endswith(".")


def test_a_mask_that_is_no_usual_one_is_asked_about_and_nothing_is_guessed():
    """With exit status 3; once it is said what is meant, it is judged."""
    for n, hole in ((3, (0, 2)), (7, (2, 5)), (7, (5, 2))):
        mask = at(causal(n), hole, hole[1] > hole[0])
        report = check(mask, convention="may-attend")

        assert (report.findings, report.verdict, report.status()) == ((), NOT_SURE, 3)
        assert report.question.startswith("What is the mask meant to be?")
        (found,) = check(mask, **CAUSAL).findings
        assert (found.cells, found.severity) == ((hole,), "error")
        assert found.rule == ("future-leak" if hole[1] > hole[0] else "deviation")


@pytest.mark.parametrize("convention", ["may-attend", "true-is-masked", "additive", None])
@pytest.mark.parametrize("left", [True, False, None])
@pytest.mark.parametrize("stated", [True, False])
def test_usual_masks_are_known_without_an_intent(convention, left, stated):
    """Also with padding at either end, stated or not, and in each convention; with the same words."""
    both_ways = torch.ones(8, 8, dtype=torch.bool)
    documents = Documents((3, 5)).grid(8)
    masks = {
        "a two-way encoder": both_ways,
        "a causal decoder": causal(8),
        "a causal decoder with a window (2 before)": causal(8).triu(-2),
        "a prefix-LM (prefix of 3)": causal(8) | (torch.arange(8) < 3),
        "a causal decoder of packed documents": documents & causal(8),
        "a two-way encoder of packed documents": documents,
    }
    lengths = (8, 6) if left is not None else (8, 8)
    real = padded(lengths, 8).flip(-1) if left else padded(lengths, 8)
    for assumed, mask in masks.items():
        given = (mask & real).expand(2, 1, 8, 8)
        given = {"true-is-masked": ~given, "additive": additive(given)}.get(convention, given)
        said = {"padding": real[:, 0, 0]} if stated else {}
        report = check(given, convention=None if convention == "additive" else convention, **said)

        assert report.assumed == assumed + (" with padding" if left is not None else "")
        assert report.rules("error", "warning") - {"empty-row"} == set()
        assert (report.question, report.convention) == ("", convention or "may-attend")
        assert f"Assumed: {report.assumed}. If it is a" in "\n".join(report.lines())


@pytest.mark.parametrize("mask", [[[1, 0, 1, 1, 0], [0, 1, 0, 0, 1], [1, 1, 0, 1, 0], [0, 0, 1, 1, 1]], [[1, 1, 0]]])
def test_nothing_wrong_is_not_said_of_what_cannot_be_told(mask):
    """Neither of a mask that is no known one, nor of one that is a known one in both conventions."""
    report = check(np.array(mask))

    assert report.ok
    assert report.verdict == NOT_SURE
    assert check(causal()).verdict == "Nothing wrong was found."


def test_of_a_causal_mask_that_is_not_square_it_is_said_where_its_diagonal_begins():
    """With a cache the ends have to meet; PyTorch's is_causal begins at the first key."""
    cached, begun = (check(torch.ones(3, 5).tril(by).bool(), convention="may-attend") for by in (2, 0))

    assert cached.reasons[-1].endswith("Its last query is at the last key, as with a cache.")
    assert "Its first query is at the first key" in begun.reasons[-1]
    assert "query is at" not in " ".join(check(causal()).reasons)


def test_a_row_without_a_key_is_said_once():
    """Not again as cells that differ from the mask that it was; a person who says that mask is told both."""
    broken = at(causal(6), 3, False)

    assert check(broken).rules("error", "warning") == {"empty-row"}
    assert check(broken, intent="causal").rules("error") == {"empty-row", "deviation"}


def test_rows_without_a_key_that_were_said_to_be_meant_or_leave_numbers_are_a_note():
    """A mask said cell by cell has them on purpose, as queries of padding have that is known; a finite fill makes no
    NaN of them. Else nobody may have known."""
    padding = Subsequent() & Padding((3,), left=5)
    mask = padding.grid(5, 5)
    tokens = [[False, False, True, True, True]]

    assert check(mask).rules("warning") == check(mask, intent="causal").rules("warning") == {"empty-row"}
    assert check(mask, intent=padding).rules("error", "warning") == set()
    assert check(mask, convention="may-attend", padding=tokens).rules("error", "warning") == set()
    assert check(additive(mask, -1e9)).rules("error", "warning") == set()
    assert check(additive(mask)).verdict == "1 warning"


def test_digits_that_were_cut_off_may_add_up():
    """Half a digit for each of the keys, where all numbers have as few."""
    assert "row-sum" not in check(torch.full((2, 150), 0.007)).rules()
    assert "row-sum" in check(torch.full((2, 150), 0.007003)).rules()


def test_numbers_say_what_they_are():
    """The guess, where two kinds are near."""
    kinds = {
        "scores": [[[2.0, -1.0], [-1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]],
        "weights": [[[0.0, 1.0], [1.0, 0.0]], [[0.4, 0.6], [0.5, 0.5]], [[math.nan, math.nan]]],
        "mask": [[[1.0, 0.0], [1.0, 1.0]], [[1, 0], [0, 1]], [[0.0, -1.0], [0.0, 0.0]], [[0.0, math.nan], [0.0, -1e9]]],
    }
    for kind, arrays in kinds.items():
        for array in arrays:
            report = check(torch.tensor(array))
            assert (report.kind, bool(report.reasons)) == (kind, True), array


def test_floats_of_0_and_1_block_nothing_where_they_are_added():
    """An error where that was said, a warning with a convention of torch's functions, and else not called right."""
    floats = causal().float()

    assert check(floats, convention="additive").rules("error") == {"values"}
    for convention in ("may-attend", "true-is-masked"):
        mask = floats if convention == "may-attend" else 1 - floats
        assert check(mask, convention=convention).rules("warning", "error") == {"values"}
    assert check(floats).rules() == {"values", "convention"}
    assert check(floats, convention="zero-is-masked").rules("warning", "error") == set()
    assert check(torch.zeros(N, N), convention="additive").rules("warning", "error") == set()


@pytest.mark.parametrize("fill", [0.0, 1e-9, 5.0])
def test_one_number_wherever_a_mask_blocks_is_a_fill_that_does_not_block(fill):
    """Scores times a mask; scores without a mask hold no number so often."""
    filled = scores().masked_fill(~causal(), fill)
    (found,) = check(filled, intent="causal").findings

    assert (found.rule, found.severity, found.total) == ("weak-fill", "error", B * H * N * (N - 1) // 2)
    assert f"a causal mask blocks holds {fill:.4g}" in found.message
    assert check(scores(), intent="causal").rules("warning", "error") == set()


def test_weights_beside_a_sink_sum_to_less_than_1():
    """As in gpt-oss: right, and said; a share that is the same for all rows is none."""
    sunk = torch.cat([scores().masked_fill(~causal(), -math.inf), torch.zeros(B, H, N, 1)], -1).softmax(-1)[..., :-1]
    report = check(sunk, kind="weights")

    assert report.rules("warning", "error") == set()
    assert report.verdict == NOT_SURE
    assert check(weights() * 0.9, kind="weights").rules("error") == {"row-sum"}
