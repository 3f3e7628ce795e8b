"""What to look at: site, sentence, head, training step, colors, and the cell that was clicked."""

from dataclasses import replace
from typing import Any

import streamlit as st

from attnviz import views
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Record
from attnviz.sources.base import Source
from attnviz.ui.heads.link import decode_pins, encode_pins
from attnviz.ui.shared import cache, state, written
from attnviz.ui.shared.notes import label, note
from attnviz.ui.shared.state import State, control
from attnviz.ui.shared.written import COMBINED
from attnviz.views import View

MOST_PILLS = 16
"""Of more layers or heads one is chosen from a list."""

DOMAINS = {"0 to 1": "fixed", "0 to largest": "shared", "logarithmic": "log"}

SITE = state.coded("site", None, written.encode_site, written.decode_site, of="model")
SHOW = state.coded("show", None, written.encode_show, written.decode_show, of="model")
STEP = replace(state.whole("step", None, 0, 999_999_999), of="model")
CELL = state.coded("cell", None, written.encode_cell, written.decode_cell, of="text")
SENTENCE = state.whole("sentence", 1, 1, cache.MOST_SENTENCES)
COLORS = state.choice("colors", tuple(DOMAINS), "0 to 1")
SUMS = state.flag("sums", False)
SOS = state.flag("sos", True)
VIEW = state.coded("view", View(), written.encode_view, written.decode_view)
PINS = state.coded("pins", frozenset(), encode_pins, decode_pins, of="text")
CELLS_CHECKED = state.kept("cells checked", False, of="link")
"""Whether the picture has what the link selects."""
REVS = state.kept("revs", {})
"""How many clicks there were, by what was clicked."""


def opening_site(source: Source) -> Site:
    """Where to begin: at the site that the model's card opens with, else at the first."""
    opens = source.card.opens[0] if source.card else None
    return opens if opens in source.sites else source.sites[0]


def opening_head(source: Source) -> int:
    """Which head to begin with: the one that the model's card opens with, else the first."""
    head = source.card.opens[1] if source.card else 0
    return head if head < source.num_heads else 0


def masked_site(source: Source) -> Site:
    """Where to begin if it is about masks: in a decoder if there is one."""
    return next((site for site in source.sites if site.kind == "decoder"), source.sites[0])


def site(source: Source, default: Site) -> Site:
    """The attention call to look at."""
    found = state.get(SITE)
    chosen = found if found in source.sites else default
    if found is None and (state.get(CELL) or state.get(PINS)):  # a cell is of a site, and each page begins at its own
        state.put(SITE, chosen)

    def other_kind(now: State, kind: str) -> State:
        """In the same layer if it has one; what was selected stands for other tokens there."""
        of_kind = [site for site in source.sites if site.kind == kind]
        return now.without("text").put(SITE, next((one for one in of_kind if one.layer == chosen.layer), of_kind[0]))

    kinds = list(dict.fromkeys(site.kind for site in source.sites))
    layers = [site.layer for site in source.sites if site.kind == chosen.kind]
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        if len(kinds) > 1:
            pills("Kind of attention", kinds, **control(SITE, chosen.kind, at="kind", step=other_kind))
        if len(layers) > 1:
            label("Layer")
            pills("Layer", layers, **control(SITE, chosen.layer, at="layer", read=lambda n: Site(chosen.kind, n)))
    return chosen


def look_at(site: Site, head: int) -> None:
    """Show a site, and one head of it."""
    state.put(SITE, site)
    state.put(SHOW, head)


def sentence(lines: tuple[str, ...]) -> int:
    """The sentence of the batch to look at, counted from 0."""
    if state.get(SENTENCE) > len(lines):
        state.put(SENTENCE, 1)
    if len(lines) > 1:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            label("Sentence")
            options = {"required": True, "label_visibility": "collapsed", "wrap": True}
            st.pills("Sentence of the batch", range(1, len(lines) + 1), **control(SENTENCE), **options)
    return state.get(SENTENCE) - 1


def focus(source: Source, *, combined: bool = True) -> int | str:
    """The head to look at, by number, or where that can be chosen the name of an aggregation."""
    options = [*range(source.num_heads), *(COMBINED if combined else ())]
    chosen = state.get(SHOW)
    chosen = chosen if chosen in options else opening_head(source)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Head")
        pills("Head to look at", options, **control(SHOW, chosen))
    return chosen


def step(source: Source) -> Source:
    """The same model as it was after some step of its training, by a slider; as it is where no steps were kept."""
    if len(source.steps) < 2:
        return source
    steps, found = source.steps, state.get(STEP)
    chosen = found if found in steps else steps[-1]
    options = control(STEP, chosen, read=lambda step: None if step == steps[-1] else step)
    st.select_slider(step_in_words(chosen, steps[-1]), steps, **options, width=344)
    try:
        return source if chosen == steps[-1] else cache.source(source.id, chosen)
    except AttnvizError as error:
        note(f"{error} Here it is as trained.")
        return source


