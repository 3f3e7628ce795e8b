"""One head as a map."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from examples import some
from pictures import HOSTILE, SITE, data, draw, drawing, heatmap, num_colors, record_of, without_data

from attnviz import api, figures
from attnviz.charts import frame, hatch, theme
from attnviz.charts.pixels import color_at
from attnviz.charts.size import THINNEST
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Documents, Padding, Painted, Prefix, Subsequent, Window
from attnviz.views import see

EVEN = Edits(temperature=1e4)
"""So hot that attention is even."""


def texts(chart, *names):
    return [row["text"] for name in names or ("titles", "words", "ticks") for row in data(chart, name)]


def test_a_map_holds_the_numbers_of_the_record(cat):
    step = cat.step(SITE)

    cells = data(heatmap(cat, SITE, 1), "cells")

    assert [cell["weight"] for cell in cells] == step.weights(1).flatten().tolist()
    assert [cell["score"] for cell in cells] == step.scores(1).flatten().tolist()
    assert [cell["ground"] for cell in cells] == [color_at(cell["weight"], theme.LIGHT) for cell in cells]
    assert (cells[6]["query_name"], cells[6]["key_name"]) == ("cat (1)", "sat (2)")


@pytest.mark.parametrize("count", [5, 40])
def test_a_label_on_a_screen_selects_the_strongest_cell_of_its_token(count):
    """Of a row and of a column, as cells and as an image; a file has nothing to be clicked."""
    record = record_of([f"w{i}" for i in range(count)])
    weights = record.step(SITE).weights(0)
    figure = figures.head(record, SITE, 0)
    spec, table = figure.drawn_for_screen()
    table = table or spec["datasets"]["labels"]
    of_label = [kind == "label" for kind in table.get("kind", ["label"] * 2 * count)]

    found = {name: [value for value, is_one in zip(table[name], of_label, strict=True) if is_one] for name in table}
    cells = list(
        zip(*(found[name] for name in (("position", "last") if "kind" in table else ("query", "key"))), strict=True)
    )

    assert cells[:count] == [(i, int(weights[i].argmax())) for i in range(count)]
    assert cells[count:] == [(int(weights[:, j].argmax()), j) for j in range(count)]
    assert max(found["x2"][:count]) < 0 > max(found["y2"][count:])
    assert "labels" not in figure.chart.to_dict()["datasets"]


def test_words_that_rows_predict_since_a_change_are_marked():
    """Those and no others; without a change, or where all are as before, nothing is said of it."""
    text, last = "Anna and Tom went to the park. Anna gave the ball to", Site("decoder", 1)
    before, after = (api.analyze(text, "story", edits) for edits in (Edits(), Edits(heads_off={(last, 0)})))
    words = [record.predicted(last) for record in (before, after)]

    chart, plain = figures.head(after, last, 0, before=before).chart, figures.head(after, last, 0).chart
    lines = [row for row in data(chart, "boxes") if row not in data(plain, "boxes")]
    size = chart.to_dict()["height"] / len(words[0])

    assert [int(row["y"] / size) for row in lines[:-1]] == [
        i for i, (a, b) in enumerate(zip(*words, strict=True)) if a != b
    ]
    assert lines[-1]["fill"] == lines[0]["fill"]
    assert ("changed prediction" in texts(chart, "words")) is not ("changed prediction" in texts(plain, "words"))
    same = figures.head(before, last, 0, before=before).chart, figures.head(before, last, 0).chart
    assert data(same[0], "boxes") == data(same[1], "boxes")


def test_axes_say_who_looks_and_who_is_looked_at(cat):
    axes = heatmap(cat, SITE, 0).to_dict()["layer"][0]["encoding"]

    assert axes["y"]["title"] == "Query (from)"
    assert axes["x"]["title"] == "Key (to)"
    assert axes["x"]["axis"]["orient"] == "top"
    assert axes["y"]["axis"]["labelOverlap"] is False


def test_repeated_tokens_are_not_merged():
    chart = heatmap(record_of(["the", "cat", "the"]), SITE, 0)

    assert len(data(chart, "cells")) == 9
    assert len({cell["query_band"] for cell in data(chart, "cells")}) == 3


def test_cells_are_exact_squares(cat):
    chart = heatmap(cat, SITE, 0).to_dict()

    assert chart["width"] == chart["height"] == 4 * 60


def test_the_specification_stays_while_the_sentence_the_head_and_the_edits_change():
    """The browser then replaces data in place, without a flicker."""
    one = heatmap(record_of(["The", "cat", "sat"]), SITE, 0)
    edits = Edits(mask=Subsequent(), temperature=0.5, heads_off=frozenset({(SITE, 1)}))
    other = heatmap(record_of(["A", "dog", "ran"], edits=edits), SITE, 1, selected=(1, 0), row_sums=True, domain="log")

    assert without_data(one) == without_data(other)


def test_no_text_of_a_user_stands_in_the_specification():
    """Hostile tokens are data and nothing else: no expression, no field, no title, no tooltip's name."""
    spec = without_data(heatmap(record_of(list(HOSTILE)), SITE, 0))

    assert spec == without_data(heatmap(record_of(["a" * 16] * len(HOSTILE)), SITE, 0))
    assert "constructor" not in json.dumps(spec)


