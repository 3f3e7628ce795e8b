"""Weights of the heads that are set by hand, compared with maps computed by hand."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attnviz.core.edits import Edits, Site
from attnviz.core.tap import Tap
from attnviz.models import constructed

IDS = st.integers(0, 2**48 - 1)
PATTERNS = st.lists(IDS, min_size=1, max_size=6, unique=True).flatmap(
    lambda few: st.lists(st.sampled_from(few), min_size=1, max_size=24)
)
"""A few tokens, said in any order and any number of times."""

LOOKS = {
    (0, 0): lambda ids, i: [max(i - 1, 0)],
    (0, 1): lambda ids, i: [0],
    (0, 2): lambda ids, i: [j for j in range(i + 1) if ids[j] == ids[i]],
    (0, 3): lambda ids, i: range(i + 1),
    (1, 0): lambda ids, i: [j for j in range(1, i + 1) if ids[j - 1] == ids[i]] or [0],
    (1, 1): lambda ids, i: [i],
    (1, 2): lambda ids, i: [max(i - 2, 0)],
    (1, 3): lambda ids, i: [j for j in range(1, i + 1) if ids[j - 1] == ids[i - 1]] or [0],
}
"""By (layer, head): where row i looks, evenly."""


def ideal(ids: list[int], place: tuple[int, int]) -> torch.Tensor:
    weights = torch.zeros(len(ids), len(ids))
    for i in range(len(ids)):
        looks = list(LOOKS[place](ids, i))
        weights[i, looks] = 1 / len(looks)
    return weights


def run(*sentences: list[int], edits: Edits = Edits()) -> tuple[torch.Tensor, Tap]:
    """Sentences padded to one length."""
    longest, tap = max(map(len, sentences)), Tap(edits)
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids in sentences])
    with torch.inference_mode():
        return constructed.build()(ids, tuple(map(len, sentences)), tap=tap), tap


@given(PATTERNS)
def test_every_head_looks_where_it_was_built_to(ids):
    """Within 1e-3, whatever the tokens and however often they are said."""
    _, tap = run(ids)

    for layer, head in LOOKS:
        assert_close(tap.steps[layer].weights(head), ideal(ids, (layer, head)), rtol=0, atol=1e-3)


@given(PATTERNS, PATTERNS)
def test_padding_disturbs_nothing(one, other):
    """In a batch a sentence gets the picture and the output it gets alone, and padding gets no weight."""
    hidden, tap = run(one, other)
    alone, tap_alone = run(one)
    n = len(one)

    assert_close(hidden[0, :n], alone[0], rtol=0, atol=1e-4)
    for layer, head in LOOKS:
        weights = tap.steps[layer].weights(head)
        assert_close(weights[:n, :n], tap_alone.steps[layer].weights(head), rtol=0, atol=1e-4)
        assert weights[:, n:].eq(0).all()


def test_without_the_previous_token_head_there_is_no_induction():
    """The induction head matches keys that the head below it writes."""
    ids = [7, 8, 9, 8, 5, 9]
    _, tap = run(ids, edits=Edits(heads_off={(Site("decoder", 0), 0)}))

    weights = tap.steps[1].weights(0)
    assert weights[3, 2] < 0.01
    assert weights[5, 3] < 0.01


def test_only_the_pair_changes_the_output():
    """Every other head writes nothing, as its card says."""
    ids = [7, 8, 9, 7, 8]
    untouched, _ = run(ids)

    for layer, head in LOOKS:
        hidden, _ = run(ids, edits=Edits(heads_off={(Site("decoder", layer), head)}))
        assert hidden.equal(untouched) == (head != 0)
