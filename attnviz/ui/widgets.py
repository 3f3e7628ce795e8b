"""Controls that draw themselves and give back a value."""

from dataclasses import replace
from html import escape
from urllib.parse import quote

import streamlit as st

from attnviz import figures, tokenizers
from attnviz.core.attention import EMPTY_ROWS
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.masks import Mask, Prefix, Subsequent, Window
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.sources.scratch import BOUNDS, Scratch
from attnviz.ui import cache, state

EXAMPLES = {
    "The cat sat on the mat": "The cat sat on the mat",
    "The cat sat down": "The cat sat down",
    "because it was tired": "The cat sat on the mat because it was tired.",
    "two sentences, padded": "The cat sat on the mat\nThe cat sat down",
}
RULES = ("subsequent", "window", "prefix")
DOMAINS = {"0 to 1": "fixed", "0 to largest": "shared", "logarithmic": "log"}
FOCUS = ("mean", "max", "min")
SIZES = {"1x": {"scale": 1}, "2x": {"scale": 2}, "4x": {"scale": 4}, "300 dpi": {"ppi": 300}}
UNCHANGED = {"mask": [], "padding": True, "empty": EMPTY_ROWS[0], "off": frozenset()}
"""What the controls of the edits bar hold when nothing is changed."""

LONGEST_LINK = 30_000
"""How many characters a sentence may take in the address of the page."""

MOST_PROBLEMS = 3
"""So many of the things that are wrong with a link are said."""

ALLOWED: dict[str, object] = {
    "text": str,
    "tokenizer": tokenizers.NAMES,
    **{name: range(0 if name == "seed" else 1, most + 1) for name, most in BOUNDS.items()},
    **dict.fromkeys(("bias", "positions", "padding", "sums", "sos"), ("true", "false")),
    "mask": RULES,
    "before": range(0, 4097),
    "after": range(0, 4097),
    "prefix": range(0, 4097),
    "layer": range(0, BOUNDS["num_layers"]),
    "sentence": range(1, cache.MOST_SENTENCES + 1),
    "show": (*FOCUS, *map(str, range(BOUNDS["num_heads"]))),
    "colors": tuple(DOMAINS),
    "empty": EMPTY_ROWS,
}
"""What each bound parameter of a link may be."""


def note(text: str, kind: str = "error") -> None:
    """One plain sentence, shown as typed: nothing in it is read as markup."""
    role = "alert" if kind == "error" else "status"
    st.html(f'<div class="note {kind}" role="{role}">{escape(clean(text))}</div>')


def in_words(text: str) -> None:
    """The sentence about what is selected."""
    st.html(f'<div class="words" role="status">{escape(clean(text))}</div>')


def run(source: Scratch, lines: tuple[str, ...], edits: Edits) -> Record:
    """The record, or one sentence and the end of the page."""
    try:
        return cache.record(source, lines, edits)
    except AttnvizError as error:
        note(str(error))
        state.write_link()
        st.stop()


def cell_in_words(record: Record, site: Site, head: int | str, cell: tuple[int, int] | None, sentence: int) -> None:
    """What the selected cell says; with none, what the strongest says, and how to select one."""
    if cell is None:
        in_words(figures.strongest_in_words(record, site, head, sentence))
        quiet("Click a cell to read it in words.")
    else:
        in_words(figures.in_words(record, site, head, *cell, sentence=sentence))
        quiet("Click the cell again, or press Escape, to let it go.")


def quiet(text: str) -> None:
    """A remark beside a picture."""
    st.html(f'<div class="quiet">{escape(clean(text))}</div>')


