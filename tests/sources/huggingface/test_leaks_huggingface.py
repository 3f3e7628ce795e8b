"""Leak tests of models of Hugging Face: every kind keeps to its masks, and one that is switched off is found out."""

import pytest
from families import build, save, words

from attnviz.check.leak_test import leak_test
from attnviz.core.edits import Edits
from attnviz.core.masks import Documents, Window
from attnviz.sources.huggingface.source import HuggingFace

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
TEXT = "w5 w6 w7 w8 w9 w10 w11"
N = 7


@pytest.fixture
def opened(tmp_path):
    """Function that saves a tiny model, and opens it as a source."""
    return lambda family, ends=False: HuggingFace(save(tmp_path / family, build(family), words(ends)))


def probed(opened: HuggingFace, text=TEXT, edits=Edits(), **asked):
    return leak_test(opened, opened.tokenize([text]), edits, **asked)


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
    model, packed = opened("Bert", ends=True), Documents((4, 5))

    assert probed(model, edits=Edits(packed)).pairs == ()
    leaking = probed(model, promised=packed)
    assert leaking.tested.tolist() == [False] + [True] * N + [False]
    assert len(leaking.pairs) == 4 * 4 + 5 * 3


def test_padding_that_a_model_never_gets_is_said_not_to_be_tested(opened):
    model = opened("Bert")
    test = leak_test(model, model.tokenize(["w5 w6", TEXT]), Edits(Window(1, 1)))

    assert test.pairs == ()
    assert test.tested.tolist() == [True, True] + [False] * 5
    assert "positions 2, 3, 4, 5, 6 moves no output" in " ".join(test.notes)


@pytest.mark.parametrize("family", ["T5", "Marian"])
def test_an_encoder_with_a_decoder_is_tested_on_what_its_decoder_reads(opened, family):
    """The decoder reads the text that the model wrote."""
    model = opened(family)
    test = probed(model, edits=Edits(Window(2)))
    off = probed(model, edits=Edits(own_mask=False), targets=model.tokenize([TEXT]))

    assert test.pairs == ()
    assert test.tested.sum() > 4
    assert set(off.pairs) >= {(0, 3), (2, 3), (3, 4)}
