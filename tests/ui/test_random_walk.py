"""A random walk over the six pages: now and then the page is compared with a fresh one at its own link."""

import random
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

import pyarrow as pa
import pytest
from streamlit import config
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1 import element_tree as tree

from attnviz import link
from attnviz.ui import main, model_loading, runs

ACTIONS, WALKS, EVERY = 60, 20, 4
"""Actions of a walk, walks of a sweep, and actions between two comparisons."""
MODELS = ("story", "translator", "induction", "constructed", "shapes", "scratch:num_heads=3")
TEXTS = (
    "the cat sat",
    "The dog saw the girl because she was tired",
    "red sun cold milk then red sun",
    "one\ntwo three",
)
MASKS = ("causal", "causal & window(2)", "causal | global(0)", "")
TYPED = {"text": (*TEXTS, ""), "mask": MASKS, "word": ("cat", "zzz")}
"""Texts that are typed into a box, by the name of the link that it changes; other boxes get a word."""
MENUS = ("mask menu", "more", "link menu", "find")
"""Keys of menus that are opened for one action; no link holds that they are open."""
LEFT_OUT = ("Redo", "again", "answer", "card", "check", "close", "continue", "each", "fetch", "follow", "go on")
LEFT_OUT += (
    "gradients",
    "leak",
    "measure",
    "other model",
    "python",
    "reads any",
    "retry",
    "run ",
    "save",
    "show answer",
)
"""Beginnings of keys of buttons outside the walk: work that a visitor asks for, files, and models by name."""
FORMS = ("take ",)
"""Beginnings of keys of widgets that only fill in what the button beside them does."""
SAID = ("The other pages show your own model and text again.",)
"""Sentences that are true of the session, not of its link."""

charts: dict[str, tuple] = {}
"""The pictures of the page: what a click calls, the names of its selections, its table and its specification."""
reported: dict[str, dict] = {}
"""Selections that the browser reports of each picture in the next run."""


class Option(str):
    """The text of an option, as a browser sends it."""


def page_of(title: str) -> None:
    """The app without navigation; the walk clicks on its pictures."""
    import streamlit as st
    import test_random_walk as walk

    from attnviz.ui import main, request, streamlit_internals

    def go_to(other: str) -> None:
        st.session_state["title"] = other
        st.rerun()

    def chart(data, spec, *, key: str, **options) -> None:
        if callable(on_select := options.get("on_select")):
            walk.charts[key] = on_select, options["selection_mode"], data, spec
        draw(data, spec, key=key, **options)

    def peek(key: str, default=None):
        return walk.reported[key] if key in walk.reported else look(key, default)

    main.go_to = go_to
    request.session().memory |= {"welcome closed": True, "learned": set()}
    for key in [*walk.reported]:
        look, streamlit_internals.peek = streamlit_internals.peek, peek
        try:
            walk.charts[key][0]()
        finally:
            streamlit_internals.peek = look
            walk.reported.clear()
    walk.charts.clear()
    title = st.session_state.get("title", title)
    draw, st.vega_lite_chart = st.vega_lite_chart, chart
    try:
        main.row_above(title)
        main.body(title)
    finally:
        st.vega_lite_chart = draw


@pytest.fixture(autouse=True)
def as_in_a_browser(monkeypatch):
    """Options are sent as texts, and every run is waited for."""
    formatted = tree._format_value_for_widget

    def as_text(format_func, value) -> str:
        return value if isinstance(value, Option) else formatted(format_func, value)

    monkeypatch.setattr(tree, "_format_value_for_widget", as_text)
    config.set_option("client.showErrorDetails", "full")
    monkeypatch.setattr(runs, "RUN_WAIT", 120.0)
    monkeypatch.setattr(runs, "PICTURE_WAIT", 120.0)


def opened(title: str, address: dict[str, str]) -> AppTest:
    app = AppTest.from_function(page_of, args=(title,), default_timeout=300)
    for name, value in address.items():
        app.query_params[name] = value
    return app.run()


