"""The edits bar and the heads that are on: what differs from the untouched model."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.scoring import EMPTY_ROWS
from attnviz.core.stack import Entry, Stack
from attnviz.sources.base import Source
from attnviz.ui.masks.added import ADDED
from attnviz.ui.shared import cache, masking, rules, state, written
from attnviz.ui.shared.masking import MASK
from attnviz.ui.shared.notes import label, note, quiet
from attnviz.ui.shared.rules import BY_NAME
from attnviz.ui.shared.state import Setting, State, control
from attnviz.ui.steps.play import KNOBS, TUNED

LONGEST_CHIP = 60
"""Characters on a chip; of longer lists of heads the first are named."""

SHORTCUTS = ("subsequent", "window", "prefix")
"""Rules that a page offers as pills; all others are composed in the mask lab."""

OFF = state.coded("off", frozenset(), written.encode_heads, written.decode_heads, of="model")
OWN_MASK = state.flag("own_mask", True)
EMPTY = state.choice("empty", EMPTY_ROWS, EMPTY_ROWS[0])


def edits_bar(
    source: Source, lines: tuple[str, ...], *, opening: Stack = Stack(), shortcuts: bool = True
) -> tuple[Edits, DeltaGenerator]:
    """Toggle masks, and see and undo what is changed. Gives the edits, and the place for what the model says to them.

    A model that is read-only is left as it is: its controls are disabled, and what a link would change is named.

    Args:
        opening: the mask that is on as long as nobody has chosen any.
        shortcuts: whether some masks stand there as pills.
    """
    fixed = bool(source.read_only)
    hidden = _hidden(source, lines)
    state.put(masking.OPENING, Stack() if fixed else opening)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="edits"):
        if shortcuts:
            _shortcuts(fixed)
        own_mask = _own_mask(hidden, fixed)
        stack, left_out = masking.fitting(masking.current(), len(lines))
        heads_off = frozenset((s, h) for s, h in state.get(OFF) if s in source.sites and h < source.num_heads)
        added, tuned = state.get(ADDED), state.get(TUNED)
        scores = {"temperature": tuned.temperature, "scale": tuned.scale, "bias": added.bias, "softcap": added.softcap}
        edits = Edits(stack.mask(), heads_off, own_mask=own_mask, **scores)
        if not fixed:
            edits = replace(edits, empty_rows=_empty_rows(source, lines, edits))
    for entry in left_out:
        many = f"The {name_of(entry)} is for {entry.mask.batch_size} sentence(s), and there are {len(lines)}"
        note(f"{many}: it is left out. Give it the lengths of all sentences on the page Masks.", "notice")
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        kept = {"wrap": False, "vertical_alignment": "center", "gap": "small", "width": "content", "key": "changes"}
        row = st.container(horizontal=True, **kept)
        said = st.container(key="said")
    if source.unseen:
        quiet(source.unseen)
    if fixed:
        _left_out(source, edits, row)
        return Edits(), said
    with row:
        _chips(edits, stack, hidden)
    return edits, said


def _left_out(source: Source, edits: Edits, row: DeltaGenerator) -> None:
    """Why nothing can be changed in a model, and what is set and so is left out."""
    with row:
        label("Read-only: nothing can be changed in this model.")
    if edits == Edits():
        quiet(source.read_only)
        return
    note(f"{source.read_only} Left out: {'; '.join(edits.in_words())}.", "notice")
    st.button("let go of these changes", key="reset", on_click=state.change, args=(reset,), type="tertiary", wrap=False)


def _hidden(source: Source, lines: tuple[str, ...]) -> str:
    """What the model's own mask hides: the future, padding, both, or nothing."""
    future = any(site.kind == "decoder" for site in source.sites)
    padding = len({sentence.length for sentence in cache.sentences(source, lines)}) > 1
    return " and ".join(["the future"] * future + ["padding"] * padding)


