"""A person's own model, or one run of it, as a source like any other."""

from types import SimpleNamespace

import pytest
import torch
from own_models import WORDS, Attention, Translator, Writer, tokenize
from seeing import PICTURE, Sees, seen_by
from torch import nn
from torch.testing import assert_close

import attnviz
from attnviz.check.leak_test import leak_test
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.masks import Window
from attnviz.sources.own_code import Recorded
from attnviz.sources.saved import Saved
from attnviz.studies.ablation import sweep

TEXT = "the cat sat on the mat"


def words_of(ids):
    return [WORDS[id] for id in ids]


def wrapped(model=None, **given):
    return attnviz.wrap(Writer().eval() if model is None else model, tokenize, TEXT, words=WORDS, **given)


def test_a_model_becomes_a_source_in_one_line():
    """Its sites are named by its modules; its words, predictions and logits are its own."""
    model = Writer()
    source = wrapped(model)
    record = attnviz.analyze(TEXT, source)

    assert (source.name, source.provenance, source.num_heads, source.d_model) == ("Writer", "your own", 3, 12)
    assert source.sites == (Site("decoder", 0), Site("decoder", 1))
    assert source.site_name(Site("decoder", 1)) == "decoder layer 1 · attn.1"
    assert record.sentences[0].labels == tuple(TEXT.split())
    assert [token.start for token in record.sentences[0].tokens] == [0, 4, 8, 12, 15, 19]
    assert_close(record.prediction.logits, model.eval()(torch.tensor([tokenize(TEXT)])).detach())
    assert record.prediction.most_probable(5, 1)[0][0] in WORDS


def test_a_run_leaves_the_model_as_it_was():
    """Each module trains or not as before, also after an error; no dropout is drawn and no gradient kept."""
    model = Writer().train()
    model.attn[1].eval()
    source = wrapped(model)
    before = [module.training for module in model.modules()]

    first, second = (attnviz.analyze(TEXT, source).output for _ in range(2))

    assert torch.equal(first, second)
    assert not first.requires_grad
    assert [module.training for module in model.modules()] == before
    model.head = None
    with pytest.raises(InputError, match=r"Line \d+ of own_models\.py raised TypeError"):
        attnviz.analyze(TEXT, source)
    assert [module.training for module in model.modules()][:3] == before[:3]


def test_edits_act_in_its_own_code():
    """A head that is off is the one zeroed by hand before the output projection; masks and temperature act."""
    model = Writer(layers=1).eval()
    source, site = wrapped(model), Site("decoder", 0)
    off = attnviz.analyze(TEXT, source, Edits(heads_off={(site, 1)}))
    masked = attnviz.analyze(TEXT, source, Edits(mask=Window(0, 0)))

    with torch.no_grad():
        model.attn[0].to_out.weight[:, 4:8] = 0
    assert_close(off.prediction.logits, model(torch.tensor([tokenize(TEXT)])).detach())
    assert torch.equal(masked.step(site).weights(0), torch.eye(6))
    with pytest.raises(InputError, match=r"has no decoder layer 1\. It has: decoder layer 0"):
        attnviz.analyze(TEXT, source, Edits(heads_off={(Site("decoder", 1), 0)}))


def test_a_source_knows_the_moment_of_its_weights():
    """Equal as long as nothing changed, also by an update that torch does not count."""
    model = Writer()
    source = wrapped(model)
    assert source.current() == source
    assert hash(source.current()) == hash(source)
    assert wrapped(model) != source

    model.head.bias.data.add_(1)

    assert source.current() != source


def test_texts_of_several_lengths():
    """A model that sees no later token needs no padding id; any other has to know one."""
    texts = [TEXT, "the dog ran"]
    record = attnviz.analyze(texts, wrapped())
    alone = attnviz.analyze(texts[1], wrapped())
    assert record.sentences[1].length == len(alone.sentences[0].tokens) == 3

    with pytest.raises(InputError, match=r"say attnviz\.wrap\(\.\.\., pad=ID\)"):
        attnviz.analyze(texts, wrapped(Writer(hides="nothing")))
    padded = attnviz.analyze(texts, wrapped(Writer(hides="padding"), pad=0))
    assert padded.sentences[1].labels[3:] == ("<pad>",) * 3
    assert padded.steps[0].weights(0, sentence=1)[:3, 3:].sum() == 0


def test_an_encoder_decoder_reads_two_texts():
    """Its call takes what the decoder reads, which stands behind |||; cross-attention is between the two."""
    source = attnviz.wrap(
        Translator(), tokenize, "the cat sat ||| the dog", words=WORDS, call=lambda model, ids, read: model(ids, read)
    )
    record = source.run(source.tokenize(["the cat sat on ||| the dog"]))

    assert {site.kind for site in source.sites} == {"encoder", "decoder", "cross"}
    assert record.step(Site("cross", 0)).shape[2:] == (2, 4)
    assert [one.labels for one in (*record.sentences, *record.targets)] == [
        ("the", "cat", "sat", "on"),
        ("the", "dog"),
    ]
    assert record.prediction.logits.shape[1] == 2
    assert leak_test(source, source.tokenize(["the cat sat ||| the dog ran on"])).pairs == ()


NUMBERS = ["#1", "#1", "#2", "#3", "#4", "#1", "#5"]


