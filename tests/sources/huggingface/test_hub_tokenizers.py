"""Tokenizers as folders have them: SentencePiece files alone, written in Python; and special tokens in a text."""

import io
import json
from pathlib import Path

import pytest
import sentencepiece
import torch
import transformers
from families import build
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import attnviz
from attnviz import figures
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.sources.huggingface import opening, reading
from attnviz.sources.huggingface.source import HuggingFace

LINES = ["the cat sat on the mat", "a dog ran to the house", "zebra zzebra 今日は", "it was tired because it ran"] * 8
TEXTS = ["the cat sat on the mat", "zzebra 今日は", " a  cat\nÉ ü 今", "它 the"]
T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
BYTES = {"model_type": "bpe", "byte_fallback": True, "vocab_size": 330}
FRAMED = {"control_symbols": "[CLS],[SEP]", "user_defined_symbols": "[MASK]"}

SENTENCEPIECE = {  # a family: the file of its pieces, how it was trained, and the class of its tokenizer
    "T5": ("spiece.model", T5, "T5Tokenizer"),
    "Albert": ("spiece.model", {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, **FRAMED}, "AlbertTokenizer"),
    "XLMRoberta": ("sentencepiece.bpe.model", {"unk_id": 0, "bos_id": 1, "eos_id": 2}, "XLMRobertaTokenizer"),
    "Llama": ("tokenizer.model", BYTES, "LlamaTokenizer"),
    "Mistral": ("tokenizer.model", BYTES, "LlamaTokenizer"),
    "DebertaV2": ("spm.model", T5 | {"control_symbols": "[CLS],[SEP]"}, "DebertaV2Tokenizer"),
    "XLNet": ("spiece.model", {"control_symbols": "<cls>,<sep>"}, "XLNetTokenizer"),
}


def train(path: Path, **options) -> list[str]:
    """Train SentencePiece on a few lines; gives its pieces."""
    written = io.BytesIO()
    options = {"vocab_size": 80, "hard_vocab_limit": False, "minloglevel": 2} | options
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=written, **options)
    path.write_bytes(written.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return [pieces.id_to_piece(i) for i in range(len(pieces))]


def folder_with(family: str, folder: Path) -> Path:
    """A tiny model with the tokenizer files of its family, saved as its authors did before there was tokenizer.json."""
    build(family, vocab_size=400).save_pretrained(folder)
    file, options, kind = SENTENCEPIECE[family]
    train(folder / file, **options)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    return folder


@pytest.mark.parametrize("family", SENTENCEPIECE)
def test_a_folder_with_sentencepiece_alone_is_opened(tmp_path, family):
    """With the ids that transformers gives, and runs."""
    source = HuggingFace(str(folder_with(family, tmp_path)))
    own = transformers.AutoTokenizer.from_pretrained(tmp_path)

    for text in TEXTS:
        (sentence,) = source.tokenize([text])
        assert [token.id for token in sentence.tokens] == own(text)["input_ids"]
    assert source.run(source.tokenize(TEXTS[:1])).steps


def marian(folder: Path) -> None:
    shared = train(folder / "source.spm")
    shared += [piece for piece in train(folder / "target.spm", model_type="char") if piece not in shared]
    ids = {"</s>": 0, "<unk>": 1} | {piece: i for i, piece in enumerate(shared[3:], 2)}
    (folder / "vocab.json").write_text(json.dumps(ids | {"<pad>": len(ids)}))


def phobert(folder: Path) -> None:
    names = ["the", "c@@", "a@@", "t", "s@@", "on", "m@@"]
    (folder / "vocab.txt").write_text("".join(f"{name} 1\n" for name in names))
    (folder / "bpe.codes").write_text("t h 9\nth e</w> 8\no n</w> 6\n")


PLAIN = {  # a class: what it is made from, its settings, the model that stands beside it, and a text
    "MarianTokenizer": (marian, {"source_lang": "en", "target_lang": "de"}, "Marian", "the cat sat"),
    "PhobertTokenizer": (phobert, {}, "Roberta", "the cat sat on the mat"),
    "ByT5Tokenizer": (lambda folder: None, {}, "T5", "the cat sat"),
}


def python_tokenizer(kind: str, folder: Path):
    """A folder with a tokenizer that is written in Python, and that tokenizer as transformers opens it."""
    make, more, *_ = PLAIN[kind]
    make(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind} | more))
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("kind", PLAIN)
def test_a_tokenizer_written_in_python_is_used(tmp_path, kind):
    """With the ids of transformers; pieces that spell the text know their places, and what was added is special."""
    _, _, family, text = PLAIN[kind]
    build(family, vocab_size=500).save_pretrained(tmp_path)
    own = python_tokenizer(kind, tmp_path)

    (sentence,) = reading.sentences(opening._tokenizer(tmp_path, kind), [text])
    assert [token.id for token in sentence.tokens] == own(text)["input_ids"]
    typed = [token for token in sentence.tokens if not token.special]
    assert all(text[token.start : token.end] == token.text for token in typed if token.start < token.end)
    assert typed[-1].end == len(text)
    source = HuggingFace(str(tmp_path))
    record = source.run(source.tokenize([text]))
    assert record.steps[0].shape[3] == len(sentence.tokens)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "its vocabulary is empty"),
        ({"tokenizer_config.json": '{"tokenizer_class": "T5Tokenizer"}'}, "its vocabulary is empty"),
        ({"tokenizer_config.json": '{"tokenizer_class": "GPT2Tokenizer"}', "vocab.json": '{"a": 0}'}, "vocab"),
    ],
)
def test_a_vocabulary_that_is_missing_is_not_an_empty_one(tmp_path, files, says):
    """transformers makes an empty vocabulary in silence; here it is said how to add the tokenizer."""
    build("Bert").save_pretrained(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(InputError, match=says) as caught:
        HuggingFace(str(tmp_path))
    assert "save_pretrained(folder)" in str(caught.value)


# What tokens are called


def test_a_lone_blank_is_not_called_by_what_follows(tmp_path):
    """It is a piece of its own, which belongs to the word after it."""
    for family in ("T5", "XLMRoberta", "Albert"):
        folder = tmp_path / family
        tokenizer = opening._tokenizer(folder_with(family, folder), family)
        (text,) = reading.sentences(tokenizer, ["今"])
        pieces = [token for token in text.tokens if not token.special]

        assert [(token.text, token.start, token.end) for token in pieces] == [("▁", 0, 0), ("今", 0, 1)]
        (text,) = reading.sentences(tokenizer, ["the 今"])
        assert [token.joined for token in text.tokens if token.text in "▁今"] == [False, True]


def test_a_predicted_byte_has_the_name_of_its_piece():
    """A part of a letter has no text: "ä" begins with byte C3, which GPT-2 writes "Ã"."""
    cut = Tokenizer(models.BPE({letter: i for i, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}, []))
    cut.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    cut.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=cut)

    assert [reading.name_of(tokenizer, id) for id in tokenizer("äa")["input_ids"]] == ["Ã", "¤", "a"]


