"""The edits bar and the heads that are on: what differs from the untouched model."""

from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.scoring import EMPTY_ROWS
from attnviz.core.stack import Entry, Stack
from attnviz.sources.base import Source
from attnviz.ui import cache, masking
from attnviz.ui.lab import rules
from attnviz.ui.lab.link import Added
from attnviz.ui.lab.rules import BY_NAME
from attnviz.ui.notes import label, note, quiet
from attnviz.ui.steps.link import Tuned
from attnviz.walk import Knobs

LONGEST_CHIP = 60
"""Characters on a chip; of longer lists of heads the first are named."""


SHORTCUTS = ("subsequent", "window", "prefix")
"""Rules that a page offers as pills; all others are composed in the mask lab."""


def unchanged() -> dict[str, object]:
    """What the controls of the edits bar hold when nothing is changed."""
    scores = {"added": Added(), "tuned": Tuned()}
    return {"mask": None, "own_mask": True, "empty": EMPTY_ROWS[0], "off": frozenset(), **scores}


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
    st.session_state["opening"] = Stack() if fixed else opening
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="edits"):
        if shortcuts:
            _shortcuts(fixed)
        own_mask = _own_mask(hidden, fixed)
        stack, left_out = masking.fitting(masking.now(), len(lines))
        heads_off = frozenset((s, h) for s, h in st.session_state["off"] if s in source.sites and h < source.num_heads)
        added, tuned = st.session_state["added"], st.session_state["tuned"]
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
    st.button("let go of these changes", key="reset", on_click=reset, type="tertiary", wrap=False)


def _hidden(source: Source, lines: tuple[str, ...]) -> str:
    """What the model's own mask hides: the future, padding, both, or nothing."""
    future = any(site.kind == "decoder" for site in source.sites)
    padding = len({sentence.length for sentence in cache.sentences(source, lines)}) > 1
    return " and ".join(["the future"] * future + ["padding"] * padding)


def _own_mask(hidden: str, fixed: bool) -> bool:
    """Whether the model's own mask stays; asked for only where it hides something."""
    if not hidden:
        return True
    said = f"It hides {hidden}."
    options = {"key": "own_mask", "bind": "query-params", "help": said, "disabled": fixed}
    return st.toggle("the model's own mask", True, **options)


def _shortcuts(fixed: bool) -> None:
    """Some rules as pills, with the numbers of those that are on. A pill adds a rule, or takes it away."""
    label("Mask")
    on = [e.mask.rule for e in masking.now().entries if e.on]
    st.session_state["rules"] = [name for name in SHORTCUTS if name in on]
    options = {"selection_mode": "multi", "key": "rules", "on_change": _choose, "label_visibility": "collapsed"}
    st.pills("Mask", SHORTCUTS, wrap=True, disabled=fixed, **options)
    for name, key in (("window", "before"), ("window", "after"), ("prefix", "length")):
        if name in on:
            f = next(f for f in BY_NAME[name].parameters() if f.name == key)
            label(f.label)
            key = f"{name} {f.name}"
            st.session_state[key] = getattr(_first(name).mask, f.name)
            options = {"width": 116, "label_visibility": "collapsed", "disabled": fixed, "required": True}
            st.number_input(f.label, f.least, f.most, key=key, on_change=_set, args=(name, f.name, key), **options)


def _first(name: str) -> Entry | None:
    """The first entry that is on and of a rule."""
    return next((e for e in masking.now().entries if e.on and e.mask.rule == name), None)


def _choose() -> None:
    """Take away what was let go of; add what is new: a prefix before the rules that block, as it opens the future."""
    chosen, stack = st.session_state["rules"], masking.now()
    entries = [e for e in stack.entries if not e.on or e.mask.rule not in SHORTCUTS or e.mask.rule in chosen]
    on = {e.mask.rule for e in entries if e.on}
    for name in (name for name in SHORTCUTS if name in chosen and name not in on):
        made = rules.entry(BY_NAME[name].started(0, ()))
        entries.insert(
            0 if name == "subsequent" else _after_subsequent(entries) if name == "prefix" else len(entries), made
        )
    try:
        masking.put(Stack(tuple(entries)))
    except AttnvizError as error:
        masking.refuse(error)


def _after_subsequent(entries: list[Entry]) -> int:
    return next((i + 1 for i, e in enumerate(entries) if e.on and e.mask.rule == "subsequent"), len(entries))


def _set(name: str, field: str, key: str) -> None:
    stack, entry = masking.now(), _first(name)
    changed = replace(entry, mask=replace(entry.mask, **{field: st.session_state[key]}))
    masking.put(stack.replaced(stack.entries.index(entry), changed))


