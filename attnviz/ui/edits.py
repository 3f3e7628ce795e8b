"""Changes of a model: the menu of masks and scores, and a chip for each change with a way back."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import streamlit as st

from attnviz import link
from attnviz.core.amounts import counted
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.masks import composable, started
from attnviz.core.scoring import EMPTY_ROWS
from attnviz.core.stack import Entry, Stack, stack_from_text
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui.request import change, control, now, session
from attnviz.ui.text import literal, note, quiet

RULES = {rule.keyword: rule for rule in composable()}
"""Every rule of a mask by its name in the text of masks."""
USUAL = ("causal", "window", "prefix")
"""Rules that the menu offers as pills; every rule can be typed."""
EMPTY = dict(zip(EMPTY_ROWS, ("zeros", "NaN", "equal weights", "an error"), strict=True))
"""What a query gets that has no key left, as the menu names it."""
MOST_NAMED = 4
"""Heads that a chip names; of more it says how many they are."""


def of(source: Source) -> Edits:
    """Changes of a model, as far as the model has it."""
    if source.read_only:
        return Edits()
    edits = link.edits(now(), of_cross=any(site.kind == "cross" for site in source.sites))
    heads = {(site, head) for site, head in edits.heads_off if site in source.sites and head < source.num_heads}
    return replace(edits, heads_off=frozenset(heads))


def menu(source: Source, site: Site) -> None:
    """The menu of the mask and of what changes scores.

    Args:
        site: the layer that is looked at: temperature and scale change there alone until a person says otherwise.
    """
    stack = now()["mask"] or Stack()
    popover = st.popover("Mask", on_change="rerun", key="mask menu", disabled=bool(source.read_only))
    if not popover.open:
        return
    with popover:
        _rules(source, stack)
        control(
            st.text_input, "As text", "mask", value="" if not stack.entries else stack.text, step=_typed, part="text"
        )
        if refused := session().memory.pop("mask refused", ""):
            note(refused)
        control(st.toggle, "Built-in mask", "own_mask")
        if stack.entries and any(site.kind == "cross" for site in source.sites):
            control(st.toggle, "Also on cross-attention", "cross", value=of(source).mask_cross)
        _scores(site)


def _scores(site: Site) -> None:
    """Temperature and scale, of the layer that is looked at or of every layer."""
    temperature, is_scaled, scored = now()["temperature"], now()["scaled"], now()["scored"]
    is_changed = temperature != 1 or not is_scaled
    everywhere = is_changed and scored is None
    at = scored or site

    def changed(choices: Choices, **values: float | bool) -> Choices:
        return choices.put(scored=None if everywhere else at, **values)

    where = "every layer" if everywhere else str(at)
    control(
        st.slider,
        f"Temperature in {where}",
        "temperature",
        0.1,
        5.0,
        step=lambda choices, value: changed(choices, temperature=value),
    )
    control(
        st.toggle, f"Divide by √dₖ in {where}", "scaled", step=lambda choices, value: changed(choices, scaled=value)
    )
    if is_changed:
        control(
            st.toggle,
            "In every layer",
            "scored",
            value=everywhere,
            step=lambda choices, on: choices.put(scored=None if on else site),
            part="everywhere",
        )


def _rules(source: Source, stack: Stack) -> None:
    """The usual rules as pills: a pill adds a rule, or takes it away."""
    on = [entry.mask.keyword for entry in stack.entries if entry.on]

    def step(choices: Choices, chosen: list[str]) -> Choices:
        entries = [entry for entry in stack.entries if entry.mask.keyword in chosen or entry.mask.keyword not in USUAL]
        for name in chosen:
            if name not in on:
                rule = started(RULES[name], 0, ())
                entries.append(Entry(rule, rule.join))
        return choices.put(mask=Stack(tuple(entries)) if entries else None)

    pressed = [name for name in USUAL if name in on]
    control(st.pills, "Rules", "mask", USUAL, value=pressed, step=step, part="rules", selection_mode="multi", wrap=True)


def _typed(choices: Choices, text: str) -> Choices:
    """A mask that was typed; one that cannot be read leaves the mask as it is, and the menu says why."""
    try:
        return choices.put(mask=stack_from_text(text) if text.strip() else None)
    except AttnvizError as error:
        session().memory["mask refused"] = str(error)
        return choices


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:23]}…"


def chips(source: Source) -> None:
    """One chip for each thing that is changed; a click takes it back."""
    changes = [*_changes(source)] if not source.read_only else []
    if source.read_only:
        quiet(source.read_only)
    if len(changes) > 1:
        st.button("Reset all", key="reset", on_click=change, args=(lambda choices: choices.without("edits"),))
    for text, step in changes:
        st.button(literal(text), key=f"chip {text}", icon=":material/close:", on_click=change, args=(step,))


def _changes(source: Source) -> Iterator[tuple[str, Callable[[Choices], Choices]]]:
    """Each change in words, and the step that takes it back."""
    choices, edits = now(), of(source)
    if edits.mask is not None:
        where = "every layer" if edits.mask_cross else "self-attention"
        yield f"{_short(choices['mask'].text)} · {where}", _back("mask")
    for site in sorted({site for site, _ in edits.heads_off}):
        heads = sorted(edits.off(site))
        named = site.head(*heads) if len(heads) <= MOST_NAMED else f"{counted(len(heads), 'head')} of {site}"
        yield f"{named} off", lambda choices, site=site: with_heads_off(choices, site, frozenset())
    yield from ((take.in_words(), _without_take(take)) for take in edits.taken)
    scored = edits.scored_site or "every layer"
    values = {
        "own_mask": "Built-in mask off" if not edits.own_mask else "",
        "temperature": f"Temperature {edits.temperature:g} in {scored}" if edits.temperature != 1 else "",
        "scaled": f"No division by √dₖ in {scored}" if edits.scale is not None else "",
        "softcap": f"Scores capped at {edits.softcap:g}" if edits.softcap else "",
        "bias": " and ".join(map(str, edits.bias)),
        "gray": f"Gray patches: {len(choices['gray'])}" if choices["gray"] else "",
        "empty": f"Fully masked rows get {EMPTY[edits.empty_rows]}" if edits.empty_rows != EMPTY_ROWS[0] else "",
    }
    yield from ((text, _back(name)) for name, text in values.items() if text)


def _back(name: str) -> Callable[[Choices], Choices]:
    return lambda choices: choices.put(**{name: link.NAMES[name].default})


def _without_take(take: object) -> Callable[[Choices], Choices]:
    return lambda choices: choices.put(take=tuple(other for other in choices["take"] if other != take))


def with_heads_off(choices: Choices, site: Site, heads: frozenset[int]) -> Choices:
    """The choices with just these heads of a layer off."""
    others = {(other, head) for other, head in choices["heads_off"] if other != site}
    return choices.put(heads_off=frozenset(others | {(site, head) for head in heads}))


def active_heads(source: Source, site: Site) -> None:
    """One pill for each head of a layer, in the order of the thumbnails under them; a click switches it off or on."""
    heads, off = range(source.num_heads), of(source).off(site)

    def step(choices: Choices, on: list[int]) -> Choices:
        return with_heads_off(choices, site, frozenset(heads) - {*on})

    control(
        st.pills,
        "Active heads",
        "heads_off",
        heads,
        value=[head for head in heads if head not in off],
        step=step,
        selection_mode="multi",
        wrap=True,
        disabled=bool(source.read_only),
    )
