"""Editor of the page's mask: a list of rules, painted cells, and the mask that results in the model."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import streamlit as st

from attnviz.core.amounts import counted
from attnviz.core.conventions import ModelMask, mask_of
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.masks import Full, Mask, Opened, Painted, Parameter, composable, initial_mask
from attnviz.core.masks.text import Entry, Stack, stack_from_text
from attnviz.core.record import Record
from attnviz.link import Choices
from attnviz.ui import cache, streamlit_internals
from attnviz.ui.request import change, control, now, session
from attnviz.ui.text import literal, note, quiet
from attnviz.ui.toolbar import Context

RULES = {rule.keyword: rule for rule in composable() if rule.parameters()[0].kind != "cells"}
"""Rules that the menus offer, by keyword; single cells are painted instead."""
PRESETS = {
    "prefix-LM": "causal | prefix(2)",
    "causal with padding": "causal & padding({lengths})",
    "causal with left padding": "causal & padding({lengths}, left={keys})",
    "Longformer": "window(1, 1) | global(0)",
    "BigBird": "blocks(2, first=1) | random(1, {keys}, 0)",
    "StreamingLLM": "(window(2) | prefix(1)) & causal",
}
"""Known masks made of several rules; a preset replaces the whole list of rules."""
LONG = ("dilated", "strided", "fixed", "blocks", "random", "block_diffusion", "Longformer", "BigBird", "StreamingLLM")
PICTURES = ("patch_windows", "neighborhood", "media")
GROUPS = {
    "Basic": tuple(name for name in (*RULES, *PRESETS) if name not in (*LONG, *PICTURES)),
    "Long context": LONG,
    "Pictures": PICTURES,
}
"""Menus with the names of their rules and presets."""
JOINS = {"and": ("and", False), "and not": ("and", True), "or": ("or", False), "or not": ("or", True)}
FIRST = {"begin with": ("", False), "begin with not": ("", True)}
"""Join and negation of a rule, by their names in the menu: `FIRST` for the first rule, which is joined to nothing
(""), `JOINS` for all others."""


def stack() -> Stack:
    """Return all rules of the page, including those that are switched off."""
    return now()["mask"] or Stack()


def with_rules(step: Callable[[Stack], Stack], choices: Choices) -> Choices:
    """Return the choices with the rules `step(old rules)`; unchanged if these are invalid, and the page says why."""
    try:
        after = step(choices["mask"] or Stack())
        stack_from_text(after.text)  # raises an error if a link with this mask could not be opened again
    except AttnvizError as error:
        session().memory["rules refused"] = str(error)
        return choices
    return choices.put(mask=after if after.entries else None)


def draw(context: Context) -> None:
    """Draw the menus, the list of rules, and the mask as text."""
    texts = cache.sentences(context.source, context.request)
    keys, lengths = max(len(text.tokens) for text in texts), tuple(text.length for text in texts)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        for title, names in GROUPS.items():
            _menu(title, names, keys, lengths)
    entries = stack().entries
    first = next((i for i, entry in enumerate(entries) if entry.on), 0)
    for i, entry in enumerate(entries):
        with st.container(key=f"rule {i}", gap="xsmall"):
            _rule(entry, i, FIRST if i <= first else JOINS)
    if not entries:
        quiet("No rule yet. Add one, or paint cells.")

    def with_text(choices: Choices, text: str) -> Choices:
        return with_rules(lambda _: stack_from_text(text or "none"), choices)

    options = {"value": stack().text if entries else "", "apply": with_text, "placeholder": "causal & window(2)"}
    control(st.text_input, "Rules as text", "mask", part="rules as text", **options)
    if error := session().memory.pop("rules refused", ""):
        note(error)


def preset(name: str, keys: int, lengths: tuple[int, ...]) -> Stack:
    """Return the rules of a preset, for this number of keys and these lengths of the texts."""
    return stack_from_text(PRESETS[name].format(keys=keys, lengths=", ".join(map(str, lengths))))


def _menu(title: str, names: tuple[str, ...], keys: int, lengths: tuple[int, ...]) -> None:
    """Draw a menu of rules, which are appended to the list, and of presets, which replace the list.

    Args:
        keys: number of keys, the length of the longest text with its padding.
        lengths: number of tokens of each text without padding.
    """
    if min(lengths) >= keys:  # no text has padding: a padding rule then hides the last two tokens
        lengths = (max(1, keys - 2),) * len(lengths)

    def add_chosen() -> None:
        name = streamlit_internals.peek(f"add {title}")
        if name in PRESETS:
            change(partial(with_rules, lambda _: preset(name, keys, lengths)))
        elif name in RULES:
            rule = initial_mask(RULES[name], keys, lengths)
            change(partial(with_rules, lambda stack: stack.added(Entry(rule, rule.join))))

    def describe(name: str) -> str:
        if name in PRESETS:
            return literal(f"{name}: replaces the rules")
        return literal(f"{name.replace('_', ' ')}: {RULES[name].meaning}")

    st.menu_button(title, names, key=f"add {title}", icon=":material/add:", on_click=add_chosen, format_func=describe)


def _rule(entry: Entry, i: int, joins: dict[str, tuple[str, bool]]) -> None:
    """Draw the rule with index `i`: its join (one of `joins`), its switch, its buttons and its parameters."""
    mask = entry.mask
    (current,) = [
        name for name, (join, negated) in joins.items() if join in ("", entry.join) and negated == entry.negated
    ]  # "": nothing is before a first rule

    def with_join(old: Entry, name: str) -> Entry:
        join, negated = joins[name]
        return replace(old, join=join or old.join, negated=negated)  # a first rule keeps its join

    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        options = {"value": current, "new_entry": with_join, "visible": False, "width": 124}
        _control(st.selectbox, f"How rule {i + 1} is joined", i, "join", [*joins], **options)
        with st.container(width="stretch"):
            title = literal(mask.keyword.replace("_", " ") if mask.parameters() else str(mask))
            options = {"value": entry.on, "new_entry": lambda old, on: replace(old, on=on)}
            _control(st.checkbox, title, i, "on", help=literal(mask.meaning) or None, **options)
        _button("Move up", "arrow_upward", i, lambda stack: stack.moved(i, i - 1), disabled=i == 0)
        _button("Remove", "close", i, lambda stack: stack.removed(i))
    with st.container(horizontal=True, gap="small"):
        for parameter in mask.parameters():
            _numbers(i, mask, parameter)


def _button(title: str, icon: str, i: int, change_list: Callable[[Stack], Stack], **options: Any) -> None:
    """Draw an icon button that applies `change_list` to the list of rules."""
    named = {"key": f"{icon} rule {i}", "icon": f":material/{icon}:", "help": f"{title} rule {i + 1}"}
    st.button("", type="tertiary", on_click=change, args=(partial(with_rules, change_list),), **named, **options)


def _control(widget: Callable, label: str, i: int, part: str, *args: Any, new_entry: Callable, **options: Any) -> None:
    """Draw a widget that changes a `part` of rule `i`, by the function new_entry(old entry, value of the widget)."""

    def with_new_entry(choices: Choices, value: Any) -> Choices:
        return with_rules(lambda stack: stack.replaced(i, new_entry(stack.entries[i], value)), choices)

    control(widget, label, "mask", *args, apply=with_new_entry, part=f"{part} of rule {i}", **options)


def _numbers(i: int, mask: Mask, parameter: Parameter) -> None:
    """Draw the control of a rule's parameter: a number, or a text with several; for painted cells only their count."""
    value, name = getattr(mask, parameter.name), parameter.name
    label, part = parameter.label, f"{mask.keyword} {name}"

    def with_value(old: Entry, typed: int | str) -> Entry:
        """Change the parameter of a rule to a number, or to the numbers of a text."""
        numbers = whole_numbers(typed, label) if isinstance(typed, str) else typed
        return replace(old, mask=replace(old.mask, **{name: numbers}))

    if parameter.kind == "cells":
        quiet(f"{counted(len(value), 'cell')} painted by hand")
    elif parameter.kind == "numbers":
        options = {"value": ", ".join(map(str, value)), "new_entry": with_value, "width": 190, "max_chars": 300}
        _control(st.text_input, label, i, part, **options)
    elif value is not None:
        least, most = min(parameter.least, value), max(parameter.most, value)
        _control(st.number_input, label, i, part, least, most, value=value, new_entry=with_value, width=110)