@pytest.mark.parametrize(
    ("cut", "words", "labels"),
    [
        (lambda text: torch.tensor([tokenize(text)]), WORDS, TEXT.split()),
        (SimpleNamespace(encode=tokenize, convert_ids_to_tokens=words_of), None, TEXT.split()),
        (lambda text: [1, *tokenize(text)], None, NUMBERS),
        (tokenize, dict(enumerate(WORDS)), TEXT.split()),
        (tokenize, words_of, TEXT.split()),
        (tokenize, lambda ids: " ".join(WORDS[id] for id in ids), TEXT.split()),
    ],
    ids=["tensor", "tokenizer", "numbers", "dict", "function", "function that joins"],
)
def test_what_tokenizers_and_words_give(cut, words, labels):
    """Words are a list, a dict, a function, or those of a tokenizer; else numbers stand for them."""
    source = attnviz.wrap(Writer(), cut, TEXT, words=words)

    assert [*source.tokenize([TEXT])[0].labels] == labels
    if words is not None:
        assert [*attnviz.analyze(TEXT, source).prediction.vocabulary] == WORDS


def test_attention_over_other_positions_is_not_shown():
    """It is no layer of the source, which says so; edits act elsewhere."""

    class Pooling(Writer):
        def __init__(self):
            super().__init__()
            self.pool = Attention(12, 3)
            self.slots = nn.Parameter(torch.zeros(1, 2, 12))

        def forward(self, ids):
            slots = self.slots.expand(len(ids), -1, -1)
            return super().forward(ids) + self.pool(slots).sum() * 0

    source = wrapped(Pooling())
    record = attnviz.analyze(TEXT, source, Edits(heads_off={(Site("decoder", 1), 0)}))

    assert source.sites == record.sites == (Site("decoder", 0), Site("decoder", 1))
    assert "(pool) has 1 x 2 queries" in source.unseen


def test_pieces_stand_in_the_text_and_are_joined():
    """With the marks of tokenizers, whatever the case; what is in no text is special if it looks so."""
    strings = ["[CLS]", "the", "un", "##real", "Ġcat", ".", "<eos>", "#7"]
    source = attnviz.wrap(Writer(), lambda text: [*range(8)], "The unreal cat.", words=strings)
    tokens = source.tokenize(["The unreal cat."])[0].tokens

    assert [(token.start, token.end) for token in tokens[1:6]] == [(0, 3), (4, 6), (6, 10), (11, 14), (14, 15)]
    assert [token.joined for token in tokens] == [False, False, False, True, False, False, False, False]
    assert [token.special for token in tokens] == [True, False, False, False, False, False, True, False]


def test_a_model_that_classifies_has_labels():
    """By the names in its configuration, else by numbers; words of its vocabulary are none."""

    class Judge(Writer):
        def forward(self, ids):
            return super().forward(ids)[:, -1, :3]

    model = Judge()
    names, logits = attnviz.analyze(TEXT, wrapped(model)).labels
    assert (names, logits.shape) == (("0", "1", "2"), (1, 3))

    model.config = SimpleNamespace(id2label={0: "good", 2: "bad"})
    assert attnviz.analyze(TEXT, wrapped(model)).labels[0] == ("good", "1", "bad")


def test_what_cannot_be_wrapped_is_said_in_one_sentence():
    """A tokenizer that does not know the text, a model without attention, and what is no model."""
    with pytest.raises(InputError, match=r"Line \d+ of own_models\.py raised KeyError: 'The'"):
        attnviz.wrap(Writer(), tokenize)
    with pytest.raises(AttnvizError, match="No attention was captured in Embedding"):
        attnviz.wrap(nn.Embedding(8, 4), tokenize, TEXT)
    with pytest.raises(InputError, match=r"give a torch\.nn\.Module"):
        attnviz.wrap(len, tokenize, TEXT)
    with pytest.raises(InputError, match="makes no tokens of"):
        attnviz.wrap(Writer(), lambda text: [], TEXT)


# One input of any kind: a record, or a function from edits to one


@pytest.fixture
def look():
    """A run of a model on a picture, with edits."""
    seen_by(model := Sees(), PICTURE)

    def look(edits):
        with torch.no_grad(), attnviz.capture(model, edits) as seen:
            model(PICTURE[None])
        return seen.record(places=(3, 5), image=PICTURE)

    return look


def test_a_function_of_edits_is_a_source(look):
    """Whatever the model reads: heads are switched off in it, and each head in turn."""
    source = Recorded.of(look)
    (text,) = source.examples
    off = attnviz.analyze(text, source, Edits(heads_off={(Site("encoder", 0), 1)}))

    assert (source.name, source.read_only, source.site_name(Site("encoder", 0))) == (
        "Sees",
        None,
        "encoder layer 0 · attention",
    )
    assert attnviz.analyze(text, source).steps is source.record.steps
    assert off.step(Site("encoder", 0)).is_off(1)
    assert not torch.equal(off.output, source.record.output)
    assert len(sweep(source, source.tokenize([text])).heads) == 3


def test_a_record_reads_its_own_text_alone(look):
    """A change acts on its attention, and it says how far that reaches."""
    source = Saved("one run", look(Edits()))
    (text,) = source.examples

    assert "the rest of the model is not in the file" in source.alone
    assert attnviz.analyze(text, source, Edits(temperature=2.0)).step(Site("encoder", 0)).scoring.temperature == 2
    with pytest.raises(InputError, match="the rest of the model is not in the file"):
        sweep(source, source.tokenize([text]))
    with pytest.raises(InputError, match="holds one run"):
        attnviz.analyze("another text", source)


def test_what_changes_tokens_is_refused(look):
    """A leak test would say of a picture that nothing moved, as its tokens are names alone."""
    source = Recorded.of(look)
    with pytest.raises(InputError, match="holds one run"):
        leak_test(source)


def test_a_function_that_gives_something_else_is_refused(look):
    with pytest.raises(InputError, match="it takes Edits and gives a Record"):
        Recorded.of(lambda edits: 3)
    with pytest.raises(InputError, match=r"Line \d+ of test_wrapped\.py raised ZeroDivisionError"):
        Recorded.of(lambda edits: 1 / 0)