def test_the_title_says_what_is_drawn_and_what_was_changed():
    edits = Edits(mask=Subsequent(), temperature=0.5, heads_off=frozenset({(SITE, 1)}))
    words = " ".join(texts(heatmap(record_of(["a", "b"], edits=edits), SITE, 1)))

    assert words.startswith("Head 1 of encoder layer 0 (off) · test")
    assert "random weights: shows the mechanics, not meaning" in words
    assert "changed: mask: causal, head 1 of encoder layer 0 off, temperature 0.5" in words


def test_a_combination_of_heads_names_itself(cat):
    assert texts(heatmap(cat, SITE, "mean"), "titles") == ["Mean of 2 heads of encoder layer 0 · test"]
    assert "score" not in data(heatmap(cat, SITE, "mean"), "cells")[0]


def test_each_reason_has_its_own_strokes_and_each_rule_its_words():
    """A blocked cell is never on the scale of weights, and has the strokes of all its rules, one over the other."""
    mask = Subsequent() & Padding((5,)) & Window(3)
    chart = heatmap(record_of(list("abcdef"), edits=Edits(mask=mask)), SITE, 0)
    blocked = [cell for cell in data(chart, "cells") if cell["ground"] == theme.LIGHT.blocked]

    strokes = {cell["says"]: cell["path"] for cell in blocked}
    assert len(strokes) == len(set(strokes.values())) >= 3
    both = "blocked by causal and window (3 before, 0 after)"
    assert strokes[both] == "".join(hatch.shape(place, 60) for place in (0, 2))
    assert [text for text in texts(chart, "words") if text.startswith("blocked by")] == [
        "blocked by causal mask",
        "blocked by padding mask",
        "blocked by window (3 before, 0 after)",
    ]


def test_more_reasons_than_patterns_are_still_drawn():
    mask = Subsequent() & Padding((5,)) & Window(2) & Documents((3, 3)) & Prefix(4) & Painted(((0, 0), (3, 3)))
    chart = heatmap(record_of(list("abcdef"), edits=Edits(mask=mask)), SITE, 0)

    assert all(cell["path"] for cell in data(chart, "cells") if cell["ground"] == theme.LIGHT.blocked)


@pytest.mark.parametrize(("policy", "words"), [("zero", "zeros"), ("nan", "NaN"), ("uniform", "uniform")])
def test_an_empty_row_is_framed_and_named(policy, words):
    edits = Edits(mask=Painted(((1, 0), (1, 1), (1, 2))), empty_rows=policy)
    chart = heatmap(record_of(["a", "b", "c"], edits=edits), SITE, 0)

    assert f"fully masked row: {words}" in texts(chart, "words")
    frame = next(box for box in data(chart, "boxes") if box["stroke"] == theme.LIGHT.warning)
    assert (frame["y"], frame["y2"]) == (60, 120)
    assert {cell["ground"] != theme.LIGHT.blocked for cell in data(chart, "cells")[3:6]} == {policy == "uniform"}