def clean(text: str) -> str:
    """Without lone surrogates, which cannot be sent to a browser."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{SYMBOL FOR NULL}")


def label(text: str) -> None:
    """What the controls right of it are about."""
    st.caption(text, width="content")


def is_dark() -> bool:
    return st.context.theme.type == "dark"


# The input bar: the same on every page, and kept across pages.


def input_bar() -> tuple[Scratch, tuple[str, ...]]:
    """The model and the sentences. Stops the page with one sentence if either cannot be used."""
    state.read_link(ALLOWED)
    left_out = _too_long_for_a_link()
    if st.session_state.get("left out") and not left_out:
        st.session_state["text"] = st.session_state["text"]  # set from here, it enters the link again
    st.session_state["left out"] = left_out
    with st.container(horizontal=True, vertical_alignment="top", gap="small"):
        with st.container(width=250, gap="xsmall"):
            source = _model()
        with st.container(width=600, gap="xsmall"):
            typed = st.text_area(
                "Sentence",
                next(iter(EXAMPLES.values())),
                key="text",
                height=80,
                label_visibility="collapsed",
                placeholder="Type a sentence. A new line begins another one.",
                bind=None if left_out else "query-params",
            )
        with st.container(width="stretch"):
            st.pills("Examples", EXAMPLES, key="example", on_change=_take_example, label_visibility="collapsed")
    if left_out:
        note("This text is too long for a link: the address of this page leaves it out.", "notice")
    if problems := st.session_state["link_problems"]:
        more = f" And {len(problems) - MOST_PROBLEMS} more." if len(problems) > MOST_PROBLEMS else ""
        said = " ".join(problems[:MOST_PROBLEMS])
        note(f"The link could not be read in full, so a default is shown. {said}{more}", "notice")
    try:
        if isinstance(source, InputError):
            raise source
        lines = cache.texts(clean(typed or ""))
        cache.sentences(source, lines)
    except AttnvizError as error:
        note(str(error))
        state.write_link()
        st.stop()
    return source, lines


def _too_long_for_a_link() -> bool:
    """Servers refuse addresses above 64 kB."""
    return len(quote(clean(st.session_state.get("text") or ""))) > LONGEST_LINK


def _take_example() -> None:
    if st.session_state["example"] in EXAMPLES:
        st.session_state["text"] = EXAMPLES[st.session_state["example"]]
        st.session_state["cell"] = None
    st.session_state["example"] = None


def _model() -> Scratch | InputError:
    """The source: its settings behind one button that says what it is, and the tokenizer under it."""
    bound = {"bind": "query-params"}
    with st.popover("scratch · random weights", icon=":material/tune:", width="stretch"):
        st.caption("Random weights: shows the mechanics, not meaning. Everything comes from one seed.")
        sizes = {}
        left, right = st.columns(2)
        for column, name, title, default in (
            (left, "d_model", "d_model", 64),
            (right, "num_heads", "Heads", 4),
            (left, "num_layers", "Layers", 2),
            (right, "seed", "Seed", 0),
        ):
            least = 0 if name == "seed" else 1
            sizes[name] = column.number_input(title, least, BOUNDS[name], default, key=name, **bound)
        positions = left.toggle("Positions", True, key="positions", **bound)
        bias = right.toggle("Bias", True, key="bias", **bound)
    tokenizer = st.segmented_control(
        "Tokenizer",
        tokenizers.NAMES,
        default=tokenizers.NAMES[0],
        key="tokenizer",
        required=True,
        label_visibility="collapsed",
        width="stretch",
        **bound,
    )
    try:
        return Scratch(tokenizer or tokenizers.NAMES[0], positions=positions, bias=bias, **sizes)
    except InputError as error:
        return error


# The edits bar: what differs from the untouched model.


def edits_bar(source: Scratch, lines: tuple[str, ...], *, rules: tuple[str, ...] = ()) -> Edits:
    """Toggle masks, and see and undo what is changed. Gives the edits.

    Args:
        rules: the masks that are on when the page is opened first.
    """
    lengths = [sentence.length for sentence in cache.sentences(source, lines)]
    padded = len(set(lengths)) > 1
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="edits"):
        label("Mask")
        chosen = st.pills(
            "Mask",
            RULES,
            selection_mode="multi",
            default=list(rules),
            key="mask",
            bind="query-params",
            label_visibility="collapsed",
        )
        parameters = _parameters(chosen)
        own_mask = st.toggle("padding masked", True, key="padding", bind="query-params") if padded else True
        heads_off = frozenset((s, h) for s, h in st.session_state["off"] if s in source.sites and h < source.num_heads)
        edits = Edits(_combined(chosen, parameters), heads_off, own_mask=own_mask)
        edits = replace(edits, empty_rows=_empty_rows(cache.record(source, lines, edits)))
        if edits != Edits():
            _chips(edits)
    return edits


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


def _parameters(chosen: list[str]) -> dict[str, int]:
    values = {}
    for rule, name, title, default in (
        ("window", "before", "keys before", 2),
        ("window", "after", "keys after", 0),
        ("prefix", "prefix", "prefix length", 2),
    ):
        if rule in chosen:
            label(title)
            options = {"width": 116, "bind": "query-params", "label_visibility": "collapsed"}
            values[name] = st.number_input(title, 0, 4096, default, key=name, **options)
    return values


def _combined(chosen: list[str], parameters: dict[str, int]) -> Mask | None:
    """(subsequent or prefix) and window: a prefix opens what the future mask closes; a window closes more."""
    mask: Mask | None = Subsequent() if "subsequent" in chosen else None
    if "prefix" in chosen:
        prefix = Prefix(parameters["prefix"])
        mask = prefix if mask is None else mask | prefix
    if "window" in chosen:
        window = Window(parameters["before"], parameters["after"])
        mask = window if mask is None else mask & window
    return mask


def _chips(edits: Edits) -> None:
    """One removable chip for each thing that is changed, and one button that resets all."""
    label("Changed")
    for rule in st.session_state["mask"]:
        _chip(f"{rule} mask", _drop_rule, rule)
    if not edits.own_mask:
        _chip("padding not masked", _forget, "padding")
    if edits.empty_rows != EMPTY_ROWS[0]:
        _chip(f"rows without keys: {edits.empty_rows}", _forget, "empty")
    for site, head in sorted(edits.heads_off):
        _chip(f"{site} head {head} off", _turn_on, site, head)
    st.button("reset all", key="reset", on_click=reset, type="tertiary")


def _chip(label: str, undo, *args) -> None:
    st.button(label, key=f"chip {label}", icon=":material/close:", on_click=undo, args=args, help="Undo this change")


def _drop_rule(rule: str) -> None:
    st.session_state["mask"] = [other for other in st.session_state["mask"] if other != rule]


def _forget(name: str) -> None:
    """Back to the default of a control."""
    st.session_state[name] = UNCHANGED[name]


def _turn_on(site: Site, head: int) -> None:
    st.session_state["off"] -= {(site, head)}


def reset() -> None:
    """Back to the untouched model."""
    st.session_state.update(UNCHANGED)


# What to look at.


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
        )
    return int(chosen) if chosen and chosen.isdigit() else chosen or 0


def heads_on(source: Scratch, site: Site) -> None:
    """Heads on and off, as pills."""
    off = {head for place, head in st.session_state["off"] if place == site}
    heads = list(range(source.num_heads))
    key = f"on {site}"
    st.session_state[key] = [head for head in heads if head not in off]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Heads on")
        options = {"selection_mode": "multi", "key": key, "on_change": _switch, "args": (site, heads, key)}
        st.pills("Heads on", heads, label_visibility="collapsed", **options)
        st.button("all", key="all on", on_click=_set_off, args=(site, ()), type="tertiary")
        st.button("none", key="all off", on_click=_set_off, args=(site, heads), type="tertiary")
        st.button("invert", key="invert", on_click=_set_off, args=(site, set(heads) - off), type="tertiary")


def _switch(site: Site, heads: list[int], key: str) -> None:
    _set_off(site, set(heads) - set(st.session_state[key]))


def _set_off(site: Site, heads) -> None:
    others = {(place, head) for place, head in st.session_state["off"] if place != site}
    st.session_state["off"] = frozenset(others | {(site, head) for head in heads})


def display() -> dict[str, object]:
    """How weights become colors, and whether row sums stand beside them."""
    with st.popover("Display", icon=":material/palette:"):
        domain = st.segmented_control(
            "Colors", DOMAINS, default=next(iter(DOMAINS)), key="colors", required=True, bind="query-params"
        )
        sums = st.toggle("Row sums", False, key="sums", bind="query-params")
    return {"domain": DOMAINS[domain or "0 to 1"], "row_sums": sums}


def select(point: dict | None) -> None:
    """Keep the cell that was clicked; a second click, or Escape, lets it go."""
    if point is not None and not fresh(point):
        return
    cell = None if point is None else (int(point["query"]), int(point["key"]))
    st.session_state["cell"] = None if cell == st.session_state["cell"] else cell
    st.session_state["rev"] = rev() + 1


def fresh(point: dict) -> bool:
    """Whether a click was made on the picture as it is now, and is not an older one that the browser repeats."""
    return int(point.get("rev", -1)) == rev()


def rev() -> int:
    """How many clicks there were: carried in a picture's data, so that the same place can be clicked again."""
    return st.session_state.get("rev", 0)


