"""The page of all heads: their order, their numbers, and what happens when each is off."""

import re
from html import escape
from io import BytesIO

import pandas as pd
import pytest
import streamlit as st
from test_pages import html, opened

from attnviz import api
from attnviz.analysis import sentences
from attnviz.analysis.heads import MAIN
from attnviz.analysis.rollout import mixed, rollout
from attnviz.core.edits import KINDS, Site
from attnviz.studies import ablation
from attnviz.ui import budget, runs
from attnviz.ui.overview.heads import ROLES
from attnviz.ui.overview.numbers import LAYER, MEANINGS, NAMES, TITLES


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A page that waits for what it measures, however busy the machine is."""
    monkeypatch.setattr(runs, "ANEW", 60.0)


def overview_page():
    from attnviz.ui import frame
    from attnviz.ui.overview.page import page

    frame.body(page, frame.selection())


def shown(app) -> list[tuple[str, int, int]]:
    """The heads of the table, in its order."""
    named = (re.fullmatch(r"(\w+) (\d+)\.(\d+)", name) for name in app.dataframe[0].value["place"])
    return [(one[1], int(one[2]), int(one[3])) for one in named]


def chart_texts(app) -> str:
    """The specifications of all pictures, and their data."""
    charts = (element.proto for element in app.get("vega_lite_chart"))
    return " ".join(f"{chart.spec} {[data.data.data for data in chart.datasets]}" for chart in charts)


def test_all_heads_stand_in_the_order_of_the_model_and_by_the_test_in_that_of_their_effects():
    """The head that the model opens with is framed, and what is known of it is said."""
    app = opened(overview_page, model="translator", form="Table")

    record = api.analyze("the cat", "translator")
    heads = [(s.site.kind, s.site.layer, h) for s in record.steps for h in range(s.num_heads)]
    assert shown(app) == heads
    app.selectbox(key="sort").set_value("divergence").run()
    assert sorted(shown(app)) == sorted(heads)
    assert app.dataframe[0].value["divergence"].is_monotonic_decreasing
    app = opened(overview_page, model="translator")
    assert "Head 3 of cross layer 1" in html(app)
    assert "looks at the English word" in html(app)
    assert escape(MEANINGS["confidence"]) in html(app)


STATES = [{}, {"sort": "divergence"}, {"form": "Table"}, {"panel": "Over a corpus"}, {"panel": "Rollout"}]
STATES.append({"panel": "Contributions"})
"""Links to each part of the page."""


@pytest.mark.parametrize("link", STATES)
@pytest.mark.parametrize("off", ["d0.0-d0.1-d1.0-d1.1", "d0.0-d0.1-d1.0"])
def test_with_every_head_off_or_all_but_one_each_tab_stands(link, off):
    """The test has nothing to compare then, and says so."""
    app = opened(overview_page, model="story", off=off, **link)

    assert not app.exception
    assert ("There are no two heads here" in html(app)) is ("sort" in link)


def test_the_table_begins_with_what_leads_it():
    """By its order, in words: the head that matters most, else the largest number; of the heads shown."""
    app = opened(overview_page, model="translator", form="Table", sort="divergence")
    source = api.load("translator")
    swept = ablation.sweep(source, source.tokenize([source.card.examples[0]]))
    assert escape(swept.sentences()[0]) in html(app)

    app = opened(overview_page, model="translator", form="Table", sort=NAMES["output"], kinds="encoder")
    (first, *_), largest = shown(app), app.dataframe[0].value["output"].max()
    assert {kind for kind, _, _ in shown(app)} == {"encoder"}
    assert f"Output change when off: {Site(*first[:2]).head(first[2])} has the most, {largest:.1f}%." in html(app)

    app = opened(overview_page, model="constructed", form="Table", sort=TITLES["previous"])
    assert re.search(r"Previous token: head \d of \w+ layer \d has the most, 1\.00\.", html(app))


@pytest.mark.parametrize("link", [{"form": "Table"}, {"panel": "Over a corpus"}])
def test_the_framed_head_is_marked_in_every_table(link):
    """By a sign and by the color of its frame; where it is filtered out, no head is."""
    app = opened(overview_page, model="story", site="d0", show="1", **link)
    app.session_state["heads over corpus"] = True
    app.run()
    table, styles = app.dataframe[0].value, app.dataframe[0].proto.arrow_data.styler.styles
    colored = {row for rule in styles.split("}") if "background" in rule for row in re.findall(r"row(\d+)_", rule)}

    (marked,) = table.index[table["mark"] != ""]
    assert table["place"][marked] == "decoder 0.1"
    assert colored == {str(marked)}

    app = opened(overview_page, model="constructed", form="Table", role="first token")
    others = opened(overview_page, model="constructed", form="Table", role="previous token")

    assert not app.exception
    assert not others.exception
    assert sum((one.dataframe[0].value["mark"] != "").sum() for one in (app, others)) <= 1


@pytest.mark.parametrize("link", STATES)
def test_every_tab_has_something_to_export(monkeypatch, link):
    """A menu of its picture, or of everything."""
    menus = []
    popover = st.popover
    monkeypatch.setattr(st, "popover", lambda title, **options: menus.append(title) or popover(title, **options))
    app = opened(overview_page, model="story", **link)

    assert not app.exception
    assert "Export" in menus


@pytest.mark.parametrize("form", ["Maps", "Table"])
def test_what_was_measured_with_each_head_off_is_in_a_file(monkeypatch, form):
    """Of every head, beside its other numbers."""
    files = {}
    monkeypatch.setattr(st, "download_button", lambda label, **file: files.update({label: file}))
    app = opened(overview_page, model="story", form=form, sort="divergence")
    app.session_state["take every"] = True
    app.run()

    file = files["CSV of all numbers"]
    table = pd.read_csv(BytesIO(file["data"]()))
    source = api.load("story")
    swept = ablation.sweep(source, source.tokenize([source.card.examples[0]])).table
    assert file["file_name"].endswith("-numbers.csv")
    assert table["divergence"].tolist() == pytest.approx(swept["divergence"].tolist(), abs=1e-5)
    assert {"role", "confidence", "output"} <= {*table}


@pytest.mark.parametrize("form", ["Maps", "Table"])
def test_all_heads_lead_to_the_test_that_says_which_of_them_matter(form):
    app = opened(overview_page, model="story", form=form)
    app.button(key="to the test").click().run()

    assert app.selectbox(key="sort").value == "divergence"
    assert "matters most here" in html(app)
    assert not [button for button in app.button if button.key == "to the test"]


@pytest.mark.parametrize("model", ["scratch", "story", "induction", "constructed"])
def test_every_model_has_its_heads(model):
    """With their numbers, without an exception."""
    app = opened(overview_page, model=model, form="Table")

    table = app.dataframe[0].value
    assert len(table) > 0
    assert table["confidence"].between(0, 1.0001).all()


def test_the_table_begins_with_few_numbers_and_shows_all_of_them_when_asked():
    """And what it is ordered by; what is missing is a dash, which is explained."""
    app = opened(overview_page, model="translator", form="Table", sort=TITLES["entropy"])
    first = [*app.dataframe[0].value][1:]
    app.toggle(key="all_numbers").set_value(True).run()
    every = [*app.dataframe[0].value][1:]

    assert len(first) < 13 < len(every)
    assert first[:4] == ["place", "role", *MAIN[:2]]
    assert "entropy" in first
    assert set(first) < set(every)
    assert "–: no clear role" in html(app)


def test_a_role_that_was_measured_stands_before_a_guess():
    """In the table; the card guesses where nothing was measured only, or while a model is still in training."""
    app = opened(overview_page, model="story", form="Table", site="d1", show="1")
    half = opened(overview_page, model="induction", form="Table", step="1000")

    roles = app.dataframe[0].value.set_index("place")["role"]
    assert roles["decoder 1.1"] == api.load("story").card.behavior(Site("decoder", 1), 1).role
    assert "A guess by the shape" not in html(app)
    assert half.dataframe[0].value["role"].dropna().tolist() == ["previous token?", "induction?", "induction?"]


@pytest.mark.parametrize("form", ["Maps", "Table"])
def test_the_sentence_of_the_test_leads_to_the_head_that_matters_most(form):
    """Until it is the one that is described: then it is named once, beside the way to its page."""
    app = opened(overview_page, model="story", form=form, sort="divergence", site="d1", show="1")
    assert "Head 1 of decoder layer 1 (decoder 1.1): rank 3 of 4" in html(app)
    app.button(key="to what matters").click().run()

    assert html(app).count("Head 0 of decoder layer 1") == 1
    assert "Head 0 of decoder layer 1 matters most here" in html(app)
    assert app.button(key="open head")
    assert not [button for button in app.button if button.key == "to what matters"]


def test_heads_are_ordered_by_a_number():
    """The largest first, in the table too; the link remembers it."""
    app = opened(overview_page, model="constructed", form="Table", sort=TITLES["previous"])

    values = app.dataframe[0].value["previous"].tolist()
    assert values == sorted(values, reverse=True)
    assert values[0] > 0.99


def test_a_role_leaves_the_heads_that_look_like_it():
    """And says by which number."""
    app = opened(overview_page, model="constructed", form="Table", role="previous token")

    roles = app.dataframe[0].value["role"]
    assert len(roles) > 0
    assert roles.str.contains("previous token").all()


def test_switching_each_head_off_adds_what_that_changes():
    """At once: the effect is a sentence, an order of the maps, and columns of the table."""
    app = opened(overview_page, model="story", sort="divergence")

    assert not app.exception
    source = api.load("story")
    swept = ablation.sweep(source, source.tokenize([source.card.examples[0]]))
    assert "matters most here" in swept.in_words()
    assert all(escape(sentence) in html(app) for sentence in swept.sentences())
    assert app.selectbox(key="sort").options[:3] == [
        "Order: by layer",
        "Order: switch-off test",
        "Order: switch-off, output",
    ]
    assert app.get("vega_lite_chart")

    app.query_params["form"] = "Table"
    app.run()
    app.selectbox(key="sort").set_value("output").run()

    table = app.dataframe[0].value
    assert [*table][:5] == ["mark", "place", "role", "divergence", "output"]
    assert (table["output"] > 0).all()
    assert table["output"].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("link", "panel", "form", "order"),
    [
        ({}, "All heads", "Maps", LAYER),
        ({"sort": "Itself"}, "All heads", "Maps", "self"),
        ({"up": "Itself", "across": "Confidence"}, "All heads", "Maps", LAYER),
        ({"panel": "Switch-off test"}, "All heads", "Maps", "divergence"),
        ({"panel": "Switch-off test", "sort": NAMES["output"]}, "All heads", "Maps", "output"),
        ({"panel": "Table"}, "All heads", "Table", LAYER),
        ({"panel": "Over many texts"}, "Over a corpus", None, None),
        ({"stack": "encoder"}, "Rollout", None, None),
        ({"after": "0"}, "Rollout", None, None),
        ({"after": "0", "panel": "All heads"}, "All heads", "Maps", LAYER),
    ],
)
def test_an_older_link_opens_what_it_is_about(link, panel, form, order):
    """A tab of before, or by what else it holds; and nothing of it is called unreadable."""
    app = opened(overview_page, model="translator", **link)

    assert app.button_group(key="panel").value == panel
    assert [one.value for one in app.button_group if one.key == "form"] == [form] * (form is not None)
    assert [one.value for one in app.selectbox if one.key == "sort"] == [order] * (order is not None)
    assert "Ignored" not in html(app)


def test_rollout_is_behind_more_and_a_tab_while_it_is_open():
    app = opened(overview_page, model="story")
    assert app.button_group(key="panel").options == ["All heads", "Contributions", "Over a corpus"]
    app.session_state["more"] = True
    app.run()
    app.button(key="to rollout").click().run()

    assert app.query_params["panel"] == "Rollout"
    assert app.button_group(key="panel").options == ["All heads", "Contributions", "Over a corpus", "Rollout"]
    assert "is mixed from" in html(app)
    app.button_group(key="panel").set_value("All heads").run()
    assert app.button_group(key="panel").options == ["All heads", "Contributions", "Over a corpus"]


def test_a_test_that_takes_long_waits_for_its_button_with_the_heads_under_it(monkeypatch):
    """And says what it takes; another sentence has not been measured yet."""
    monkeypatch.setattr("attnviz.ui.budget.SILENT", -1.0)
    app = opened(overview_page, model="story", sort="divergence")
    assert "About 1 s on this machine." in html(app)
    assert "matters most here" not in html(app)
    assert "named by layer.head" not in chart_texts(app)  # until they are ordered, they stand by layer
    app.button(key="switch each off").click().run()
    assert "named by layer.head" in chart_texts(app)
    assert "matters most here" in html(app)
    app.text_area(key="text").set_value("Anna saw Tom").run()

    assert "matters most here" not in html(app)
    assert app.get("vega_lite_chart")
    assert app.button(key="switch each off")


def test_a_test_that_costs_too_much_says_so_above_the_heads(monkeypatch):
    monkeypatch.setattr("attnviz.ui.budget.SILENT", -1.0)
    source = api.load("story")
    one = budget.cost(source, source.tokenize(["The cat sat on the mat because it was tired"]))
    monkeypatch.setattr(budget, "seconds", lambda: 2 * one.seconds)
    app = opened(overview_page, model="story", sort="divergence")

    assert "this server takes 1 s and 2.0 GB for a run" in html(app)
    assert app.get("vega_lite_chart")


def test_an_order_that_a_model_has_not_is_left():
    """By the number of another model's page: the order of the layers, and no exception."""
    app = opened(overview_page, model=None, sort=NAMES["turned"])

    assert not app.exception
    assert app.selectbox(key="sort").value == LAYER


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_any_kind_and_role_has_heads_and_no_empty_column(kind):
    """A role that no head of the chosen kind has chooses none."""
    for role in ROLES:
        app = opened(overview_page, model="translator", form="Table", kinds=kind, role=role)
        table = app.dataframe[0].value

        assert not app.exception
        assert {one[0] for one in shown(app)} == {kind}
        assert table.drop(columns=["mark", "role"]).notna().any().all()