# Special tokens that are typed, and prompts of several lines


@pytest.mark.parametrize("family", ["Llama", "XLMRoberta"])
@pytest.mark.parametrize("typed", ["<s>the cat", "<s>the cat</s>", "the cat</s>", "the <s> cat", "the cat"])
def test_a_special_token_that_is_typed_is_special_and_is_not_added_again(tmp_path, family, typed):
    """As a chat template writes it; between words it stands where it was typed."""
    folder_with(family, tmp_path)
    tokenizer = opening._tokenizer(tmp_path, family)
    (text,) = reading.sentences(tokenizer, [typed])
    names = [tokenizer.convert_ids_to_tokens(token.id) for token in text.tokens]

    assert all(token.special == (name in ("<s>", "</s>")) for token, name in zip(text.tokens, names, strict=True))
    assert names[:2] != ["<s>", "<s>"]
    assert names[-2:] != ["</s>", "</s>"]
    placed = [token for token in text.tokens if token.special and token.start < token.end]
    assert [typed[token.start : token.end] for token in placed] == [name for name in ("<s>", "</s>") if name in typed]
    framed = tokenizer.convert_tokens_to_ids(["<s>"]), tokenizer.convert_tokens_to_ids(["</s>"])
    own = tokenizer(typed)["input_ids"]
    ids = [token.id for token in text.tokens]
    assert [id for id in ids if [id] not in framed] == [id for id in own if [id] not in framed]


# Targets


@pytest.mark.parametrize("family", ["T5", "Marian"])
def test_a_target_is_read_as_transformers_reads_labels(tmp_path, family):
    """From the start token on; each text of a batch its own, and the logits are the model's."""
    if family == "Marian":
        build(family, vocab_size=400).save_pretrained(tmp_path)
        python_tokenizer("MarianTokenizer", tmp_path)
    else:
        folder_with(family, tmp_path)
    texts, targets = ["the cat sat", "a dog"], ["the house", "the cat sat on the mat"]
    record = attnviz.analyze(texts, str(tmp_path), target=targets)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)

    for sentence, (text, target) in enumerate(zip(texts, targets, strict=True)):
        read = tokenizer(text, text_target=target, return_tensors="pt")
        with torch.inference_mode():
            expected = model(input_ids=read["input_ids"], labels=read["labels"], output_attentions=True)
        length = record.targets[sentence].length
        assert length == read["labels"].shape[1]
        logits = record.prediction.logits[sentence, :length]
        torch.testing.assert_close(logits, expected.logits[0], rtol=1e-3, atol=1e-4)
        cross = record.step(Site("cross", 1)).weights(0, sentence=sentence)[
            :length, : record.sentences[sentence].length
        ]
        torch.testing.assert_close(cross, expected.cross_attentions[1][0, 0], rtol=1e-3, atol=1e-5)
    assert record.prediction.written == tuple(targets)
    assert record.prediction.cut == ()


def test_a_text_that_is_cut_says_so(tmp_path):
    """The model has no token for the end of a text."""
    record = attnviz.analyze("the cat", str(folder_with("T5", tmp_path)))

    assert record.prediction.cut == (63,)
    assert "The text was cut after 63 tokens." in figures.step_by_step(record).description
    assert attnviz.analyze("the black cat sleeps").prediction.cut == ()
