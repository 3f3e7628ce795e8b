"""Activation patching on the page Compare: replace activations of A by those of B, and measure each head's effect."""

from dataclasses import replace

import streamlit as st

from attnviz import figures
from attnviz.core.amounts import counted
from attnviz.core.display import visible_text
from attnviz.core.edits import Site, Take
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.tokens import Token
from attnviz.studies.ablation import carried as measure_carried
from attnviz.ui import budget, cache, export_menu, runs
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import now, put
from attnviz.ui.text import heading, in_words, quiet
from attnviz.ui.toolbar import Context

SCOPES = {"head": "this head", "layer": "all heads of the layer", "stream": "input of the layer (stream)"}
TAKEN = {"output": "output", "pattern": "pattern (weights)", "values": "values"}
"""Activations of a head that can be taken from B."""
ROW = {"horizontal": True, "vertical_alignment": "bottom", "gap": "small"}


def is_possible(context: Context, b: Context) -> bool:
    """Whether A can be patched from B: B is another text for the same model, and the model allows patching."""
    source = context.source
    texts = context.request.texts
    if b.source is not source or b.request.texts == texts or len(texts) > 1:
        return False
    return not (source.read_only or source.untaken)


def panel(context: Context, b: Context) -> None:
    """Draw the controls of activation patching, and the map of each head's effect in a closed expander."""
    heading("Activation patching: take from B")
    with st.container(**ROW, key="take"):
        scope = st.selectbox("Take from", [*SCOPES], format_func=SCOPES.get, key="take scope", width=230)
        part = "stream"
        if scope != "stream":
            part = st.selectbox("Part", [*TAKEN], format_func=TAKEN.get, key="take part", width=190)
        head = context.head if scope == "head" and isinstance(context.head, int) else None
        try:
            patch = Take(b.request.texts[0], part, context.site, head, *_positions(context, b, part))
        except AttnvizError as error:
            quiet(str(error))
        else:
            action = {"on_click": put, "kwargs": {"take": (*now()["take"], patch)}}
            is_patched = patch in context.edits.taken
            st.button("Take", key="take from b", icon=":material/move_down:", disabled=is_patched, **action)
    quiet("A then runs with this part taken from B's run; the prediction of A above shows the effect.")
    if context.record.prediction is not None:
        with st.expander("How much of the way from A to B each head carries", on_change="rerun", key="carried") as fold:
            if fold.open:
                with runs.part():
                    _effect_map(context, b.request.texts[0])


def _positions(context: Context, b: Context, part: str) -> tuple[int, ...]:
    """Draw the choice of positions; return (position,) for both texts, (position in A, position in B), or () for all.

    Raises:
        InputError: if `part` is "pattern" and the texts have different lengths.
    """
    a_tokens, b_tokens = (_tokens(side, context.site, part) for side in (context, b))
    if len(a_tokens) == len(b_tokens):
        where = st.selectbox("Positions", ["all positions", "one position"], key="take where", width=140)
        if where == "all positions":
            return ()
    elif part == "pattern":
        count = f"A has {counted(len(a_tokens), 'token')}, B {len(b_tokens)}"
        raise InputError(f"{count}, but for a pattern both need the same number: take the output or the values.")
    default = min(context.cell[0], len(a_tokens) - 1) if context.cell else len(a_tokens) - 1
    in_a = _position("In A", a_tokens, default, "take to")
    if part == "pattern":
        return (in_a,)
    in_b = _position("From B", b_tokens, min(in_a, len(b_tokens) - 1), "take of")
    return (in_a,) if in_b == in_a else (in_a, in_b)


def _position(label: str, tokens: tuple[Token, ...], default: int, key: str) -> int:
    """Draw the choice of a position; another default or number of tokens draws it anew, with the default chosen."""
    names = {i: f"{visible_text(token.text)} ({i})" for i, token in enumerate(tokens)}
    key = f"{key} {len(tokens)} {default}"
    return st.selectbox(label, range(len(tokens)), default, names.get, key=key, width=150)


def _tokens(side: Context, site: Site, part: str) -> tuple[Token, ...]:
    """Return the tokens at the positions of a part: keys for a pattern or values, else queries."""
    queries, keys = side.record.texts(site, sentence=side.sentence)
    text = keys if part in ("pattern", "values") else queries
    return text.tokens[: text.length]


def _effect_map(context: Context, text: str) -> None:
    """Draw a map of each head's share of the logit difference between A and B, if that head is taken from B's text."""
    options = {"default": "output", "format_func": TAKEN.get, "required": True}
    part = st.segmented_control("Part", [*TAKEN], key="carried part", **options)
    record, source = context.record, context.source
    unpatched = replace(context.request, edits=replace(context.edits, taken=()))
    count = sum(step.num_heads for step in record.steps)
    position = record.read[context.sentence].length - 1 if context.position is None else context.position
    sentences = cache.sentences(source, unpatched)
    cost = budget.of_runs(count + 2, source, sentences, unpatched.edits)  # A, B, and one run for each head
    work = source, unpatched, text, part, position
    if not runs.is_requested("each from b", work, cost, "Take each head from B in turn"):
        return
    arguments = source, sentences, text, unpatched.edits, part
    options = {"position": position, "targets": cache.targets(source, unpatched), "unit": "heads", "count": count}
    carried = cache.result_of(measure_carried, *arguments, cost=cost, runs_model=source, **options)
    style = {"focused": (context.site, context.head), "dark": context.dark}
    figure = figures.carried(cache.record(source, unpatched), carried, **style)
    in_words(carried.in_words())

    def choose_head(point: dict) -> None:
        put(layer=Site(point["kind"], int(point["layer"])), head=int(point["head"]))

    picture(figure, "carried", select="head", on_click=choose_head)
    quiet(
        "In each run one head takes this part from B. The number is (patched − A) / (B − A), for the logit difference: "
        "0 is as in A, 1 as in B; below 0 the head moves away from B. Click a head to look at it."
    )
    numbers(figure, "carried")
    export_menu.menu(context, {"Way from A to B": figure}, "carried")
