"""The Masks page: compose a mask and see the resulting weights, or check an array or a model."""

from functools import partial

import streamlit as st
import torch

from attnviz import figures
from attnviz.analysis import sentences
from attnviz.analysis.views import View
from attnviz.core.amounts import counted
from attnviz.core.errors import AttnvizError
from attnviz.core.masks import Full, Mask
from attnviz.core.request import Request
from attnviz.core.scoring import EMPTY_ROWS, ALiBi, RelativeBias
from attnviz.figures import Figure
from attnviz.link import Choices
from attnviz.mask_formats import mask_format
from attnviz.sources.base import Source
from attnviz.sources.wrapped import Wrapped
from attnviz.ui import export_menu
from attnviz.ui.edits import EMPTY_ROW_TITLES
from attnviz.ui.pages.masks import check, rules
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import control, now, put, session, valid_choice
from attnviz.ui.text import in_words, note, quiet
from attnviz.ui.toolbar import ROW, Context, drop_outside, select, toolbar

PARTS = {"compose": "Compose", "check": "Check an array", "model": "Check this model"}
"""Parts of the page by their names in the link; "check mask" and "check weights" belong to the part "check"."""
PAINTING = "A click blocks an open cell and opens a blocked one. A drag blocks cells, or opens them if all are blocked."
LIBRARIES = ("sdpa", "flex_attention", "attn_mask", "huggingface")
"""Libraries for which the mask is written as code, by their names in `attnviz.mask_formats`."""
BIASES = {"ALiBi": ALiBi(), "Relative": RelativeBias(seed=0)}
SOFTCAP = 5.0
"""Softcap of the scores when it is switched on."""
SIDE = 300
"""Side of each map in pixels, so that both fit side by side."""
MOST_COMPARED = 1024
"""Largest number of tokens for which the mask is compared with the built-in mask, cell by cell."""


def page(source: Source, request: Request) -> None:
    """Draw the page; for the user's own model it opens on “Check this model”."""
    context = toolbar(source, request)
    default = "model" if isinstance(source, Wrapped) else "compose"
    lab = valid_choice("lab", (*PARTS, *check.ARRAYS), default)
    part, _, _ = lab.partition(" ")  # "check mask" is in the part "check"
    options = {"value": part, "visible": False, "format_func": PARTS.get, "required": True}
    with st.container(**ROW):
        control(st.segmented_control, "Part of the page", "lab", [*PARTS], **options)
        if part == "compose":
            paint = check.remembered(st.toggle, "Paint cells", "paint", default=False, help=PAINTING)
    if part == "compose":
        _compose(context, paint)
    elif part == "model":
        check.model(context)
    else:
        check.array(context, lab)


def _compose(context: Context, paint: bool) -> None:
    """Draw the rules, the resulting mask, and the weights under the mask."""
    drop_outside(context)
    with st.container(horizontal=True, gap="medium"):  # on a phone the mask comes first
        left, middle, right = st.container(width=370), st.container(width=440, key="first"), st.container(width=500)
    with left:
        above_rules = st.container()
        rules.draw(context)
        _bias(context)
    mask, built_in = rules.acting_mask(context), rules.built_in(context)
    with above_rules:
        if context.source.read_only:
            quiet("This model cannot be changed: rules change the mask that is drawn, not the weights.")
        elif built_in is not None:
            control(st.toggle, f"Built-in mask: {built_in}", "own_mask", part="in the list")
    with left:
        _note_without_effect(context, mask, built_in or Full())
        _empty_rows(context, mask)
    with middle:
        grid = _mask(context, mask, paint)
    with right:
        options = context.options | {"selected": context.outlined, "explained": True, "side": SIDE}
        head = figures.head(context.record, context.site, context.head, **options)
        picture(head, "weights", select="cell", on_click=select, on_escape=lambda: put(cell=None))
        query, key = context.outlined
        options = {"sentence": context.sentence, "view": context.view}
        in_words(sentences.cell(context.record, context.site, context.head, query, key, **options))
    with context.export:
        export_menu.menu(context, {"Mask": grid, "Weights": head}, "masks")
    _code(context, mask)
    numbers(grid, "mask")


def _bias(context: Context) -> None:
    """Draw the choice of biases on the scores and of a softcap; they change weights but block no key."""
    current = {type(bias) for bias in now()["bias"]}
    active = [name for name, bias in BIASES.items() if type(bias) in current]
    active += ["Softcap"] if now()["softcap"] is not None else []

    def with_biases(choices: Choices, names: list[str]) -> Choices:
        """Use the biases with these names; a bias that is in use keeps its parameters, which a link may have set."""
        old = {type(bias): bias for bias in choices["bias"]}
        biases = tuple(old.get(type(bias), bias) for name, bias in BIASES.items() if name in names)
        softcap = (choices["softcap"] or SOFTCAP) if "Softcap" in names else None
        return choices.put(bias=biases, softcap=softcap)

    about = "ALiBi lowers the scores of distant keys; a relative bias adds a random number for each distance; a "
    about += "softcap bends scores so that they stay below a bound. None of them blocks a key."
    options = {"value": active, "selection_mode": "multi", "help": about, "disabled": bool(context.source.read_only)}
    control(st.pills, "Bias on scores", "bias", [*BIASES, "Softcap"], apply=with_biases, part="of the page", **options)


