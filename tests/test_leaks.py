"""Leak tests of whole models: ours never see what their masks hide, and each leak that is made is found where it is."""

from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

import pytest
import tiny
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

import attnviz
from attnviz.analysis import sentences
from attnviz.check.leak_test import leak_test
from attnviz.check.leaks import LeakTest
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.masks import Documents, Full, Not, Padding, Subsequent, Window
from attnviz.sources.scratch import Constructed, Scratch
from attnviz.sources.trained import Trained

WORDS = "one two three four five six seven"
N = 7
SMALL = Scratch(d_model=12, num_heads=3)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield tiny.install(tmp_path_factory.mktemp("assets"), patch)
    tiny.forget()


def probed(source, text=WORDS, edits=Edits(), **asked) -> LeakTest:
    texts = [text] if isinstance(text, str) else text
    return leak_test(source, source.tokenize(texts), edits, **asked)


def future(n, *left_out):
    """Cells above the diagonal, but for the columns that are left out."""
    cells = torch.ones(n, n, dtype=torch.bool).triu(1)
    cells[:, list(left_out)] = False
    return cells


rules = st.one_of(
    st.just(Subsequent()),
    st.builds(Window, st.integers(0, 3), st.integers(0, 2)),
    st.builds(Documents, st.lists(st.integers(1, 4), min_size=1, max_size=3)),
)


def reached(mask, size, layers):
    """Inputs (size, size) to which a path of so many steps leads; the residual connection keeps a position's own."""
    step = (mask.grid(size, size) | torch.eye(size, dtype=torch.bool)).float()
    return torch.linalg.matrix_power(step, layers) > 0


@examples(12)
@given(st.lists(rules, min_size=1, max_size=3), st.integers(1, 3))
def test_a_stack_sees_exactly_as_far_as_its_masks_reach(masks, layers):
    """Random weights move every output that a path of `layers` steps leads to, and no other."""
    mask = reduce(and_, masks)

    test = probed(replace(SMALL, num_layers=layers), edits=Edits(mask))

    assert test.promised.equal(reached(mask, N, layers))
    assert test.saw.equal(test.promised)
    assert test.pairs == ()


def test_a_forgotten_mask_leaks_in_every_cell_that_it_promised_to_close():
    assert probed(SMALL, promised=Subsequent()).leaks.equal(future(N))
    assert probed(SMALL, promised=Full()).pairs == ()


def test_padding_is_hidden_from_words_until_its_mask_is_off():
    """The padding of a batch stands at the end."""
    texts = ["one two three", WORDS]

    own, off = probed(SMALL, texts), probed(SMALL, texts, Edits(own_mask=False))

    assert own.pairs == ()
    assert not own.saw[:3, 3:].any()
    assert {key for query, key in off.pairs if query < 3} == set(range(3, N))


def test_padding_on_the_left_is_hidden_too_but_not_where_a_row_is_empty_and_uniform():
    """With a subsequent mask the first rows have no key left; spread evenly, they see everything."""
    left = Subsequent() & Padding((4,), left=N)

    for policy in ("zero", "nan"):
        assert probed(SMALL, edits=Edits(left, empty_rows=policy)).pairs == ()
    uniform = probed(SMALL, edits=Edits(left, empty_rows="uniform"))
    assert {query for query, _ in uniform.pairs} == {0, 1, 2}


@pytest.mark.parametrize("source", [lambda: Trained("story"), lambda: Trained("translator"), Constructed])
def test_models_keep_to_their_masks(source):
    assert probed(source(), "the black cat sleeps").pairs == ()


def test_a_decoder_without_its_mask_sees_all_of_the_future():
    """Also where only its own mask is switched off: it is still promised. <sos> is left as it is, and said so."""
    test = probed(Trained("story"), "the black cat sleeps", Edits(own_mask=False))

    assert test.leaks.equal(future(5, 0))
    assert test.tested.tolist() == [False, True, True, True, True]
    assert test.notes == ("special tokens are left as they are, at position 0",)
    assert test.promise == "causal, through 2 layers"