def whole_numbers(text: str, label: str) -> tuple[int, ...]:
    """Parse whole numbers separated by commas or blanks; raise InputError if a part is not a whole number."""
    parts = text.replace(",", " ").split()
    wrong_parts = [part for part in parts if not re.fullmatch(r"\d{1,6}", part, re.ASCII)]
    if wrong_parts:
        raise InputError(f"{quoted(wrong_parts[0][:20])} cannot be read as {label}: write whole numbers, such as 5, 3.")
    return tuple(map(int, parts))


def flip_cells(stack: Stack, cells: Iterable[tuple[int, int]], *, sentence: int = 0) -> Stack:
    """Return the rules with all these cells (query, key) blocked or, if all of them are blocked already, opened.

    The last entries of the rules hold the painted cells: a `Painted` entry blocks its cells, an `Opened` entry opens
    its cells, which rules before it block.
    """
    cells = set(cells)
    if _open_cells(stack, cells, sentence):  # block the cells: no longer open them, then block those still open
        stack = _change_painted(stack, Opened, lambda opened: opened - cells)
        still_open = _open_cells(stack, cells, sentence)
        return _change_painted(stack, Painted, lambda blocked: blocked | still_open)
    stack = _change_painted(stack, Painted, lambda blocked: blocked - cells)
    still_blocked = cells - _open_cells(stack, cells, sentence)
    return _change_painted(stack, Opened, lambda opened: opened | still_blocked)