def test_a_head_that_is_off_is_gray_as_its_thumbnail():
    """Small and large, its map and its legend are without colors; the other head has its own."""
    for many, dark in ((4, False), (4, True), (50, False)):
        record = record_of(["w"] * many, edits=Edits(heads_off=frozenset({(SITE, 1)})))
        on, off = (heatmap(record, SITE, head, dark=dark) for head in (0, 1))

        assert data(on, "images") != data(off, "images")
        on, off = draw(on.to_dict(), off.to_dict())
        assert np.ptp(off[100:], axis=2).max() < 40
        assert np.ptp(on[100:], axis=2).max() > 60


def test_nan_and_minus_infinity_have_signs_of_their_own():
    chart = heatmap(record_of(["a", "b"], scores={(0, 0, 1): math.nan, (0, 1, 0): -math.inf}), SITE, 0)
    cells = data(chart, "cells")

    assert [cell["says"] for cell in cells] == ["NaN: not a number"] * 2 + ["score: minus infinity", "may attend"]
    assert len({cell["path"] for cell in cells}) == 3
    assert {"NaN: not a number", "score: minus infinity"} <= set(texts(chart, "words"))
    json.dumps(chart.to_dict(), allow_nan=False)


def test_row_sums_flag_what_is_not_one():
    edits = Edits(mask=Painted(((1, 0), (1, 1))))
    words = texts(heatmap(record_of(["a", "b"], edits=edits), SITE, 0, row_sums=True), "words")

    assert {"row sum", "1.000", "0.000 not 1"} <= set(words)


def test_special_tokens_stand_back(cat):
    axis = heatmap(cat, SITE, 0).to_dict()["layer"][0]["encoding"]["x"]["axis"]

    assert data(heatmap(cat, SITE, 0), "cells")[3]["key_band"] == "0003-<pad>"
    quiet = {"test": "substring(datum.label, 4, 5) === '-'", "value": theme.LIGHT.quiet}
    assert quiet in axis["labelColor"]["condition"]


def test_the_selected_cell_is_outlined(cat):
    boxes = data(heatmap(cat, SITE, 0, selected=(2, 1)), "boxes")

    assert [(b["x"], b["y"]) for b in boxes if b["width"] == 2.5] == [(60, 120)]
    assert not any(b["width"] == 2.5 for b in data(heatmap(cat, SITE, 0, selected=(9, 9)), "boxes"))


def test_domains_say_what_the_color_means():
    record = record_of(["a", "b", "c"])
    top = max(float(record.step(SITE).weights(h).max()) for h in range(2))
    shared, log = heatmap(record, SITE, 0, domain="shared"), heatmap(record, SITE, 0, domain="log")

    assert texts(shared, "ticks")[-1] == f"{top:.3g}"
    assert data(shared, "cells")[0]["ground"] == color_at(data(shared, "cells")[0]["weight"] / top, theme.LIGHT)
    cell = data(log, "cells")[0]
    assert cell["ground"] == color_at(1 + math.log10(cell["weight"]) / 4, theme.LIGHT)
    assert any("logarithmic" in text for text in texts(log, "words"))
    with pytest.raises(InputError, match="sqrt"):
        heatmap(record, SITE, 0, domain="sqrt")


def test_colors_of_a_long_text_end_at_the_largest_weight_and_say_so():
    """Even attention over 41 tokens is seen: its largest weight has the color of the end."""
    record = record_of([f"w{i}" for i in range(41)])
    top = float(record.step(SITE).weights(0).max())
    adapts, fixed = heatmap(record, SITE, 0), heatmap(record, SITE, 0, domain="fixed")

    assert f"weight; colors end at {top:.2g}, the largest here" in texts(adapts, "words")
    part = heatmap(record, SITE, 0, rows=slice(0, 30))
    assert any(" · colors end at " in text for text in texts(part, "words"))  # over a zoomed map, too
    assert not any(" · colors end at " in text for text in texts(adapts, "words"))
    assert (texts(adapts, "ticks")[-1], texts(fixed, "ticks")[-1]) == (f"{top:.3g}", "1")