def _empty_rows(source: Source, lines: tuple[str, ...], edits: Edits) -> str:
    """What a row without keys gets; asked for only where there is one."""
    try:
        if not cache.record(source, lines, edits).has_empty_rows:
            return EMPTY_ROWS[0]
    except AttnvizError:  # the page says it where its pictures would stand: first come the edits, to be taken back
        return EMPTY_ROWS[0]
    label("Rows without keys")
    chosen = st.pills(
        "Rows without keys",
        EMPTY_ROWS,
        default=EMPTY_ROWS[0],
        key="empty",
        required=True,
        bind="query-params",
        label_visibility="collapsed",
    )
    return chosen or EMPTY_ROWS[0]


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
    st.button("reset all", key="reset", on_click=reset, type="tertiary", wrap=False)
    on = [(i, entry) for i, entry in enumerate(stack.entries) if entry.on]
    for i, entry in on:
        _chip(name_of(entry, first=i == on[0][0]), _drop_rule, i, key=f"chip mask {i}")
    added = st.session_state["added"]
    if added.alibi:
        _chip("ALiBi bias", _drop_added, "alibi")
    if added.relative is not None:
        _chip(f"relative bias, seed {added.relative}", _drop_added, "relative")
    if added.softcap is not None:
        _chip(f"softcap {added.softcap:g}", _drop_added, "softcap")
    if edits.temperature != 1:
        _chip(f"temperature {edits.temperature:g}", _tune, "temperature")
    if edits.scale is not None:
        _chip("scores not scaled", _tune, "scaled")
    if not edits.own_mask:
        _chip(f"{hidden} not masked", _forget, "own_mask")
    if edits.empty_rows != EMPTY_ROWS[0]:
        _chip(f"rows without keys: {edits.empty_rows}", _forget, "empty")
    for site in sorted({site for site, _ in edits.heads_off}):
        heads = sorted(edits.off(site))
        numbers = ", ".join(map(str, heads))
        _chip(f"{site} {'head' if len(heads) == 1 else 'heads'} {numbers} off", _turn_on, site)


def _chip(label: str, undo, *args, key: str = "") -> None:
    shown = label if len(label) <= LONGEST_CHIP else f"{label[:LONGEST_CHIP].rsplit(',', 1)[0]}, …"
    shown += " off" * (shown != label and label.endswith(" off"))
    key = key or f"chip {label}"
    st.button(shown, key=key, icon=":material/close:", on_click=undo, args=args, help="Undo this change")


def _drop_rule(index: int) -> None:
    masking.put(masking.now().removed(index))


def _drop_added(name: str) -> None:
    st.session_state["added"] = replace(st.session_state["added"], **{name: getattr(Added(), name)})


def _tune(name: str) -> None:
    st.session_state["tuned"] = replace(st.session_state["tuned"], **{name: getattr(Tuned(), name)})


def _forget(name: str) -> None:
    """Back to the default of a control."""
    st.session_state[name] = unchanged()[name]


def _turn_on(site: Site) -> None:
    """All heads of a site."""
    _set_off(site, ())


def reset() -> None:
    """Back to the untouched model; on a page that begins with a mask, no mask is then a choice."""
    opening = st.session_state["opening"]
    masking.put(Stack())
    st.session_state.update(unchanged() | {"knobs": Knobs()} | ({"mask": Stack()} if opening.entries else {}))


def heads_on(source: Source, site: Site) -> None:
    """Heads on and off, as pills."""
    off = set() if source.read_only else {head for place, head in st.session_state["off"] if place == site}
    heads = list(range(source.num_heads))
    key = f"on {site}"
    st.session_state[key] = [head for head in heads if head not in off]
    fixed = bool(source.read_only)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Heads on")
        options = {"selection_mode": "multi", "key": key, "on_change": _switch, "args": (site, heads, key)}
        st.pills("Heads on", heads, label_visibility="collapsed", wrap=True, disabled=fixed, **options)
        each = ("all", "all on", ()), ("none", "all off", heads), ("invert", "invert", set(heads) - off)
        for name, key, turned_off in each:
            options = {"on_click": _set_off, "args": (site, turned_off), "type": "tertiary", "disabled": fixed}
            st.button(name, key=key, **options)


def _switch(site: Site, heads: list[int], key: str) -> None:
    _set_off(site, set(heads) - set(st.session_state[key]))


def _set_off(site: Site, heads) -> None:
    edits = Edits(heads_off=st.session_state["off"]).with_heads_off(site, frozenset(heads))
    st.session_state["off"] = edits.heads_off
