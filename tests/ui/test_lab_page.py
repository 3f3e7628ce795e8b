"""The tab "Compose" of the mask lab, run as Streamlit runs it."""

import io
import re

import pyarrow as pa
import pytest
import torch
from own_models import WORDS, Writer, tokenize
from test_opened_files import texts_of
from test_pages import button, captions, heads_page, html, masks_page, opened
from test_pages_steps import drawn

import attnviz
from attnviz import api
from attnviz.core.amounts import digits
from attnviz.core.edits import Edits
from attnviz.core.masks import Painted, Subsequent, Window, mask_from_text
from attnviz.core.stack import Entry, Stack
from attnviz.sources.saved import Saved
from attnviz.ui.masks.built_in import BuiltIn
from attnviz.ui.masks.presets import PRESETS
from attnviz.ui.shared import mask as masking
from attnviz.ui.shared.mask import MASK
from attnviz.ui.shared.mask_link import decode_stack
from attnviz.ui.shared.setting import State


def mask(app) -> str:
    return app.query_params["mask"]


def click(app, key: str):
    return app.button(key=key).click().run()


def test_the_lab_opens_on_the_subsequent_mask_alone():
    """One rule that cannot move, nothing to undo, and how many keys each row has left."""
    app = opened(masks_page)

    assert app.checkbox(key="mask on 0").value
    assert not [c for c in app.checkbox if c.key == "on 1"]
    assert all(app.button(key=key).disabled for key in ("icon up 0", "icon down 0", "icon undo", "icon redo"))
    assert "28 of 49 cells may attend" in html(app)


def test_rules_are_added_joined_turned_around_and_switched_off():
    """Each step stands in the link; the first rule that is on is joined to nothing."""
    app = opened(masks_page)
    app.selectbox(key="add rule").set_value("prefix").run()

    assert mask(app) == "causal | prefix(2)"
    assert app.selectbox(key="add rule").value is None

    app.button_group(key="mask join 1").set_value("and").run()

    assert mask(app) == "causal & prefix(2)"

    app.checkbox(key="mask negated 1").check().run()
    app.checkbox(key="mask on 0").uncheck().run()

    assert mask(app) == "off: causal & ~prefix(2)"
    assert not [g for g in app.button_group if g.key == "join 1"]
    assert button(app, "not prefix of 2 · all layers")
    assert not app.exception


def test_rules_move_and_go():
    """Up, down and remove keep everything else as it is."""
    app = opened(masks_page, mask="subsequent.prefix-3.window-1")
    click(app, "icon up 2")

    assert mask(app) == "causal & window(1) | prefix(3)"

    click(app, "icon down 0")

    assert mask(app) == "window(1) & causal | prefix(3)"

    click(app, "icon remove 1")

    assert mask(app) == "window(1) | prefix(3)"


def test_undo_goes_back_to_the_opening_and_redo_returns():
    """Changes from the list, the chips and reset are all steps."""
    app = opened(masks_page)
    app.selectbox(key="add rule").set_value("prefix-LM").run()
    app.number_input(key="mask prefix length 1").set_value(4).run()
    click(app, "chip 0")

    assert mask(app) == "prefix(4)"

    click(app, "icon undo")
    click(app, "icon undo")

    assert mask(app) == "causal | prefix(2)"

    click(app, "icon undo")

    assert "mask" not in app.query_params
    assert app.button(key="icon undo").disabled

    for _ in range(3):
        click(app, "icon redo")

    assert mask(app) == "prefix(4)"

    button(app, "Reset all").click().run()
    click(app, "icon undo")

    assert mask(app) == "prefix(4)"


def test_every_preset_takes_the_place_of_the_rules():
    """With two sentences, one of them padded; the menu holds nothing afterwards."""
    app = opened(masks_page, text="one two three four\none two", mask="window-1.global-0")
    for name in PRESETS:
        app.selectbox(key="add rule").set_value(name).run()

        assert not app.exception
        assert 'class="note error' not in html(app)
        assert "is left out" not in html(app)
        assert app.selectbox(key="add rule").value is None
        assert decode_stack(mask(app)) == PRESETS[name](5, (5, 3))


