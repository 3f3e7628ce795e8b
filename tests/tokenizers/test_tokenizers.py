"""Laws of every tokenizer, over any text."""

import json
import os
import subprocess
import sys
from itertools import pairwise

import pytest
from examples import some
from hypothesis import example, given
from hypothesis import strategies as st

from attnviz import tokenizers
from attnviz.core.errors import InputError

ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(
    st.sampled_from("aZé1.'- \n\r\u0301\u200d\u0600\x00\x1c<>猫🇩👩🏽\ufe0f\u20e3क\u094d\ud800\udfff\ufffe"), max_size=30
)
"""Lone surrogates and control characters among them."""

EVERY = pytest.mark.parametrize("name", tokenizers.NAMES)
TEXTS = ["The cat sat on the mat", "don't  stop", " é猫👩‍👩‍👧\n", "\ud800 \x00", "<pad> x"]


@EVERY
@given(text=ANY_TEXT)
@example(text="🇩🇪🇫🇷 e\u0301 \ud83d\ude00 a\u0000b")
def test_every_token_holds_the_text_of_its_span(name, text):
    """A label on an axis is what stands in the sentence."""
    for token in tokenizers.load(name).encode(text):
        assert token.start < token.end
        assert token.text == text[token.start : token.end]
        assert not token.special


@EVERY
@given(text=ANY_TEXT)
def test_nothing_typed_is_lost(name, text):
    """Every character that is not whitespace is in a token."""
    covered = {place for token in tokenizers.load(name).encode(text) for place in range(token.start, token.end)}

    assert {place for place, character in enumerate(text) if not character.isspace()} <= covered


@given(text=ANY_TEXT)
def test_pieces_stand_in_order_and_share_a_character_only_where_it_was_cut(text):
    """Only the bytes of one character outside ASCII are told apart by no span."""
    tokens = tokenizers.load("bpe").encode(text)

    for one, other in pairwise(tokens):
        assert one.start <= other.start
        assert one.end <= other.end
        if one.end > other.start:
            assert one.end - other.start == 1
            assert ord(text[other.start]) > 127


@EVERY
@given(text=ANY_TEXT)
def test_a_token_has_the_same_id_wherever_it_stands(name, text):
    """Ids are numbers of pieces, apart from those of the special tokens."""
    tokenizer = tokenizers.load(name)
    once, twice = tokenizer.encode(text), tokenizer.encode(f"{text}\n{text}")

    assert [token.id for token in twice[len(twice) - len(once) :]] == [token.id for token in once]
    assert all(2 < token.id < 2**48 for token in once)


@pytest.mark.parametrize("seed", some(["1", "2"], 1))
def test_ids_are_the_same_in_every_run_of_python(seed):
    """A picture made from a link is the picture that was linked."""
    say = "from attnviz import tokenizers as t; print([[k.id for k in t.load(n).encode('The cat é')] for n in t.NAMES])"
    there = subprocess.run(
        [sys.executable, "-c", say],
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(there.stdout)[0][:2] == [
        20442307232627,
        28490760094753,
    ]  # another id changes every random picture
    assert json.loads(there.stdout) == [
        [token.id for token in tokenizers.load(name).encode("The cat é")] for name in tokenizers.NAMES
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat sat, didn't it?", "The|cat|sat|,|didn't|it|?"),
        ("a well-known don’t - 'so'", "a|well-known|don’t|-|'|so|'"),
        ("3.14 and 1,000.", "3.14|and|1,000|."),
        ("snake_case (x)", "snake|_|case|(|x|)"),
        ("...", ".|.|."),
        ("e\u0301t\u00e9", "e\u0301t\u00e9"),
        ("我爱猫 cat猫", "我|爱|猫|cat|猫"),
        ("می‌خواهم हिन्दी", "می‌خواهم|हिन्दी"),
        ("👩‍👩‍👧ok🇩🇪🇫🇷👍🏽1️⃣!", "👩‍👩‍👧|ok|🇩🇪|🇫🇷|👍🏽|1️⃣|!"),
        ("a\u00a0b\tc\r\nd", "a|b|c|d"),
        ("</script>", "<|/|script|>"),
    ],
)
def test_words_are_what_a_reader_calls_words(text, words):
    assert [token.text for token in tokenizers.load("words").encode(text)] == words.split("|")