def selected(record: Record, site: Site) -> tuple[int, int] | None:
    """The selected cell, if the picture has it."""
    cell = st.session_state["cell"]
    queries, keys = record.step(site).shape[2:]
    return cell if cell and cell[0] < queries and cell[1] < keys else None


# Pictures.


def picture(figure: Figure, key: str, *, select: str | None = None, on_select=None) -> None:
    """A figure in its own frame. `on_select` is called with what was clicked: a dict of fields, or None.

    Args:
        select: the name of the selection in the chart.
    """

    spec = figure.screen or figure.chart.to_dict()
    form = "pixels" if "marks" in spec else "marks"

    def clicked() -> None:
        event = st.session_state[f"{key} {form}"]["selection"].get(select)
        points = event if isinstance(event, list) else [event] if event else []
        on_select(points[0] if points else None)

    # A changed `alt` would build the chart anew, with a flicker: it stays, and the description stands beside the chart.
    options = {"key": f"{key} {form}", "theme": None, "width": "content", "alt": "Chart, described in the text after it"}
    if on_select is not None:
        options |= {"on_select": clicked, "selection_mode": select}
    with st.container(key=f"picture {key}", width="content"):
        st.vega_lite_chart(figure.screen_data, spec, **options)
        st.html(f'<p class="unseen">{escape(clean(figure.description))}</p>')