def test_numbers_that_cannot_be_are_refused_with_a_sentence_and_change_nothing():
    """What was typed into a list, and numbers that do not go together."""
    app = opened(masks_page, mask="documents-3_4.random-1-4")
    app.text_input(key="mask documents lengths 0").set_value("3, four").run()

    assert "&#x27;four&#x27; is none of the lengths" in html(app)

    app.number_input(key="mask random count 1").set_value(9).run()

    assert "9 keys of every 4 cannot be drawn" in html(app)
    assert mask(app) == "documents(3, 4) | random(1, 4)"

    app.text_input(key="mask documents lengths 0").set_value("2 5").run()

    assert mask(app) == "documents(2, 5) | random(1, 4)"
    assert 'class="note' not in html(app)


def test_padding_for_another_number_of_sentences_is_left_out_and_can_be_mended():
    """It is said on every page; one button takes the lengths of the sentences there are."""
    link = {"text": "one two three\none", "mask": "subsequent.padding-4_3_2"}

    assert "is for 3 sentences, and there are 2" in html(opened(heads_page, **link))

    app = opened(masks_page, **link)
    click(app, "lengths 1")

    assert mask(app) == "causal & padding(4, 2)"
    assert "left out" not in html(app)


def test_the_same_mask_stands_on_both_pages():
    """The page Heads has pills for three rules, and chips for all of them."""
    app = opened(heads_page, mask="subsequent.global-0.off-strided")

    assert app.button_group(key="mask rules").value == ["causal"]
    assert button(app, "or global tokens 0 · all layers")
    assert not [b for b in app.button if "strided" in b.label]

    app.button_group(key="mask rules").set_value(["causal", "prefix", "window"]).run()

    assert mask(app) == "(causal | prefix(2) | global(0)) & off: strided(3) & window(2)"

    app.number_input(key="mask window before").set_value(5).run()
    app.button_group(key="mask rules").set_value(["window"]).run()

    assert mask(app) == "global(0) & off: strided(3) & window(5)"


def test_biases_are_no_masks():
    """Each is a control and a chip of its own, and stands in the link beside the mask."""
    app = opened(masks_page, show="1")
    for name in ("alibi", "relative", "softcap"):
        app.toggle(key=f"added {name} on").set_value(True).run()
    app.number_input(key="added softcap number").set_value(2.5).run()

    assert app.query_params["added"] == "alibi.relative-0.softcap-2.5"
    assert "mask" not in app.query_params
    assert "Head 1 loses 0.0625 for each position" in html(app)
    for chip in ("ALiBi bias", "relative bias, seed 0", "softcap 2.5"):
        button(app, chip).click().run()

    assert "added" not in app.query_params


def test_a_bias_is_drawn_as_numbers_that_are_added():
    """ALiBi of head 1 of four: -1/16 for each position of distance, beside a mask that stays what it was."""
    app = opened(masks_page, show="1", added="alibi")
    numbers = rows_of(charts(app)[-1], next(one.name for one in charts(app)[-1].datasets if "cells" in one.name))

    assert "Bias on the scores of this head" in html(app)
    assert numbers["number_text"] == [digits(-abs(i - j) / 16) for i in range(7) for j in range(7)]
    assert "28 of 49 cells may attend" in html(app)
    assert drawn(opened(masks_page, show="1")) == []


def test_the_selected_cell_says_once_which_rules_block_it():
    """And what is left to its query."""
    app = opened(masks_page, mask="subsequent.window-1", cell="3.5")

    assert html(app).count("locked by") == 1
    assert "“the” (5): blocked by causal and window (1 before, 0 after)." in plain(app)
    assert "Row “sat” (3) may look at 2 of 7 tokens." in plain(app)

    app = opened(masks_page, mask="subsequent.prefix-3", cell="3.5")

    assert html(app).count("locked by") == 1
    assert "“the” (5): blocked by causal or prefix of 3." in plain(app)


def test_the_strokes_are_explained_once_where_both_maps_have_the_same():
    """Under the mask."""
    assert legends(opened(masks_page, mask="subsequent.window-1")) == [2, 0]


def legends(app) -> list[int]:
    """How many rules each of both maps explains, in the table of what stands around it."""
    return [sum("blocked by" in text for text in rows_of(chart, "legend")["says"]) for chart in charts(app)[:2]]