def test_characters_are_what_a_reader_counts():
    """Families, flags and accents stay whole; whitespace is a character too."""
    tokens = tokenizers.load("characters").encode("e\u0301 👩‍👩‍👧🇩🇪🇫🇷\r\n")

    assert [token.text for token in tokens] == ["e\u0301", " ", "👩‍👩‍👧", "🇩🇪", "🇫🇷", "\r\n"]


def test_common_words_are_one_piece_and_rare_ones_are_cut_where_it_makes_sense():
    """A continuation is marked as joined to the piece before it."""
    common = tokenizers.load("bpe").encode("The cat sat on the mat because it was tired.")
    rare = tokenizers.load("bpe").encode("unbelievable tokenization")

    assert [token.text for token in common] == "The cat sat on the mat because it was tired .".split()
    assert not any(token.joined for token in common)
    assert [(token.text, token.joined) for token in rare] == [
        ("un", False),
        ("believ", True),
        ("able", True),
        ("token", False),
        ("ization", True),
    ]


def test_bytes_of_one_character_share_its_span():
    """The text of a piece can be read, where the byte cannot."""
    first, *rest = (token for token in tokenizers.load("bpe").encode("a 猫") if token.text == "猫")

    assert len(rest) == 2
    assert {(token.start, token.end, token.joined) for token in rest} == {(2, 3, True)}
    assert not first.joined


def test_a_typed_special_token_is_text():
    """Nobody can smuggle padding into a sentence."""
    for name in tokenizers.NAMES:
        assert len(tokenizers.load(name).encode("<pad>")) > 1


N = 100_000


@pytest.mark.parametrize("name", tokenizers.NAMES)
@pytest.mark.parametrize(
    "text", some(["🇩" * N, "a-" * N, "a" + "\u0301" * N, "a" * N, " " * N], 2), ids=lambda text: ascii(text[:2])
)
def test_long_runs_take_linear_time(name, text):
    """A run of 100,000 flags took the Unicode library 46 s; the test would not end if it came back."""
    tokenizers.load(name).encode(text)


def test_an_unknown_tokenizer_is_answered_with_those_that_exist():
    with pytest.raises(InputError, match=r"no tokenizer 'letters'. Available tokenizers: words, characters, bpe\."):
        tokenizers.load("letters")


@EVERY
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=4), sos=st.booleans(), eos=st.booleans())
@example(texts=TEXTS, sos=True, eos=True)
def test_a_batch_is_padded_at_the_end_to_one_length(name, texts, sos, eos):
    """Padding is there, is special, stands nowhere in the text, and is not counted."""
    tokenizer = tokenizers.load(name)
    own = [tokenizer.encode(text) for text in texts]
    if not all(own):
        with pytest.raises(InputError, match=f"Sentence {own.index(()) + 1} "):
            tokenizers.batch(tokenizer, texts, sos=sos, eos=eos)
        return

    sentences = tokenizers.batch(tokenizer, texts, sos=sos, eos=eos)

    assert {len(sentence.tokens) for sentence in sentences} == {max(map(len, own)) + sos + eos}
    for text, tokens, sentence in zip(texts, own, sentences, strict=True):
        assert sentence.text == text
        assert sentence.length == len(tokens) + sos + eos
        assert sentence.tokens[sos : sos + len(tokens)] == tokens
        padding = sentence.tokens[sentence.length :]
        assert all((token.text, token.id, token.special) == ("<pad>", 0, True) for token in padding)
        assert all(token.start == token.end == len(text) for token in padding)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "There is no sentence; type at least one."),
        (["a", ""], "Sentence 2 is empty; type at least one word in it."),
        (["a", "b", " \n"], "Sentence 3 holds only whitespace; type at least one word in it."),
    ],
)
def test_nothing_to_cut_is_one_plain_sentence(texts, message):
    with pytest.raises(InputError) as caught:
        tokenizers.batch(tokenizers.load("words"), texts)

    assert str(caught.value) == message
