"""Cost of a run, estimated before it starts."""

import pytest
from torch.utils.flop_counter import FlopCounterMode

from attnviz import api
from attnviz.core.edits import Edits
from attnviz.core.masks import Subsequent, Window
from attnviz.sources import estimate as estimates
from attnviz.sources.estimate import estimate
from attnviz.sources.scratch import Scratch
from attnviz.studies import texts


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """One that does a billion operations in a second, whatever runs beside it."""
    monkeypatch.setattr(estimates, "operations_per_second", lambda: 1e9)


def test_cells_that_a_mask_blocks_cost_nothing():
    """In long texts, where tiles without an allowed pair are skipped; a causal mask leaves half of the cells."""
    source = Scratch(num_heads=2, d_model=8, num_layers=3)
    full, causal, window = (estimate(source, 100_000, Edits(mask)).seconds for mask in (None, Subsequent(), Window(20)))

    assert causal == pytest.approx(full / 2, rel=0.05)
    assert window < full / 50


def test_bytes_are_those_of_the_record():
    """The bytes that a record keeps, to a tenth; texts and tokens are not counted."""
    source = Scratch(num_heads=4, d_model=32, num_layers=3)
    record = api.analyze(["x " * 500, "y " * 400], source)
    parts = [part for step in record.steps for part in (step.query, step.key, step.value, step.logsumexp)]

    found = estimate(source, 500, sentences=2)

    assert found.tokens == 1000
    assert found.record_bytes == sum(part.nbytes for part in parts) + record.output.nbytes
    assert found.bytes > found.record_bytes


@pytest.mark.parametrize("model", ["story", "translator", "induction"])
def test_many_texts_cost_what_their_runs_compute(model, monkeypatch):
    """Within a factor of 2, as torch counts it, what a model writes among it; measuring comes on top."""
    source = api.load(model)
    lines = texts.shipped(source)
    whole = texts.cost(source, lines)
    monkeypatch.setattr(estimates, "A_WEIGHT", 0)
    monkeypatch.setattr(estimates, "A_CALL", 0)
    found = texts.cost(source, lines)
    with FlopCounterMode(display=False) as counter:
        for _ in texts.runs(source, texts.tokenize(source, lines)[0]):
            pass

    assert counter.get_total_flops() / 2 < found.seconds * 1e9 < counter.get_total_flops() * 2
    assert whole.seconds > found.seconds
    length = max(one.length for one in source.tokenize(list(lines)))
    assert texts.cost(source, 9 * lines).bytes <= estimate(source, length, sentences=texts.TOKENS // length + 1).bytes