def cells_in(ranges: dict[str, list[float]]) -> set[tuple[int, int]]:
    """Return the cells (query, key) that a drag touches; its ranges are {"row": [1.2, 3.4], "column": [2.5, 0.5]}."""

    def touched(name: str) -> range:
        """Return the indices of the rows or columns that the drag touches."""
        start, end = sorted(ranges.get(name) or [0.0, 0.0])
        return range(math.floor(start), math.ceil(end))

    return set(product(touched("row"), touched("column")))


def _open_cells(stack: Stack, cells: set[tuple[int, int]], sentence: int) -> set[tuple[int, int]]:
    """Return those of the cells (query, key) that the rules do not block."""
    if not cells:
        return set()
    queries, keys = (max(positions) + 1 for positions in zip(*cells, strict=True))
    grid = (stack.mask() or Full()).grid(queries, keys, sentence=sentence)
    return {cell for cell in cells if grid[cell]}


def _change_painted(stack: Stack, kind: type[Painted] | type[Opened], change: Callable[[set], set]) -> Stack:
    """Apply `change` to the cells of the painted entry of a kind; add the entry if needed, remove it without cells.

    Only painted entries at the end of the list are used, because a rule after an entry can change its cells again.
    """
    index, old_cells = None, set()
    for i, entry in reversed([*enumerate(stack.entries)]):
        is_painted = isinstance(entry.mask, Painted | Opened) and entry == Entry(entry.mask, entry.mask.join)
        if not is_painted:
            break
        if isinstance(entry.mask, kind):
            index, old_cells = i, set(entry.mask.cells)
            break
    cells = tuple(change(old_cells))
    new_entry = Entry(kind(cells), kind.join)
    if index is None:
        return stack.added(new_entry) if cells else stack
    return stack.replaced(index, new_entry) if cells else stack.removed(index)


@cache.cached
def _mask_of_call(record: Record, site: Site, head: int, sentence: int) -> Mask | None:
    """Return the mask of an attention call, as a rule if possible, else as its cells; None if it blocks nothing."""
    mask = mask_of(record.step(site), head, sentence=sentence)
    return None if isinstance(mask, Full) else mask


def number(context: Context) -> int:
    """Return the index of the head in view; 0 if the page shows all heads combined."""
    return context.head if isinstance(context.head, int) else 0


def built_in(context: Context) -> Mask | None:
    """Return the built-in mask of the model at the call in view; None if there is none."""
    return _mask_of_call(context.original, context.site, number(context), context.sentence)


def acting_mask(context: Context) -> Mask:
    """Return the mask that acts at the call in view; for a read-only model, the built-in mask joined with the rules."""
    rules = stack().mask()
    if not context.source.read_only:
        mask = _mask_of_call(context.record, context.site, number(context), context.sentence)
        if not isinstance(mask, ModelMask):
            return mask or Full()
        is_joined = context.edits.own_mask and context.edits.mask_at(context.site.kind) == rules
        if rules is None or not is_joined:
            return mask
    # the model is read-only, or the run has only the cells of the joined mask: join built-in mask and rules here
    built_in_mask = built_in(context)
    if built_in_mask is None:
        return rules or Full()
    return built_in_mask if rules is None else built_in_mask & rules
