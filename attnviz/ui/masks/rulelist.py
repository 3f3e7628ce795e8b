"""The rules of the mask as a list that a person edits: join, not, numbers, on and off, order, and what comes next."""

import re
from collections.abc import Callable

import streamlit as st
import torch

from attnviz.core.amounts import counted
from attnviz.core.errors import InputError
from attnviz.core.masks import Full, Mask, Parameter, started
from attnviz.core.stack import JOINS, Entry
from attnviz.ui.masks import words
from attnviz.ui.masks.lab import Lab
from attnviz.ui.masks.presets import PRESETS
from attnviz.ui.shared import mask, state
from attnviz.ui.shared.edits import TITLES, number
from attnviz.ui.shared.mask import MASK
from attnviz.ui.shared.mask_link import BY_NAME, RULES
from attnviz.ui.shared.setting import State, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import literal, note, quiet

ADD = session_setting("add rule", None)
"""A rule or a preset on its way into the mask of the page; the list holds none."""

MOST_COMPARED = 1024
"""Tokens up to which the rules are held against the built-in mask."""

MOST_ITEMS = 64
"""Lengths or positions that one rule may list."""

ADDABLE = {rule.keyword: rule for rule in RULES if rule.parameters()[0].kind != "cells"}
"""Rules that the menu offers; cells are painted."""


def rules(lab: Lab) -> None:
    """One menu of rules and presets, and the list of the rules."""
    _menu(lab)
    if refused := mask.refused():
        note(refused)
    _own(lab)
    entries = mask.current().entries
    first = next((i for i, entry in enumerate(entries) if entry.on), None)
    for i, entry in enumerate(entries):
        with st.container(key=f"rule {i}", gap="xsmall"):
            title = f"**{literal(_title(entry.mask))}**"
            _row(lab, i, entry, title, first=first is None or i <= first, last=i == len(entries) - 1)
    if not entries and not _built_in(lab):
        quiet(words.NO_RULE)
    elif first is not None and not _changes(lab):
        note(words.CHANGES_NOTHING if own_mask(lab) else words.BLOCKS_NOTHING, "notice")


def _menu(lab: Lab) -> None:
    """Rules, each of which joins the list, and presets, which take its place."""

    def add(now: State, name: str | None) -> State:
        if name in PRESETS:
            return mask.put(now, PRESETS[name](*sizes(lab)))
        if name in ADDABLE:
            entry = Entry(started(ADDABLE[name], *sizes(lab)), ADDABLE[name].join)
            return mask.changed(now, lambda stack: stack.added(entry))
        return now

    options = {"index": None, "placeholder": words.ADD_RULE, "format_func": _offered, "lead": "", "shown": None}
    control(st.selectbox, words.ADD_RULE, ADD, [*ADDABLE, *PRESETS], step=add, **options)


def _title(rule: Mask | type[Mask]) -> str:
    """A rule without its numbers; what is joined already as it is."""
    name = rule.keyword.replace("_", " ") if rule.keyword in BY_NAME else str(rule)
    return TITLES.get(name, name)


def _offered(name: str) -> str:
    if name in PRESETS:
        return words.PRESET_IS.format(preset=name)
    return words.RULE_MEANS.format(rule=_title(ADDABLE[name]), meaning=ADDABLE[name].meaning)


def own_mask(lab: Lab) -> Mask | None:
    """The built-in mask of the site; None if there is none."""
    return lab.untouched.step(lab.site).mask


def _own(lab: Lab) -> None:
    """The built-in mask, which stands before all rules."""
    own = own_mask(lab)
    if lab.site.kind == "cross" and not lab.edits.mask_cross:
        quiet(words.NOT_CROSS)
    if lab.source.read_only:
        quiet(words.READ_ONLY)
    elif _built_in(lab):
        built_in = words.BUILT_IN_IS.format(mask=own) if isinstance(own, Mask) else words.BUILT_IN
        quiet(f"{built_in} {words.RULES_ADD if lab.stack.entries else words.RULE_ADDS}")


def _built_in(lab: Lab) -> bool:
    """Whether the built-in mask acts."""
    return own_mask(lab) is not None and lab.edits.own_mask and not lab.source.read_only


def _changes(lab: Lab) -> bool:
    """Whether the mask at the site is another one with the rules than without them, or is too large to tell."""
    own = own_mask(lab)
    comparable = own is None or isinstance(own, Mask)
    acts = not lab.source.read_only and lab.edits.own_mask and lab.edits.mask_at(lab.site.kind)
    if not comparable or not acts or max(lab.lengths) > MOST_COMPARED:
        return True
    built_in, other = own or Full(), lab.mask
    sentence = lab.sentence if built_in.batch_size else 0
    return not torch.equal(
        built_in.grid(*lab.lengths, sentence=sentence), other.grid(*lab.lengths, sentence=lab.masked)
    )