def take_away(figure: Figure, key: str) -> None:
    """One button that opens every way to save a figure."""
    menu = st.popover("Take away", icon=":material/download:", on_change="rerun", key=f"take {key}")
    if not menu.open:
        return
    from attnviz import export

    with menu:
        size = st.segmented_control("PNG size", SIZES, default="2x", key=f"size {key}", required=True)
        with st.container(horizontal=True, gap="small"):
            for name, kind in export.FORMATS.items():
                options = SIZES[size] if name == "png" else {}
                st.download_button(
                    name.upper(),
                    help=kind.label,
                    data=lambda name=name, options=options: export.render(figure, name, **options),
                    file_name=export.filename(figure, name, **options),
                    mime=kind.mime,
                    key=f"save {name} {key}",
                    on_click="ignore",
                )
        st.caption("The address of this page is a link to just this picture.")


def numbers(figure: Figure, key: str) -> None:
    """The same numbers as a table, folded."""
    folded = st.expander("Numbers", on_change="rerun", key=f"numbers {key}")
    if folded.open:
        folded.dataframe(figure.table, hide_index=True, key=f"table {key}")
        if note := figure.table.attrs.get("note"):
            folded.caption(note)


def with_sos(source: Scratch) -> Scratch:
    """The same source, its sentences beginning with <sos> if asked for."""
    return replace(source, sos=st.toggle("begin with <sos> (shift right)", True, key="sos", bind="query-params"))
