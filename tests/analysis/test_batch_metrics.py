"""All texts of a run at once measure as `head_metrics` does each alone."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz import api
from attnviz.analysis import batch
from attnviz.analysis.heads import METRICS, head_metrics, sums_of
from attnviz.core.edits import Edits, Site

WORDS = st.lists(st.sampled_from("a b c d".split()), min_size=1, max_size=6).map(" ".join)


def together(record, step, size):
    """Every metric of every text, (B, H, M), from blocks of some size."""
    sums = torch.zeros(2, step.shape[0], step.num_heads, len(METRICS), dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batch, "BLOCK", size)
        for block in batch.blocks(step, batch.sides_of(record, step)):
            sums[:, block.texts] += sums_of(record, block)
    return (sums[0] / sums[1]).numpy()


def assert_same(record, size=2**18):
    for step in record.steps:
        found = together(record, step, size)
        for b in range(step.shape[0]):
            expected = head_metrics(record, b, step.site)[[one.name for one in METRICS]]
            np.testing.assert_allclose(found[b], expected.to_numpy(float, na_value=np.nan), rtol=1e-5, atol=5e-5)


@given(texts=st.lists(WORDS, min_size=1, max_size=3), size=st.sampled_from([1, 90, 2**18]), off=st.booleans())
def test_a_batch_measures_as_each_text_alone(texts, size, off):
    """Whatever is padded, in blocks of rows, of texts or of all; a head that is off hands nothing on."""
    source = api.load("constructed")
    edits = Edits(heads_off={(Site("decoder", 1), 0)} if off else ())

    assert_same(source.run(source.tokenize(texts), edits), size)


@pytest.mark.parametrize("model", ["translator", "story"])
def test_sites_of_every_kind_are_measured(model):
    """Of cross-attention what is no place in one text is missing."""
    source = api.load(model)

    assert_same(source.run(source.tokenize(["the cat sleeps", "the black dog eats the bread ."])), 500)
