"""The Heads page: all heads of a layer, a large map of one head, the selected cell in words, and the prediction."""

from dataclasses import replace
from functools import partial

import streamlit as st

from attnviz import figures
from attnviz.analysis import sentences
from attnviz.analysis.heads import rank
from attnviz.analysis.sentences import quoted_token
from attnviz.core.edits import Site
from attnviz.core.masks import Blank
from attnviz.core.masks.text import Entry, Stack
from attnviz.core.record import not_finite
from attnviz.core.request import Request
from attnviz.figures import CELL, FORMS, LINE, Figure
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui import cache, edits, export_menu, pictures, predictions, welcome, writing, zoom
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import choice, control, now, open_page, put
from attnviz.ui.text import block, in_words, note, quiet
from attnviz.ui.toolbar import Context, drop_outside, toolbar
from attnviz.ui.toolbar import select as select_cell

GRAY, HIDDEN = "gray in the picture", "hidden from all heads"
PATCHES = "A gray patch is erased from the picture. A hidden one stays, but a mask rule lets no patch attend to it."
TO_STEPS = "How this weight is computed, number by number"
MOST_LINKING = 8
"""Maximum number of heads that are listed for a pair of words."""
LEAST = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Values of the control for the minimum weight of a drawn line."""


def page(source: Source, request: Request) -> None:
    """Draw the page."""
    context = toolbar(source, request)
    drop_outside(context)
    welcome.banner()
    with st.container(horizontal=True, gap="medium"):
        left = st.container(width=300, key="every")
        middle = st.container(width="content", key="first")
        right = st.container(width="stretch", key="beside")
    with middle:
        form = _form(context)
        _controls(form, context)
        figure = _figure(form, context)
        on_click = partial(_select, form) if FORMS[form].selects else None
        on_escape = partial(put, cell=None, pins=frozenset())
        picture(figure, f"head {form}", select="cell", on_click=on_click, on_escape=on_escape)
        if form == "picture":
            _patch(context, figure.position)
    with left:
        every = _every(context)
    with right:
        writing.controls(context)
        _selection(context)
        prediction: dict[str, Figure] = {}
        if context.knows_words:
            _role(context)
            prediction = predictions.panel(context)
        else:
            note("The model knows no word of this text, so its weights and its predictions mean nothing.", "notice")
    with context.export:
        export_menu.menu(context, {"This head": figure, "All heads": every} | prediction, "heads")
    numbers(figure, "head")


def _form(context: Context) -> str:
    """Draw the choice of a form of the large picture; the default is "picture" for patches, else the map."""
    forms = [
        name
        for name, form in FORMS.items()
        if form.is_on_page and (form.fits is None or form.fits(context.record, context.site))
    ]
    first = "picture" if "picture" in forms else forms[0]
    return choice(st.segmented_control, "Shown as", "form", forms, first, visible=False, required=True)


def _controls(form: str, context: Context) -> None:
    """Draw the options of a form: other heads, minimum weight, direction of attention, and whether to remove sinks."""
    takes, source = FORMS[form].takes, context.source  # `takes`: names of the options of this form
    if "rows" in takes:
        zoom.breadcrumbs(context)
    if not takes & {"heads", "least", "pins", "side", "less"}:
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="form options"):
        if "heads" in takes and source.num_heads > 1:
            others = [head for head in range(source.num_heads) if head != context.head]
            also = [head for head in now()["also"] if head in others]

            def with_heads(choices: Choices, heads: list[int]) -> Choices:
                """Show these heads besides the chosen head."""
                return choices.put(also=tuple(sorted(heads)))

            options = {"value": also, "apply": with_heads, "placeholder": "none", "width": 220, "max_selections": 5}
            control(st.multiselect, "Also show heads", "also", others, **options)
        if "least" in takes:
            names = {None: "any"} | {least: f"{least:g}" for least in LEAST}
            options = {"format_func": names.get, "placeholder": "any", "width": 110}
            control(st.selectbox, "Minimum weight", "least", [*names], **options)
        if "side" in takes:
            control(st.segmented_control, "Attention", "side", ("from", "to"), required=True)
        if "less" in takes and now()["side"] == "from" and source.reads in ("picture", "both"):
            choice(st.segmented_control, "Without", "less", ("none", "sinks"), required=True)
        if "pins" in takes and now()["pins"]:
            action = {"on_click": put, "kwargs": {"pins": frozenset()}}
            st.button("Clear words", icon=":material/close:", type="tertiary", **action)


def _figure(form: str, context: Context) -> Figure:
    """Make the figure of the head in the chosen form."""
    chosen_form, cell, choices = FORMS[form], context.outlined, now()
    query, key = cell or (None, None)
    is_from_query = choices["side"] == "from"
    possible_options = {
        "view": context.view,
        "domain": context.options["domain"],
        "before": context.before,
        "least": choices["least"],
        "pins": choices["pins"],
        "side": choices["side"],
        "less": "sinks" if choices["less"] == "sinks" and is_from_query else "",
        "chosen": query if is_from_query else key,
    }
    options = {name: value for name, value in possible_options.items() if name in chosen_form.takes}
    if "rows" in chosen_form.takes:
        options = options | context.window | {"cost": context.cost(**context.window)}
    options["selected"] = cell if chosen_form.selects == CELL else context.cell
    head = (context.head, *choices["also"]) if "heads" in chosen_form.takes else context.head
    style = {"sentence": context.sentence, "dark": context.dark}
    return chosen_form.figure(context.record, context.site, head, **style, **options)


def _select(form: str, point: dict) -> None:
    """Select the clicked cell or, if the click names one token (query or key is -1), this token or all its lines."""
    query, key = int(point["query"]), int(point["key"])
    if FORMS[form].selects == CELL or (query >= 0 and key >= 0):
        select_cell(point)
    elif FORMS[form].selects == LINE:
        pin = ("query", query) if query >= 0 else ("key", key)
        put(pins=now()["pins"] ^ {pin})  # a second click removes the pin
    else:
        put(side="from" if query >= 0 else "to", cell=(max(query, 0), max(key, 0)))


def active_heads(source: Source, site: Site) -> None:
    """Draw a pill per head of a layer, in the order of the thumbnails below; a click switches the head off or on."""
    heads, off = range(source.num_heads), edits.of(source).off(site)

    def with_active_heads(choices: Choices, active: list[int]) -> Choices:
        return edits.with_heads_off(choices, site, frozenset(heads) - {*active})

    options = {"selection_mode": "multi", "wrap": True, "disabled": bool(source.read_only)}
    active = [head for head in heads if head not in off]
    control(st.pills, "Active heads", "heads_off", heads, value=active, apply=with_active_heads, **options)


def _every(context: Context) -> Figure:
    """Draw all heads of the layer as thumbnails, under the pills that switch them off."""
    active_heads(context.source, context.site)
    options = context.options | {"focused": context.head, "paired": True}
    options["cost"] = context.cost(context.source.num_heads)
    figure = figures.heads(context.record, context.site, **options)
    picture(figure, "every", select="head", on_click=lambda point: put(head=int(point["head"])))
    return figure


def _patch(context: Context, position: int) -> None:
    """Draw two pills that gray out a patch in the picture, and hide it from all heads."""
    source, token = context.source, context.tokens[0][position]
    queries, keys = map(len, context.tokens)
    if source.read_only or queries != keys:
        return
    stack = now()["mask"] or Stack()
    other_rules = tuple(entry for entry in stack.entries if not isinstance(entry.mask, Blank))
    hidden_before = {i for entry in stack.entries if isinstance(entry.mask, Blank) for i in entry.mask.positions}
    gray_before = set(now()["gray"])

    def with_patch(choices: Choices, pills: list[str]) -> Choices:
        """Hide the patch if the pill `HIDDEN` is active, and gray it out if `GRAY` is active."""
        hidden = (hidden_before | {position}) if HIDDEN in pills else hidden_before - {position}
        entries = (*other_rules, Entry(Blank(tuple(hidden)))) if hidden else other_rules
        grayed = (gray_before | {position}) if GRAY in pills else gray_before - {position}
        cell = (position, 0) if now()["side"] == "from" else (0, position)
        return choices.put(mask=Stack(entries) if entries else None, gray=tuple(sorted(grayed)), cell=cell)

    can_be_gray = source.reads in ("picture", "both") and token.box is not None
    active = [name for name, positions in ((GRAY, gray_before), (HIDDEN, hidden_before)) if position in positions]
    options = {"value": active, "apply": with_patch, "selection_mode": "multi", "help": PATCHES}
    label = f"{quoted_token(token.text, position)} is"
    control(st.pills, label, "gray", [GRAY, HIDDEN] if can_be_gray else [HIDDEN], **options)
    if gray_before:
        request = pictures.with_picture(source, context.request, gray=False)
        whole = predictions.sentence(replace(context, request=request))
        quiet(f"For the whole picture: {whole[:1].lower()}{whole[1:]}" if whole else "")


def _selection(context: Context) -> None:
    """Draw the outlined cell in words, a button for its computation, and the heads that link its two words."""
    cell = context.outlined
    if cell is None:
        quiet("This view hides the whole map.")
        return
    in_words(sentences.cell(context.record, context.site, context.head, *cell, context.sentence, view=context.view))
    if not_a_number := not_finite(context.record):
        note(not_a_number)
    if context.edits.mask is not None and context.edits.mask_at(context.site.kind) is None:
        quiet(f"The mask does not act on {context.site}.")
    with st.container(horizontal=True, gap="xsmall", key="of the cell"):
        options = {"icon": ":material/calculate:", "type": "tertiary", "help": TO_STEPS}
        action = {"on_click": open_page, "args": ("Steps",), "kwargs": {"cell": cell}}
        st.button("Step by step", key="to steps", **action, **options)
        options = {"icon": ":material/hub:", "type": "tertiary", "key": "linking"}
        popover = st.popover("Heads that link these words", on_change="rerun", **options)
        if popover.open:
            with popover:
                _linking_heads(context, *cell)


def _linking_heads(context: Context, query: int, key: int) -> None:
    """Draw the heads with the largest weight from the query to the key; a click opens a head."""
    query_text, key_text = context.tokens[0][query].text, context.tokens[1][key].text
    quiet(f"Weight from {quoted_token(query_text, query)} to {quoted_token(key_text, key)} in each head:")
    ranked = cache.cached(rank)(context.record, query, key, sentence=context.sentence)
    heads = [(Site(row["kind"], row["layer"]), int(row["head"]), row["weight"]) for row in ranked.to_dict("records")]
    mixing = context.record.step(context.site).mixing  # weights of softmax and of linear attention do not compare
    comparable = [
        (site, head, weight)
        for site, head, weight in heads
        if site.kind == context.site.kind and context.record.step(site).mixing == mixing
    ]
    for site, head, weight in comparable[:MOST_LINKING]:
        options = {"type": "tertiary", "on_click": put, "kwargs": {"layer": site, "head": head, "cell": (query, key)}}
        st.button(f"{weight:.2g} · {site.head(head)}", key=f"links {site} {head}", **options)


def _role(context: Context) -> None:
    """Draw the measured behavior of the head: a sentence with its rate, and the evidence in an expander."""
    if not context.behaviors:
        if context.source.card is not None and context.source.step is None:
            quiet("What this head does was not measured.")
        return
    block(context.role, "large")
    with st.expander("How this was measured"):
        quiet(context.behaviors[0].evidence)
