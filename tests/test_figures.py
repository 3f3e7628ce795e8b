"""Figures: pictures with their names, words and numbers."""

import math
import re

import numpy as np
import pytest
from pictures import HOSTILE, SITE, record_of, story_of, written

from attnviz import Site, analyze, figures
from attnviz.analysis import predicted_words, sentences
from attnviz.core.edits import Edits
from attnviz.core.masks import Painted, Subsequent
from attnviz.figures.lens import MOST_POSITIONS
from attnviz.ui import readout

WORDS = ["The", "cat", "sat"]


def every_figure(words, **settings):
    record, after = record_of(words, **settings), record_of(words, edits=Edits(mask=Subsequent()))
    story = story_of(words, *({word: 1.0} for word in words))
    return (
        figures.head(record, SITE, 1),
        figures.head(after, SITE, "mean", row_sums=True),
        figures.heads(record, SITE),
        figures.mask(Subsequent(), words, predicted=words),
        figures.change(record, after),
        figures.next_word(story, len(words) - 1, before=story),
        figures.step_by_step(story, before=story),
        figures.step_by_step(story),
    )


@pytest.mark.parametrize("words", [WORDS, list(HOSTILE), ["w"] * 60, ["x"]])
def test_every_figure_is_whole(words):
    """A safe name, a title, a description, a chart, a table and arrays."""
    for figure in every_figure(words):
        assert re.fullmatch(r"[A-Za-z0-9-]{1,80}", figure.name)
        assert figure.title
        assert figure.title.encode()
        assert figure.description.encode()
        assert {"layer", "hconcat"} & {*written(figure.chart)}
        assert readout.screen(figure)[0]["$schema"]
        assert len(figure.table)
        assert all(isinstance(array, np.ndarray) for array in figure.arrays.values())


def test_a_name_says_what_is_shown():
    record = record_of(WORDS)

    assert figures.head(record, SITE, 1).name == "test-encoder-layer-0-head-1-The-cat-sat"
    assert figures.heads(record, SITE).name == "test-encoder-layer-0-heads-The-cat-sat"
    assert figures.mask(Subsequent(), WORDS).name == "mask-causal-The-cat-sat"
    assert figures.head(record_of(["Ça", "../etc", "猫"]), SITE, 0).name.endswith("head-0-Ca-etc")


def test_a_name_ends_with_what_was_changed():
    """Files of the same head with and without edits stand beside each other; of a long name the sentence is cut."""
    edits = Edits(mask=Subsequent(), heads_off=frozenset({(SITE, 1)}), temperature=0.5, empty_rows="nan")
    short, long = (record_of(words, edits=edits) for words in (WORDS, ["word"] * 30))

    end = "-causal-off-0-1-temperature-0-5-empty-nan"
    plain = record_of(WORDS, edits=Edits(mask=Subsequent()))
    assert figures.head(plain, SITE, 0).name.endswith("The-cat-sat-causal")
    assert figures.heads(short, SITE).name == f"test-encoder-layer-0-heads-The-cat-sat{end}"
    for figure in (figures.head(long, SITE, 0), figures.change(record_of(["word"] * 30), long)):
        assert figure.name.endswith(end)
        assert len(figure.name) <= 80


def test_large_maps_have_a_readout_on_the_screen_and_small_ones_do_not():
    small, large = (figures.head(record_of(["w"] * n), SITE, 0) for n in (4, 60))

    (spec, table), (full, source) = map(readout.screen, (small, large))
    assert "/vega-lite/" in spec["$schema"]
    assert table is None
    assert "/vega/" in full["$schema"]
    assert set(source["kind"]) >= {"rows", "columns", "meta"}


def test_arrays_hold_the_exact_numbers():
    record = record_of(WORDS, edits=Edits(mask=Subsequent()))
    step = record.step(SITE)

    arrays = figures.head(record, SITE, 1).arrays

    assert (arrays["weights"] == step.weights(1).numpy()).all()
    assert (arrays["may_attend"] == np.tri(3, dtype=bool)).all()
    assert arrays["query_tokens"].tolist() == WORDS
    assert figures.heads(record, SITE).arrays["weights"].shape == (2, 3, 3)


def test_table_and_arrays_spell_every_token_alike():
    """Lone surrogates, which no file can hold, are the same U+FFFD in both; NumPy cannot hold a null at the end."""
    figure = figures.head(record_of(list(HOSTILE)), SITE, 0)

    spelled = figure.arrays["query_tokens"].tolist()

    tabulated = figure.table["query_token"].str.replace("\0", "␀").tolist()
    assert spelled == tabulated[:: len(HOSTILE)]
    assert "\ufffd" in spelled