def test_colors_of_a_faint_head_end_at_its_largest_weight():
    """Four tokens at high temperature have weights of a quarter; three have a third, and the scale stays."""
    four, three = (heatmap(record_of(list("abcd")[:n], edits=EVEN), SITE, 0) for n in (4, 3))

    assert (texts(four, "ticks")[-1], texts(three, "ticks")[-1]) == ("0.25", "1")


def test_a_special_token_does_not_stretch_the_scale():
    """Of a long text: what a head gives to it is many times what it gives to any word, which would not be seen."""
    record = record_of(["<cls>", *(f"w{i}" for i in range(41))], special={0})
    largest = float(record.step(SITE).weights(0)[:, 1:].max())
    caption = next(text for text in texts(heatmap(record, SITE, 0), "words") if text.startswith("weight;"))

    assert caption.startswith(f"weight; colors end at {largest:.2g}, the largest ")


def test_a_query_with_one_key_does_not_stretch_the_scale():
    """Under a causal mask the first token gives itself 1, whatever the head does."""
    record = record_of([f"w{i}" for i in range(41)], edits=replace(EVEN, mask=Subsequent()))
    drawn = heatmap(record, SITE, 0)

    assert "weight; colors end at 0.5, the largest where several keys are left" in texts(drawn, "words")


def test_a_click_gives_query_key_and_counter(cat):
    chart = heatmap(cat, SITE, 0, rev=7)

    assert chart.to_dict()["params"][0]["name"] == "cell"
    assert chart.to_dict()["params"][0]["select"]["fields"] == ["query", "key", "rev"]
    assert {cell["rev"] for cell in data(chart, "cells")} == {7}


def test_a_window_shows_positions_of_the_whole():
    chart = heatmap(record_of(list("abcdef")), SITE, 0, rows=slice(2, 4), columns=slice(1, 2), selected=(3, 1))

    assert [(cell["query"], cell["key"]) for cell in data(chart, "cells")] == [(2, 1), (3, 1)]
    assert [b["y"] for b in data(chart, "boxes") if b["width"] == 2.5] == [60]


def test_queries_and_keys_may_differ_in_number():
    chart = heatmap(record_of(list("abc"), keys=5), SITE, 0)

    assert chart.to_dict()["width"] == 5 * 60
    assert data(chart, "cells")[4]["key_name"] == "4 (4)"


def test_large_maps_are_one_image_and_say_what_they_leave_out():
    pixels, tiles = (heatmap(record_of(["w"] * n, heads=1), SITE, 0) for n in (64, 600))

    for chart in (pixels, tiles):
        assert data(chart, "map")[0]["uri"].startswith("data:image/png;base64,")
        assert "cells" not in chart.to_dict()["datasets"]
        assert {"Query (from)", "Key (to)"} <= set(texts(chart, "sides", "ticks"))
    assert "every 2nd token is labeled" in texts(pixels, "words")
    assert "each square shows the largest of 2 × 2 cells" in texts(tiles, "words")


def test_room_is_kept_for_the_labels_that_are_drawn():
    """Of a long sentence some are left out; a long token among those takes no room, and labels never overlap."""
    plain, long = ["w"] * 100, ["w", "a" * 16, "w", "w"] * 25
    sides = [data(heatmap(record_of(words), SITE, 0), "sides")[0]["x"] for words in (plain, long)]
    rows = [row["y"] for row in data(heatmap(record_of(plain), SITE, 0), "rows")]

    assert sides[0] == sides[1]
    assert min(np.diff(rows)) >= THINNEST


@pytest.mark.parametrize("dark", some([False, True], 1))
def test_hostile_tokens_are_drawn(dark):
    """Every form of map is drawn from tokens that have ended processes."""
    small, large = (record_of(list(HOSTILE) * n, edits=Edits(mask=Subsequent())) for n in (1, 5))
    charts = [heatmap(r, SITE, 0, dark=dark, row_sums=True, selected=(3, 1)).to_dict() for r in (small, large)]

    for image in draw(*charts):
        assert num_colors(image) > 50