def _own_mask(hidden: str, fixed: bool) -> bool:
    """Whether the model's own mask stays; asked for only where it hides something."""
    if not hidden:
        return True
    return st.toggle("the model's own mask", **control(OWN_MASK), help=f"It hides {hidden}.", disabled=fixed)


def _shortcuts(fixed: bool) -> None:
    """Some rules as pills, with the numbers of those that are on. A pill adds a rule, or takes it away."""
    label("Mask")
    on = [e.mask.rule for e in masking.current().entries if e.on]
    options = control(MASK, [name for name in SHORTCUTS if name in on], at="rules", step=_choose)
    options |= {"selection_mode": "multi", "label_visibility": "collapsed"}
    st.pills("Mask", SHORTCUTS, wrap=True, disabled=fixed, **options)
    for name, key in (("window", "before"), ("window", "after"), ("prefix", "length")):
        if name in on:
            f = next(f for f in BY_NAME[name].parameters() if f.name == key)
            label(f.label)
            shown = getattr(_first(name).mask, f.name)
            options = control(MASK, shown, at=f"{name} {f.name}", step=partial(_with_number, name, f.name))
            options |= {"width": 116, "label_visibility": "collapsed", "disabled": fixed, "required": True}
            st.number_input(f.label, f.least, f.most, **options)


def _first(name: str) -> Entry | None:
    """The first entry that is on and of a rule."""
    return next((e for e in masking.current().entries if e.on and e.mask.rule == name), None)


def _choose(now: State, chosen: list[str]) -> State:
    return masking.changed(now, lambda stack: _with_shortcuts(stack, chosen))


def _with_shortcuts(stack: Stack, chosen: list[str]) -> Stack:
    """Take away what was let go of; add what is new: a prefix before the rules that block, as it opens the future."""
    entries = [e for e in stack.entries if not e.on or e.mask.rule not in SHORTCUTS or e.mask.rule in chosen]
    on = {e.mask.rule for e in entries if e.on}
    for name in (name for name in SHORTCUTS if name in chosen and name not in on):
        made = rules.entry(BY_NAME[name].started(0, ()))
        entries.insert(
            0 if name == "subsequent" else _after_subsequent(entries) if name == "prefix" else len(entries), made
        )
    return Stack(tuple(entries))


def _after_subsequent(entries: list[Entry]) -> int:
    return next((i + 1 for i, e in enumerate(entries) if e.on and e.mask.rule == "subsequent"), len(entries))


def _with_number(name: str, field: str, now: State, value: int) -> State:
    def change(stack: Stack) -> Stack:
        entry = next(e for e in stack.entries if e.on and e.mask.rule == name)
        return stack.replaced(stack.entries.index(entry), replace(entry, mask=replace(entry.mask, **{field: value})))

    return masking.changed(now, change)


def _empty_rows(source: Source, lines: tuple[str, ...], edits: Edits) -> str:
    """What a row without keys gets; asked for only where there is one."""
    try:
        if not cache.record(source, lines, edits).has_empty_rows:
            return EMPTY_ROWS[0]
    except AttnvizError:  # the page says it where its pictures would stand: first come the edits, to be taken back
        return EMPTY_ROWS[0]
    label("Rows without keys")
    st.pills("Rows without keys", EMPTY_ROWS, **control(EMPTY), required=True, label_visibility="collapsed")
    return state.get(EMPTY)


def name_of(entry: Entry, *, first: bool = True) -> str:
    """A rule as it is called: "subsequent mask", "or prefix of 2", "not padding mask"."""
    rule = str(entry.mask)
    rule += " mask" if rule == entry.mask.rule else ""
    return " ".join(filter(None, ("or" * (entry.join == "or" and not first), "not" * entry.negated, rule)))


