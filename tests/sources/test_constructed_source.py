"""The source whose weights are set by hand: any text, in batches too, and edits as in every other."""

import torch

from attnviz.core.edits import Edits, Site
from attnviz.sources.constructed import Constructed

SOURCE = Constructed()
BELOW, ABOVE = SOURCE.sites


def run(*texts, edits=Edits()):
    return SOURCE.run(SOURCE.tokenize(list(texts)), edits)


def test_any_text_is_read_and_says_where_its_weights_come_from():
    """No word is unknown, and no picture of it can be taken for something learned."""
    record = run("Zürich 猫 🐈 cat 猫")

    assert (record.source, record.provenance) == ("constructed", "constructed")
    assert record.sites == SOURCE.sites
    assert record.output.shape == (1, 5, SOURCE.d_model)
    assert record.prediction is None
    assert SOURCE.unknown(["Zürich 猫"]) == {}


def test_the_induction_head_looks_after_the_earlier_occurrence_and_needs_the_head_below():
    """The last 'the' looks at what followed the first one; without the previous-token head all look alike to it."""
    text = "the cat saw the"

    assert run(text).step(ABOVE).weights(0)[3, 1] > 0.999
    without = run(text, edits=Edits(heads_off={(BELOW, 0)}))
    assert torch.allclose(without.step(ABOVE).weights(0)[3, 1:], torch.full((3,), 1 / 3), atol=1e-3)


def test_a_shorter_sentence_of_a_batch_is_as_it_is_alone():
    """Its padding takes no weight."""
    together, alone = run("a b a b a", "b b"), run("b b")

    for site in (Site("decoder", 0), Site("decoder", 1)):
        for head in range(SOURCE.num_heads):
            weights = together.step(site).weights(head, sentence=1)[:2]
            assert torch.allclose(weights[:, :2], alone.step(site).weights(head), atol=1e-4)
            assert not weights[:, 2:].any()
