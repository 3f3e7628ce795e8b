"""What to look at: layer, sentence, head, colors, and the cell that was clicked."""

from dataclasses import replace

import streamlit as st

from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.sources.scratch import Scratch
from attnviz.ui.notes import label

DOMAINS = {"0 to 1": "fixed", "0 to largest": "shared", "logarithmic": "log"}
FOCUS = ("mean", "max", "min")


def layer(source: Scratch) -> Site:
    """The attention call to look at."""
    if st.session_state.get("layer", 0) not in range(source.num_layers):
        st.session_state["layer"] = 0
    if source.num_layers == 1:
        return source.sites[0]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Layer")
        chosen = st.pills(
            "Layer",
            range(source.num_layers),
            default=0,
            key="layer",
            required=True,
            bind="query-params",
            label_visibility="collapsed",
            wrap=True,
        )
    return source.sites[chosen or 0]


def sentence(lines: tuple[str, ...]) -> int:
    """The sentence of the batch to look at, counted from 0."""
    if st.session_state.get("sentence", 1) not in range(1, len(lines) + 1):
        st.session_state["sentence"] = 1
    if len(lines) == 1:
        return 0
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Sentence")
        chosen = st.pills(
            "Sentence of the batch",
            range(1, len(lines) + 1),
            default=1,
            key="sentence",
            required=True,
            bind="query-params",
            label_visibility="collapsed",
            wrap=True,
        )
    return (chosen or 1) - 1


def focus(source: Scratch) -> int | str:
    """The head to look at, by number, or the name of an aggregation."""
    options = [*map(str, range(source.num_heads)), *FOCUS]
    if st.session_state.get("show", "0") not in options:
        st.session_state["show"] = "0"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Head")
        chosen = st.pills(
            "Head to look at",
            options,
            default="0",
            key="show",
            required=True,
            bind="query-params",
            label_visibility="collapsed",
            wrap=True,
        )
    return int(chosen) if chosen and chosen.isdigit() else chosen or 0


def with_sos(source: Scratch) -> Scratch:
    """The same source, its sentences beginning with <sos> if asked for."""
    return replace(source, sos=st.toggle("begin with <sos> (shift right)", True, key="sos", bind="query-params"))


def display() -> dict[str, object]:
    """How weights become colors, and whether row sums stand beside them."""
    with st.popover("Display", icon=":material/palette:"):
        domain = st.segmented_control(
            "Colors", DOMAINS, default=next(iter(DOMAINS)), key="colors", required=True, bind="query-params"
        )
        sums = st.toggle("Row sums", False, key="sums", bind="query-params")
    return {"domain": DOMAINS[domain or "0 to 1"], "row_sums": sums}


def is_dark() -> bool:
    return st.context.theme.type == "dark"


def select(point: dict | None) -> None:
    """Keep the cell that was clicked; a second click, or Escape, lets it go."""
    if point is None:
        st.session_state["cell"] = None
    elif counted(point, "cell"):
        cell = int(point["query"]), int(point["key"])
        st.session_state["cell"] = None if cell == st.session_state["cell"] else cell


def select_head(point: dict | None) -> None:
    """Show the head that was clicked."""
    if point is not None and counted(point, "head"):
        st.session_state["show"] = str(point["head"])


def counted(point: dict, what: str) -> bool:
    """Count a click; False if it is an older one that the browser repeats."""
    if int(point.get("rev", -1)) != rev(what):
        return False
    st.session_state[f"rev {what}"] = rev(what) + 1
    return True


def rev(what: str) -> int:
    """How many clicks there were: carried in a picture's data, so that the same place can be clicked again."""
    return st.session_state.get(f"rev {what}", 0)


def selected(record: Record, site: Site) -> tuple[int, int] | None:
    """The selected cell, if the picture has it."""
    cell = st.session_state["cell"]
    queries, keys = record.step(site).shape[2:]
    return cell if cell and cell[0] < queries and cell[1] < keys else None
