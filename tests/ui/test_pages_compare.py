"""The page Compare: what B is, what moved, what both say, and links that cannot be read."""

import re
from html import unescape
from importlib.util import find_spec

import pytest
from test_pages import html, opened

from attnviz.analysis import NextWord, sentences
from attnviz.analysis.align import Side, beside
from attnviz.analysis.heads import farthest
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.request import Request
from attnviz.ui import cache
from attnviz.ui.compare.other import LONGEST, B
from attnviz.ui.shared import says
from attnviz.ui.shared.pretrained import OPENS, PACKED
from attnviz.ui.text import literal

CAT = "The cat sat on the mat because it was tired."
SHE = CAT.replace(" it ", " she ")


def compare_page():
    from attnviz.ui import frame
    from attnviz.ui.compare.page import page

    frame.body(page, frame.selection())


def compare(**link):
    app = opened(compare_page, **({"model": "story", "text": CAT} | link))
    assert not app.exception
    return app


def said(app) -> str:
    """The sentence in words about both maps."""
    found = next(part for part in (e.proto.body for e in app.get("html")) if 'class="words"' in part)
    return unescape(re.sub("<[^>]*>", "", found))


def charts(app) -> int:
    return len(app.get("vega_lite_chart"))


@pytest.mark.parametrize(
    "text",
    [
        "nothing-1",
        "head-x1.2",
        "head-c1.2.3",
        "head-c１.2",
        "step--1",
        "step-" + "9" * 40,
        "untouched-",
        "model-",
        "sentence-a\tb",
        "sentence-\x00",
        "sentence-\ud83d",
        "sentence-" + "x" * (LONGEST + 1),
        "step-nan",
    ],
)
def test_a_link_that_says_nothing_of_b_is_refused(text):
    """One sentence says what it should look like; of the text at most 40 characters are repeated."""
    with pytest.raises(InputError, match="cannot be read; it should look like sentence-") as error:
        B.decode([text])

    assert len(str(error.value)) < 200


@pytest.mark.parametrize("model", ["translator", "story"])
def test_one_word_changed_shows_what_moved(model):
    """Another sentence begins with one word changed: the row and the cell that moved most, and what both say."""
    app = compare(model=model)
    app.selectbox(key="b what").set_value("sentence").run()

    assert app.text_input(key="b sentence").value == SHE
    assert said(app).startswith("Largest difference")
    assert "The row that differs most is " in html(app)
    assert re.search(r"in A, and in B .* higher in [AB] by \d\.\d+\.", said(app))
    assert charts(app) == 1
    if model == "translator":
        assert "<u>fatigué</u>" in html(app)
        assert "<u>fatiguée</u>" in html(app)


@pytest.mark.skipif(find_spec(PACKED) is None, reason="the model is not installed")
def test_one_word_changed_shows_what_moved_in_a_pretrained_model():
    """The maps of real weights differ most in the row of the word, and the vectors of both sentences are apart."""
    from test_pages_pretrained import settled

    app = settled(opened(compare_page, model="huggingface", hf=OPENS, text=CAT, site="e0", show="0"))
    assert app.selectbox(key="b what").value == "head"  # which head it is shows more than which word, as a rule
    app.selectbox(key="b what").set_value("sentence").run()

    assert not app.exception
    assert app.text_input(key="b sentence").value == SHE
    assert "The row that differs most is “it” (8), in B “she” (8): " in unescape(html(app))
    assert "The vectors of A and B are apart by" in html(app)
    assert charts(app) == 1