def charts(app) -> list:
    return [chart.proto for chart in app.get("vega_lite_chart")]


def rows_of(chart, name: str) -> dict[str, list]:
    """A table that was sent with a chart, as columns."""
    rows = next(one.data.data for one in chart.datasets if one.name == name)
    return pa.ipc.open_stream(io.BytesIO(rows)).read_all().to_pydict()


def rules(app):
    return [box for box in app.checkbox if box.label.startswith("**")]


def plain(app) -> str:
    """Without the marks that keep the direction of a token to itself."""
    return html(app).replace("\u2068", "").replace("\u2069", "")


def test_all_that_is_said_of_a_row_is_said_of_the_one_that_is_outlined():
    """Also while none is selected: what it gives, and how many tokens it may look at."""
    said = plain(opened(masks_page))
    rows = re.findall(r"“[^”]+” \((\d+)\) (?:gives|may look)", said)

    assert len(rows) == 2
    assert len(set(rows)) == 1


def test_a_mask_too_long_for_the_link_is_refused():
    """The mask stays as it was, and why is kept."""
    before = State().put(MASK, Stack((Entry(Subsequent()),)))
    board = Painted(tuple((q, k) for q in range(64) for k in range(64) if (q + k) % 2))
    after = masking.put(before, Stack((Entry(board),)))

    assert after[MASK] == before[MASK]
    assert "Paint fewer cells" in after[masking.REFUSED]


def test_without_a_rule_everything_is_open():
    """That there is none is a choice, and stands in the link."""
    app = opened(masks_page)
    click(app, "icon remove 0")

    assert mask(app) == "none"
    assert "Original model" in captions(app)
    assert "No rule yet." in html(app)
    built_in = html(opened(masks_page, model="story"))
    assert "Built-in mask: causal. A rule blocks more." in built_in
    assert "No rule yet." not in built_in
    assert "Built in: every layer hides the future." in built_in
    assert "49 of 49 cells may attend" in html(app)


def test_rules_that_block_nothing_more_say_so():
    """A causal mask where it is built in, and a window as wide as the text; not one that blocks."""
    built_in, wide, narrow = (
        opened(masks_page, **link)
        for link in ({"model": "story", "mask": "subsequent"}, {"mask": "window-90-90"}, {"mask": "window-1-0"})
    )

    assert "The built-in mask blocks all of this already: these rules change nothing here." in html(built_in)
    assert button(built_in, "Causal (hide the future) · already built in")
    assert "These rules block no cell here." in html(wide)
    assert "these rules" not in html(narrow).lower()


class Masking(Writer):
    """Hides the third key from all, by no rule that is known."""

    def mask(self, ids):
        cells = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool)
        cells[:, 2] = False
        return cells


def test_the_mask_of_a_model_of_ones_own_is_the_one_that_is_drawn(monkeypatch):
    """And no rule is on that nobody chose; on it the tabs work, of this text alone."""
    monkeypatch.setattr(api, "OFFERED", {})
    source = attnviz.wrap(Masking().eval(), tokenize, "the cat sat on", words=WORDS)
    name = api.offer(source)

    app = opened(masks_page, model=name)

    assert not app.exception
    assert "Mask: the model" in texts_of(app)
    assert "blocked by the model" in texts_of(app)
    assert "may look at 3 of 4 tokens" in html(app)
    assert "no key left" not in html(app)
    assert "mask" not in app.query_params
    for tab in ("Conventions", "Check"):
        app = opened(masks_page, model=name, tab=tab, checked="this mask")
        assert not app.exception
        assert "alert" not in html(app)


def test_a_rule_lies_on_the_mask_of_a_model_of_ones_own_under_its_name(monkeypatch):
    """The grid is the mask that acted, and says of each cell whether the model or the rule blocks it."""
    monkeypatch.setattr(api, "OFFERED", {})
    source = attnviz.wrap(Masking().eval(), tokenize, "the cat sat on", words=WORDS)
    app = opened(masks_page, model=api.offer(source), mask="window(1)")
    edits = Edits(mask=Window(1))
    acted = source.run(source.tokenize(["the cat sat on"]), edits).steps[0].may_attend(0)

    assert "blocked by the model" in texts_of(app)
    assert "blocked by window (1 before, 0 after)" in texts_of(app)
    assert rows_of(charts(app)[0], "rows")["beside"] == [str(int(row.sum())) for row in acted]