def test_arrays_of_long_inputs_are_tiles():
    """They say how many cells a tile has, and of each where the largest weight is, and the sum."""
    record = record_of(["w"] * 600, heads=1)
    arrays, weights = figures.head(record, SITE, 0).arrays, record.step(SITE).weights(0).numpy()

    assert arrays["weights"].shape == (300, 300)
    assert arrays["cells_per_side_of_tile"] == 2
    assert weights[arrays["largest_at_query"], arrays["largest_at_key"]] == pytest.approx(arrays["weights"], abs=1e-6)
    assert arrays["sums"][7, 9] == pytest.approx(weights[14:16, 18:20].sum())


def test_a_cell_in_words():
    record = record_of(WORDS, edits=Edits(mask=Subsequent()))
    weight = float(record.step(SITE).weights(1)[2, 1])

    assert sentences.cell(record, SITE, 1, 2, 1) == f"“sat” (2) gives {weight:.2f} of its attention to “cat” (1)."
    assert sentences.cell(record, SITE, 0, 1, 2) == (
        "“cat” (1) may not look at “sat” (2): blocked by causal mask, as a word may not see what comes after it."
    )
    assert "mean of all heads" in sentences.cell(record, SITE, "mean", 2, 1)


def test_empty_rows_and_nan_in_words():
    empty = record_of(WORDS, edits=Edits(mask=Painted(tuple((1, k) for k in range(3)))))
    broken = record_of(WORDS, scores={(0, 0, 1): math.nan})

    assert sentences.cell(empty, SITE, 0, 1, 1) == "“cat” (1) has no key left to look at; its weights are zeros."
    assert sentences.cell(broken, SITE, 0, 0, 1) == "The weight that “The” (0) gives to “cat” (1) is not a number."


def test_what_a_model_says_is_named_and_kept_as_arrays():
    one, other = (story_of(["the", "cat"], {"x": 1.0}, {"x": p, "y": 1 - p}) for p in (0.75, 0.25))

    next_word, steps = figures.next_word(other, 1, before=one), figures.step_by_step(other, before=one)

    assert next_word.name == "story-next-word-1-the-cat"
    assert next_word.title.startswith("Next word after “cat” (1) · story · random weights: ")
    assert next_word.arrays["words"].tolist() == ["y", "x"]
    assert next_word.arrays["probabilities_before"].tolist() == pytest.approx([0.25, 0.75])
    assert "probabilities_before" not in figures.next_word(other, 1).arrays
    assert steps.name == "story-step-by-step-the-cat"
    assert {name: array.tolist() for name, array in steps.arrays.items() if "prob" not in name} == {
        "position": [0, 1],
        "token": ["the", "cat"],
        "word": ["x", "y"],
        "token_before": ["the", "cat"],
        "word_before": ["x", "x"],
    }


def test_a_grid_of_words_has_the_prediction_on_top_and_says_which_part_it_shows():
    """Positions, words and numbers as the metric has them; in the shell, too."""
    record = analyze(" ".join(["the cat sat on the mat"] * 4), "story", stream=True)
    figure, part = figures.logit_lens(record), figures.logit_lens(record, columns=slice(3, 7), selected=(2, 4))
    top = [word.word for word in predicted_words(record)]
    cells = part.data["cells"]

    assert figure.table["position"].unique().tolist() == [*range(25 - MOST_POSITIONS, 25)]
    assert [word for word, row in zip(cells["written"], cells["row"], strict=True) if row == 0] == top[3:7]
    assert part.data["rows"]["label"] == ["prediction", "layer 0", "embedding"]
    assert (part.data["chosen"]["row"], part.data["chosen"]["column"]) == ([2], [1])
    assert "positions 3 to 6 of 25" in part.data["meta"]["subtitle"][0]
    assert "only the top row is what the model predicts" in part.data["meta"]["subtitle"][0]
    assert "Only the last is the model's prediction" in part.description
    assert part.arrays["words"].tolist()[-1] == top[3:7]

    signed = figures.pushed(record, Site("decoder", 1), 1, columns=slice(3, 4), count=2)
    assert signed.data["rows"]["label"] == ["up 1", "up 2", "down 2", "down 1"]
    assert signed.data["meta"]["top"] == [signed.table["adds"].abs().max()]