@pytest.mark.parametrize(
    ("link", "opens"),
    [
        ({}, "step"),
        ({"step": "0"}, "step"),
        ({"scores": "temperature-0.5"}, "untouched"),
        ({"model": "scratch"}, "sentence"),
        ({"model": "scratch", "text": "no word to swap"}, "head"),
    ],
)
def test_the_page_opens_on_a_comparison_that_shows_something(link, opens):
    """What a change did, what training did, a changed word, or another head."""
    app = compare(**link)

    assert app.selectbox(key="b what").value == opens
    assert said(app).startswith("Largest difference")
    assert "The row that differs most is " in html(app)
    assert app.selectbox(key="b what").options[-1].endswith("nothing is changed yet)") == (opens != "untouched")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([("a", 0.9, 0.2), ("b", 0.1, 0.8)], "“a” (90.0%) instead of “b” (80.0%)"),
        ([("a", 0.6, 0.9), ("b", 0.4, 0.1)], "“a” goes from 90.0% to 60.0%"),
        ([("a", 0.9, 0.90002), ("b", 0.1, 0.09999)], "“a” stays at 90.0%"),
        ([("a", float("nan"), 0.9)], "the probabilities are not numbers"),
    ],
)
def test_how_a_prediction_changed_is_said_in_few_words(found, said):
    assert says._change(tuple(NextWord(*one) for one in found)) == said


def test_a_head_that_is_off_leads_to_the_first_weights_that_it_moves():
    """Its own layer's weights stay: the prediction that changes most is told, and one click compares what moved."""
    app = compare(heads_off="d0.0", site="d0", show="0")

    assert said(app) == "Most changed prediction, after “on” (4): “the” goes from 99.9% to 53.0%."
    assert "Hollow bars: B, the original model. Filled bars: A, head 0 of decoder layer 0 off." in html(app)
    assert "A head that is off looks where it looked before" in html(app)
    assert "The first weights that move are those of decoder layer 1." in html(app)
    assert charts(app) == 2

    app.button(key="see moved").click().run()

    assert app.query_params["layer"] == "d1"
    assert said(app).startswith("Largest difference")
    assert "The row that differs most is " in html(app)

    app = compare(heads_off="d1.0", site="d1", show="0", cell="5.2")

    assert said(app) == "Prediction after “the” (5): “mat” (25.5%) instead of “mats” (16.5%)."
    assert "No weight of any layer moves: only what the model predicts." in html(app)


def test_random_weights_predict_nothing_and_show_whose_output_moves():
    app = compare(model="scratch", off="e0.0", site="e0", show="0")

    assert said(app).startswith("How far the output vector of each of ")
    assert "hollow bars" not in html(app)


def test_a_mask_that_is_built_in_already_is_said_to_change_nothing():
    app = compare(mask="subsequent")

    assert said(app) == "A and B predict the same."
    assert "No weight of any layer moves. It blocks nothing that is not blocked already." in html(app)


def test_two_training_steps_are_subtracted_over_the_same_words():
    """The untrained model writes other words; its maps are those of the words that the trained one wrote."""
    app = compare(model="translator", site="c1", b="step-0")
    source = cache.source("translator")
    lines = (CAT,)
    written = cache.record(source, Request(lines)).targets
    untrained = cache.source("translator", 0)
    forced = untrained.run(untrained.tokenize([*lines]), targets=written)
    a, b = (Side(record, Site("cross", 1), 3) for record in (cache.record(source, Request(lines)), forced))

    assert "B reads the words that A wrote" in html(app)
    assert "cannot be subtracted" not in html(app)
    both = beside(a, b)
    most = sentences.compared_cell(both, *both.most_cell)
    assert said(app) == f"Largest difference in head 3 of cross layer 1: {most}"
    assert sentences.compared(both, with_cell=False) in unescape(html(app))


def test_b_is_another_sentence_another_head_the_untouched_model_or_another_step():
    """Each choice enters the link and moves something."""
    app = compare(scores="temperature-0.5", b="model-translator")
    found = {}
    for what in ("head", "untouched", "step", "sentence"):
        app.selectbox(key="b what").set_value(what).run()
        assert not app.exception
        assert 'role="alert"' not in html(app)
        found[what] = said(app), "".join(app.query_params.get("b", ""))

    assert len({words for words, _ in found.values()}) == 4
    assert not any(words.startswith("Nothing differs") for words, _ in found.values())
    assert [link for _, link in found.values()] == ["head-d1.1", "untouched", "step-0", f"sentence-{SHE}"]


