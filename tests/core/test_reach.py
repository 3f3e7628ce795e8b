"""The receptive field after some layers."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import B, masks

from attnviz.core.errors import MaskError
from attnviz.core.masks import Full, Global, Padding, Subsequent, Window
from attnviz.core.reach import LARGEST, reach

N = 11


@given(masks(), st.integers(1, 5), st.integers(0, B - 1))
def test_an_input_is_seen_where_a_path_leads_to_it(mask, layers, sentence):
    """Walked from each position, layer by layer; a position always keeps itself."""
    allowed = mask.grid(N, sentence=sentence).tolist()
    seen = reach(mask, N, layers, sentence=sentence)

    assert seen.shape == (layers, N, N)
    for position in range(N):
        reached = {position}
        for layer in range(layers):
            reached |= {j for i in reached for j in range(N) if allowed[i][j]}
            assert set(seen[layer, position].nonzero().flatten().tolist()) == reached


@pytest.mark.parametrize("layers", [1, 2, 7])
def test_causal_attention_stays_causal(layers):
    """After any number of layers."""
    assert torch.equal(reach(Subsequent(), N, layers), Subsequent().grid(N).expand(layers, N, N))


@examples(30)
@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 6))
def test_a_window_grows_by_itself_with_each_layer(before, after, layers):
    """After l layers it is a window of l times the keys."""
    seen = reach(Window(before, after), N, layers)

    for layer in range(layers):
        assert torch.equal(seen[layer], Window(before * (layer + 1), after * (layer + 1)).grid(N))


def test_one_global_token_joins_all_in_two_layers():
    """Every position sees it, and it sees all."""
    seen = reach(Window(0) | Global((3,)), N, 2)

    assert seen[0].sum() == N + 2 * (N - 1)
    assert seen[1].all()


def test_a_position_that_may_attend_to_nothing_keeps_itself():
    """By the residual connection."""
    assert torch.equal(reach(~Full(), N, 3)[2], torch.eye(N, dtype=torch.bool))


def test_the_path_goes_from_the_query_to_the_key_and_not_back():
    """A tensor is taken as a named mask is: 0 sees 1, and 1 sees 2."""
    allowed = torch.zeros(3, 3, dtype=torch.bool)
    allowed[0, 1] = allowed[1, 2] = True

    assert reach(allowed, 3, 2)[1].tolist() == [[True, True, True], [False, True, True], [False, False, True]]


@pytest.mark.parametrize(
    ("mask", "size", "layers", "says"),
    [
        (Full(), LARGEST + 1, 1, "0 to 2,048 positions; given 2049"),
        (Full(), -1, 1, "given -1"),
        (Full(), 3, 0, "1 to 128 layers; given 0"),
        (Full(), 3, 129, "given 129"),
        (torch.ones(3, 4, dtype=torch.bool), 3, 1, r"\(3, 3\) booleans.*given \(3, 4\)"),
        (torch.zeros(3, 3), 3, 1, "torch.float32"),
        (Padding((1, 2)), 3, 1, None),
    ],
)
def test_what_cannot_be_computed_is_refused(mask, size, layers, says):
    """With the bound; a mask for several sentences is asked for one of them."""
    if says is None:
        with pytest.raises(MaskError, match="no sentence 2"):
            reach(mask, size, layers, sentence=2)
        return
    with pytest.raises(MaskError, match=says):
        reach(mask, size, layers)