def test_the_mask_of_weights_alone_is_their_zeros_and_no_rule_is_on(monkeypatch):
    """Nobody chose a causal mask for a file; a rule that is added lies on top."""
    monkeypatch.setattr(api, "OFFERED", {})
    weights = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0, 0]])[None, None]
    name = api.offer(Saved("weights", attnviz.from_arrays(weights, tokens=["a", "b", "c"])))

    app = opened(masks_page, model=name)

    assert not app.exception
    assert "Mask: a weight of exactly 0" in texts_of(app)
    assert rows_of(charts(app)[0], "rows")["beside"] == ["1", "2", "none"]
    assert "mask" not in app.query_params


class AllBlocked(Writer):
    def mask(self, ids):
        return torch.zeros(ids.shape[1], ids.shape[1], dtype=torch.bool)


def test_a_model_that_blocks_everything_is_not_said_to_have_a_window(monkeypatch):
    """The sentence about the row and the count of its keys agree."""
    monkeypatch.setattr(api, "OFFERED", {})
    source = attnviz.wrap(AllBlocked().eval(), tokenize, "the cat sat on", words=WORDS)
    app = opened(masks_page, model=api.offer(source))

    assert "window (" not in texts_of(app)
    assert "may look at 0 of 4 tokens" in html(app)
    assert "no key left" in html(app)


class WrongAxis(Writer):
    def mask(self, ids):
        ones = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool)
        return ones.tril(1) & (ids != 0)[:, None, :, None]


def test_the_page_does_not_say_no_leak_below_errors(monkeypatch):
    monkeypatch.setattr(api, "OFFERED", {})
    source = attnviz.wrap(WrongAxis().eval(), tokenize, "the cat sat on", words=WORDS, pad=0)
    app = opened(masks_page, model=api.offer(source), tab="Check")

    assert html(app).count("Error: Causal part off by one") == 1
    assert "No leak" not in html(app)
    assert "outputs move with words that are hidden from them" in html(app)
    assert "The mask causes this: fix the mask first." not in html(app).partition("Error: Causal")[0]


def test_a_mask_of_cells_is_those_cells_and_blocks_nothing_beyond_them():
    cells = torch.rand(3, 5) > 0.5
    mask = BuiltIn(cells)

    assert torch.equal(mask.grid(3, 5), cells)
    assert torch.equal(mask.grid(5, 7)[:3, :5], cells)
    assert mask.grid(5, 7)[3:].all()
    assert mask.grid(5, 7)[:, 5:].all()
    assert torch.equal(mask.grid(3, 5, rows=slice(1, 3)), cells[1:])
    assert torch.equal(mask.shifted(1).grid(2, 5), cells[1:])
    assert torch.equal(mask_from_text(mask.text).grid(3, 5), cells)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("page", [heads_page, masks_page])
def test_a_predicted_token_without_a_text_is_explained_beside_it(page, known, monkeypatch):
    """A text that looks like one, "#5", is none."""
    monkeypatch.setattr(api, "OFFERED", {})
    texts = {"words": ["#5", "#6", "#7", "#0", "#1", "#2", "#3", "#4"]} if known else {}
    name = api.offer(attnviz.wrap(Writer().eval(), tokenize, "the cat sat on", **texts))

    app = opened(page, model=name)

    assert re.search("“#[0-9]”", html(app))
    said = re.search(
        "“#([0-9])” is the token with id ([0-9]): the model&#x27;s tokenizer has no text for it.", html(app)
    )
    assert bool(said) is not known
    assert known or said[1] == said[2]


def test_a_typed_link_may_join_rules_as_it_likes():
    """What no list of rules holds one by one is one entry of it; a mistake is pointed at, and the page opens."""
    app = opened(masks_page, mask="~window(1) & (causal | global(0))")

    assert not app.exception
    assert mask(app) == "~window(1) & (causal | global(0))"
    assert any("causal or global tokens 0" in box.label for box in app.checkbox)

    app = opened(masks_page, mask="causal & windw(4)")

    assert not app.exception
    assert "Character 10 of the mask" in html(app)
    assert "Did you mean" in html(app)
