"""One query in full, for random queries, keys, values, masks with empty rows, scales and biases."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attnviz.analysis import steps
from attnviz.core.amounts import rounding
from attnviz.core.edits import Edits, Resolved, Site
from attnviz.core.errors import EmptyRowError, InputError
from attnviz.core.masks import Painted
from attnviz.core.record import Record
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token

SITE = Site("encoder", 0)
B, H, Q, K, D_K, D_V = 2, 3, 5, 7, 11, 13


def record_of(seed, *, edits=Edits(), mask=None, bias=None, softcap=None, size=1.0, queries=Q, keys=K, spoil=None):
    """A record of random queries and keys; `spoil` is done to the query first."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (B, H, queries, D_K), (B, H, keys, D_K), (B, H, keys, D_V)
    query, key, value = (torch.randn(shape, generator=generator) * size for shape in shapes)
    if spoil:
        spoil(query)
    tap = Tap(edits)
    output = tap.attend(query, key, value, site=SITE, mask=mask, scoring=Scoring(bias=bias, softcap=softcap))
    tokens = tuple(Token(f"t{i}", i, 0, 0) for i in range(max(queries, keys)))
    sentences = (Sentence("text", tokens, len(tokens)),) * B
    return Record(sentences, "test", "random", edits, tuple(tap.steps), output.transpose(1, 2).flatten(2))


