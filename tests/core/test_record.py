"""Any window of any head, on demand, is what the run computed."""

import gc
import math
import warnings
from dataclasses import replace
from types import FunctionType, ModuleType

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import D_V, B, H, K, Q, booleans, masks, slices, tensors
from torch.testing import assert_close

import attnviz
from attnviz import api
from attnviz.core import attention
from attnviz.core.attention import scaled_dot_product_attention
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttentionWarning, InputError
from attnviz.core.masks import Mask, Padding, Painted, Prefix, Subsequent
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.scoring import ALiBi, Scoring
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token

SITE = Site("encoder", 0)
CLOSE = {"rtol": 1e-12, "atol": 1e-12, "equal_nan": True}


def step_of(query, key, value, mask=None, bias=None, softcap=None, **edits):
    """The step that a tap keeps of one attention call, and the output it gave."""
    tap = Tap(Edits(**edits))
    output = tap.attend(query, key, value, site=SITE, mask=mask, scoring=Scoring(bias=bias, softcap=softcap))
    return tap.steps[0], output


@given(
    mask=st.one_of(
        st.none(),
        masks(),
        st.sampled_from([(Q, K), (B, 1, 1, K), (B, H, Q, K), (1, H, Q, 1), (1, 1, Q, K)]).map(booleans),
    ),
    biased=st.sampled_from([None, (Q, K), (1, H, 1, K), (B, 1, Q, 1), (B, H, Q, K)]),
    policy=st.sampled_from(["zero", "nan", "uniform"]),
    temperature=st.floats(0.1, 10),
    softcap=st.sampled_from([None, 0.8]),
    block=st.sampled_from([1, 80, 10**6]),
    tile=st.sampled_from([None, 1, 3, 512]),
    rows=slices(Q),
    columns=slices(K),
)
@example(Prefix(0), (Q, K), "uniform", 1.0, None, 80, None, slice(1, 3), slice(2, 5))
def test_any_window_is_that_window_of_the_whole(mask, biased, policy, temperature, softcap, block, tile, rows, columns):
    """Scores, mask, masked scores, weights and output; and the whole is what one attention over everything gives."""
    query, key, value = tensors()
    bias = None if biased is None else torch.randn(biased, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "BLOCK", block)
        patch.setattr(attention, "MIN_ROWS", 1)
        if tile:
            patch.setattr(attention, "LONG", 0)
            patch.setattr(attention, "TILE", tile)
        step, given = step_of(query, key, value, mask, bias, softcap, temperature=temperature, empty_rows=policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttentionWarning)
        output, weights = scaled_dot_product_attention(
            query, key, value, mask, bias=bias, softcap=softcap, temperature=temperature, empty_rows=policy
        )
    scores = Scoring(softcap=softcap, bias=bias, temperature=temperature).scores(query, key)
    tensor = mask.tensor(Q, K) if isinstance(mask, Mask) else mask
    allowed = (torch.tensor(True) if mask is None else tensor).expand(B, H, Q, K)

    assert step.shape == (B, H, Q, K)
    assert_close(given, output, **CLOSE)
    for b in range(B):
        for h in range(H):
            whole = {
                "scores": scores[b, h],
                "may_attend": allowed[b, h],
                "masked_scores": scores[b, h].masked_fill(~allowed[b, h], -math.inf),
                "weights": weights[b, h],
            }
            for name, expected in whole.items():
                window = getattr(step, name)(h, rows, columns, sentence=b)
                assert_close(window, expected[rows, columns], **CLOSE)
                assert_close(getattr(step, name)(h, sentence=b), expected, **CLOSE)
            assert_close(step.output(h, rows, sentence=b), output[b, h, rows], **CLOSE)
            assert torch.equal(step.empty_queries(h, sentence=b), ~allowed[b, h].any(-1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_windows_of_half_precision_are_computed_in_float32(dtype):
    """And agree with the weights of the run to what half precision can show."""
    inputs, mask = tensors(dtype), booleans()
    step, output = step_of(*inputs, mask)
    weights = scaled_dot_product_attention(*inputs, mask)[1]

    assert step.weights(1).dtype == torch.float32
    assert_close(step.weights(2, sentence=1), weights[1, 2].float(), rtol=1e-2, atol=1e-2)
    assert_close(step.weights(2, sentence=1).sum(-1), torch.ones(Q), rtol=0, atol=1e-6)
    assert step.output(2, sentence=1).dtype == dtype
    assert_close(step.output(2, sentence=1), output[1, 2])


def test_the_output_of_a_head_that_is_off_is_zero_and_its_weights_are_shown():
    """The weights stay visible; only the output, which later layers read, is zero."""
    step, output = step_of(*tensors(), heads_off={(SITE, 1)})

    assert step.heads_off == {1}
    assert torch.equal(step.output(1, slice(1, 4)), torch.zeros(3, D_V, dtype=torch.float64))
    assert output[:, 1].eq(0).all()
    assert_close(step.weights(1).sum(-1), torch.ones(Q, dtype=torch.float64))
    assert step.output(0).abs().sum() > 0


def test_a_record_is_linear_in_the_number_of_tokens():
    """A named mask is kept by its name, and no tensor of it has a cell per query and key."""
    n = 257
    query = torch.randn(1, 2, n, 16)

    step, _ = step_of(query, query, query, Subsequent())

    kept = [t for t in vars(step).values() if isinstance(t, torch.Tensor)]
    assert step.mask == Subsequent()
    assert sum(t.numel() for t in kept) == 3 * 2 * n * 16 + 2 * n


# Reasons


def test_reasons_of_a_named_mask_are_its_rules():
    """For one window and one sentence."""
    mask = Subsequent() & Padding((2, 7)) & Painted(((4, 0),))
    step, _ = step_of(*tensors(), mask)

    for sentence in range(B):
        reasons, codes = step.reasons(0, slice(2, 5), slice(0, 4), sentence=sentence)
        expected = mask.reasons(Q, K, sentence=sentence, rows=slice(2, 5), columns=slice(0, 4))
        assert reasons == expected[0]
        assert torch.equal(codes, expected[1])
        assert torch.equal(codes == 0, step.may_attend(0, slice(2, 5), slice(0, 4), sentence=sentence))


def test_a_plain_tensor_has_one_reason():
    """A model that hands over booleans does not say why."""
    mask = booleans((B, H, Q, K))
    step, _ = step_of(*tensors(), mask)

    reasons, codes = step.reasons(2, sentence=1)

    assert reasons == ("the model's mask",)
    assert torch.equal(codes, (~mask[1, 2]).long())
    assert step_of(*tensors())[0].reasons(0)[1].eq(0).all()


# What is not there


@pytest.mark.parametrize(
    "ask", ["scores", "may_attend", "masked_scores", "weights", "output", "empty_queries", "reasons"]
)
def test_heads_and_sentences_that_are_not_there_are_refused(ask):
    """Also -1, which Python would take for the last."""
    step, _ = step_of(*tensors(), heads_off={(SITE, 3)})

    for head in (-1, 3):
        with pytest.raises(InputError, match=f"no head {head}; there are 3"):
            getattr(step, ask)(head=head)
    for sentence in (-1, 2):
        with pytest.raises(InputError, match=f"no sentence {sentence}; there are 2"):
            getattr(step, ask)(head=0, sentence=sentence)


def test_a_record_names_the_sites_it_has():
    """When asked for another."""
    tap = Tap()
    for site in (Site("encoder", 0), Site("encoder", 1)):
        tap.attend(*tensors(), site=site)
    sentence = Sentence("Hi", (Token("Hi", 5, 0, 2),), 1)
    record = Record((sentence,), "story", "random", Edits(), tuple(tap.steps), torch.zeros(1, 1, 4))

    assert record.sites == (Site("encoder", 0), Site("encoder", 1))
    assert record.step(Site("encoder", 1)) is tap.steps[1]
    assert sentence.labels == ("Hi",)
    with pytest.raises(InputError) as refused:
        record.step(Site("decoder", 3))
    assert str(refused.value) == "'story' has no decoder layer 3. It has: encoder layer 0, encoder layer 1."


def reachable(value: object) -> dict[int, int]:
    """Bytes of every storage of a tensor that Python can reach from a value, but for texts and their pictures."""
    found, known, todo = {}, set(), [value]
    while todo:
        item = todo.pop()
        if id(item) in known or isinstance(item, type | ModuleType | FunctionType | Sentence | Request):
            continue
        known.add(id(item))
        if isinstance(item, torch.Tensor):
            storage = item.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
        elif isinstance(item, dict | list | tuple | set | frozenset) or type(item).__module__.startswith("attnviz"):
            todo += gc.get_referents(item)
    return found


@pytest.mark.parametrize("name", ["story", "translator", "shapes", "constructed", "scratch"])
@pytest.mark.parametrize("edits", [Edits(), Edits(mask=Subsequent(), bias=(ALiBi(),), temperature=2.0)])
def test_a_record_counts_every_storage_of_its_tensors_once(name, edits):
    """Also in a copy whose tensors are views of one: a part of a storage keeps the whole alive."""
    source = api.load(name)
    request = attnviz.picture(np.zeros((60, 60, 3), np.uint8)) if source.reads == "picture" else Request(("the cat",))
    record = api.analyze(replace(request, edits=edits), source)
    step = record.steps[0]
    views = replace(record, steps=(step, replace(step, key=step.query[:, :, 1:], value=step.query)))
    texts = sum(sentence.nbytes for sentence in (*record.sentences, *record.targets))

    assert record.nbytes - texts == sum(reachable(record).values()) > record.steps[0].query.nbytes
    assert views.nbytes - texts == sum(reachable(views).values())
    assert views.nbytes < record.nbytes
