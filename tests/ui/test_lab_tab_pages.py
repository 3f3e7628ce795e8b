"""The tabs of the mask lab that convert, measure, test and check a mask."""

import io
import pickle
import re
from html import escape

import numpy as np
import pytest
from test_pages import captions, html, masks_page, opened

from attnviz.check import CHECKS
from attnviz.core import masks
from attnviz.core.masks import Subsequent
from attnviz.mask_formats import FORMATS, mask_format
from attnviz.ui.masks.lab import FILE, JUDGED, MODEL, PASTED, TAB, WRONG
from attnviz.ui.masks.words import FORMER_TABS, FORMER_TARGETS, TABS, TARGETS


def lab(tab: str, **link):
    """The page Masks at a tab, with random weights and a causal mask if nothing else is said."""
    app = opened(masks_page, tab=tab, **link)
    assert not app.exception
    return app


def unfold(app, part: str = "overrides"):
    """Open a part of the page: the ways to read a checked array, unless another one is named."""
    app.session_state[part] = True
    return app.run()


@pytest.mark.parametrize("link", [*({"tab": tab} for tab in TABS), *({"tab": WRONG, "checked": one} for one in JUDGED)])
def test_every_tab_has_something_to_export_above_it(link):
    """Its picture, or everything."""

    def menus(block, inside=False):
        if getattr(block, "type", "") == "popover" and inside:
            yield block.proto.popover.label
        for part in getattr(block, "children", {}).values():
            yield from menus(part, inside or getattr(block.proto, "id", "").endswith("-export"))

    assert [*menus(lab(**link).main)] == ["Export"]


def test_no_future_is_promised_of_self_attention_alone():
    """In cross-attention there is none to promise."""
    link = {"tab": WRONG, "text": "the cat", "model": "translator"}

    assert promises(lab(**link, site="d0")) == ["this mask", "no future", "two-way"]
    assert promises(lab(**link, site="c0")) == ["this mask"]


def promises(app) -> list[str]:
    (control,) = [one for one in unfold(app, "leak options").button_group if one.key == "promise"]
    return list(control.options)


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_gives_its_code(name):
    """What is copied is what the library writes, also for rules of chance; the table has every convention."""
    app = lab("Conventions", dialect=TARGETS[name], mask="causal & random(1, 7)")
    code = mask_format(name).code(Subsequent() & masks.Random(1, 7), 7, 7)

    assert code.strip() in [block.value.strip() for block in app.code]
    assert all(escape(one.meaning) in html(app) for one in FORMATS)


@pytest.mark.parametrize(
    "link",
    [
        *({"tab": tab} for tab in FORMER_TABS),
        {"tab": "Leak test", "tested": "an exhibit", "applied": "after the softmax"},
        {"tab": "Leak test", "tested": "an example leak"},
        *({"tab": "Conventions", "dialect": name, "written": name, "reader": name} for name in FORMER_TARGETS),
    ],
)
def test_a_link_of_before_opens_the_nearest_state_that_stands(link):
    """Without a word about what went."""
    app = lab(**link)

    assert app.session_state["state"].state[TAB] == (link["tab"] if link["tab"] in TABS else WRONG)
    assert "Ignored" not in html(app)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ({}, "No leak:"),
        ({"tested": "this layer"}, "No leak:"),
        ({"mask": "none", "promise": "no future"}, "28 leaks:"),
        ({"model": "story", "own_mask": "false"}, "28 leaks:"),
        ({"mask": "none"}, "not tested, as no token is hidden"),
        ({"mask": "window-0-0"}, "not tested, as no output moved"),
    ],
)
def test_the_leak_test_says_how_many_leaks_there_are(link, said):
    """Of the model, of one layer, and of a decoder whose own mask is off."""
    app = lab(WRONG, text="the cat sat on the mat .", **link)

    assert said in html(app)


def test_a_test_that_finds_nothing_says_what_it_tried():
    """Six words of seven tokens are changed: each is hidden from those before it, and none of these outputs moved."""
    said = html(lab(WRONG, text="the cat sat on the mat"))
    rows = re.findall(r'<tr><td>.{1,40}\((\d)\)</td><td class="number">(\d+)</td><td class="number">(\d+)</td>', said)

    assert "Tried: 21 pairs." in said
    assert rows == [(str(i), str(i), "0") for i in range(1, 7)]