def test_two_heads_of_one_run_share_their_prediction():
    """It is one line; of two runs two."""
    app = compare(b="head-d1.0")

    assert "A and B are the same run, so there is one prediction." in html(app)
    assert html(app).count("Predicted next word after") == 1

    app.selectbox(key="b what").set_value("step").run()

    assert re.search(
        r"A \(trained\): Predicted next word after.*B \(untrained\): Predicted next word after", html(app), re.S
    )
    assert html(app).count("Predicted next word after") == 2


def test_tokens_that_only_one_side_has_are_said():
    """They are blank in the maps."""
    app = compare(b="sentence-The cat sat on the red mat because it was tired.")

    assert "Only in B, and left blank: “red” (6)." in unescape(html(app))


def test_another_model_is_compared_where_it_reads_the_same_text():
    """Not where it reads the French that it writes itself."""
    app = compare(b="model-translator")

    assert "may not look" not in said(app)  # a cell that the mask of one alone leaves says nothing of how heads look

    assert (
        "B is head 0 of encoder layer 1, which reads this text; decoder layer 1 of translator reads what it writes."
        in html(app)
    )
    assert "cannot be subtracted" not in html(app)


def test_models_that_read_other_tokens_stand_side_by_side():
    """It is said plainly why the maps cannot be subtracted; both are drawn."""
    app = compare(model="translator", b="model-story")

    assert "so they cannot be subtracted. Here they stand beside each other." in html(app)
    assert charts(app) == 2


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("head-e9.99", "There is no head 99 of encoder layer 9"),
        ("step-17", "Step 17 was not kept"),
        ("model-story", "B cannot be the model"),
        (
            "untouched",
            "Nothing is changed yet: switch off a head on the page Heads, or choose a mask.",
        ),
        ("<script>alert(1)</script>", "cannot be read; it should look like sentence-"),
    ],
)
def test_a_link_whose_b_is_not_there_is_told(link, words):
    """The page stands, and says what it shows instead."""
    app = compare(b=link)

    assert words in html(app)
    assert "<script" not in html(app)


@pytest.mark.parametrize("link", ["sentence", "sentence-", "sentence- "])
def test_a_link_to_another_sentence_without_one_opens_with_one(link):
    """As if another sentence had been chosen: nobody is greeted by an error. So does a field that was emptied."""
    app = compare(b=link)
    assert app.text_input(key="b sentence").value == SHE

    app.text_input(key="b sentence").set_value(" ").run()

    assert app.text_input(key="b sentence").value == SHE
    assert said(app).startswith("Largest difference")
    assert "The row that differs most is " in html(app)


@pytest.mark.parametrize("text", ["{{x}} datum.label", "</script><b>", "שלום \u202e", "\U0001f431" * 40, "word " * 400])
def test_hostile_sentences_of_b_are_text(text):
    """What is typed never breaks the page, stays in the box, and is no markup."""
    app = compare(model="scratch")
    app.text_input(key="b sentence").set_value(text).run()

    assert not app.exception
    assert "</script><b>" not in html(app)
    assert charts(app) >= 1


def test_the_selected_cell_is_read_in_both():
    """It counts the tokens of A, as on every page; a cell is told with both weights, and then what differs most."""
    app = compare(b="sentence-Today the cat sat on the mat because it was tired.", cell="3.2")

    assert said(app).startswith("“sat” (3) gives ")
    assert "in B “sat” (4) gives " in said(app)
    assert "The cell that differs most: " in html(app)


def test_the_heads_that_differ_most_are_listed_and_a_click_compares_one():
    """Three of its kind, the farthest first; the one that is clicked is B, in the list and in the link."""
    app = compare(model="translator", site="c1", show="3")
    record = cache.record(cache.source("translator"), Request((CAT,)))
    heads = farthest(record, Site("cross", 1), 3)

    assert "Heads that differ most from head 3 of cross layer 1" in html(app)
    named = [f"{site.head(head).capitalize()}: {divergence:.2f}" for site, head, divergence in heads]
    assert [b.label for b in app.button if b.label.startswith("Head ")] == named

    app.button(key="different head 1").click().run()

    site, head, _ = heads[1]
    assert app.query_params["b"] == f"head-c{site.layer}.{head}"
    assert app.selectbox(key="b head").value == (site, head)
    assert app.query_params["layer"] == "c1"
    assert said(app).startswith("Largest difference")


