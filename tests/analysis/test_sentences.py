"""Sentences about records."""

import pytest
from pictures import CROSS, SITE, record_of, story_of, translation_of

from attnviz import figures
from attnviz.analysis import sentences
from attnviz.core.edits import Edits
from attnviz.core.masks import Subsequent

HEBREW = ["שלום", "עולם", "cat"]


@pytest.mark.parametrize(("text", "quoted"), [("cat", "“cat” (1)"), ("עולם", "\u2068“עולם”\u2069 (1)")])
def test_a_token_from_right_to_left_does_not_reorder_its_sentence(text, quoted):
    """Between isolates, the position after a Hebrew token stays behind it; plain text is left as it is."""
    assert sentences.quoted_token(text, 1) == quoted


def test_every_sentence_sets_its_tokens_apart():
    """In each, as many isolates as Hebrew tokens, and all of them closed."""
    record, after = record_of(HEBREW), record_of(HEBREW, edits=Edits(mask=Subsequent()))
    said = [
        sentences.cell(record, SITE, 0, 0, 1),
        sentences.cell(after, SITE, 0, 0, 1),
        figures.head(record, SITE, 0).description,
        figures.change(record, after).description,
        figures.mask(Subsequent(), HEBREW[:2]).description,
    ]

    for sentence in said:
        tokens = sentence.count("שלום") + sentence.count("עולם")
        assert tokens > 0
        assert sentence.count("\u2068") == sentence.count("\u2069") == tokens


def test_a_cell_says_what_its_query_reads_and_predicts():
    """Also at <sos>; after padding nothing is predicted."""
    record = translation_of(["the", "cat"], {"le": 1.0}, {"chat": 1.0}, {"<eos>": 1.0})
    story = story_of(["the", "<pad>"], {"cat": 1.0}, {"x": 1.0}, length=1)
    weight = float(record.step(CROSS).weights(0)[1, 1])

    assert sentences.cell(record, CROSS, 0, 1, 1) == (
        f"To predict the next word “chat”, “le” (1) gives {weight:.2f} of its attention to “cat” (1)."
    )
    assert sentences.cell(record, CROSS, 0, 0, 0).startswith("To predict the next word “le”, “<sos>” (0) gives")
    assert "“<sos>” (0), predicting the next word “le”, looks most at" in figures.head(record, CROSS, 0).description
    assert "the next word “<eos>” (end of text), “chat” (2) gives" in sentences.cell(record, CROSS, 0, 2, 1)
    assert sentences.quoted_token("<eos>", 8) == "“<eos>” (8, end of text)"
    assert "predicting" not in sentences.cell(story, SITE, 0, 1, 0)


END = {"<eos>": 1.0, "la": 0.0, "le": 0.0}
LA, LE = {"la": 0.9, "le": 0.1}, {"la": 0.2, "le": 0.8}


def test_next_words_in_words():
    one, other = story_of(["the"], LA), story_of(["the"], LE)
    others = translation_of(["x"], LA, LE, END), translation_of(["x"], LE, LE, END)

    assert sentences.next_word(one, 0) == "Most probable after “the” (0): “la” 90.0%, “le” 10.0%."
    assert sentences.next_word(other, 0, before=one, count=1) == (
        "Most probable after “the” (0): “le” 80.0% (before the change 10.0%), “la” 20.0% (before the change 90.0%)."
    )
    text = sentences.next_word(others[1], 1, before=others[0], count=1)
    assert text == f"Most probable after “le” (1): “le” 80.0%. {sentences.OTHER_WORDS}."


def test_step_by_step_in_words():
    one, other = story_of(["a", "b"], LA, LE), story_of(["a", "b"], LA, LA)

    text = "After each of 2 tokens, the most probable next word. The least certain: “la” 90.0%, after “a” (0)."
    assert sentences.step_by_step(other) == text
    assert sentences.step_by_step(story_of(["a"], LA)).startswith("After 1 token, the")
    assert sentences.step_by_step(other, before=other) == f"{text} All are as before the change."
    assert sentences.step_by_step(other, before=one) == (
        f"{text} 1 differs from before the change: “la” after “b” (1), before “le”."
    )