@pytest.mark.parametrize("what", [one for one in JUDGED if one not in (MODEL, FILE)])
def test_what_is_on_the_page_and_what_is_pasted_is_checked(what):
    """Folded under the verdict: a report with its command for the shell, and the rules that were tried."""
    app = unfold(lab(WRONG, checked=what), "report")

    assert app.code[-1].value.startswith("attnviz check")
    assert ("Nothing wrong was found" in html(app)) == (what != PASTED)
    assert f"<summary>All {len(CHECKS)} rules of the check</summary>" in html(app)


def npy(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


HOSTILE = {
    "a.npy": pickle.dumps(print),
    "b.npz": b"PK\x03\x04 broken",
    "c.csv": b"<script>alert(1)</script>",
    "<img src=x>.npy": b"",
    "d.safetensors": b"\xff" * 20,
    "e.npy": npy(np.array([{"a": 1}], dtype=object)),
    "f.npy": npy(np.zeros((2, 2, 2, 2, 2))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_gets_one_sentence_and_the_page_lives(name):
    """No pickle is opened, no markup is shown as such, and a good file works after it."""
    app = lab(WRONG, checked=FILE)
    app.file_uploader(key="file").upload(name, HOSTILE[name], "application/octet-stream").run()

    assert not app.exception
    assert html(app).count('role="alert"') == 1
    assert "<script" not in html(app)
    assert "<img" not in html(app)

    app.file_uploader(key="file").upload("mask.npy", npy(np.tri(4, dtype=bool)), "application/octet-stream").run()

    assert 'role="alert"' not in html(app)
    assert "Assumed: a causal decoder." in html(app)
    assert "4 queries × 4 keys" in html(app)


def test_an_inverted_mask_that_was_pasted_is_named_with_its_cells():
    """The finding says its rule, where it is and the fix; what is said of the array overrides the guess."""
    app = lab(WRONG, checked=PASTED)
    app.text_area(key="pasted").set_value("0 1 1\n0 0 1\n0 0 0").run()
    unfold(app)
    unfold(app, "report")
    app.selectbox(key="convention").set_value("may-attend").run()

    assert not app.exception
    assert "inverted" in html(app)
    assert "--convention may-attend" in app.code[-1].value


def test_a_mask_with_a_row_without_a_key_is_never_right():
    """The warning is the verdict, in plain words with what to do, though the rows are those of padding."""
    app = lab(WRONG, checked=PASTED)
    app.text_area(key="pasted").set_value("1 0 0\n1 1 0\n0 0 0").run()

    assert "Warning: 1 row of 3 has no key left, as queries of padding often have: softmax makes NaN of it" in html(app)
    assert "Fix: Leave a key open" in html(app)
    assert "Nothing wrong" not in html(app)


def test_where_the_mask_alone_does_not_tell_the_page_asks():
    """What can be said of it stands open, and settles it."""
    app = lab(WRONG, checked=PASTED)
    app.text_area(key="pasted").set_value("1 1 0\n1 1 0\n1 1 0").run()

    assert "Not sure" in html(app)

    app.selectbox(key="convention").set_value("may-attend").run()

    assert "Nothing wrong was found. Assumed: a two-way encoder with padding." in html(app)


def test_what_a_pasted_mask_is_meant_to_be_settles_what_it_is():
    """A mask that looks two keys ahead is no mistake until it is said to be causal; a mask of this page is one, too."""
    app = lab(WRONG, checked=PASTED)
    rows = [" ".join("1" * ones + "0" * (6 - ones)) for ones in (3, 4, 5, 6, 6, 6)]
    app.text_area(key="pasted").set_value("\n".join(rows)).run()

    assert "Not sure" in html(app)
    assert "What is the mask meant to be?" in html(app)
    assert "Rule: future-leak" not in html(app)

    unfold(app, "report")
    app.selectbox(key="intended").set_value("causal").run()
    assert "9 cells are open in the future" in html(app)
    assert "--intent causal" in app.code[-1].value

    app.selectbox(key="intended").set_value("the mask of this page").run()
    assert not app.exception
    assert "--intent causal" in app.code[-1].value


def test_the_example_that_can_be_pasted_shows_a_leak_in_numbers():
    """What the box begins with is causal but for one cell, and the page counts instead of saying "nearly all"."""
    app = lab(WRONG, checked=PASTED)

    assert "1 of 10 future cells is open" in html(app) + captions(app)
    assert "early all" not in html(app) + captions(app)
