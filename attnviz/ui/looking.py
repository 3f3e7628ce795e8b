"""What to look at: site, sentence, head, training step, colors, and the cell that was clicked."""

from dataclasses import replace

import streamlit as st

from attnviz import views
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Record
from attnviz.sources.base import Source
from attnviz.sources.scratch import Scratch
from attnviz.sources.trained import Trained
from attnviz.ui import cache, state
from attnviz.ui.notes import label, note
from attnviz.views import View

MOST_PILLS = 16
"""Of more layers or heads one is chosen from a list."""

DOMAINS = {"0 to 1": "fixed", "0 to largest": "shared", "logarithmic": "log"}


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
    found = st.session_state["site"]
    chosen = found if found in source.sites else default
    kinds = list(dict.fromkeys(site.kind for site in source.sites))
    layers = [site.layer for site in source.sites if site.kind == chosen.kind]
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        if len(kinds) > 1:
            _pills("Kind of attention", kinds, chosen.kind, "kind", _choose_kind, chosen.layer, source.sites)
        if len(layers) > 1:
            label("Layer")
            _pills("Layer", layers, chosen.layer, "layer", _choose_layer, chosen.kind)
    return chosen


def _choose_kind(layer: int, sites: tuple[Site, ...]) -> None:
    """The other kind, in the same layer if it has one; what was selected stands for other tokens there."""
    st.session_state["cell"], st.session_state["pins"] = None, frozenset()
    of_kind = [site for site in sites if site.kind == st.session_state["kind"]]
    look_at(next((site for site in of_kind if site.layer == layer), of_kind[0]))


def _choose_layer(kind: str) -> None:
    look_at(Site(kind, st.session_state["layer"]))


def look_at(site: Site, head: int | None = None) -> None:
    """Show a site, and one head of it if that is given."""
    st.session_state["site"] = site
    if head is not None:
        st.session_state["show"] = head


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


def focus(source: Source, *, combined: bool = True) -> int | str:
    """The head to look at, by number, or where that can be chosen the name of an aggregation."""
    chosen = st.session_state["show"]
    if chosen is None or (isinstance(chosen, int) and chosen >= source.num_heads):
        chosen = opening_head(source)
    chosen = chosen if combined or isinstance(chosen, int) else opening_head(source)
    options = [*map(str, range(source.num_heads)), *(state.COMBINED if combined else ())]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Head")
        _pills("Head to look at", options, str(chosen), "head to look at", _choose_head)
    return chosen


def _choose_head() -> None:
    st.session_state["show"] = state.decode_show(st.session_state["head to look at"])


def step(source: Source) -> Source:
    """The same model as it was after some step of its training, by a slider; as it is where no steps were kept."""
    if not isinstance(source, Trained) or len(source.steps) < 2:
        return source
    steps, found = source.steps, st.session_state["step"]
    chosen = found if found in steps else steps[-1]
    if st.session_state.get("trained for") != chosen:  # else leave it alone: a person may be moving it on meanwhile
        st.session_state["trained for"] = chosen
    behavior = {"key": "trained for", "on_change": _choose_step, "args": (steps[-1],), "width": 344}
    st.select_slider(step_in_words(chosen, steps[-1]), steps, chosen, **behavior)
    try:
        return source if chosen == steps[-1] else cache.source(source.model, chosen)
    except AttnvizError as error:
        note(f"{error} Here it is as trained.")
        return source


def step_in_words(step: int, last: int) -> str:
    """What is seen after a step of the training."""
    if step == last:
        return f"Trained: after all {last:,} steps"
    return f"In training: after {step:,} of {last:,} steps" if step else f"Untrained: after 0 of {last:,} steps"


def _choose_step(last: int) -> None:
    chosen = st.session_state["trained for"]
    st.session_state["step"] = None if chosen == last else chosen


def with_sos(source: Source) -> Source:
    """The same source, its sentences beginning with <sos> if asked for; a trained model knows itself how to begin."""
    if not isinstance(source, Scratch):
        return source
    return replace(source, sos=st.toggle("begin with <sos> (shift right)", True, key="sos", bind="query-params"))


def display(record: Record, site: Site, sentence: int, *, form: str = "map") -> dict[str, object]:
    """How weights become colors, whether row sums stand beside them, and what of the map is seen.

    Lines have no colors of weights, and sums stand beside a map alone: there these choices wait.
    """
    with st.popover("Display", icon=":material/palette:"):
        behavior = {"default": next(iter(DOMAINS)), "required": True, "bind": "query-params"}
        domain = st.segmented_control("Colors", DOMAINS, key="colors", disabled=form == "lines", **behavior)
        sums = st.toggle("Row sums", False, key="sums", bind="query-params", disabled=form != "map")
        view = _view(record, site, sentence)
    return {"domain": DOMAINS[domain or "0 to 1"], "row_sums": sums, "view": view}


def _view(record: Record, site: Site, sentence: int) -> View:
    """What of a map is seen: only what means something for its tokens can be chosen."""
    chosen, tokens = st.session_state["view"], record.tokens(site, sentence=sentence)
    every = [token for part in tokens for token in part]
    view = View()
    if any(token.joined for token in every):
        view = replace(view, words=chosen.words)
        st.session_state["merge"] = view.words
        st.toggle("Merge pieces into words", key="merge", on_change=_choose_view, args=("words", "merge"))
    if any(token.special for token in every):
        view = replace(view, special=chosen.special)
        _segments("Special tokens", views.SPECIAL, view.special, "special")
    if all(any(token.segment for token in part) for part in tokens):
        view = replace(view, pair=chosen.pair)
        _segments("Pair of texts", tuple(views.PAIRS), view.pair, "pair")
    try:
        views.see(record, site, sentence=sentence, view=view)
    except InputError as error:  # a text of special tokens alone
        note(str(error), "notice")
        return View()
    return view


def _segments(title: str, options: tuple[str, ...], chosen: str, key: str) -> None:
    st.session_state[key] = chosen
    st.segmented_control(title, options, key=key, required=True, on_change=_choose_view, args=(key, key))


def _choose_view(field: str, key: str) -> None:
    st.session_state["view"] = replace(st.session_state["view"], **{field: st.session_state[key]})


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
        st.session_state["show"] = int(point["head"])


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
    queries, keys = record.step(site).shape[2:]
    state.drop_missing_cell(queries, keys)
    cell = st.session_state["cell"]
    return cell if cell and cell[0] < queries and cell[1] < keys else None


def _pills(title: str, options: list, chosen: object, key: str, on_change, *args: object) -> None:
    """A choice that is kept elsewhere in the session; `on_change` takes it from the key."""
    st.session_state[key] = chosen
    behavior = {"key": key, "on_change": on_change, "args": args, "label_visibility": "collapsed"}
    if len(options) > MOST_PILLS:
        st.selectbox(title, options, width=110, **behavior)
    else:
        st.pills(title, options, required=True, wrap=True, **behavior)
