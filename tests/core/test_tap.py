"""The tap applies edits to a call, keeps what it was computed from, and leaves the model alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import D_K, D_V, B, H, K, Q, biases, booleans, masks, slices, tensors
from torch.nn.functional import scaled_dot_product_attention as judge
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from attnviz.core.attention import attention_output
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Mask, Padding, Subsequent, Window
from attnviz.core.scoring import ALiBi, RelativeBias, Scoring
from attnviz.core.tap import Tap

SITE = Site("encoder", 0)
EXACT = {"rtol": 1e-12, "atol": 1e-12, "equal_nan": True}


def run(edits=Edits(), *, keep=True, **call):
    tap = Tap(edits, keep=keep)
    scoring = Scoring(**{name: call.pop(name) for name in ("bias", "scale", "softcap") if name in call})
    return tap.attend(*tensors(), site=SITE, scoring=scoring, **call), tap


@given(
    own=st.one_of(st.none(), masks(), st.just(booleans()), st.just(booleans((Q, K)))),
    mask=st.none() | masks(),
    own_mask=st.booleans(),
    off=st.frozensets(st.integers(0, H - 1)),
    temperature=st.floats(0.1, 10),
    scale=st.none() | st.floats(-2, 2),
    policy=st.sampled_from(["zero", "nan", "uniform"]),
)
def test_kept_or_not_the_output_is_the_same(own, mask, own_mask, off, temperature, scale, policy):
    """A run that keeps its steps and a run by the fused kernel say the same, whatever was edited."""
    heads = frozenset((SITE, head) for head in off)
    edits = Edits(
        mask=mask, own_mask=own_mask, heads_off=heads, temperature=temperature, scale=scale, empty_rows=policy
    )

    kept, tap = run(edits, mask=own)
    fused, empty = run(edits, mask=own, keep=False)

    assert_close(kept, fused, **EXACT)
    assert len(tap.steps) == 1
    assert not empty.steps
    for head in range(H):
        assert_close(tap.steps[0].output(head, sentence=1), kept[1, head], **EXACT)


def test_the_own_mask_and_the_edit_are_joined_by_and():
    """Named if both are; otherwise as the tensor they make."""
    own, edit = Padding((3, 6)), Subsequent(1)
    named = run(Edits(mask=edit), mask=own)[1].steps[0].mask
    plain = run(Edits(mask=edit), mask=own.tensor(Q, K))[1].steps[0].mask

    assert named == own & edit
    assert torch.equal(plain, named.tensor(Q, K))
    assert run(Edits(mask=edit))[1].steps[0].mask == edit
    assert run(mask=own)[1].steps[0].mask == own


def test_a_mask_can_leave_cross_attention_alone():
    """The model's own mask stays there."""
    edits = Edits(mask=Window(1), mask_cross=False)
    tap = Tap(edits)
    for kind in ("encoder", "decoder", "cross"):
        tap.attend(*tensors(), site=Site(kind, 0), mask=Padding((3, 6)))

    both = Padding((3, 6)) & Window(1)
    assert [step.mask for step in tap.steps] == [both, both, Padding((3, 6))]
    assert edits.to_json()["mask_cross"] is False
    assert edits.in_words() == ("mask: window (1 before, 0 after), on self-attention alone",)


def test_temperature_scale_and_empty_rows_reach_the_call():
    """The edit's scale replaces the model's own."""
    edits = Edits(mask=~Subsequent(9), temperature=3.0, scale=0.5, empty_rows="uniform")
    output, tap = run(edits, scale=0.1)
    step = tap.steps[0]

    assert (step.scoring.temperature, step.scoring.scale, step.scoring.empty_rows) == (3.0, 0.5, "uniform")
    assert_close(output, tensors()[2].mean(2, keepdim=True).expand(B, H, Q, D_V), **EXACT)
    assert run(scale=0.1)[1].steps[0].scoring.scale == 0.1


def test_switching_a_head_off_leaves_the_others():
    """Only the chosen head's output becomes zero, at the chosen site only."""
    before, _ = run()
    edits = Edits(heads_off={(SITE, 1), (Site("encoder", 1), 0)})
    after, _ = run(edits)

    assert after[:, 1].eq(0).all()
    assert torch.equal(after[:, [0, 2]], before[:, [0, 2]])


@given(
    st.lists(biases, min_size=1, max_size=2),
    st.sampled_from([None, (1, 1, Q, K), (B, H, Q, K), (1, H, 1, K), (Q, K)]),
    st.booleans(),
    st.sampled_from([0.5, 1.0]),
    slices(Q),
    slices(K),
)
def test_a_bias_of_the_edits_is_added_as_pytorch_adds_one(named, shape, keep, temperature, rows, columns):
    """To the model's own, if it has one; kept or not, and in every window of the scores that are kept."""
    query, key, value = tensors()
    own = None if shape is None else torch.randn(shape, dtype=torch.float64)
    whole = sum(bias.tensor(H, Q, K, dtype=torch.float64) for bias in named) + (0 if own is None else own)
    expected = judge(query, key, value, whole / temperature, scale=D_K**-0.5 / temperature)

    output, tap = run(Edits(bias=named, temperature=temperature), keep=keep, bias=own)

    assert_close(output, expected, **EXACT)
    scores = (query @ key.mT * D_K**-0.5 + whole) / temperature
    for step in tap.steps:
        for head in range(H):
            window = step.scores(head, rows, columns, sentence=1)
            assert_close(window, scores[1, head, rows, columns], **EXACT)


