"""The form of a head: map, lines, text and what else `figures.FORMS` lists, its options, and what a click does.

In a link the heads that are drawn beside the one in focus are ``0-3``.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce

import streamlit as st

from attnviz import analysis, figures
from attnviz.analysis import views
from attnviz.analysis.views import View
from attnviz.core.edits import Site
from attnviz.figures import FORMS, Figure
from attnviz.figures import shade as shades
from attnviz.figures.forms import CELL as OF_CELL
from attnviz.figures.forms import LINE, TOKEN
from attnviz.ui import cache
from attnviz.ui.heads import linked, words
from attnviz.ui.shared import look, pages, photos, pictures, state, zoom
from attnviz.ui.shared import words as common
from attnviz.ui.shared.answer import ANSWER
from attnviz.ui.shared.look import CELL, PINS, Cell, ViewContext
from attnviz.ui.shared.setting import Setting, State, choice, coded, each, reader
from attnviz.ui.shared.state import MOST_PILLS, control
from attnviz.ui.shared.target import TARGET
from attnviz.ui.steps.rail import STAGE
from attnviz.ui.text import in_words, label

ON_PAGE = tuple(name for name, form in FORMS.items() if form.is_on_page)
"""Forms that can be chosen."""

PICTURED = "picture"
SIDES = ("from", "to")
LEAST = (None, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Smallest weights with a line; None for any, of many the strongest."""

MOST_BESIDE = 15
"""Heads drawn beside the one in focus."""

ROOM = 614
"""Pixels of a map that has what is said of it at its right, where a page is 1280 wide."""

_read_also = each(reader(r"\d{1,3}", lambda m: int(m[0]), "0-3"), 64)

FORM: Setting[str | None] = choice("as", ON_PAGE, None, "tab")
"""The form; None for the first that shows the attention call as it is: a picture where its tokens stand in one."""
ALSO = coded(
    "also",
    (),
    lambda heads: "-".join(map(str, heads)),
    lambda text: tuple(dict.fromkeys(_read_also(text))),
    "model",
    lacks=look.lacks_head,
)
LEAST_DRAWN: Setting[float | None] = choice("least", {least: f"{least:g}" for least in LEAST if least})
SIDE = choice("side", SIDES, SIDES[0], "tab")
LESS = choice("less", ("none", *figures.LESS[1:]), "none", "tab")
"""Weights that are taken away from those of patches."""


def form(context: ViewContext) -> str:
    """The form that is chosen, of those that fit the attention call."""
    fits = {name: FORMS[name].fits for name in ON_PAGE}
    there = [name for name, fit in fits.items() if fit is None or fit(context.record, context.site)]
    first = PICTURED if PICTURED in there else there[0]
    options = {"shown": state.get(FORM) if state.get(FORM) in there else first, "lead": ""}
    options["read"] = lambda chosen: None if chosen == first else chosen
    return control(st.segmented_control, words.SHOWN_AS, FORM, there, **options)


def key(form: str) -> str:
    """The name of the picture on the page."""
    return "head" if form == "map" else form


def whole_map(form: str) -> bool:
    """Whether a map is shown, all of it, each token as it is."""
    return (form, state.get(zoom.ZOOM), state.get(look.VIEW)) == ("map", (), View())


def controls(form: str, context: ViewContext, view: View) -> None:
    """The options that belong to the form, and the ways to tokens and back."""
    takes = FORMS[form].takes
    if "rows" in takes:
        cell = pictures.default_cell(context, view, **part_of(form, context, view))
        if cell and (view.sentences or view.parts):
            zoom.tokens_of(context, view, cell)
        zoom.crumbs(context, (common.SENTENCES, common.TEN_PARTS))
    if not takes & {"heads", "least", "pins", "side"}:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="form"):
        if "heads" in takes:
            _also(context)
        if "least" in takes:
            _least()
        if "pins" in takes and state.get(PINS):
            options = {"type": "tertiary", "icon": ":material/close:", "key": "let go"}
            st.button(words.CLEAR_TOKENS, on_click=_let_go, **options)
        if "side" in takes:
            options = {"lead": words.ATTENTION, "step": _other_side(context.site)}
            control(st.segmented_control, words.ATTENTION_OF, SIDE, SIDES, **options)
            label(words.OF_CLICKED_PATCH if _is_of_patches(form) else words.OF_CLICKED_TOKEN)
        if "less" in takes and state.get(SIDE) == "from":
            _less(context)


def _less(context: ViewContext) -> None:
    """Views of a row over the picture: as it is, without sinks and, of a question, minus a neutral one."""
    there = LESS_OF[context.source.reads]
    if len(there) > 1:
        shown = state.get(LESS) if state.get(LESS) in there else "none"
        options = {"shown": shown, "lead": "", "format_func": words.LESS_NAMES.get, "help": words.LESS_MEANS}
        control(st.segmented_control, words.LESS, LESS, there, **options)