def test_nan_beside_infinity_does_not_blank_the_map():
    """One NaN and one infinity once made Vega draw nothing, without a word."""
    plain = record_of(["a", "b", "c"])
    broken = record_of(["a", "b", "c"], scores={(0, 0, 1): math.nan, (0, 1, 2): math.inf, (0, 2, 2): -math.inf})

    (before, after) = draw(heatmap(plain, SITE, 0).to_dict(), heatmap(broken, SITE, 0).to_dict())

    cells = [{tuple(c) for c in image.reshape(-1, 3).tolist()} for image in (before, after)]
    assert len(cells[1]) > 50
    warning = tuple(int(theme.LIGHT.warning[i : i + 2], 16) for i in (1, 3, 5))
    assert warning in cells[1] - cells[0]


def test_a_blocked_cell_and_a_weight_of_zero_look_different():
    cells = {(0, 1, 0): -200.0}
    zero, blocked = (
        heatmap(record_of(["a", "b"], scores=cells, edits=Edits(mask=mask)), SITE, 0).to_dict()
        for mask in (None, Painted(((1, 0),)))
    )

    before, after = draw(zero, blocked)

    assert (before[: len(after)] != after[: len(before)]).any()


def test_text_can_be_read_in_both_modes():
    """At least 4.5:1 between words and their ground, as WCAG 2.2 asks."""

    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colors in (theme.LIGHT, theme.DARK):
        for color in (colors.text, colors.quiet, colors.accent, colors.warning):
            light, dark = sorted((luminance(color), luminance(colors.background)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize("longest", [18, 26, 40, 60])
def test_a_title_breaks_between_words_alone(longest):
    """A name of a model stays whole as long as it fits a line; a longer one breaks at a slash or a hyphen."""
    title = "Head 0 of encoder layer 0 · sentence-transformers/all-MiniLM-L6-v2"
    lines = frame.balanced(title, longest)

    assert max(map(len, lines)) <= longest
    assert " ".join(lines).replace("/ ", "/").replace("- ", "-") == title
    assert any("sentence-transformers" in line for line in lines) == (longest > len("sentence-transformers"))


def test_a_title_breaks_between_its_parts_first():
    """No part begins at the end of a line and goes on in the next."""
    title = "Head 0 of encoder layer 0 · all-MiniLM-L6-v2"

    assert frame.in_parts(title, 30) == ["Head 0 of encoder layer 0", "all-MiniLM-L6-v2"]
    assert frame.in_parts(title, 80) == [title]
    assert frame.in_parts(title, 18) == ["Head 0 of", "encoder layer 0", "all-MiniLM-L6-v2"]


def test_a_screen_names_the_model_and_not_whose_it_is():
    """The toolbar holds its whole name, and so does a file: two maps side by side begin at one height."""
    figure = figures.head(replace(record_of(list("ab")), source="sentence-transformers/all-MiniLM-L6-v2"), SITE, 0)

    assert drawing(figure, on_screen=True).title == "Head 0 of encoder layer 0 · all-MiniLM-L6-v2"
    assert drawing(figure).title == "Head 0 of encoder layer 0 · sentence-transformers/all-MiniLM-L6-v2"


def test_rows_of_padding_are_quiet_and_named_as_that(cat):
    """Their weights are not drawn as those of tokens are, but read under the pointer; no cell of theirs is selected."""
    sentence = replace(cat.sentences[0], length=3)
    padded = replace(cat, sentences=(sentence,))
    chart = heatmap(padded, SITE, 0)
    rows = {band: [one for one in data(chart, "cells") if one["query_band"] == band] for band in bands_of(chart)}
    (*words, padding) = rows.values()

    assert len({one["ground"] for one in padding}) == 1
    assert {one["says"] for one in padding} == {"row of padding: no text stands there"}
    assert [one["weight_text"] for one in padding] == [f"{one:.4f}" for one in padded.step(SITE).weights(0)[3].tolist()]
    assert all(len({one["ground"] for one in row}) > 1 for row in words)
    assert "row of padding: no text stands there" in [one["text"] for one in data(chart, "words")]
    assert "row of padding" not in str(heatmap(cat, SITE, 0).to_dict())
    assert all(see(padded, SITE).strongest_cell(head)[0] < 3 for head in range(2))


def bands_of(chart):
    return dict.fromkeys(one["query_band"] for one in data(chart, "cells"))
