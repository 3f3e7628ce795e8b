"""Edits of the model, and a chip for each that undoes it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import streamlit as st

from attnviz import link
from attnviz.core.amounts import counted
from attnviz.core.edits import Edits, Site, Take
from attnviz.core.scoring import EMPTY_ROWS
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui.request import change, now
from attnviz.ui.text import literal, quiet

EMPTY_ROW_TITLES = dict(zip(EMPTY_ROWS, ("zeros", "NaN", "equal weights", "an error"), strict=True))
"""Names in the menu of what the weights of a fully masked row become, by their names in `EMPTY_ROWS`."""
MOST_NAMED = 4
"""Maximum number of heads that a chip names; for more heads it shows their number."""
LONGEST_MASK = 24
"""Maximum number of characters of a mask on its chip."""


def of(source: Source) -> Edits:
    """Return the chosen edits that apply to this model; heads that it does not have are left out."""
    if source.read_only:
        return Edits()
    edits = link.edits(now(), has_cross=any(site.kind == "cross" for site in source.sites))
    heads = {(site, head) for site, head in edits.heads_off if site in source.sites and head < source.num_heads}
    return replace(edits, heads_off=frozenset(heads))


def chips(source: Source) -> None:
    """Draw one chip for each edit; a click undoes the edit. For a read-only model, draw the reason instead."""
    if source.read_only:
        quiet(source.read_only)
        return
    edits_with_undo = [*_edits_with_undo(source)]
    if len(edits_with_undo) > 1:
        st.button("Reset all", key="reset", on_click=change, args=(lambda choices: choices.without("edits"),))
    for text, undo in edits_with_undo:
        st.button(literal(text), key=f"chip {text}", icon=":material/close:", on_click=change, args=(undo,))


def _edits_with_undo(source: Source) -> Iterator[tuple[str, Callable[[Choices], Choices]]]:
    """Yield a description of each edit, and the function from the choices to choices without this edit."""
    choices, edits = now(), of(source)
    if edits.mask is not None:
        layers = "every layer" if edits.mask_cross else "self-attention"
        text = choices["mask"].text
        text = text if len(text) <= LONGEST_MASK else f"{text[: LONGEST_MASK - 1]}…"
        yield f"{text} · {layers}", partial(_with_default, "mask")
    for site in sorted({site for site, _ in edits.heads_off}):
        heads = sorted(edits.off(site))
        heads_text = site.head(*heads) if len(heads) <= MOST_NAMED else f"{counted(len(heads), 'head')} of {site}"
        yield f"{heads_text} off", partial(with_heads_off, site=site, heads=frozenset())
    for patch in edits.taken:
        yield patch.in_words(), partial(_without_patch, patch)
    layers = edits.scored_site or "every layer"
    descriptions = {
        "own_mask": "Built-in mask off" if not edits.own_mask else "",
        "temperature": f"Temperature {edits.temperature:g} in {layers}" if edits.temperature != 1 else "",
        "scaled": f"No division by √dₖ in {layers}" if edits.scale is not None else "",
        "softcap": f"Scores capped at {edits.softcap:g}" if edits.softcap else "",
        "bias": " and ".join(map(str, edits.bias)),
        "gray": f"Gray patches: {len(choices['gray'])}" if choices["gray"] else "",
    }
    if edits.empty_rows != EMPTY_ROWS[0]:
        descriptions["empty"] = f"Fully masked rows get {EMPTY_ROW_TITLES[edits.empty_rows]}"
    yield from ((text, partial(_with_default, name)) for name, text in descriptions.items() if text)


def _with_default(name: str, choices: Choices) -> Choices:
    """Return the choices with the default value of one setting of the link."""
    return choices.put(**{name: link.NAMES[name].default})


def _without_patch(patch: Take, choices: Choices) -> Choices:
    """Return the choices without one patch of activations."""
    return choices.put(take=tuple(other for other in choices["take"] if other != patch))


def with_heads_off(choices: Choices, site: Site, heads: frozenset[int]) -> Choices:
    """Return the choices with exactly these heads of a layer switched off."""
    others = {(other, head) for other, head in choices["heads_off"] if other != site}
    return choices.put(heads_off=frozenset(others | {(site, head) for head in heads}))
