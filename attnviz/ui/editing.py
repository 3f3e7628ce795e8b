"""The edits bar and the heads that are on: what differs from the untouched model."""

from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.core.attention import EMPTY_ROWS
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Mask, Prefix, Subsequent, Window
from attnviz.core.record import Record
from attnviz.sources.base import Source
from attnviz.ui import cache, state
from attnviz.ui.notes import label, note, quiet

LONGEST_CHIP = 60
"""Characters on a chip; of longer lists of heads the first are named."""


def unchanged() -> dict[str, object]:
    """What the controls of the edits bar hold when nothing is changed."""
    return {"mask": None, "own_mask": True, "empty": EMPTY_ROWS[0], "off": frozenset()}


def edits_bar(source: Source, lines: tuple[str, ...], *, rules: tuple[str, ...] = ()) -> tuple[Edits, DeltaGenerator]:
    """Toggle masks, and see and undo what is changed. Gives the edits, and the place for what the model says to them.

    A model that is read-only is left as it is: its controls are disabled, and what a link would change is named.

    Args:
        rules: the masks that are on as long as nobody has chosen any.
    """
    fixed = bool(source.read_only)
    hidden, rules = _hidden(source, lines), () if fixed else rules
    chosen = rules if st.session_state["mask"] is None else st.session_state["mask"]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="edits"):
        label("Mask")
        st.session_state["rules"] = list(chosen)
        options = {"selection_mode": "multi", "key": "rules", "on_change": _choose, "label_visibility": "collapsed"}
        st.pills("Mask", state.RULES, wrap=True, disabled=fixed, **options)
        parameters = _parameters(chosen, fixed)
        own_mask = _own_mask(hidden, fixed)
        heads_off = frozenset((s, h) for s, h in st.session_state["off"] if s in source.sites and h < source.num_heads)
        edits = Edits(_combined(chosen, parameters), heads_off, own_mask=own_mask)
        if not fixed:
            edits = replace(edits, empty_rows=_empty_rows(cache.record(source, lines, edits)))
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        kept = {"wrap": False, "vertical_alignment": "center", "gap": "small", "width": "content", "key": "changes"}
        row = st.container(horizontal=True, **kept)
        said = st.container(key="said")
    if fixed:
        _left_out(source, edits, row)
        return Edits(), said
    with row:
        _chips(edits, chosen, rules, hidden)
    return edits, said


def _left_out(source: Source, edits: Edits, row: DeltaGenerator) -> None:
    """Why nothing can be changed in a model, and what is set and so is left out."""
    with row:
        label("Read-only: nothing can be changed in this model.")
    if edits == Edits():
        quiet(source.read_only)
        return
    note(f"{source.read_only} Left out: {'; '.join(edits.in_words())}.", "notice")
    st.button("let go of these changes", key="reset", on_click=reset, args=((),), type="tertiary", wrap=False)


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


def _choose() -> None:
    st.session_state["mask"] = tuple(rule for rule in state.RULES if rule in st.session_state["rules"])


def _empty_rows(record: Record) -> str:
    """What a row without keys gets; asked for only where there is one."""
    if not record.has_empty_rows:
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


def _parameters(chosen: tuple[str, ...], fixed: bool) -> dict[str, int]:
    values = {}
    for rule, name, title, default in (
        ("window", "before", "keys before", 2),
        ("window", "after", "keys after", 0),
        ("prefix", "prefix", "prefix length", 2),
    ):
        if rule in chosen:
            label(title)
            options = {"width": 116, "bind": state.binding(name), "label_visibility": "collapsed", "disabled": fixed}
            values[name] = st.number_input(title, 0, 4096, default, key=name, **options)
    return values


def _combined(chosen: tuple[str, ...], parameters: dict[str, int]) -> Mask | None:
    """(subsequent or prefix) and window: a prefix opens what the future mask closes; a window closes more."""
    mask: Mask | None = Subsequent() if "subsequent" in chosen else None
    if "prefix" in chosen:
        prefix = Prefix(parameters["prefix"])
        mask = prefix if mask is None else mask | prefix
    if "window" in chosen:
        window = Window(parameters["before"], parameters["after"])
        mask = window if mask is None else mask & window
    return mask


def _chips(edits: Edits, chosen: tuple[str, ...], rules: tuple[str, ...], hidden: str) -> None:
    """One removable chip for each thing that is changed, and one button that resets all."""
    if edits == Edits():
        label("Nothing is changed: this is the model as it is.")
        return
    label("Changed")
    st.button("reset all", key="reset", on_click=reset, args=(rules,), type="tertiary", wrap=False)
    for rule in chosen:
        _chip(f"{rule} mask", _drop_rule, rule, chosen)
    if not edits.own_mask:
        _chip(f"{hidden} not masked", _forget, "own_mask")
    if edits.empty_rows != EMPTY_ROWS[0]:
        _chip(f"rows without keys: {edits.empty_rows}", _forget, "empty")
    for site in sorted({site for site, _ in edits.heads_off}):
        heads = sorted(edits.off(site))
        numbers = ", ".join(map(str, heads))
        _chip(f"{site} {'head' if len(heads) == 1 else 'heads'} {numbers} off", _turn_on, site)


def _chip(label: str, undo, *args) -> None:
    shown = label if len(label) <= LONGEST_CHIP else f"{label[:LONGEST_CHIP].rsplit(',', 1)[0]}, … off"
    st.button(shown, key=f"chip {label}", icon=":material/close:", on_click=undo, args=args, help="Undo this change")


def _drop_rule(rule: str, chosen: tuple[str, ...]) -> None:
    st.session_state["mask"] = tuple(other for other in chosen if other != rule)


def _forget(name: str) -> None:
    """Back to the default of a control."""
    st.session_state[name] = unchanged()[name]


def _turn_on(site: Site) -> None:
    """All heads of a site."""
    _set_off(site, ())


def reset(rules: tuple[str, ...]) -> None:
    """Back to the untouched model; on a page that begins with masks, no mask is then a choice."""
    st.session_state.update(unchanged() | ({"mask": ()} if rules else {}))


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
