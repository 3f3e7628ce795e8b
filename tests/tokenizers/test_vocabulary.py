"""Words of a fixed vocabulary: what is known, what is not and what is like it, and words put together to a text."""

import json

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.errors import AttnvizError
from attnviz.tokenizers import SPECIAL, Words, vocabulary
from attnviz.tokenizers.vocabulary import UNK, Vocabulary

ENGLISH, FRENCH = Vocabulary(tuple(tiny.ENGLISH)), Vocabulary(tuple(tiny.FRENCH))

WORDS = st.lists(
    st.sampled_from([*tiny.ENGLISH, "The", "CAT", "zebra", "l'", "<pad>", "<unk>", "é", "\ud800"]), max_size=8
)


def labels(text, words=ENGLISH):
    return [token.text for token in words.encode(text)]


@given(text=WORDS.map(" ".join) | st.text(st.characters(exclude_categories=())))
def test_tokens_stand_where_their_words_stand(text):
    """Known or not, they cut the text like the tokenizer of words; only a known one holds its text."""
    cut, tokens = Words().encode(text), ENGLISH.encode(text)

    assert [(token.start, token.end) for token in tokens] == [(token.start, token.end) for token in cut]
    for token in tokens:
        typed = text[token.start : token.end]
        known = typed in tiny.ENGLISH or typed.lower() in tiny.ENGLISH
        assert token.text == (typed if known else f"{typed}(?)")
        assert not token.special
        assert known == (token.id > 3)
        assert token.id < len(ENGLISH)


def test_ids_are_special_tokens_then_words_in_their_order():
    """As the rows of the weights are."""
    assert ENGLISH.names[:4] == (*SPECIAL, UNK) == ("<pad>", "<sos>", "<eos>", "<unk>")
    assert [token.id for token in ENGLISH.encode("the a . zebra")] == [4, 5, 4 + tiny.ENGLISH.index("."), 3]
    assert len(ENGLISH) == len(tiny.ENGLISH) + 4
    assert ENGLISH.ids(["The", "cat", UNK]) == [4, 8, 3]


def test_words_are_looked_up_as_typed_then_in_lower_case():
    """A sentence may begin with a capital, and a phone types a curly apostrophe."""
    words = Vocabulary(("mark", "Mark", "I", "didn't"))

    assert [token.id for token in words.encode("mark Mark MARK I i Didn’t")] == [4, 5, 4, 6, 3, 7]
    assert labels("MARK Mark", words) == ["MARK", "Mark"]


def test_unknown_words_are_named_once_with_known_ones_like_them():
    assert ENGLISH.unknown("the Zebra catt, zebra Zebra .") == ("Zebra", "catt", "zebra")
    assert ENGLISH.nearest("catt")[0] == "cat"
    assert ENGLISH.nearest("MATS")[0] == "mat"
    assert ENGLISH.nearest("quixotic") == Vocabulary(("red",)).nearest("bored") == ()
    assert len(ENGLISH.nearest("at")) <= 3


def test_a_missing_word_is_named_where_all_must_be_known():
    with pytest.raises(AttnvizError, match=r"^The vocabulary has no 'zebra'\.$"):
        ENGLISH.ids(["the", "zebra"])


@pytest.mark.parametrize("special", [*SPECIAL, UNK])
def test_a_typed_special_token_is_text(special):
    """Nobody can end a sentence, or hide one, by typing."""
    tokens = ENGLISH.encode(f"the {special} cat")

    assert [token.text for token in tokens] == [
        "the",
        *(f"{part}(?)" for part in (special[0], special[1:-1], special[-1])),
        "cat",
    ]
    assert ENGLISH.unknown(special) == ("<", special[1:-1], ">")


# Words put together


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", ""),
        ("<sos>", ""),
        ("<sos> le chat dort .", "le chat dort."),
        ("<sos> l' oiseau , le chat", "l'oiseau, le chat"),
        ("le chat ?", "le chat?"),
        ("l'", "l'"),
        (". . l' l' .", ".. l'l'."),
        ("<unk> dort", "<unk> dort"),
        ("<sos> le <eos>", "le"),
    ],
)
def test_a_text_is_put_together_as_it_is_spelled(words, text):
    """No space before a mark of punctuation, none after an elision; special tokens are not in it."""
    assert FRENCH.sentence([FRENCH.names.index(word) for word in words.split()], 1).text == text


@given(ids=st.lists(st.integers(0, len(FRENCH) - 1), max_size=12))
def test_every_written_token_holds_its_place_in_the_text(ids):
    """Special tokens stand nowhere; the others in order, with at most a space between; nothing else is in the text."""
    sentence = FRENCH.sentence(ids, len(ids))
    end = 0
    for token, id in zip(sentence.tokens, ids, strict=True):
        assert token.id == id
        assert token.special == (id < 3)
        if token.special:
            assert token.start == token.end == end
        else:
            assert sentence.text[token.start : token.end] == token.text == FRENCH.names[id]
            assert sentence.text[end : token.start] in ("", " ")
            end = token.end
    assert end == len(sentence.text)


# Files


def test_the_vocabularies_of_a_file_keep_their_order(tmp_path):
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps({"z": tiny.ENGLISH, "a": tiny.FRENCH}), "utf-8")

    assert vocabulary.read(path) == {"z": ENGLISH, "a": FRENCH}
    assert list(vocabulary.read(path)) == ["z", "a"]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", None])
def test_a_damaged_file_is_named_in_one_sentence(tmp_path, content):
    path = tmp_path / "mine" / "vocabulary.json"
    path.parent.mkdir()
    if content:
        path.write_bytes(content)

    with pytest.raises(AttnvizError, match=r"^The vocabulary mine/vocabulary\.json is missing or damaged\.$"):
        vocabulary.read(path)
