"""The rules of the mask as a list that a person edits: join, not, numbers, on and off, order, and what comes next."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from attnviz.core.errors import InputError
from attnviz.core.masks import Mask, Parameter
from attnviz.core.stack import JOINS, Entry, Stack
from attnviz.ui.masks.base import Lab
from attnviz.ui.shared import masking, state
from attnviz.ui.shared.masking import MASK
from attnviz.ui.shared.notes import note, quiet
from attnviz.ui.shared.rules import MOST_ITEMS, PRESETS, RULES
from attnviz.ui.shared.state import State, control

PRESET, ADD = state.kept("preset", None), state.kept("add rule", None)
"""Lists from which a rule or a mask is taken; nothing stays chosen in them."""

ADDABLE = {rule.rule: rule for rule in RULES if rule.parameters()[0].kind != "cells"}
"""What can be chosen from the list; cells are painted."""


def rules(lab: Lab) -> None:
    """The whole list."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall"):
        _preset(lab)
        _button("undo", "undo", "Undo", masking.undone, able=masking.can_undo())
        _button("redo", "redo", "Redo", masking.redone, able=masking.can_redo())
    if said := masking.refused():
        note(said)
    _own(lab)
    entries = masking.current().entries
    first = next((i for i, entry in enumerate(entries) if entry.on), None)
    for i, entry in enumerate(entries):
        with st.container(key=f"rule {i}", gap="xsmall"):
            _row(lab, i, entry, first=first is None or i <= first, last=i == len(entries) - 1)
    if not entries:
        quiet("No rule yet.")
    _add(lab)


def _own(lab: Lab) -> None:
    """The model's own mask, which stands before all rules."""
    own = lab.before.step(lab.site).mask
    if lab.source.read_only:
        quiet("This model is read-only: the rules change the grid, not its weights.")
    elif own is not None and lab.edits.own_mask:
        quiet(f"First its own mask{f': {own}' if isinstance(own, Mask) else ''}, and then these rules:")


def _preset(lab: Lab) -> None:
    def start(now: State, chosen: str | None) -> State:
        return masking.put(now, PRESETS[chosen](len(lab.tokens[1]), padded(lab))) if chosen else now

    options = {"index": None, "label_visibility": "collapsed", **control(PRESET, None, step=start)}
    st.selectbox("Start from a known mask", PRESETS, placeholder="Start from a known mask", **options)


def _add(lab: Lab) -> None:
    def add(now: State, chosen: str | None) -> State:
        return masking.changed(now, lambda stack: stack.added(_begun(lab, ADDABLE[chosen]))) if chosen else now

    options = {"index": None, "label_visibility": "collapsed", **control(ADD, None, step=add)}
    st.selectbox(
        "Add a rule",
        ADDABLE,
        format_func=lambda name: f"{name}: {ADDABLE[name].meaning}",
        placeholder="Add a rule",
        **options,
    )


def _begun(lab: Lab, rule: type[Mask]) -> Entry:
    return Entry(rule.started(len(lab.tokens[1]), padded(lab)), rule.join)


def padded(lab: Lab) -> tuple[int, ...]:
    """The lengths of the sentences; where none is padded, as if their last two tokens were padding."""
    lengths = tuple(sentence.length for sentence in lab.seen)
    keys = len(lab.tokens[1])
    return lengths if min(lengths) < keys else tuple(max(1, keys - 2) for _ in lengths)


def _row(lab: Lab, i: int, entry: Entry, *, first: bool, last: bool) -> None:
    """One rule: what it is and whether it is on, its place, how it is joined, its numbers."""
    parameters = entry.mask.parameters()
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        with st.container(width="stretch"):
            _toggle(f"**{entry.mask.rule}**", i, "on", entry.on, help=entry.mask.meaning)
        _button("arrow_upward", f"up {i}", f"Move rule {i + 1} up", _moved, i, i - 1, able=i > 0)
        _button("arrow_downward", f"down {i}", f"Move rule {i + 1} down", _moved, i, i + 1, able=not last)
        _button("close", f"remove {i}", f"Remove rule {i + 1}", _removed, i)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        if not first:
            _join(i, entry)
        _toggle("not", i, "negated", entry.negated, help="")
    if parameters[0].kind == "cells":
        count = len(entry.mask.cells)
        quiet(f"{count:,} cell{'' if count == 1 else 's'} painted by hand")
    numbers = [f for f in parameters if f.kind == "number"]
    for f in (f for f in parameters if f.kind == "numbers"):
        _numbers(lab, i, entry, f)
    if numbers:
        with st.container(horizontal=True, gap="small"):
            for f in numbers:
                _number(i, entry, f)


