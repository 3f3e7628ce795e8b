"""Trained models as a source, on tiny ones: what the decoder writes, what is read, and what edits do to both."""

import pytest
import tiny
import torch
from torch.testing import assert_close

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Prefix, Subsequent, Window
from attnviz.models import trained
from attnviz.sources.trained import Trained

LONG, SHORT, OTHER = "the black cat sleeps on the red chair .", "a dog eats and", "the black cat sleeps"
TEXTS = [LONG, SHORT, OTHER]
CROSS, DECODER, ENCODER = Site("cross", 1), Site("decoder", 0), Site("encoder", 1)
PAD, SOS, EOS, UNK = range(4)
CLOSE = {"rtol": 0, "atol": 1e-10}
"""In float64: some hundred roundings of 1e-16 on logits of up to ten, amplified through the layers, with room."""

EDITS = [
    Edits(mask=Subsequent()),
    Edits(mask=Window(1, 0)),
    Edits(mask=Prefix(2)),
    Edits(heads_off={(CROSS, 2), (CROSS, 0), (ENCODER, 1), (DECODER, 0)}),
    Edits(temperature=0.6),
    Edits(scale=0.3),
]
edited = pytest.mark.parametrize("edits", [Edits(), *EDITS], ids=lambda edits: (edits.in_words() or ("plain",))[0])


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield tiny.install(tmp_path_factory.mktemp("assets"), patch)
    tiny.forget()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Models whose files may be spoiled."""
    yield tiny.install(tmp_path, monkeypatch)
    tiny.forget()


@pytest.fixture
def exact(folder, monkeypatch):
    """The same models in float64, where only rounding differs: other sizes go through other kernels of a CPU."""
    read = trained.read
    monkeypatch.setattr(trained, "read", lambda path: read(path).double())
    tiny.forget()
    yield
    tiny.forget()


def run(texts, source=None, edits=Edits()):
    source = source or Trained()
    return source.run(source.tokenize([texts] if isinstance(texts, str) else texts), edits)


def weights(step, sentence=0):
    """(H, Q, K)."""
    return torch.stack([step.weights(head, sentence=sentence) for head in range(step.num_heads)])


@edited
def test_sentences_of_a_batch_are_what_they_are_alone(exact, edits):
    """The written text, every weight that is not padding, and every prediction; the most probable word is written."""
    together = run(TEXTS, edits=edits)

    assert edits != Edits() or len({target.length for target in together.targets}) > 1
    for sentence, text in enumerate(TEXTS):
        alone = run(text, edits=edits)
        target = together.targets[sentence]
        assert target.text == alone.targets[0].text
        assert target.tokens[: target.length] == alone.targets[0].tokens
        assert all(token.text == "<pad>" for token in target.tokens[target.length :])
        logits = together.prediction.logits[sentence, : target.length]
        best = logits.index_fill(-1, torch.tensor([PAD, SOS]), -torch.inf).argmax(-1).tolist()
        assert [token.id for token in target.tokens[1 : target.length]] == best[:-1]
        assert best[-1] == EOS or target.length == tiny.LONGEST
        assert_close(logits, alone.prediction.logits[0], **CLOSE)
        for one, other in zip(together.steps, alone.steps, strict=True):
            queries, keys = other.shape[2:]
            assert_close(weights(one, sentence)[:, :queries, :keys], weights(other), **CLOSE)


def with_bias(folder, word, bias, step=tiny.STEPS[-1]):
    """The translator with another bias of a written word."""
    path = trained.weights_path("translator", step)
    model = trained.read(path)
    model.unembedding.bias[word] = bias
    trained.write(model, path)
    tiny.forget()
    return Trained()


@pytest.mark.parametrize("word", [PAD, SOS])
def test_neither_padding_nor_a_beginning_is_ever_written(own, word):
    """However probable a model holds it: it has no probability, and what comes next is written."""
    expected = run(TEXTS).prediction.written
    record = run(TEXTS, with_bias(own, word, 1000.0))

    assert record.prediction.written == expected
    assert record.prediction.probabilities(0)[word] == 0
    assert float(record.prediction.probabilities(0).sum()) == pytest.approx(1)


def test_a_model_may_write_nothing(own):
    """The first word is the end: the decoder has read <sos> alone, and that is what is recorded."""
    record = run(TEXTS, with_bias(own, EOS, 1000.0))

    assert record.prediction.written == ("", "", "")
    assert [target.labels for target in record.targets] == [("<sos>",)] * 3
    assert record.step(DECODER).shape == (3, 3, 1, 1)
    assert record.step(CROSS).shape[2] == 1
    assert record.prediction.words() == ("<eos>",)


@pytest.mark.parametrize("source", ["translator", "story"])
def test_a_text_that_is_too_long_is_told_with_both_lengths(source):
    """<sos> or <eos> is counted; one word less fits."""
    words = "the " * (tiny.LONGEST - 1)
    run(words, Trained(source))

    for number, texts in enumerate(([words + "cat"], ["the", words + "cat"]), 1):
        with pytest.raises(InputError, match=f"^Line {number} has 14 tokens; {source} reads up to 13"):
            Trained(source).tokenize(texts)


def test_a_moment_of_the_training_is_a_model_of_its_own():
    """With its own weights, and a name that says which; the last is the model itself."""
    first, last = Trained(step=0), Trained(step=tiny.STEPS[-1])

    assert (Trained().name, first.name) == ("translator", "translator after step 0")
    assert first.card == Trained().card
    assert torch.equal(run(LONG, last).prediction.logits, run(LONG).prediction.logits)
    one, other = (weights(run(LONG, source).step(ENCODER)) for source in (first, last))
    assert not torch.allclose(one, other)


@pytest.mark.parametrize("step", ["20", 20.0, True, [20], "x" * 1000])
def test_a_step_is_a_whole_number(step):
    with pytest.raises(InputError, match=r"^step is .{1,45}; it must be a whole number\.$"):
        Trained(step=step)


def test_the_decoder_reads_what_it_is_given():
    """A translation that was written before, also under edits that would write another; only a translator takes one."""
    source = Trained("translator")
    sentences = source.tokenize(["the black cat sleeps"])
    first = source.run(sentences)
    given = source.run(sentences, Edits(mask=Window(0)), first.targets)

    assert given.targets == first.targets
    assert torch.equal(source.run(sentences, targets=first.targets).output, first.output)
    with pytest.raises(InputError, match="'story' writes no other text"):
        Trained("story").run(Trained("story").tokenize(["the cat"]), targets=first.targets)