def sizes(lab: Lab) -> tuple[int, tuple[int, ...]]:
    """Keys and lengths of the sentences; where none is padded, as if their last two tokens were padding."""
    lengths, keys = tuple(sentence.length for sentence in lab.key_sentences), lab.lengths[1]
    return keys, lengths if min(lengths) < keys else (shorter(keys),) * len(lengths)


def shorter(keys: int) -> int:
    """The length of a sentence whose last two tokens are padding."""
    return max(1, keys - 2)


def _row(lab: Lab, i: int, entry: Entry, title: str, *, first: bool, last: bool) -> None:
    """One rule: what it is and whether it is on, its place, how it is joined, its numbers."""
    rule, parameters = entry.mask, entry.mask.parameters()
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        with st.container(width="stretch"):
            _set(st.checkbox, title, i, "on", entry.on, help=rule.meaning)
        _button(words.MOVE_UP, "up", "arrow_upward", _moved, i, i - 1, able=i > 0)
        _button(words.MOVE_DOWN, "down", "arrow_downward", _moved, i, i + 1, able=not last)
        _button(words.REMOVE, "remove", "close", mask.without, i)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        if not first:
            _set(st.segmented_control, words.JOIN, i, "join", entry.join, JOINS, lead="")
        _set(st.checkbox, words.NOT, i, "negated", entry.negated)
    if parameters and parameters[0].kind == "cells":
        quiet(words.PAINTED.format(cells=counted(len(rule.cells), words.CELL)))
    for parameter in (parameter for parameter in parameters if parameter.kind == "numbers"):
        _numbers(lab, i, rule, parameter)
    if numbers := [parameter for parameter in parameters if parameter.kind == "number"]:
        with st.container(horizontal=True, gap="small"):
            for parameter in numbers:
                options = {"width": 106} | ({} if parameter.needed else {"value": None})
                number(i, rule, parameter.name, at=f"{rule.rule} {parameter.name} {i}", lead=False, **options)


def _button(title: str, name: str, icon: str, step: Callable[..., State], i: int, *to: int, able: bool = True) -> None:
    """A button that shows an icon; its title is there for those who cannot see it, and on hovering."""
    title = title.format(number=i + 1)
    options = {"icon": f":material/{icon}:", "help": title, "disabled": not able}
    options |= {"on_click": state.change, "args": (step, i, *to)}
    st.button(title, key=f"icon {name} {i}", type="tertiary", **options)


def _set(widget: Callable, title: str, i: int, name: str, value: object, *args: object, **options) -> None:
    """A rule joined in another way, turned around, on or off."""

    def step(now: State, value: object) -> State:
        return mask.with_entry(now, i, lambda: {name: value})

    control(widget, title, MASK, *args, shown=value, at=f"{name} {i}", step=step, **options)


def _numbers(lab: Lab, i: int, rule: Mask, f: Parameter) -> None:
    """A list of numbers of a rule, as text."""

    def step(now: State, typed: str) -> State:
        return mask.with_numbers(now, i, lambda: {f.name: _read(typed, f)})

    options = {"shown": ", ".join(map(str, getattr(rule, f.name))), "help": words.WITH_COMMAS}
    control(st.text_input, f.label, MASK, at=f"{rule.rule} {f.name} {i}", step=step, **options)
    if rule.rule == "padding":
        lengths = tuple(sentence.length for sentence in lab.key_sentences)
        options = {"on_click": state.change, "args": (mask.with_numbers, i, lambda: {"lengths": lengths})}
        options |= {"type": "tertiary", "disabled": lengths == rule.lengths}
        st.button(words.THESE_LENGTHS, key=f"lengths {i}", **options)


def _read(typed: str, f: Parameter) -> tuple[int, ...]:
    parts = [part for part in re.split(r"[\s,;]+", typed) if part]
    if len(parts) > MOST_ITEMS:
        raise InputError(words.MANY_NUMBERS.format(count=len(parts), label=f.label, most=MOST_ITEMS))
    for part in parts:
        if not re.fullmatch(r"\d{1,4}", part, re.ASCII) or int(part) > f.most:
            raise InputError(words.NOT_A_NUMBER.format(typed=part[:20], label=f.label, most=f.most))
    return tuple(map(int, parts))


def _moved(now: State, i: int, to: int) -> State:
    return mask.changed(now, lambda stack: stack.moved(i, to))