def _note_without_effect(context: Context, mask: Mask, built_in: Mask) -> None:
    """Show a message if the rules have no effect on this map: they are not used here, or block no further cell."""
    queries, keys = map(len, context.tokens)
    if not any(entry.on for entry in rules.stack().entries) or context.source.read_only:
        return
    if context.site.kind == "cross" and not context.edits.mask_cross:
        note("The rules do not act on cross-attention; the Mask menu has a switch for that.", "notice")
    elif context.edits.own_mask and max(queries, keys) <= MOST_COMPARED:
        before = built_in.grid(queries, keys, sentence=context.sentence)
        if torch.equal(before, mask.grid(queries, keys, sentence=context.sentence)):
            blocks = "block no cell" if isinstance(built_in, Full) else "block only cells that the built-in mask blocks"
            note(f"These rules {blocks} here.", "notice")


def _empty_rows(context: Context, mask: Mask) -> None:
    """Draw the number of fully masked rows, and the choice of what such a row gets in place of weights."""
    open_keys = mask.keys_left(*map(len, context.tokens), sentence=context.sentence)  # count of keys per query
    rows = int((open_keys == 0).sum())
    if rows:
        note(f"{counted(rows, 'fully masked row')}.", "notice")
    if (rows or now()["empty"] != EMPTY_ROWS[0]) and not context.source.read_only:
        options = {"part": "of the page", "format_func": EMPTY_ROW_TITLES.get, "required": True}
        control(st.segmented_control, "A fully masked row gets", "empty", EMPTY_ROWS, **options)


def _mask(context: Context, mask: Mask, paint: bool) -> Figure:
    """Draw the mask with the number of open keys per row; with `paint`, clicks and drags change cells."""
    can_paint = paint and context.view == View()
    options = context.options | {"selected": context.outlined, "counted": True, "side": SIDE}
    figure = figures.mask(mask, *context.tokens, brush=can_paint, yours=rules.stack().mask(), **options)
    if can_paint:

        def flip_cell(point: dict) -> None:
            _paint(context, {(int(point["query"]), int(point["key"]))})

        picture(figure, "painted mask", select="cell", on_click=flip_cell, on_drag=partial(_drag, context))
    else:
        picture(figure, "mask", select="cell", on_click=select, on_escape=lambda: put(cell=None))
    if paint and not can_paint:
        quiet("Cells can be painted only if rows and columns are tokens: choose that under More.")
    if refused := session().memory.pop("not painted", ""):
        note(refused, "notice")
    return figure


def _paint(context: Context, cells: set[tuple[int, int]]) -> None:
    """Block or open cells (query, key) by rules; cells that the built-in mask blocks cannot be opened."""
    built_in = rules.built_in(context)
    if built_in is not None and context.edits.own_mask:
        cells = {cell for cell in cells if not built_in.blocked_by(*cell, sentence=context.sentence)}
    if cells:
        put(mask=rules.flip_cells(rules.stack(), cells, sentence=context.sentence))
    else:
        session().memory["not painted"] = f"The built-in mask ({built_in}) blocks this: switch it off to open it."


def _drag(context: Context, ranges: dict[str, list[float]]) -> None:
    """Paint the cells of a drag at its end; then its `ranges` of rows and columns (see `rules.cells_in`) are empty."""
    memory = session().memory
    last_ranges = memory.get("drag")
    memory["drag"] = ranges if any(ranges.values()) else None
    if last_ranges and memory["drag"] is None:
        _paint(context, rules.cells_in(last_ranges))


def _code(context: Context, mask: Mask) -> None:
    """Draw the mask as code to copy, in a closed expander."""
    library = valid_choice("library", LIBRARIES)
    fold = st.expander("The mask as code", on_change="rerun", key="mask as code", expanded=library is not None)
    if not fold.open:
        return
    with fold:
        titles = {name: mask_format(name).title for name in LIBRARIES}
        options = {"value": library or LIBRARIES[0], "format_func": titles.get, "required": True}
        target = mask_format(control(st.segmented_control, "Library", "library", LIBRARIES, **options))
        queries, keys = map(len, context.tokens)
        if queries != keys:
            corners = ("top-left", "bottom-right")  # the first query at the first key, or the last at the last
            corner = st.segmented_control("Queries are aligned", corners, default="top-left", required=True)
            mask = mask.shifted(keys - queries) if corner == "bottom-right" else mask
        quiet(f"{target.title}: {target.meaning}.")
        try:
            st.code(target.code(mask, queries, keys), "python", wrap_lines=True)
        except AttnvizError as error:
            note(str(error), "notice")