def act(app: AppTest, choose: random.Random) -> str:
    """One action of a person, in words."""
    actions = [_page, _page, _widget, _widget, _widget, _press, _press, _picture, _picture, _type, _menu, _undo, _model]
    return choose.choice(actions)(app, choose) or act(app, choose)


def _page(app: AppTest, choose: random.Random) -> str:
    app.session_state["title"] = title = choose.choice(main.PAGES)
    app.run()
    return f"page {title}"


def _model(app: AppTest, choose: random.Random) -> str | None:
    boxes = [one for one in app.selectbox if one.key == "model"]
    if not boxes:
        return None
    there = [name for name in boxes[0].options if name not in ("Another model …", model_loading.PACKED)]
    boxes[0].set_value(Option(name := choose.choice(there))).run()
    return f"model {name}"


def _widget(app: AppTest, choose: random.Random, but: frozenset[str] = frozenset()) -> str | None:
    """Another value of a widget that the link holds."""
    kinds = (app.selectbox, app.button_group, app.radio, app.select_slider, app.toggle, app.checkbox, app.slider)
    there = [one for kind in kinds for one in kind if _is_linked(one) and one.key not in {"model", *but}]
    there = [one for one in there if not one.disabled]
    if not there:
        return None
    widget = choose.choice(there)
    value = _value(widget, choose)
    widget.set_value(value).run()
    return f"{widget.key} = {value}"


def _value(widget: Any, choose: random.Random) -> Any:
    if widget.type in ("toggle", "checkbox"):
        return not widget.value
    if widget.type == "slider":
        return round(choose.uniform(widget.min, widget.max), 1)
    if widget.type == "select_slider":  # AppTest wants the value itself
        return type(widget.value)(choose.choice(widget.options).replace(",", ""))
    options = [*map(Option, widget.options)]
    if widget.type == "button_group" and not widget._is_single_select:
        return choose.sample(options, choose.randint(0, len(options)))
    return choose.choice(options)


def _press(app: AppTest, choose: random.Random, but: frozenset[str] = frozenset()) -> str | None:
    there = [one for one in app.button if not one.disabled and one.key and one.key not in but]
    there = [one for one in there if not one.key.startswith((*LEFT_OUT, "Undo"))]
    if not there:
        return None
    button = choose.choice(there)
    name = f"{button.key}: {button.label}"
    button.click().run()
    return name


def _undo(app: AppTest, choose: random.Random) -> str | None:
    there = [one for one in app.button if one.key == "Undo" and not one.disabled]
    return there[0].click().run() and "undo" if there else None


def _picture(app: AppTest, choose: random.Random) -> str | None:
    """A click on a mark of a picture."""
    if not charts:
        return None
    key = choose.choice([*charts])
    _, selections, data, spec = charts[key]
    rows = [row for table in _tables(data, spec) for row in table.to_pylist() if row.get("rev") is not None]
    if not rows:
        return None
    row = choose.choice(rows)
    if key.endswith("pixels"):  # a large map reports a cell under the pointer
        row = {"query": choose.randrange(9), "key": choose.randrange(9), "rev": row["rev"]}
    reported[key] = {"selection": {selections[0]: [row]}}
    app.run()
    return f"click on {key} at { {name: row[name] for name in row if isinstance(row[name], int)} }"


def _tables(data: pa.Table | None, spec: dict) -> list[pa.Table]:
    held = [pa.ipc.open_stream(content).read_all() for content in spec.get("datasets", {}).values()]
    return held if data is None else [*held, data]


def _type(app: AppTest, choose: random.Random, but: frozenset[str] = frozenset()) -> str | None:
    boxes = (*app.text_area, *app.text_input)
    there = [one for one in boxes if _is_linked(one) and not one.disabled and one.key not in but]
    if not there:
        return None
    box = choose.choice(there)
    text = choose.choice(TYPED.get(box.key.split()[0], ("cat",)))
    box.set_value(text).run()
    return f"{box.key} typed: {text}"