def step_in_words(step: int, last: int) -> str:
    """What is seen after a step of the training."""
    if step == last:
        return f"Trained: after all {last:,} steps"
    return f"In training: after {step:,} of {last:,} steps" if step else f"Untrained: after 0 of {last:,} steps"


def with_sos(source: Source) -> Source:
    """The same source, its sentences beginning with <sos> if asked for; a trained model knows itself how to begin."""
    if "sos" not in source.settings():
        return source
    return replace(source, sos=st.toggle("begin with <sos> (shift right)", **control(SOS)))


def display(record: Record, site: Site, sentence: int, *, form: str = "map") -> dict[str, object]:
    """How weights become colors, whether row sums stand beside them, and what of the map is seen.

    Lines have no colors of weights, and sums stand beside a map alone: there these choices wait.
    """
    with st.popover("Display", icon=":material/palette:"):
        st.segmented_control("Colors", DOMAINS, **control(COLORS), required=True, disabled=form == "lines")
        st.toggle("Row sums", **control(SUMS), disabled=form != "map")
        view = _view(record, site, sentence)
    return {"domain": DOMAINS[state.get(COLORS)], "row_sums": state.get(SUMS), "view": view}


def _view(record: Record, site: Site, sentence: int) -> View:
    """What of a map is seen: only what means something for its tokens can be chosen."""
    chosen, tokens = state.get(VIEW), record.tokens(site, sentence=sentence)
    every = [token for part in tokens for token in part]
    view = View()
    if any(token.joined for token in every):
        view = replace(view, words=chosen.words)
        st.toggle("Merge pieces into words", **_part("words"))
    if any(token.special for token in every):
        view = replace(view, special=chosen.special)
        st.segmented_control("Special tokens", views.SPECIAL, **_part("special"), required=True)
    if all(any(token.segment for token in part) for part in tokens):
        view = replace(view, pair=chosen.pair)
        st.segmented_control("Pair of texts", tuple(views.PAIRS), **_part("pair"), required=True)
    try:
        views.see(record, site, sentence=sentence, view=view)
    except InputError as error:  # a text of special tokens alone
        note(str(error), "notice")
        return View()
    return view


def _part(field: str) -> dict[str, Any]:
    """The control of one part of the view."""

    def other(value: object) -> View:
        return replace(state.get(VIEW), **{field: value})

    return control(VIEW, getattr(state.get(VIEW), field), at=field, read=other)


def is_dark() -> bool:
    return st.context.theme.type == "dark"


def select(point: dict | None) -> None:
    """Keep the cell that was clicked; a second click, or Escape, lets it go."""
    if point is None:
        state.put(CELL, None)
    elif counted(point, "cell"):
        cell = int(point["query"]), int(point["key"])
        state.put(CELL, None if cell == state.get(CELL) else cell)


def select_head(point: dict | None) -> None:
    """Show the head that was clicked."""
    if point is not None and counted(point, "head"):
        state.put(SHOW, int(point["head"]))


def counted(point: dict, what: str) -> bool:
    """Count a click; False if it is an older one that the browser repeats."""
    if int(point.get("rev", -1)) != rev(what):
        return False
    state.put(REVS, state.get(REVS) | {what: rev(what) + 1})
    return True


def rev(what: str) -> int:
    """How many clicks there were: carried in a picture's data, so that the same place can be clicked again."""
    return state.get(REVS).get(what, 0)


def selected(record: Record, site: Site) -> tuple[int, int] | None:
    """The selected cell, if the picture has it."""
    queries, keys = record.step(site).shape[2:]
    if not state.get(CELLS_CHECKED):
        _drop_missing(queries, keys)
    cell = state.get(CELL)
    return cell if cell and cell[0] < queries and cell[1] < keys else None


def _drop_missing(queries: int, keys: int) -> None:
    """Let go of what the link selects and the picture has not, and say so."""
    cell, pins = state.get(CELL), state.get(PINS)
    state.put(CELLS_CHECKED, True)
    size = f"the picture has {queries} queries and {keys} keys, counted from 0"
    missing = frozenset((side, at) for side, at in pins if at >= (queries if side == "query" else keys))
    beyond = bool(cell) and not (cell[0] < queries and cell[1] < keys)
    if beyond:
        state.drop(CELL, None, written.encode_cell(cell), size)
    if missing:
        state.drop(PINS, pins - missing, encode_pins(missing)[:40], size)
    if beyond or missing:
        st.rerun()


def pills(title: str, options: list, **behavior: Any) -> None:
    """One of some options, as pills; of many, from a list."""
    if len(options) > MOST_PILLS:
        st.selectbox(title, options, label_visibility="collapsed", width=110, **behavior)
    else:
        st.pills(title, options, label_visibility="collapsed", required=True, wrap=True, **behavior)