@given(
    seed=st.integers(0, 999),
    scale=st.floats(-3, 3),
    temperature=st.floats(0.1, 10),
    softcap=st.none() | st.floats(0.5, 40),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    biased=st.booleans(),
    policy=st.sampled_from(["zero", "nan", "uniform"]),
    size=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_a_row_is_worked_as_a_hand_would(seed, scale, temperature, softcap, share, biased, policy, size):
    """Every number in float64 from those before it; and the weights are those of the run but for its rounding."""
    generator = torch.Generator().manual_seed(seed + 1)
    mask = torch.rand(B, H, Q, K, generator=generator) < share
    bias = torch.randn(B, H, Q, K, generator=generator) if biased else None
    edits = Edits(scale=scale, temperature=temperature, empty_rows=policy)
    record = record_of(seed, edits=edits, mask=mask, bias=bias, softcap=softcap, size=size)
    step, head, sentence, query = record.steps[0], seed % H, seed % B, seed % Q

    row = steps.row(record, SITE, head, query, sentence=sentence)

    q, k, v = step.query[sentence, head, query], step.key[sentence, head], step.value[sentence, head]
    assert row.weighted_values.equal(row.weights[:, None] * v) or row.weights.isnan().any()
    assert row.query_vector.equal(q.double())
    assert row.key_vectors.equal(k.double())
    assert row.products.equal(q.double() * k.double())
    assert_close(row.sums, row.products.sum(-1))
    assert_close(row.scaled, row.sums * scale, rtol=1e-9, atol=1e-9)
    capped = softcap * torch.tanh(row.scaled / softcap) if softcap else row.scaled
    assert_close(row.capped, capped, rtol=1e-9, atol=1e-9)
    added = bias[sentence, head, query].double() if biased else 0
    assert_close(row.biased, row.capped + added, rtol=1e-9, atol=1e-9)
    assert_close(row.scores, row.biased / temperature, rtol=1e-9, atol=1e-9)
    open = mask[sentence, head, query]
    assert [rule == "" for rule in row.rules] == open.tolist()
    assert row.masked.equal(row.scores.where(open, -math.inf))
    assert_close(row.output, row.weighted_values.sum(0), equal_nan=True)
    assert row.row_sum == pytest.approx(float(row.weights.sum()), nan_ok=True)
    if not open.any():
        expected = {"zero": 0.0, "nan": math.nan, "uniform": 1 / K}[policy]
        assert row.state == "empty row"
        assert row.maximum == -math.inf
        assert row.sum_exps == 0
        assert row.shifted.eq(-math.inf).all()
        assert row.exps.eq(0).all()
        assert_close(row.weights, torch.full((K,), expected, dtype=torch.float64), equal_nan=True)
        return
    assert row.state == "weights"
    assert row.maximum == row.scores[open].max()
    assert_close(row.shifted, row.masked - row.maximum)
    assert_close(row.exps, row.shifted.exp())
    assert row.sum_exps == pytest.approx(float(row.exps.sum()))
    assert_close(row.weights, row.exps / row.sum_exps)
    assert row.row_sum == pytest.approx(1)
    recorded = step.weights(head, slice(query, query + 1), sentence=sentence)[0]
    difference = float((row.weights - recorded).abs().max())
    assert row.digits.endswith(f"differ by at most {rounding(difference)}.")
    assert difference < 1e-6 * (10 + float(row.scores.abs().max()))


@given(seed=st.integers(0, 99), start=st.integers(0, 60))
def test_a_window_of_keys_changes_no_number(seed, start):
    """The maximum, the sums and the output are still over all keys."""
    record = record_of(seed, keys=100, edits=Edits(mask=Painted(((2, 3), (2, 70)))))

    whole = [steps.row(record, SITE, 1, 2, keys=slice(i, i + 50)) for i in (0, 50)]
    window = steps.row(record, SITE, 1, 2, keys=slice(start, start + 40))

    weights = torch.cat([part.weights for part in whole])
    assert window.keys == range(start, start + 40)
    assert window.weights.equal(weights[start : start + 40])
    for name in ("maximum", "sum_exps", "row_sum"):
        assert getattr(window, name) == getattr(whole[0], name)
    assert window.output.equal(whole[0].output)
    assert float(weights.sum()) == pytest.approx(window.row_sum)
    assert float(sum(part.exps.sum() for part in whole)) == pytest.approx(window.sum_exps)


def test_a_row_that_is_not_a_number_says_so():
    """Its weights and its output are NaN, and so is the difference; other rows stay as they are."""
    record = record_of(0, spoil=lambda query: query[0, 1, 2].fill_(math.nan))

    broken, whole = steps.row(record, SITE, 1, 2), steps.row(record, SITE, 1, 3)

    assert broken.state == "nan"
    assert broken.weights.isnan().all()
    assert broken.output.isnan().all()
    assert "at most NaN" in broken.digits
    assert whole.state == "weights"
    assert whole.digits.startswith(
        "Computed with 16 digits (float64) from the float32 numbers of the model. The float32 weights"
    )


def test_what_cannot_be_worked_is_refused():
    """A query that is not there, too many keys, a policy that is an error, a model that shows its weights alone."""
    record = record_of(0, keys=100)

    with pytest.raises(InputError, match="There is no query 5; there are 5"):
        steps.row(record, SITE, 0, 5)
    with pytest.raises(InputError, match="There is no query -1"):
        steps.row(record, SITE, 0, -1)
    with pytest.raises(InputError, match="100 keys are too many for one table; ask for at most 64"):
        steps.row(record, SITE, 0, 0, keys=slice(None))
    with pytest.raises(EmptyRowError):
        record_of(0, mask=torch.zeros(Q, K, dtype=torch.bool), edits=Edits(empty_rows="error"))
    closed = Record(**{**vars(record), "read_only": True})
    with pytest.raises(InputError, match="only its weights are known"):
        steps.row(closed, SITE, 0, 0)


def test_of_a_model_that_shows_its_weights_alone_no_size_of_a_head_is_given():
    """The placeholders for its queries and values have a size that says nothing about the model."""
    closed = Record(**{**vars(record_of(0)), "read_only": True})
    shapes = {stage.key: (stage.letters, stage.shape) for stage in steps.chain(closed, None, SITE, 1)}

    assert shapes["softmax"] == (("B", "H", "Q", "K"), (B, H, Q, K))
    assert [key for key, (letters, shape) in shapes.items() if shape and letters != shapes["softmax"][0]] == []


def test_a_head_that_is_off_in_one_sentence_gives_zeros_there_alone():
    """Under edits that differ within a batch, as those of a sweep do."""
    edits = Resolved(each_off=(frozenset({(SITE, 1)}), frozenset()))
    record = record_of(0, edits=edits)
    joined = [
        {stage.key: stage for stage in steps.chain(record, None, SITE, 1, sentence=sentence)}["concat"]
        for sentence in range(B)
    ]

    for b, stage in enumerate(joined):
        assert_close(stage.matrix("concat").values, record.output[b])
    assert "Heads that are off give zeros: 1." in joined[0].changed
    assert "off" not in joined[1].changed