def test_rollout_goes_through_the_layers():
    """By stack and layer from the link, in words for one position; the flow is a switch in the link."""
    app = opened(overview_page, model=None, stack="encoder", after="0", query="1")
    record = api.analyze("the black cat sleeps on the red chair", "translator")
    found = mixed(record, "encoder")

    assert not app.exception
    assert escape(sentences.reached(rollout(found)[0][1].numpy(), [t.text for t in found.tokens], 1)) in html(app)
    assert "The flow is the most that can come" not in html(app)
    app.toggle(key="flow").set_value(True).run()
    assert not app.exception
    assert app.query_params["flow"] == "true"
    assert "The flow is the most that can come" in html(app)
    app.selectbox(key="query").set_value(2).run()
    assert escape(sentences.reached(rollout(found)[0][2].numpy(), [t.text for t in found.tokens], 2)) in html(app)
    assert app.query_params["query"] == "2"


@pytest.mark.parametrize(("stack", "row"), [("decoder", 2), ("encoder", 7)])
def test_rollout_begins_with_the_row_of_the_selected_cell(stack, row):
    """Of the same stack alone; of another with the last word that was typed, until somebody chooses."""
    app = opened(overview_page, model="translator", stack=stack, site="d1", cell="2.1")

    assert not app.exception
    assert app.selectbox(key="query").value == row
    assert ("Within the decoder alone, " in html(app)) == (stack == "decoder")  # its cross-attention is left out
    app.selectbox(key="query").set_value(3).run()
    assert app.selectbox(key="query").value == 3