def _chips(edits: Edits, stack: Stack, hidden: str) -> None:
    """One removable chip for each thing that is changed, and one button that resets all."""
    if edits == Edits():
        label("Nothing is changed: this is the model as it is.")
        return
    label("Changed")
    st.button("reset all", key="reset", on_click=state.change, args=(reset,), type="tertiary", wrap=False)
    on = [(i, entry) for i, entry in enumerate(stack.entries) if entry.on]
    for i, entry in on:
        _chip(name_of(entry, first=i == on[0][0]), _without_rule, i, key=f"chip mask {i}")
    added = state.get(ADDED)
    if added.alibi:
        _chip("ALiBi bias", _unset, ADDED, "alibi")
    if added.relative is not None:
        _chip(f"relative bias, seed {added.relative}", _unset, ADDED, "relative")
    if added.softcap is not None:
        _chip(f"softcap {added.softcap:g}", _unset, ADDED, "softcap")
    if edits.temperature != 1:
        _chip(f"temperature {edits.temperature:g}", _unset, TUNED, "temperature")
    if edits.scale is not None:
        _chip("scores not scaled", _unset, TUNED, "scaled")
    if not edits.own_mask:
        _chip(f"{hidden} not masked", State.put, OWN_MASK, True)
    if edits.empty_rows != EMPTY_ROWS[0]:
        _chip(f"rows without keys: {edits.empty_rows}", State.put, EMPTY, EMPTY_ROWS[0])
    for site in sorted({site for site, _ in edits.heads_off}):
        heads = sorted(edits.off(site))
        numbers = ", ".join(map(str, heads))
        _chip(f"{site} {'head' if len(heads) == 1 else 'heads'} {numbers} off", _with_off, site, frozenset())


def _chip(label: str, undo: Callable[..., State], *args: object, key: str = "") -> None:
    shown = label if len(label) <= LONGEST_CHIP else f"{label[:LONGEST_CHIP].rsplit(',', 1)[0]}, …"
    shown += " off" * (shown != label and label.endswith(" off"))
    options = {"on_click": state.change, "args": (undo, *args), "help": "Undo this change"}
    st.button(shown, key=key or f"chip {label}", icon=":material/close:", **options)


def _without_rule(now: State, index: int) -> State:
    return masking.changed(now, lambda stack: stack.removed(index))


def _unset(now: State, setting: Setting, field: str) -> State:
    """One field of a setting as it is where nobody chose."""
    return now.put(setting, replace(now[setting], **{field: getattr(setting.default, field)}))


def reset(now: State) -> State:
    """Back to the untouched model; on a page that begins with a mask, no mask is then a choice."""
    opening = now[masking.OPENING]
    now = masking.put(now, Stack())
    for setting in (MASK, OWN_MASK, EMPTY, OFF, ADDED, TUNED, KNOBS):
        now = now.put(setting, setting.default)
    return now.put(MASK, Stack()) if opening.entries else now


def heads_on(source: Source, site: Site) -> None:
    """Heads on and off, as pills."""
    heads, fixed = range(source.num_heads), bool(source.read_only)
    off = set() if fixed else {head for place, head in state.get(OFF) if place == site}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Heads on")
        on = [head for head in heads if head not in off]
        options = control(OFF, on, at=f"on {site}", step=lambda now, on: _with_off(now, site, {*heads} - {*on}))
        options |= {"selection_mode": "multi", "label_visibility": "collapsed", "disabled": fixed}
        st.pills("Heads on", heads, wrap=True, **options)
        for name, key, heads_off in (("all", "all on", ()), ("none", "all off", heads), ("invert", "invert", on)):
            options = {"on_click": state.change, "args": (_with_off, site, heads_off)}
            st.button(name, key=key, type="tertiary", disabled=fixed, **options)


def _with_off(now: State, site: Site, heads: Iterable[int]) -> State:
    """With these heads of a site off, and no others of it."""
    return now.put(OFF, Edits(heads_off=now[OFF]).with_heads_off(site, frozenset(heads)).heads_off)