@pytest.mark.parametrize("keep", [True, False])
def test_cross_attention_has_no_bias_of_the_edits(keep):
    """Between two texts there is no distance; a softcap acts there too."""
    site, edits = Site("cross", 0), Edits(bias=(ALiBi(), RelativeBias()))
    plain = Tap(keep=keep).attend(*tensors(), site=site)

    assert torch.equal(Tap(edits, keep=keep).attend(*tensors(), site=site), plain)
    assert not torch.equal(Tap(edits, keep=keep).attend(*tensors(), site=SITE), plain)
    assert not torch.equal(Tap(Edits(softcap=0.1), keep=keep).attend(*tensors(), site=site), plain)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("own", [None, 50.0])
def test_a_softcap_of_the_edits_replaces_the_models_own(keep, own):
    """The scores are bent by its tanh before the bias is added."""
    query, key, value = tensors()
    capped = torch.tanh(query @ key.mT * D_K**-0.5 / 0.7) * 0.7 + ALiBi().tensor(H, Q, K, dtype=torch.float64)

    output, tap = run(Edits(softcap=0.7, bias=(ALiBi(),)), keep=keep, softcap=own)

    assert_close(output, torch.softmax(capped, -1) @ value, **EXACT)
    assert [step.scoring.softcap for step in tap.steps] == [0.7] * keep


def test_dropout_is_for_runs_that_keep_nothing():
    """A record shows the weights of an evaluation."""
    kept, _ = run(dropout_p=0.5)
    torch.manual_seed(0)
    dropped, _ = run(keep=False, dropout_p=0.5)
    torch.manual_seed(0)

    assert torch.equal(kept, run()[0])
    assert not torch.allclose(dropped, kept)
    assert torch.equal(dropped, attention_output(*tensors(), dropout_p=0.5))


class Largest(TorchDispatchMode):
    """Record the bytes of the largest tensor that an operation returns."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.untyped_storage().nbytes())
        return result


def test_a_long_input_never_makes_a_matrix_of_n_by_n():
    """At 8,192 tokens the scores would take 256 MB; nothing larger than a block of 16 MB is made, nor kept."""
    n = 8_192
    query, key, value = (torch.randn(1, 1, n, 16) for _ in range(3))

    with Largest() as largest:
        tap = Tap(Edits(mask=Subsequent(), bias=(ALiBi(),)))
        output = tap.attend(query, key, value, site=SITE)
        step = tap.steps[0]
        window = step.weights(0, slice(n - 3, n), slice(n - 200, n))

    assert output.shape == (1, 1, n, 16)
    assert 2**20 <= largest.size <= 2**24
    assert window.shape == (3, 200)
    whole_row = step.weights(0, slice(n - 1, n))
    assert_close(window[-1:], whole_row[:, -200:])
    assert_close(whole_row.sum(), torch.tensor(1.0))
    assert_close(whole_row @ value[0, 0], output[0, 0, -1:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("own", [None, Subsequent(), booleans((B, 1, 1, K)), booleans((Q, K))], ids=str)
@pytest.mark.parametrize("bias", [None, torch.randn(1, H, Q, K, dtype=torch.float64)], ids=["no bias", "bias"])
@pytest.mark.parametrize("named", [(), (ALiBi(), RelativeBias())], ids=["plain", "named"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_sink_takes_its_share_and_gives_nothing(own, bias, named, keep):
    """As one more column of scores, dropped after the softmax, as in GPT-OSS; an edit of the mask leaves it open."""
    query, key, value = tensors()
    sinks = torch.randn(H, dtype=torch.float64)
    edit = Window(1, 1)
    own_tensor = own.tensor(Q, K) if isinstance(own, Mask) else torch.tensor(True) if own is None else own
    allowed = edit.tensor(Q, K) & own_tensor
    added = (0 if bias is None else bias) + sum(b.tensor(H, Q, K, dtype=torch.float64) for b in named)
    scores = query @ key.mT * D_K**-0.5 + added
    scores = scores.masked_fill(~allowed, -torch.inf)
    column = sinks.reshape(1, H, 1, 1).expand(B, H, Q, 1)
    weights = torch.softmax(torch.cat([scores, column], -1), -1)

    output, tap = run(Edits(mask=edit, bias=named), keep=keep, mask=own, bias=bias, sinks=sinks)

    assert_close(output, weights[..., :K] @ value, **EXACT)
    for step in tap.steps:
        assert step.has_sink
        assert_close(step.weights(1, slice(1, 4), slice(2, K + 1), sentence=1), weights[1, 1, 1:4, 2:], **EXACT)
        assert_close(step.weights(1, sentence=1), weights[1, 1], **EXACT)
        reasons, blocked = step.reasons(1)
        assert not blocked[:, K].any()
        assert own is not None or reasons == ("window (1 before, 1 after)",)