def _button(icon: str, key: str, title: str, step: Callable[..., State], *args: int, able: bool = True) -> None:
    """A button that shows an icon; its title is there for those who cannot see it, and on hovering."""
    options = {"icon": f":material/{icon}:", "help": title, "disabled": not able}
    options |= {"on_click": state.change, "args": (step, *args)}
    st.button(title, key=f"icon {key}", type="tertiary", **options)


def _toggle(title: str, i: int, name: str, value: bool, help: str) -> None:
    st.checkbox(title, **control(MASK, value, at=f"{name} {i}", step=partial(_with, i, name)), help=help or None)


def _join(i: int, entry: Entry) -> None:
    options = control(MASK, entry.join, at=f"join {i}", step=partial(_with, i, "join"))
    options |= {"required": True, "label_visibility": "collapsed"}
    st.segmented_control("How it is joined to the rules above", JOINS, **options)


def _number(i: int, entry: Entry, f: Parameter) -> None:
    options = {"width": 106, **_of_field(i, entry, f, getattr(entry.mask, f.name), lambda typed: typed)}
    if not f.needed:
        options["value"] = None
    st.number_input(f.label, f.least, f.most, **options)


def _numbers(lab: Lab, i: int, entry: Entry, f: Parameter) -> None:
    shown = ", ".join(map(str, getattr(entry.mask, f.name)))
    options = _of_field(i, entry, f, shown, lambda typed: _read(typed, f))
    st.text_input(f.label, help="Whole numbers with commas between them", **options)
    if entry.mask.rule == "padding":
        lengths = tuple(sentence.length for sentence in lab.seen)
        options = {"on_click": state.change, "args": (_with_fields, i, lambda: {"lengths": lengths})}
        options |= {"type": "tertiary", "disabled": lengths == entry.mask.lengths}
        st.button("the lengths of these sentences", key=f"lengths {i}", **options)


def _of_field(i: int, entry: Entry, f: Parameter, shown: object, read: Callable[[Any], object]) -> dict[str, Any]:
    """The control of one parameter of a rule."""

    def step(now: State, typed: object) -> State:
        return _with_fields(now, i, lambda: {f.name: read(typed)})

    return control(MASK, shown, at=f"{entry.mask.rule} {f.name} {i}", step=step)


def _with(i: int, name: str, now: State, value: object) -> State:
    """With another join, or a rule turned around, on or off."""
    return masking.changed(now, lambda stack: stack.replaced(i, replace(stack.entries[i], **{name: value})))


def _with_fields(now: State, i: int, values: Callable[[], dict[str, object]]) -> State:
    """With other numbers of a rule, which may be refused."""

    def change(stack: Stack) -> Stack:
        entry = stack.entries[i]
        return stack.replaced(i, replace(entry, mask=replace(entry.mask, **values())))

    return masking.changed(now, change)


def _read(typed: str, f: Parameter) -> tuple[int, ...]:
    parts = [part for part in re.split(r"[\s,;]+", typed) if part]
    if len(parts) > MOST_ITEMS:
        raise InputError(f"There are {len(parts)} {f.label}; a rule takes up to {MOST_ITEMS}.")
    for part in parts:
        if not re.fullmatch(r"\d{1,4}", part, re.ASCII) or int(part) > f.most:
            raise InputError(f"'{part[:20]}' is none of the {f.label}: each is a whole number from 0 to {f.most:,}.")
    return tuple(map(int, parts))


def _moved(now: State, i: int, to: int) -> State:
    return masking.changed(now, lambda stack: stack.moved(i, to))


def _removed(now: State, i: int) -> State:
    return masking.changed(now, lambda stack: stack.removed(i))
