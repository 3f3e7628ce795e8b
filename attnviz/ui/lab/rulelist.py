"""The rules of the mask as a list that a person edits: join, not, numbers, on and off, order, and what comes next."""

import re
from dataclasses import replace

import streamlit as st

from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.masks import Mask, Parameter
from attnviz.core.stack import JOINS, Entry
from attnviz.ui import masking
from attnviz.ui.lab.base import Lab
from attnviz.ui.lab.rules import MOST_ITEMS, PRESETS, RULES
from attnviz.ui.notes import note, quiet

ADDABLE = {rule.rule: rule for rule in RULES if rule.parameters()[0].kind != "cells"}
"""What can be chosen from the list; cells are painted."""


def rules(lab: Lab) -> None:
    """The whole list."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall"):
        _preset(lab)
        _button("undo", "undo", "Undo", masking.undo, able=masking.can_undo())
        _button("redo", "redo", "Redo", masking.redo, able=masking.can_redo())
    if said := masking.refused():
        note(said)
    _own(lab)
    entries = masking.now().entries
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
    st.session_state["preset"] = None
    options = {"index": None, "key": "preset", "on_change": _start, "args": (lab,), "label_visibility": "collapsed"}
    st.selectbox("Start from a known mask", PRESETS, placeholder="Start from a known mask", **options)


def _start(lab: Lab) -> None:
    if chosen := st.session_state["preset"]:
        masking.put(PRESETS[chosen](len(lab.tokens[1]), padded(lab)))


def _add(lab: Lab) -> None:
    st.session_state["add rule"] = None
    options = {"index": None, "key": "add rule", "on_change": _added, "args": (lab,), "label_visibility": "collapsed"}
    st.selectbox(
        "Add a rule",
        ADDABLE,
        format_func=lambda name: f"{name}: {ADDABLE[name].meaning}",
        placeholder="Add a rule",
        **options,
    )


def _added(lab: Lab) -> None:
    if rule := ADDABLE.get(st.session_state["add rule"]):
        mask = rule.started(len(lab.tokens[1]), padded(lab))
        _try(lambda: masking.put(masking.now().added(Entry(mask, rule.join))))


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
        _button("arrow_upward", f"up {i}", f"Move rule {i + 1} up", _move, i, i - 1, able=i > 0)
        _button("arrow_downward", f"down {i}", f"Move rule {i + 1} down", _move, i, i + 1, able=not last)
        _button("close", f"remove {i}", f"Remove rule {i + 1}", _remove, i)
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


def _button(icon: str, key: str, title: str, act, *args: int, able: bool = True) -> None:
    """A button that shows an icon; its title is there for those who cannot see it, and on hovering."""
    options = {"icon": f":material/{icon}:", "help": title, "on_click": act, "args": args, "disabled": not able}
    st.button(title, key=f"icon {key}", type="tertiary", **options)


def _toggle(title: str, i: int, name: str, value: bool, help: str) -> None:
    key = f"{name} {i}"
    st.session_state[key] = value
    st.checkbox(title, key=key, on_change=_change, args=(i, name, key), help=help or None)


def _join(i: int, entry: Entry) -> None:
    key = f"join {i}"
    st.session_state[key] = entry.join
    options = {"key": key, "on_change": _change, "args": (i, "join", key), "required": True}
    st.segmented_control("How it is joined to the rules above", JOINS, label_visibility="collapsed", **options)


def _number(i: int, entry: Entry, f: Parameter) -> None:
    key = f"{entry.mask.rule} {f.name} {i}"
    st.session_state[key] = getattr(entry.mask, f.name)
    options = {"key": key, "on_change": _set, "args": (i, f, key), "width": 106}
    if not f.needed:
        options["value"] = None
    st.number_input(f.label, f.least, f.most, **options)


def _numbers(lab: Lab, i: int, entry: Entry, f: Parameter) -> None:
    key = f"{entry.mask.rule} {f.name} {i}"
    st.session_state[key] = ", ".join(map(str, getattr(entry.mask, f.name)))
    st.text_input(f.label, key=key, on_change=_set, args=(i, f, key), help="Whole numbers with commas between them")
    if entry.mask.rule == "padding":
        lengths = tuple(sentence.length for sentence in lab.seen)
        options = {
            "on_click": _lengths,
            "args": (i, lengths),
            "type": "tertiary",
            "disabled": lengths == entry.mask.lengths,
        }
        st.button("the lengths of these sentences", key=f"lengths {i}", **options)


def _change(i: int, name: str, key: str) -> None:
    """Another join, or a rule turned around, on or off."""
    stack = masking.now()
    value = st.session_state[key]
    masking.put(stack.replaced(i, replace(stack.entries[i], **{name: value})))


def _set(i: int, f: Parameter, key: str) -> None:
    """Another number, or other numbers, of a rule."""
    typed = st.session_state[key]
    _try(lambda: _with(i, **{f.name: _read(typed, f) if f.kind == "numbers" else typed}))


def _lengths(i: int, lengths: tuple[int, ...]) -> None:
    _try(lambda: _with(i, lengths=lengths))


def _with(i: int, **values) -> None:
    stack = masking.now()
    entry = stack.entries[i]
    masking.put(stack.replaced(i, replace(entry, mask=replace(entry.mask, **values))))


def _read(typed: str, f: Parameter) -> tuple[int, ...]:
    parts = [part for part in re.split(r"[\s,;]+", typed) if part]
    if len(parts) > MOST_ITEMS:
        raise InputError(f"There are {len(parts)} {f.label}; a rule takes up to {MOST_ITEMS}.")
    for part in parts:
        if not re.fullmatch(r"\d{1,4}", part, re.ASCII) or int(part) > f.most:
            raise InputError(f"'{part[:20]}' is none of the {f.label}: each is a whole number from 0 to {f.most:,}.")
    return tuple(map(int, parts))


def _move(i: int, to: int) -> None:
    masking.put(masking.now().moved(i, to))


def _remove(i: int) -> None:
    masking.put(masking.now().removed(i))


def _try(act) -> None:
    """Do what may be refused; then the mask stays, and the page says why."""
    try:
        act()
    except AttnvizError as error:
        masking.refuse(error)
