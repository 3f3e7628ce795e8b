"""The logit lens and the words that a head pushes, against the model's own layers in float64 and by hand."""

import copy

import numpy as np
import pytest
import torch

import attnviz
from attnviz import Edits, Site
from attnviz.analysis import contributions, lens, lens_words, logit_lens, next_words, predicted_words, pushed
from attnviz.core.errors import InputError

TEXTS = {"induction": "river seven window apple river seven window", "story": "the cat that the dogs saw sat on"}
LAST = Site("decoder", 1)


@pytest.fixture(scope="module", params=[*TEXTS])
def record(request):
    """Two texts of different lengths, the second one shorter."""
    return attnviz.analyze([TEXTS[request.param], "the cat sat"], request.param, stream=True)


@pytest.fixture(scope="module")
def translated():
    return attnviz.analyze("the black cat sleeps", "translator", stream=True)


def readings(record, sentence):
    """Probabilities after the embedding and each layer, (stages, positions, vocabulary), by hooks in float64."""
    model = copy.deepcopy(attnviz.load(record.source)._model).double()
    streams = []
    model.embedding.register_forward_hook(lambda module, given, output: streams.append(output))
    for layer in model.stack.layers:
        layer.register_forward_hook(lambda module, given, output: streams.append(output))
    with torch.no_grad():
        model(torch.tensor([[token.id for token in record.sentences[sentence].tokens]]))
        return torch.stack([model.unembedding(model.norm(stream))[0].softmax(-1) for stream in streams])


@pytest.mark.parametrize("sentence", [0, 1])
def test_each_row_is_what_the_layers_of_the_model_give(record, sentence):
    """Words and probabilities of every stage and position, the most probable one and the five after it."""
    expected, grid = readings(record, sentence), logit_lens(record, sentence=sentence)
    length, vocabulary = record.read[sentence].length, record.prediction.vocabulary

    assert grid.values.shape == (3, length)
    np.testing.assert_allclose(grid.values, expected[:, :length].max(-1).values, atol=1e-5)
    for stage, words in enumerate(grid.words):
        for position in range(length):
            top = lens_words(record, stage, position, sentence=sentence, count=6)
            by_hand = expected[stage, position].topk(6)
            assert [word.probability for word in top] == pytest.approx(by_hand.values.tolist(), abs=1e-5)
            assert words[position] == top[0].word == vocabulary[by_hand.indices[0]]


@pytest.mark.parametrize("edits", [Edits(), Edits(heads_off={(LAST, 1)}, temperature=2)])
@pytest.mark.parametrize("model", [*TEXTS, "translator"])
def test_the_last_row_is_the_prediction(model, edits):
    """Exactly, of the model as it is and of a changed one."""
    record = attnviz.analyze(TEXTS.get(model, "the cat sleeps"), model, edits, stream=True)
    grid, predicted = logit_lens(record), predicted_words(record)

    assert list(grid.words[-1]) == [word.word for word in predicted]
    assert grid.values[-1].tolist() == pytest.approx([word.probability for word in predicted], abs=1e-12)
    assert lens_words(record, -1, 1) == next_words(record, 1)


@pytest.mark.parametrize("site", [Site("decoder", 0), LAST, Site("cross", 1)])
def test_what_is_pushed_is_the_output_through_three_matrices(record, translated, site):
    """In float64: head output, W_O, the last norm with the scale of the run, W_U; the largest and the smallest."""
    record = translated if site.kind == "cross" else record
    stream, position, head = record.stream, 2, 1
    grid = pushed(record, site, head, position, count=4)
    weights = stream.parts.weights.sites[site].w_o.weight.double()
    output = record.step(site).output(head)[position].double()
    part = weights[:, head * len(output) : (head + 1) * len(output)] @ output
    end, norm = stream.parts.final[0, position].double(), stream.parts.weights.readout.norm
    part = (part - part.mean()) / (end.var(correction=0) + norm.eps).sqrt() * norm.weight
    adds = stream.parts.weights.readout.unembedding.weight.double() @ part
    adds[:4] = torch.nan  # <pad>, <sos>, <eos> and <unk> are no words
    ranked = adds[4:].sort(descending=True).values

    np.testing.assert_allclose(grid.values[:4, 0], ranked[:4], atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(grid.values[4:, 0], ranked[-4:], atol=1e-5, rtol=1e-5)
    assert grid.rows == ("up 1", "up 2", "up 3", "up 4", "down 4", "down 3", "down 2", "down 1")
    for word, value in zip(grid.words, grid.values, strict=True):
        table = contributions(record, record.prediction.vocabulary.index(word[0]), position).table
        rows = (table["kind"] == site.kind) & (table["layer"] == site.layer) & (table["head"] == head)
        assert value[0] == pytest.approx(table["contribution"][rows.fillna(False)].sum(), abs=1e-5)  # with its bias


def test_parts_of_a_text_and_blocks_change_no_number(record, monkeypatch):
    """One position at a time, and the middle of a text."""
    whole, of_head = logit_lens(record), pushed(record, LAST, 0)
    monkeypatch.setattr(lens, "BLOCK", 1)
    parts = logit_lens(record, positions=range(2, 5)), pushed(record, LAST, 0, positions=range(2, 5))

    for part, all_of_it in zip(parts, (whole, of_head), strict=True):
        np.testing.assert_allclose(part.values, all_of_it.values[:, 2:5], atol=1e-5, rtol=1e-5)
        assert part.words == tuple(words[2:5] for words in all_of_it.words)
        assert list(part.table["position"].unique()) == [2, 3, 4]
        assert part.tokens == tuple(record.read[0].labels[2:5])


REFUSED = {
    "This record has no residual stream": lambda record: logit_lens(attnviz.analyze("the cat", record.source)),
    "There are no positions 3 to 99": lambda record: logit_lens(record, positions=range(3, 100)),
    "There is no position 99": lambda record: pushed(record, LAST, 0, 99),
    "There is no stage 3; there are 3, counted from 0: embedding, layer 0, layer 1": lambda r: lens_words(r, 3, 0),
    "There is no head 9": lambda record: pushed(record, LAST, 9),
    "not 'mean'": lambda record: pushed(record, LAST, "mean"),
    "The count of words is 0": lambda record: pushed(record, LAST, 0, count=0),
    "encoder layer 0 does not write into the stream": lambda record: pushed(record, Site("encoder", 0), 0),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_read_is_refused(record, words):
    with pytest.raises(InputError, match=words):
        REFUSED[words](record)
