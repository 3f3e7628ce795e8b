"""The sentence shaded by the attention from a token, or to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import SITE, data, legend, lines, record_of, text_strip, translation_of

from attnviz.charts import pixels
from attnviz.charts.theme import LIGHT
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent
from attnviz.figures import text_strip as strip_figure
from attnviz.figures.text_strip import MOST_TOKENS, WIDTH, balance_lines

WORDS = ["The", "cat", "sat", "down", "there"]
TABLE = "tokens"


def numbers(chart):
    """The weights in digits."""
    return [row["number"] for row in data(chart, TABLE)]


@pytest.mark.parametrize("side", ["from", "to"])
def test_each_token_is_shaded_by_its_weight(side):
    """From a token along its row, to a token along its column; the weight is written under each."""
    record = record_of(WORDS)
    weights = record.step(SITE).weights(1)
    row = (weights[2] if side == "from" else weights[:, 2]).tolist()
    chart = text_strip(record, SITE, 1, chosen=2, side=side, domain="fixed")

    assert [token["text"] for token in data(chart, TABLE)] == WORDS
    assert [token["fill"] for token in data(chart, TABLE)] == [pixels.color_at(weight, LIGHT) for weight in row]
    assert numbers(chart) == [f"{weight:.2f}" for weight in row]


@pytest.mark.parametrize("side", ["from", "to"])
def test_of_cross_attention_both_texts_stand_there(side):
    """Queries are the decoder's words and keys the encoder's, and a click knows which it was; one text is shaded."""
    record = translation_of(["the", "cat"], {"le": 0.9}, {"chat": 0.9}, {"<eos>": 0.9})
    chart = text_strip(record, Site("cross", 0), 0, chosen=1, side=side)
    tokens = data(chart, TABLE)

    assert {(t["text"], t["query"]) for t in tokens if t["key"] < 0} == {("<sos>", 0), ("le", 1), ("chat", 2)}
    assert {(t["text"], t["key"]) for t in tokens if t["query"] < 0} == {("the", 0), ("cat", 1)}
    assert {t["text"] for t in tokens if t["weight_text"]} == (
        {"the", "cat"} if side == "from" else {"<sos>", "le", "chat"}
    )


@given(st.lists(st.floats(1, 90), min_size=1, max_size=30), st.integers(90, 400))
def test_a_text_is_broken_into_as_few_lines_as_fit_and_the_longest_is_no_longer_than_it_must_be(wides, most):
    """No line is longer than there is room; in eight pixels less there would be more lines."""

    def ends(width):
        placed = balance_lines(wides, [5.0] * len(wides), width)
        return placed, {line: x + wide for (x, line), wide in zip(placed, wides, strict=True)}

    placed, lines = ends(most)
    longest = max(lines.values())

    assert [line for _, line in placed] == sorted(line for _, line in placed)
    assert longest <= most
    assert len(ends(longest - 8)[1]) > len(lines) or longest - 8 < max(wides) or longest <= 8


def test_what_is_blocked_has_no_shade_and_no_number():
    """A dash stands in place of the weight, and the legend says what the gray ground means."""
    chart = text_strip(record_of(WORDS, edits=Edits(mask=Subsequent())), SITE, 0, chosen=1)

    assert [token["fill"] == LIGHT.blocked for token in data(chart, TABLE)] == [False, False, True, True, True]
    assert numbers(chart)[2:] == ["–"] * 3
    assert "blocked by causal mask" in legend(chart)


def test_a_text_from_right_to_left_begins_at_the_right():
    tokens = data(text_strip(record_of(["ארנב", "לבן", "קטן"]), SITE, 0), TABLE)

    assert tokens[0]["x2"] == WIDTH
    assert [token["x"] for token in tokens] == sorted((token["x"] for token in tokens), reverse=True)


def test_of_too_many_tokens_a_window_is_drawn_and_said():
    """The chosen token and its strongest key are in it."""
    record = record_of([f"w{i}" for i in range(MOST_TOKENS + 90)], scores={(0, 480, 3): 50.0})
    chart = text_strip(record, SITE, 0, chosen=480)

    assert len([token for token in data(chart, TABLE) if token["weight_text"]]) == MOST_TOKENS
    assert "1.0000" in [token["weight_text"] for token in data(chart, TABLE)]
    assert "the map shows all" in " ".join(lines(chart))


@pytest.mark.parametrize(
    ("chosen", "side", "message"), [(5, "from", "no token 5"), (0, "of", "Available sides: from, to")]
)
def test_what_is_not_there_is_refused_with_a_sentence(chosen, side, message):
    with pytest.raises(InputError, match=message):
        text_strip(record_of(WORDS), SITE, 0, chosen=chosen, side=side)


def test_the_numbers_of_the_figure_are_those_of_the_token():
    """The table holds the cells of its row or column alone; the arrays the weights."""
    record = record_of(WORDS)
    weights = record.step(SITE).weights(0).numpy()
    looks, looked = (strip_figure(record, SITE, 0, chosen=2, side=side) for side in ("from", "to"))

    assert np.array_equal(looks.table["weight"], weights[2])
    assert set(looks.table["query"]) == {2}
    assert np.array_equal(looked.arrays["weights"], weights[:, 2])
    assert set(looked.table["key"]) == {2}
    most = int(weights[2].argmax())
    assert f"“sat” (2) looks most at “{WORDS[most]}” ({most}) {weights[2, most]:.2f}" in looks.description
