"""Activation patching on the Compare page: replace activations of A by those of B, and measure each head's effect."""

from dataclasses import replace

import streamlit as st

from attnviz import figures
from attnviz.core.amounts import counted
from attnviz.core.display import visible_text
from attnviz.core.edits import Site, Take
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.tokens import Token
from attnviz.studies.ablation import carried
from attnviz.ui import budget, cache, export_menu, runs
from attnviz.ui.pages.overview.heads import choose
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import now, put
from attnviz.ui.text import heading, in_words, quiet
from attnviz.ui.toolbar import Context

SCOPES = {"head": "this head", "layer": "all heads of the layer", "stream": "input of the layer (stream)"}
TAKEN = {"output": "output", "pattern": "pattern (weights)", "values": "values"}
"""Activations of a head that can be patched from B."""
ROW = {"horizontal": True, "vertical_alignment": "bottom", "gap": "small"}


def is_possible(context: Context, b: Context) -> bool:
    """Whether activations of A can be patched from B: B has another text but the same model, which can be patched."""
    source, texts = context.source, context.request.texts
    is_other_text = b.source is source and b.request.texts != texts and len(texts) == 1
    return is_other_text and not (source.read_only or source.untaken)  # the reasons why not, or ""


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
    quiet("A then runs with this part of B's run in place of its own; the prediction of A above shows the effect.")
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
    """Draw the choice of a position; if the default or the number of tokens changes, the default is chosen again."""
    names = {i: f"{visible_text(token.text)} ({i})" for i, token in enumerate(tokens)}
    key = f"{key} {len(tokens)} {default}"  # another key is a new widget for Streamlit
    return st.selectbox(label, range(len(tokens)), default, names.get, key=key, width=150)


def _tokens(side: Context, site: Site, part: str) -> tuple[Token, ...]:
    """Return the tokens at the positions of a part: keys for a pattern or values, else queries."""
    queries, keys = side.record.texts(site, sentence=side.sentence)
    text = keys if part in ("pattern", "values") else queries
    return text.tokens[: text.length]


def _effect_map(context: Context, text: str) -> None:
    """Draw a map of how much of the logit difference between A and B appears if one head of A is patched from B."""
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
    effects = cache.result_of(carried, *arguments, cost=cost, runs_model=source, **options)
    style = {"focused": (context.site, context.head), "dark": context.dark}
    figure = figures.carried(cache.record(source, unpatched), effects, **style)
    in_words(effects.in_words())
    picture(figure, "carried", select="head", on_click=choose)
    quiet(
        "In each run, this part of one head is patched from B. The number is (patched − A) / (B − A), for the logit "
        "difference: 0 is as in A, 1 as in B; below 0 the head moves away from B. Click a head to look at it."
    )
    numbers(figure, "carried")
    export_menu.menu(context, {"Way from A to B": figure}, "carried")
