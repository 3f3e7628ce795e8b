"""Edits of the model, and a chip for each that undoes it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import streamlit as st

from attnviz import link
from attnviz.core.amounts import counted
from attnviz.core.edits import Edits, Site
from attnviz.core.scoring import EMPTY_ROWS
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui.request import change, now
from attnviz.ui.text import literal, quiet

EMPTY = dict(zip(EMPTY_ROWS, ("zeros", "NaN", "equal weights", "an error"), strict=True))
"""Policies for a query without any open key, with their names in the menu."""
MOST_NAMED = 4
"""Maximum number of heads that a chip names; for more heads it shows their number."""


def of(source: Source) -> Edits:
    """Return the chosen edits that apply to this model."""
    if source.read_only:
        return Edits()
    edits = link.edits(now(), of_cross=any(site.kind == "cross" for site in source.sites))
    heads = {(site, head) for site, head in edits.heads_off if site in source.sites and head < source.num_heads}
    return replace(edits, heads_off=frozenset(heads))


def chips(source: Source) -> None:
    """Draw one chip for each edit; a click undoes the edit."""
    changes = [*_changes(source)] if not source.read_only else []
    if source.read_only:
        quiet(source.read_only)
    if len(changes) > 1:
        st.button("Reset all", key="reset", on_click=change, args=(lambda choices: choices.without("edits"),))
    for text, step in changes:
        st.button(literal(text), key=f"chip {text}", icon=":material/close:", on_click=change, args=(step,))


def _changes(source: Source) -> Iterator[tuple[str, Callable[[Choices], Choices]]]:
    """Yield a description of each edit and the step that undoes it."""
    choices, edits = now(), of(source)
    if edits.mask is not None:
        where = "every layer" if edits.mask_cross else "self-attention"
        text = choices["mask"].text
        yield f"{text if len(text) <= 24 else f'{text[:23]}…'} · {where}", _back("mask")
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
    """Return the step that sets a name of the link to its default."""
    return lambda choices: choices.put(**{name: link.NAMES[name].default})


def _without_take(take: object) -> Callable[[Choices], Choices]:
    """Return the step that removes one patch."""
    return lambda choices: choices.put(take=tuple(other for other in choices["take"] if other != take))


def with_heads_off(choices: Choices, site: Site, heads: frozenset[int]) -> Choices:
    """Return the choices with exactly these heads of a layer switched off."""
    others = {(other, head) for other, head in choices["heads_off"] if other != site}
    return choices.put(heads_off=frozenset(others | {(site, head) for head in heads}))