def test_a_decoder_promises_to_hide_the_future_even_where_its_mask_does_not():
    """As a model would whose mask was forgotten in its own code."""

    class Forgetful(Trained):
        def run(self, sentences, edits=Edits(), targets=()):
            return super().run(sentences, replace(edits, own_mask=False), targets)

    assert probed(Forgetful("story"), "the black cat sleeps").leaks.equal(future(5, 0))


def test_a_single_word_is_changed_into_a_known_one():
    assert probed(Trained("story"), "cat").saw[1, 1]
    assert probed(SMALL, "alone").saw.all()
    assert probed(SMALL, "same same same").saw.all()


@dataclass(frozen=True)
class Leaky(Scratch):
    """Adds a share of the next position's output to each, beside all attention; and noise, if asked for."""

    share: float = 0.001
    noise: float = 0.0

    def run(self, sentences, edits=Edits(), targets=()):
        record = super().run(sentences, edits)
        output = record.output + self.share * record.output.roll(-1, 1)
        return replace(record, output=output + self.noise * torch.randn_like(output))


def test_a_leak_that_is_not_in_the_attention_is_found():
    test = probed(Leaky(d_model=12, num_heads=3, num_layers=1), edits=Edits(Subsequent()))

    assert test.pairs == (*((i, i + 1) for i in range(N - 1)),)


def test_what_is_within_the_noise_is_no_leak():
    """The tolerance grows with what equal inputs differ by; beyond a share of it nothing can be compared."""
    steady, noisy = (probed(Leaky(share=0.0, noise=noise), edits=Edits(Subsequent())) for noise in (0.0, 1e-4))

    assert steady.noise < 1e-6  # equal rows of a batch may be rounded otherwise
    assert noisy.noise > 1e-5
    assert noisy.tolerance == pytest.approx(10 * noisy.noise)
    assert noisy.pairs == steady.pairs == ()
    assert noisy.moved[0, 3] > steady.tolerance
    with pytest.raises(InputError, match="The same input gives outputs that differ by"):
        probed(Leaky(noise=1.0))


def test_a_token_that_never_reaches_the_model_is_not_probed():
    """A source that hides what stands at position 2."""

    class Deaf(Scratch):
        def run(self, sentences, edits=Edits(), targets=()):
            plain = sentences[0].tokens[2]
            heard = (replace(one, tokens=(*one.tokens[:2], plain, *one.tokens[3:])) for one in sentences)
            return super().run(tuple(heard), edits)

    test = probed(Deaf(d_model=12, num_heads=3))

    assert test.tested.tolist() == [True, True, False, True, True, True, True]
    assert any("position 2 moves no output" in note for note in test.notes)


def test_tokens_of_a_long_text_are_changed_in_parts_and_evenly_spaced():
    """In a text of 70 tokens every second token is changed."""
    text, counts = " ".join(f"w{i}" for i in range(70)), []
    test = probed(SMALL, text, Edits(Subsequent()), report=lambda done, of: counts.append(done))

    assert test.tested.tolist() == [True, False] * 35
    assert len(counts) > 1
    assert test.pairs == ()
    assert test.saw.equal(test.promised & test.tested)


def test_where_nothing_is_hidden_nothing_is_tested():
    """Nor where every key is blocked: the mask is then called that."""
    blocked = probed(SMALL, edits=Edits(Subsequent() & Not(Subsequent())))

    assert not probed(SMALL).is_tested
    assert "no token is hidden from any output" in sentences.count_of_leaks(probed(SMALL))
    assert not blocked.is_tested
    assert "no output moved with another token" in sentences.count_of_leaks(blocked)
    assert probed(SMALL, edits=Edits(Subsequent())).is_tested


def test_a_tokenizer_that_knows_its_own_words_alone_is_tested():
    """No word changes anything, and no other word is left to try."""
    names = "<pad> the cat sat".split()
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)
    model = torch.nn.Sequential(torch.nn.Embedding(len(names), 4, _weight=torch.zeros(len(names), 4)), model).eval()
    source = attnviz.wrap(model, lambda text: [names.index(word) for word in text.split()], "the cat", words=names)

    assert not leak_test(source, "the cat sat").is_tested