def _menu(app: AppTest, choose: random.Random) -> str | None:
    """A menu, opened for one action and closed again."""
    name = choose.choice(MENUS)
    before = frozenset(element.key for element in _elements(app.main) if isinstance(element, tree.Widget))
    app.session_state[name] = True
    app.run()
    done = choose.choice((_widget, _press, _type))(app, choose, before)
    app.session_state[name] = False
    app.run()
    return f"{name} > {done}"


def _is_linked(widget: Any) -> bool:
    """Whether the link holds what a widget shows."""
    return bool(widget.key) and not widget.key.startswith(FORMS) and widget.key.split()[0] in link.NAMES


def lines(app: AppTest) -> list[str]:
    """Everything that a page shows: sentences, values of widgets that the link holds, tables and pictures."""
    return [line for line in map(_line, _elements(app.main)) if line]


def _elements(block: Any) -> Iterator[Any]:
    for child in block.children.values():
        if isinstance(child, tree.Block):
            yield from _elements(child)
        else:
            yield child


def _line(element: Any) -> str:
    if element.type == "html":
        return "" if any(said in element.proto.body for said in SAID) else f"html {element.proto.body}"
    if isinstance(element, tree.Button):
        return (
            ""
            if element.key in ("Undo", "Redo", "take from b")
            else f"button {element.key} {element.label} {element.disabled}"
        )
    if isinstance(element, tree.Widget):
        value = getattr(element, "value", "")
        return f"{element.type} {element.key} {value} {getattr(element, 'options', '')}" if _is_linked(element) else ""
    if element.type == "vega_lite_chart":
        return f"chart {element.proto.spec} {[*map(_numbers, _sent(element.proto))]}"
    if element.type == "arrow_data_frame":
        return f"table {_numbers(element.proto.data)}"
    return f"{element.type} {getattr(element, 'value', '')}"


def _sent(proto: Any) -> list[bytes]:
    own = [proto.data.data] if proto.HasField("data") else []
    return own + [dataset.data.data for dataset in proto.datasets]


def _numbers(content: bytes) -> list[dict]:
    """Rows of a table, without the count of clicks."""
    table = pa.ipc.open_stream(content).read_all()
    return table.drop_columns([name for name in table.column_names if name == "rev"]).to_pylist()


def difference(app: AppTest) -> list[str]:
    """Each difference between a page and a fresh one at its link."""
    session = app.session_state["attnviz"]
    session.clicks.clear()
    app.run()
    if link.too_long(session.choices):
        return []
    fresh = opened(app.session_state["title"], link.write(session.choices))
    assert not fresh.exception, fresh.exception[0].value
    found = unified_diff(lines(fresh), lines(app), "fresh", "live", n=0, lineterm="")
    return [line[:600] for line in found if not line.startswith(("---", "+++", "@@"))]


def walk(seed: int, actions: int) -> None:
    """Act at random; every few actions, compare."""
    choose = random.Random(seed)
    app = opened(title := choose.choice(main.PAGES), {"model": choose.choice(MODELS)})
    app.session_state["title"] = title
    done: list[str] = []
    for number in range(1, actions + 1):
        done.append(act(app, choose))
        where = f"{app.session_state['title']} {link.write(app.session_state['attnviz'].choices)} after {done[-EVERY:]}"
        assert not app.exception, f"{app.exception[0].value} {app.exception[0].stack_trace}\n{where}"
        if number % EVERY == 0 or number == actions:
            found = difference(app)

            assert not app.exception, f"{app.exception[0].value}\n{where}"
            assert not found, "\n".join((f"{where} ({number} actions)", *found))


def test_a_page_that_was_used_is_the_page_of_its_link():
    walk(0, ACTIONS)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, WALKS + 1))
def test_pages_that_were_used_are_the_pages_of_their_links(seed):
    """1,000 actions and more in all."""
    walk(seed, ACTIONS)