LESS_OF = {"picture": ("none", "sinks"), "both": ("none", "sinks", "neutral"), "text": ("none",), "sound": ("none",)}


def _less_of(context: ViewContext) -> dict[str, object]:
    """Arguments of the view that was chosen, with the run of the neutral question."""
    less = state.get(LESS)
    if less == "none" or less not in LESS_OF[context.source.reads] or state.get(SIDE) != "from":
        return {}
    if less == "sinks":
        return {"less": less}
    request = photos.whole(context.source, (words.NEUTRAL,) * len(context.request.texts))
    return {"less": less, "neutral": cache.record(context.source, replace(request, edits=context.edits))}


def _is_of_patches(form: str) -> bool:
    return FORMS[form].fits is figures.on_grid


def _also(context: ViewContext) -> None:
    """Heads beside the one in focus."""
    others = [head for head in range(context.source.num_heads) if head != context.head]
    if not others:
        return
    chosen = [head for head in state.get(ALSO) if head in others]
    options = {"shown": chosen, "lead": words.ALSO_SHOW, "read": lambda heads: tuple(sorted(heads))}
    options["format_func"] = lambda head: words.HEAD.format(head=head)
    if len(others) < MOST_PILLS // 2:
        control(st.pills, words.ALSO_SHOW, ALSO, others, selection_mode="multi", **options)
    else:
        control(st.multiselect, words.ALSO_SHOW, ALSO, others, max_selections=MOST_BESIDE, width=300, **options)


def _least() -> None:
    """The smallest weight that is drawn."""
    options = {
        "format_func": lambda least: f"{least:g}" if least else words.NO_MINIMUM,
        "placeholder": words.NO_MINIMUM,
        "width": 150,
    }
    with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
        control(st.selectbox, words.MINIMUM, LEAST_DRAWN, LEAST, lead=words.MINIMUM, **options)


def _let_go() -> None:
    of_text = (TARGET, ANSWER)  # which stay
    state.change(
        lambda now: reduce(lambda left, setting: left.put(setting, now[setting]), of_text, now.without("text"))
    )


def _other_side(site: Site) -> Callable[[State, str], State]:
    """The step to the other side: of the same token, where rows and columns are the same tokens."""

    def step(now: State, side: str) -> State:
        before, cell = _end(now), now[CELL]
        now = now.put(SIDE, side)
        if site.kind == "cross":
            return now
        side = 0 if before == "query" else 1
        picked = {(before, cell[side])} if cell else now[PINS]
        return now.put(CELL, None).put(
            PINS, frozenset((_end(now), context) for end, context in picked if end == before)
        )

    return step


def _end(now: State) -> str:
    """Which side of a cell the token of the text is of."""
    return "query" if now[SIDE] == "from" else "key"


def figure(form: str, context: ViewContext, display: dict) -> Figure:
    """The head as it was chosen to be shown."""
    chosen, takes, part = FORMS[form], FORMS[form].takes, part_of(form, context, display["view"])
    also = [head for head in state.get(ALSO) if head != context.head and head < context.source.num_heads]
    strongest = partial(pictures.default_cell, context, display["view"], **part)
    values = {
        "view": lambda: display["view"],
        "domain": lambda: display["domain"],
        "before": lambda: context.before,
        "least": lambda: state.get(LEAST_DRAWN),
        "pins": lambda: state.get(PINS),
        "row": lambda: (strongest() or (None,))[0],
        "side": lambda: state.get(SIDE),
        "chosen": lambda: _token(context, display["view"], part),
    }
    options = (
        context.drawn
        | part
        | {name: get() for name, get in values.items() if name in takes}
        | ({"selected": strongest(), "zooms": True} if chosen.selects == OF_CELL else {})
        | (_less_of(context) if "less" in takes else {})
    )
    is_known = options.get("chosen") is not None or ("pins" in takes and (context.cell or options["pins"]))
    if not is_known:  # else only a part of what is seen is gone through, and not all for the strongest weight of it
        options["cost"] = context.cost(**part)
    heads = (context.head, *also[:MOST_BESIDE]) if "heads" in takes else context.head
    return cache.rendered(chosen.figure, context.record, context.site, heads, **options)


def is_wide(form: str, context: ViewContext, display: dict) -> bool:
    """Whether what is said of the head has no room right of its picture: it then stands under the thumbnails."""
    make = FORMS[form].figure
    if not hasattr(make, "room"):
        return False
    part = part_of(form, context, display["view"])
    return (
        make(context.record, context.site, context.head, sentence=context.sentence, view=display["view"], **part).room
        > ROOM
    )


def part_of(form: str, context: ViewContext, view: View) -> dict[str, slice]:
    """The rows and columns that are seen; all in a form without parts."""
    return zoom.part(context, view) if "rows" in FORMS[form].takes else {}


