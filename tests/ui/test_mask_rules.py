"""Laws of the new page Masks: painting, the menus of rules, numbers that are typed, and known masks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from own_models import WORDS, Writer, tokenize
from streamlit.testing.v1 import AppTest

import attnviz
from attnviz import api
from attnviz.core.errors import InputError
from attnviz.core.masks import Full, Opened, Painted, Subsequent, Window, composable
from attnviz.core.masks.text import Entry, Stack, stack_from_text
from attnviz.link import Choices
from attnviz.ui.pages.masks import rules

N = 7
CELLS = st.tuples(st.integers(0, N - 1), st.integers(0, N - 1))
BASES = st.sampled_from(
    [
        Stack(),
        Stack((Entry(Subsequent()),)),
        Stack((Entry(Window(1, 1)), Entry(Painted(((0, 0),)), negated=True))),
        Stack((Entry(Subsequent()), Entry(Opened(((0, 5),)), "or"), Entry(Window(3, 3)))),
    ]
)


def grid(stack: Stack):
    return (stack.mask() or Full()).grid(N, N)


@given(BASES, st.lists(CELLS, max_size=8))
def test_a_click_turns_its_cell_around_and_no_other(stack, clicks):
    """Whatever the rules say, and whatever was painted before."""
    for cell in clicks:
        before = grid(stack)
        stack = rules.flip_cells(stack, [cell])
        changed = grid(stack) != before

        assert changed[cell]
        assert changed.sum() == 1


@given(BASES, st.lists(CELLS, max_size=8))
def test_a_second_click_takes_the_first_back(stack, clicks):
    """No entry is left that holds no cell."""
    after = stack
    for cell in [*clicks, *reversed(clicks)]:
        after = rules.flip_cells(after, [cell])

    assert after == stack


@given(BASES, st.lists(st.sets(CELLS, min_size=1), max_size=5))
def test_a_drag_blocks_its_cells_or_opens_them_if_all_are_blocked(stack, strokes):
    """Two entries at the end hold what is painted; the rules before them stay as they were."""
    after = stack
    for cells in strokes:
        before, after = after, rules.flip_cells(after, cells)

        was_open = any(grid(before)[cell] for cell in cells)
        assert {bool(grid(after)[cell]) for cell in cells} == {not was_open}
        others = [(query, key) for query in range(N) for key in range(N) if (query, key) not in cells]
        assert all(grid(after)[cell] == grid(before)[cell] for cell in others)
    assert after.entries[: len(stack.entries)] == stack.entries
    assert len(after.entries) <= len(stack.entries) + 2


def test_a_drag_goes_over_the_cells_between_its_ends():
    assert rules.cells_in({"row": [4.6, 3.2], "column": [0.1, 1.9]}) == {(3, 0), (3, 1), (4, 0), (4, 1)}
    assert rules.cells_in({"row": [], "column": None}) == set()


def test_every_rule_that_can_be_composed_is_offered_once():
    """Cells are painted; all others stand in one menu each, with a meaning."""
    offered = [name for names in rules.GROUPS.values() for name in names]

    assert len(offered) == len({*offered})
    assert {*offered} - {*rules.PRESETS} == {r.keyword for r in composable() if r.parameters()[0].kind != "cells"}


@pytest.mark.parametrize("name", rules.PRESETS)
@pytest.mark.parametrize("keys", [1, 2, 9])
def test_known_masks_fit_every_text(name, keys):
    stack = rules.preset(name, keys, (max(1, keys - 2), keys))

    assert stack.mask().tensor(keys, keys).shape[-2:] == (keys, keys)


@given(st.text(max_size=30))
def test_what_is_typed_for_numbers_is_read_or_refused_by_one_sentence(text):
    try:
        numbers = rules.whole_numbers(text, "lengths")
    except InputError as error:
        assert "lengths" in str(error)
    else:
        assert all(number >= 0 for number in numbers)


def test_a_mask_that_no_link_could_open_is_refused(monkeypatch):
    """The choices stay as they were, and the page says why."""
    memory = type("Session", (), {"memory": {}})()
    monkeypatch.setattr(rules, "session", lambda: memory)
    before = Choices({"mask": stack_from_text("causal")})

    assert rules.with_rules(lambda stack: stack.removed(7), before) == before
    assert "no entry 7" in memory.memory["rules refused"]
    assert rules.with_rules(lambda _: Stack((Entry(Window(10**12)),)), before) == before
    assert "1000000000000" in memory.memory["rules refused"].replace(",", "")


class Leaky(Writer):
    def mask(self, ids):
        ones = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool)
        return ones.tril(1) & (ids != 0)[:, None, :, None]


def masks_page():
    """Run the page as the app does, with the model in the link."""
    import streamlit as st

    from attnviz.core.request import Request
    from attnviz.ui import cache, request, runs
    from attnviz.ui.pages.masks import page
    from attnviz.ui.request import now

    request.read_address({})
    source = cache.source(now()["model"], None)
    try:
        with runs.place("page"):
            page(source, Request((next(iter(source.examples)),)))
    except runs.Waiting as waiting:  # on a busy machine
        waiting.job.settled.wait(60)
        st.rerun()


def test_a_model_of_ones_own_opens_on_its_mistake_its_line_and_its_repair(monkeypatch):
    """A causal mask that is off by one: nothing on the page says that there is no leak."""
    monkeypatch.setattr(api, "OFFERED", {})
    source = attnviz.wrap(Leaky().eval(), tokenize, "the cat sat on", words=WORDS, pad=0)
    app = AppTest.from_function(masks_page, default_timeout=60)
    app.query_params["model"] = api.offer(source)
    app.run()

    html = [element.proto.body for element in app.get("html")]
    assert not app.exception
    assert "verdict error" in html[0], html
    assert "off by one" in html[0]
    assert any("own_models.py:" in text for text in html)
    assert any("tril" in code.value for code in app.code)
    assert not any("No leak" in text for text in html)


def test_a_model_of_ones_own_is_also_run_in_other_ways(monkeypatch):
    """The ways that are chosen are compared, and stand in the command for the shell."""
    monkeypatch.setattr(api, "OFFERED", {})
    source = attnviz.wrap(Writer().eval(), tokenize, "the cat sat on", words=WORDS)
    app = AppTest.from_function(masks_page, default_timeout=60)
    app.query_params["model"] = api.offer(source)
    app.query_params["lab"] = "check model"
    app.run()
    app.pills("runs").set_value(["packed", "batched"]).run()

    text = " ".join(element.proto.body for element in app.get("html"))
    assert not app.exception
    assert "Runs: packed: not tried." in text
    assert "Runs: batched: the same answer." in text
    assert any(code.value.endswith("--runs packed,batched") for code in app.code)