def test_a_layer_that_another_model_has_not_is_left():
    """By a link, or when the model is changed: the last layer that there is."""
    app = opened(overview_page, model="story", stack="encoder", after="31")

    assert not app.exception
    assert app.selectbox(key="after").value == Site("decoder", 1)


def test_a_long_text_is_followed_when_asked_for():
    """Many layers of many tokens take a while."""
    app = opened(overview_page, model="scratch", num_layers="4", text="the cat " * 130, panel="Rollout")
    assert "is mixed from" not in html(app)
    app.button(key="follow").click().run()

    assert not app.exception
    assert "is mixed from" in html(app)


def test_of_a_text_too_long_for_the_table_one_position_is_followed_and_its_cost_said_first(monkeypatch):
    monkeypatch.setattr("attnviz.analysis.rollout.MOST_CELLS", 8)
    monkeypatch.setattr("attnviz.ui.budget.SILENT", -1.0)

    app = opened(overview_page, model="story", text="the boy finds a ball", panel="Rollout", query="3")
    assert "It goes through 2 maps of 6 tokens: about 1 s and" in html(app)
    assert "is mixed from" not in html(app)
    app.button(key="follow").click().run()

    record = api.analyze("the boy finds a ball", "story")
    monkeypatch.undo()
    whole = rollout(mixed(record))[-1][3].numpy()
    assert not app.exception
    assert escape(sentences.reached(whole, [t.text for t in mixed(record).tokens], 3)) in html(app)


def test_a_phrase_is_looked_at_from_the_last_word_that_was_typed():
    """Not from the token after it that ends each text."""
    app = opened(overview_page, model="translator", site="e0", text="the black cat")
    app.session_state["on phrase"] = True
    app.run()
    app.text_input(key="phrase").set_value("black").run()

    assert "Attention on a phrase · from “cat” (2)" in html(app)


def test_heads_that_look_at_a_phrase_are_listed_where_one_head_is_described():
    """A needle in a haystack, from the last token; a phrase that is nowhere says so."""
    app = opened(overview_page, model="constructed", text="a b needle c " + "d e f g " * 9 + "b")
    app.session_state["on phrase"] = True
    app.run()
    assert "Type what to look for" in html(app)

    app.text_input(key="phrase").set_value("NEEDLE").run()

    assert not app.exception
    assert "Attention on a phrase · from “b” (40)" in html(app)
    assert "Most: head 0 of decoder layer 1 " in html(app)
    app.text_input(key="phrase").set_value("nowhere").run()
    assert "It is nowhere in the text." in html(app)