def _token(context: ViewContext, view: View, window: dict[str, slice]) -> int | None:
    """The token of the text, where it is seen: of the selected cell, else the first that is picked.

    Else that after which a word is predicted, or none.
    """
    end = _end(state.now())
    side = 0 if end == "query" else 1
    picked = [context.cell[side]] if context.cell else [place for axis, place in sorted(state.get(PINS)) if axis == end]
    if not picked and end == "query" and context.prediction_position is not None:
        picked = [context.prediction_position]
    attention_view = views.see(context.record, context.site, sentence=context.sentence, view=view, **window)
    part = (attention_view.queries, attention_view.keys)[side]
    return next((place for place in picked if part.index_of(place) is not None), None)


def select(form: str) -> Callable[[dict | None], None] | None:
    """Click handler of a form, called with the point, or with None on Escape; None where a click selects nothing."""
    return {OF_CELL: look.select, LINE: _select_line, TOKEN: _select_token}.get(FORMS[form].selects)


def _line_clicked(point: dict) -> None:
    """A line is selected or let go, a token picked or let go, a head of the legend left as it is."""
    query, key = look.cell_of(point)
    if query >= 0 and key >= 0:
        look.toggle_cell((query, key))
    elif query >= 0 or key >= 0:
        cell, pins, pin = state.get(CELL), state.get(PINS), _pin(query, key)
        held = cell is not None and pin == ("query", cell[0])
        state.put(CELL, None if held else cell)
        state.put(PINS, pins - {pin} if held else pins ^ {pin})


def _token_clicked(point: dict) -> None:
    """A token becomes the one whose attention is shown, from it or to it, as its text is of queries or of keys."""
    query, key = look.cell_of(point)
    state.put(CELL, None)
    state.put(SIDE, "from" if query >= 0 else "to")
    state.put(PINS, frozenset({_pin(query, key)}))


def _pin(query: int, key: int) -> tuple[str, int]:
    return ("query", query) if query >= 0 else ("key", key)


_select_line = look.clicks("cell", _line_clicked, _let_go)
_select_token = look.clicks("cell", _token_clicked, _let_go)


def selection_in_words(form: str, context: ViewContext, view: View) -> str:
    """The selection in words; returns how to select."""
    part = part_of(form, context, view)
    shade = _shade(form, context, view, part)
    cell = context.cell or (shade.strongest if shade else pictures.default_cell(context, view, **part))
    if shade:
        sentence = shades.in_words(shade)
        in_words(
            words.OF_HEAD.format(head=context.head, says=sentence)
            if "heads" in FORMS[form].takes and state.get(ALSO) and context.head == context.number
            else sentence
        )
    else:
        pictures.cell_in_words(context, view, cell)
    if cell and isinstance(context.head, int):
        _arithmetic(context, cell, of_several=shade is not None)
    if context.cell and view == View():
        linked.heads(context)
    if FORMS[form].selects == OF_CELL:
        return pictures.selecting(context.cell is not None, cell is not None)
    if FORMS[form].selects == LINE:
        return pictures.selecting(True) if context.cell else words.POINT_AT_TOKEN
    return words.POINT_AT_PATCH if _is_of_patches(form) else ""


def _shade(form: str, context: ViewContext, view: View, part: dict[str, slice]) -> shades.Shade | None:
    """The attention of the token of a text, or of the one token that is picked among lines."""
    attention_view, pins = (
        views.see(context.record, context.site, sentence=context.sentence, view=view, **part),
        state.get(PINS),
    )
    takes = FORMS[form].takes
    if "chosen" in takes:
        return shades.shade_of(attention_view, context.head, chosen=_token(context, view, part), side=state.get(SIDE))
    if "pins" not in takes or context.cell or len(pins) != 1:
        return None
    ((end, token),) = pins
    if (attention_view.queries if end == "query" else attention_view.keys).index_of(token) is None:
        return None
    return shades.shade_of(attention_view, context.head, chosen=token, side="from" if end == "query" else "to")


def _arithmetic(context: ViewContext, cell: Cell, *, of_several: bool) -> None:
    """A button that leads to how the number of a cell is computed; of a blocked one, to what made it 0.

    Args:
        of_several: whether the cell is the first of several that the sentence above speaks of.
    """
    window = {"rows": slice(cell[0], cell[0] + 1), "columns": slice(cell[1], cell[1] + 1)}
    cells = views.see(context.record, context.site, sentence=context.sentence, **window).cells([context.head])[0]
    is_blocked = cells.states[0, 0] == analysis.BLOCKED
    icon = {"icon": ":material/calculate:", "type": "tertiary", "key": "arithmetic"}
    how = words.ARITHMETIC_OF_FIRST if of_several else words.ARITHMETIC
    if not st.button(words.WHY_NONE if is_blocked else how, **icon):
        return
    look.look_at(context.site, context.head)
    state.put(CELL, cell)
    state.put(STAGE, "mask" if is_blocked else "softmax")  # the step that makes weights, or that leaves none
    pages.go_to("Steps")