def test_mean_of_heads_is_compared_and_no_head_differs_from_it():
    """Combined heads have a difference; the list is of a single head."""
    app = compare(head="mean")

    assert said(app).startswith("Largest difference")
    assert "The row that differs most is " in html(app)
    assert "Heads that differ most from" not in html(app)
    assert charts(app) == 1


RUG = "The dog ran on the rug because it was tired."


def test_a_part_of_b_is_taken_into_a():
    """A button puts it into the edits, where a chip takes it back; what A predicts stands there before and after."""
    app = compare(b=f"sentence-{RUG}", layer="d1", head="0")
    app.button(key="take from b").click().run()

    assert not app.exception
    assert app.query_params["take"] in (f"output-d1.0-{RUG}", [f"output-d1.0-{RUG}"])
    page = unescape(" ".join(e.proto.body for e in app.get("html")))
    assert "A before" in page
    assert "A after" in page
    assert app.button(key="take from b").disabled
    chip = next(
        button for button in app.button if literal("taken: output of head 0 of decoder layer 1") in button.label
    )
    chip.click().run()
    assert "take" not in app.query_params


def test_what_each_head_carries_is_measured_from_a_before_anything_is_taken():
    link = {"b": f"sentence-{RUG}", "layer": "d1", "head": "0"}
    before, after = (compare(**link, **take) for take in ({}, {"take": f"output-d1.0-{RUG}"}))
    for app in (before, after):
        app.session_state["carried"] = True
        app.run()
        assert not app.exception
    (first,), (second,) = (re.findall("Logit of .+ alone: [0-9]+%", html(app)) for app in (before, after))

    assert first == second


def test_what_is_taken_comes_with_the_link_and_goes_with_the_text():
    takes = ["stream-d0-" + RUG, "values-d1.1@2.3-The dog"]
    app = compare(b=f"sentence-{RUG}", take=takes)

    assert app.query_params["take"] == takes
    assert [b.label for b in app.button if b.label.startswith(literal("taken:"))]
    for wrong, why in ((["output-x0-b"], "does not say what is taken"), (["output-d9.0-b"], "decoder layer 1")):
        page = " ".join(e.proto.body for e in compare(take=wrong).get("html"))
        assert why in unescape(re.sub("<[^>]*>", "", page)) or why in str(compare(take=wrong).get("html"))


def test_a_pattern_is_taken_from_a_text_of_as_many_tokens_alone():
    """At one position it is a row, which is asked for once."""
    link = {"layer": "d1", "head": "0"}
    app = compare(b="sentence-The big black dog ran on it.", **link)
    chosen(app, "Part").set_value("pattern").run()

    assert "and a pattern has a weight for each: take the output or the values" in html(app)
    assert "take from b" not in [button.key for button in app.button]

    app = compare(b=f"sentence-{RUG}", **link)
    chosen(app, "Part").set_value("pattern").run()
    chosen(app, "Which positions").set_value("one").run()
    assert "from B's" not in [box.label for box in app.selectbox]
    app.button(key="take from b").click().run()

    assert not app.exception
    assert re.fullmatch(r"pattern-d1\.0@\d+-The dog ran.*", "".join(app.query_params["take"]))


def chosen(app, label):
    return next(box for box in app.selectbox if box.label == label)


def test_texts_of_other_lengths_take_one_position():
    app = compare(b="sentence-The big black dog ran on it.", layer="d1", head="0")

    assert "take one position from another" in " ".join(e.proto.body for e in app.get("html"))
    app.button(key="take from b").click().run()
    assert not app.exception
    assert re.fullmatch(r"output-d1\.0@\d+(\.\d+)?-The big black dog ran on it\.", "".join(app.query_params["take"]))
