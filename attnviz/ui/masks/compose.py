"""The first tab: the rules, the mask they make, and the weights it causes."""

import streamlit as st

from attnviz import api, figures
from attnviz.core.masks import ALIGNMENTS
from attnviz.core.stack import Stack
from attnviz.ui.masks import added, boxes, explain, painting, rulelist
from attnviz.ui.masks.base import Lab
from attnviz.ui.shared import looking, masking, pictures, state
from attnviz.ui.shared.notes import quiet
from attnviz.ui.shared.state import control
from attnviz.views import View

DRAG: state.Setting[painting.Drag | None] = state.kept("drag", None)
"""The last drag, of which the browser may say more."""
PAINT = state.kept("paint", False)
OTHER, QUERIES = state.kept("other lengths", False), state.kept("number of queries", None)
ALIGNMENT = state.kept("alignment of the grid", ALIGNMENTS[0])

SIDE = 370
"""Pixels of a map, so that both stand side by side, right of the rules."""


def tab(lab: Lab) -> None:
    record, site, sentence = lab.record, lab.site, lab.sentence
    cell = looking.selected(record, site)
    shown = {"sentence": sentence, "selected": cell, "dark": lab.dark, "rev": looking.rev("cell"), "side": SIDE}
    with st.container(horizontal=True, gap="small", key="compose"):
        with st.container(width=248, gap="small", key="list"):
            rulelist.rules(lab)
            added.controls(lab)
        with st.container(horizontal=True, gap="small", key="maps"):
            with st.container(width="content"):
                controls = st.container(horizontal=True, vertical_alignment="center", gap="small")
                place = st.container()
            with st.container(width="content"):
                with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                    options = looking.display(record, site, sentence)
                    beside = st.container(width="content")
                head = figures.head(record, site, lab.head, **shown, **options)
                with beside:
                    pictures.take_away(head, "head")
                pictures.picture(head, "head", select="cell", on_select=looking.select)
    with controls:
        paint = _paint()
        menu = st.container(width="content")
        lengths = _other_lengths(lab)
    with place:
        grid = _grid(lab, paint, lengths, options["view"], shown)
    with menu:
        pictures.take_away(grid, "mask", "mask")
    pictures.cell_in_words(record, site, lab.head, cell, sentence, options["view"])
    explain.explained(lab, cell)
    added.shown(lab, cell)
    boxes.table(lab)
    left, right = st.columns(2)
    with left:
        pictures.numbers(grid, "mask")
    with right:
        pictures.numbers(head, "head")


def _grid(lab: Lab, paint: bool, lengths: tuple[int, str] | None, view, shown: dict) -> figures.Figure:
    """The mask as a picture, with as many queries as there are, or with another number of them."""
    queries, keys = lab.tokens
    if lengths:
        count, alignment = lengths
        some = queries[:count] if alignment == ALIGNMENTS[0] else queries[len(queries) - count :]
        mask = lab.mask.aligned(count, len(keys), alignment)
        grid = figures.mask(mask, some, keys, sentence=lab.sentence, dark=lab.dark, counted=True)
        pictures.picture(grid, "mask")
        quiet(
            f"{count} queries, {len(keys)} keys, aligned {alignment}. In the model's own runs they are what they are."
        )
        return grid
    brush = paint and view == View()
    shown = shown | {"predicted": _predicted(lab), "view": view, "counted": True, "brush": brush}
    grid = figures.mask(lab.mask, queries, keys, **shown)
    chosen = _painting(lab.stack, lab.sentence) if paint else looking.select
    pictures.picture(grid, "mask", select="cell", on_select=chosen, brush=brush)
    return grid


def _paint() -> bool:
    said = (
        "A click blocks an open cell and opens a blocked one. A drag blocks cells; if all of them are, it opens them."
    )
    return st.toggle("Paint", **control(PAINT), help=said)


def _painting(stack: Stack, sentence: int):
    """What a click or a drag does to the rules."""

    def painted(point: dict | None, drag: dict | None = None) -> None:
        before = state.get(DRAG)
        if drag and (before is None or before.over != drag):
            made = painting.dragged(stack, drag, before, sentence)
            state.put(DRAG, made)
            state.change(masking.amended if made.goes_on else masking.put, made.stack)
        elif point is not None and looking.counted(point, "cell"):
            cell = int(point["query"]), int(point["key"])
            state.change(masking.put, painting.flipped(stack, cell, sentence=sentence))
        if not drag:
            state.put(DRAG, None)

    return painted


def _other_lengths(lab: Lab) -> tuple[int, str] | None:
    """Another number of queries than there are, and how they are aligned; None for those that there are."""
    queries, keys = lab.tokens
    if lab.site.kind == "cross" or len(keys) < 2:
        return None
    with st.popover("Lengths", icon=":material/straighten:"):
        other = st.toggle("Another number of queries", **control(OTHER))
        st.caption("For the grid alone: as if a cache held the keys before, or none did.")
        count = state.get(QUERIES)
        count = count if count and count <= len(queries) else max(1, len(queries) // 2)
        st.number_input("Queries", 1, len(queries), **control(QUERIES, count), disabled=not other)
        alignment = st.segmented_control(
            "The first query stands",
            ALIGNMENTS,
            **control(ALIGNMENT),
            required=True,
            disabled=not other,
            help="top-left: at the first key, as is_causal of PyTorch's SDPA. bottom-right: so that the last query "
            "stands at the last key, as with a cache.",
        )
    return (count, alignment) if other else None


def _predicted(lab: Lab):
    """What each row predicts: what the model says; of random weights the next token, as in a decoder."""
    if lab.record.provenance == "pretrained" and lab.record.prediction is None:  # it gives vectors or labels alone
        return None
    if lab.record.prediction is None:
        return api.predicted(lab.record.sentences[lab.sentence])
    return lab.record.predicted(lab.site, sentence=lab.sentence)
