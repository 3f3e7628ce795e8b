"""Which heads and tokens a predicted word comes from: contributions, logit lens, rollout and gradients."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from attnviz import analysis, figures
from attnviz.analysis import rollout as tracing
from attnviz.analysis import sentences
from attnviz.analysis.lens import stages
from attnviz.analysis.relevance import IntegratedGradients, Relevance
from attnviz.analysis.rollout import Mixed
from attnviz.core import progress
from attnviz.core.display import visible_text
from attnviz.core.edits import KINDS, Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.figures import Figure
from attnviz.figures.lens import MOST_POSITIONS
from attnviz.figures.relevance import gap_in_words
from attnviz.figures.rollout import Traced
from attnviz.link import Choices
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.studies import ablation
from attnviz.studies import gradients as studies
from attnviz.ui import work
from attnviz.ui.pages.overview.heads import open_head, place_of
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import control, now, put
from attnviz.ui.shared import budget, cache, cores
from attnviz.ui.shared.text import in_words, large, quiet
from attnviz.ui.toolbar import Context

ROW = {"horizontal": True, "vertical_alignment": "bottom", "gap": "small"}
LIKELY = 10
"""Most probable words to choose from."""
LONGEST = 100
"""Characters of a word in a link."""
METHODS = ("gradient × weight", "gradient × weight, signed", "integrated gradients")
INTEGRAL = ("20", "50", "200", "1000")
"""Steps of the integral to choose from."""
WRITES = "words of the head"


def contributions(context: Context) -> dict[str, Figure]:
    """What each head and each other part adds to the logit of a word, and how much that falls with the head off."""
    quiet("Direct logit attribution: which head adds the predicted word, and do others replace it when it is off?")
    record = cache.with_stream(context.source, context.lines, context.record)
    with st.container(**ROW):
        word = _word(context, record)
    style = {"focused": (context.site, context.head), "dark": context.dark}
    every: dict[str, Figure] = {"Heads": figures.contributions(record, **word, **style)}
    answer = st.container()
    with st.container(horizontal=True, gap="medium"):
        with st.container(width="content"):
            picture(every["Heads"], "adds", select="head", on_click=_choose_head)
        falls = None
        with st.container(width="content"), work.part():
            falls = _falls(context, word)
            if falls is not None:
                every["Switched off"] = figures.replaced(record, **word, falls=falls, **style)
                picture(every["Switched off"], "replaced", select="head", on_click=_choose_head)
        with st.container(width="content"):
            every["Parts"] = figures.contribution_parts(record, **word, dark=context.dark)
            picture(every["Parts"], "parts")
    with answer:
        added = every["Heads"].contributions
        large(added.in_words(falls))
        if added.most is not None:
            name = added.most[0].head(added.most[1])
            st.button(
                f"Open {name}", key="open most", icon=":material/arrow_forward:", on_click=open_head, args=added.most
            )
    with st.expander("How this is computed"):
        quiet(
            "A part adds its vector, scaled as the last norm scaled the whole in this run, times the column of the "
            "word in the unembedding. A head's vector is its output times its part of W_O. All parts sum to the logit; "
            "the residual is rounding. What later layers make of a head is not counted here: the switch-off test "
            "shows both. Source: Elhage et al. 2021."
        )
    numbers(every["Heads"], "contributions")
    return every


def _choose_head(point: dict) -> None:
    site, head = place_of(point)
    put(layer=site, head=head)


def _word(context: Context, record: Record) -> dict[str, Any]:
    """The position, the word and the other word that are chosen, as arguments of a figure."""
    position = _position(context, record)
    likely = _likely(context, record, position)
    word = _choose_word("Word", "word", likely, likely[0] if likely else None)
    minus = _choose_word("Minus", "minus", likely, None)
    return {"token": word, "position": position, "minus": minus, "sentence": context.sentence}


def _likely(context: Context, record: Record, position: int) -> list[str]:
    return [word.word for word in analysis.next_words(record, position, sentence=context.sentence, count=LIKELY)]


def _position(context: Context, record: Record) -> int:
    """The position after which a word is predicted: the query of the selected cell, else where the page predicts."""
    if record.prediction is None:
        raise InputError(f"{context.source.name} predicts no words, so there is no logit to explain.")
    read = record.read[context.sentence]
    kind = "decoder" if any(site.kind == "decoder" for site in context.source.sites) else "encoder"
    opening = context.position
    if record.targets:  # the last word that is written, not the end of the text
        predicted = record.prediction.words(sentence=context.sentence)[: read.length]
        opening = max((i for i, word in enumerate(predicted) if word not in sentences.ENDS), default=read.length - 1)
    opening = read.length - 1 if opening is None else opening
    blanks = record.prediction.blanks[context.sentence] if analysis.fills_in(record) else ()
    return _query("In place of" if blanks else "After", context, kind, read.tokens[: read.length], opening, blanks)


def _query(label: str, context: Context, kind: str, tokens: tuple[Token, ...], opening: int, only: Any = ()) -> int:
    """The choice of a position of one text: the query of the selected cell."""
    is_there = (context.site.kind == "encoder") == (kind == "encoder")
    options = [*only] or [*range(len(tokens))]
    cell = now()["cell"]
    position = cell[0] if cell and is_there and cell[0] in options else opening
    last = max(site for site in context.source.sites if site.kind == kind)

    def step(choices: Choices, position: int) -> Choices:
        choices = choices if is_there else choices.put(layer=last)
        return choices.put(cell=(position, min(position, choices["cell"][1]) if choices["cell"] else 0))

    names = {i: f"{visible_text(tokens[i].text)} ({i})" for i in options}
    shown = position if position in options else options[-1]
    return control(
        st.selectbox, label, "cell", options, value=shown, step=step, part=label, format_func=names.get, width=170
    )


def _choose_word(label: str, name: str, likely: list[str], opening: str | None) -> str | None:
    """A word of the vocabulary, one of the most probable or a typed one; `opening` where nobody chose."""
    word = now()[name] or opening
    options = [*dict.fromkeys([*likely, *filter(None, [word])])]

    def step(choices: Choices, typed: str | None) -> Choices:
        typed = typed and typed.replace("␣", " ")[:LONGEST]
        return choices.put(**{name: None if typed in ("", opening) else typed})

    control(
        st.selectbox,
        label,
        name,
        options,
        value=word,
        step=step,
        index=None,
        placeholder="no other word",
        accept_new_options=True,
        format_func=visible_text,
        help="One of the most probable words; or type any token of the vocabulary. ␣ stands for a space.",
        width=170,
    )
    return word


def _falls(context: Context, word: dict[str, Any]) -> pd.DataFrame | None:
    """How much the logit falls with each head off; None below a button with its cost."""
    source, lines, edits = run = context.source, context.lines, context.edits
    if why := source.read_only or source.alone:
        quiet(f"The switch-off test cannot be done here. {why}")
        return None
    count = sum(step.num_heads for step in context.record.steps)
    cost = budget.of_runs(count + 1, source, cache.sentences(source, lines), edits)
    if not work.is_requested("each off", (*run, *word.values()), cost, "Switch each head off in turn"):
        return None
    return cache.worked(_fallen, *run, count, cost=cost, unit="heads", **word)


def _fallen(source: Source, lines: tuple[str, ...], edits: Edits, count: int, **word: Any) -> pd.DataFrame:
    with progress.counted(count) as report, cores.used_by(source):
        targets = cache.targets(source, lines)
        return ablation.logit_falls(source, cache.sentences(source, lines), edits, report, targets, **word)


def lens(context: Context) -> dict[str, Figure]:
    """What the model would predict after each layer, or which words the chosen head pushes; a word can be clicked."""
    record = cache.with_stream(context.source, context.lines, context.record)
    forms = ("words by layer", WRITES)
    with st.container(**ROW):
        form = now()["form"] if now()["form"] in forms else forms[0]
        form = control(st.segmented_control, "Shown as", "form", forms, value=form, visible=False, required=True)
        position = _position(context, record)
        columns = _columns(record.read[context.sentence].length, position)
    is_head = form == WRITES
    quiet(
        f"Which words does {context.site.head(context.head)} push up and down after each token?"
        if is_head
        else "What would the model predict if it ended after each layer?"
    )
    last, style = len(stages(record)) - 1, {"sentence": context.sentence, "dark": context.dark}
    row = min(int(now()["stage"]), 999 if is_head else last) if (now()["stage"] or "").isdecimal() else 0
    options = {"columns": columns, "selected": (row, position), **style}
    if is_head and not isinstance(context.head, int):
        raise InputError("Words are pushed by one head: choose one above.")
    grid = (
        figures.pushed(record, context.site, context.head, **options)
        if is_head
        else figures.logit_lens(record, **options)
    )
    if is_head or row == 0:
        bars = figures.next_word(record, position, **style)
    else:
        bars = figures.lens_words(record, position, stage=last - row, **style)

    def choose(point: dict) -> None:
        row, column = int(point["query"]), int(point["key"])
        put(stage=str(row), cell=(column, now()["cell"][1] if now()["cell"] else 0))

    picture(grid, "lens", select="cell", on_click=choose)
    picture(bars, "lens words")
    quiet("Click a word to choose its layer and position.")
    with st.expander("How this is computed"):
        quiet(
            "The head's output times its part of W_O, scaled as the last norm scaled the whole in this run, times the "
            "unembedding: what it adds to the logit of each word. What later layers make of it is not counted."
            if is_head
            else "Each row reads the residual stream after a layer through the last norm and the unembedding, as the "
            "model reads its end (logit lens, nostalgebraist 2020). Only the top row is what the model predicts. A "
            "lower row can miss what an earlier layer knows: norm and unembedding were trained for the end."
        )
    numbers(grid, "lens")
    return {"Words": grid, "Probabilities": bars}


def _columns(length: int, position: int) -> slice:
    """Positions in view, with buttons to those before and after them."""
    first = position // MOST_POSITIONS * MOST_POSITIONS
    last = min(length, first + MOST_POSITIONS)
    if length > MOST_POSITIONS:
        for name, target, icon in (("Earlier", first - 1, "chevron_left"), ("Later", last, "chevron_right")):
            st.button(
                f"{name} positions",
                key=f"lens {name}",
                icon=f":material/{icon}:",
                disabled=not 0 <= target < length,
                on_click=put,
                kwargs={"cell": (target, 0)},
            )
    return slice(first, last)


def rollout(context: Context) -> dict[str, Figure]:
    """What each position is mixed from after a layer, as a map, and one position as bars."""
    quiet("Attention rollout: what is each position mixed from, through all layers? Click a row to follow it.")
    sites = [site for kind in KINDS[:2] for site in context.source.sites if site.kind == kind]
    if not sites:
        raise InputError(f"{context.source.name} has no self-attention to follow.")
    forms = ("rollout", "with the largest flow")
    with st.container(**ROW):
        last = _after(sites)
        tokens = context.record.tokens(last, sentence=context.sentence)[0]
        tokens = tokens[: context.record.texts(last, sentence=context.sentence)[0].length]
        position = _query("Position", context, last.kind, tokens, len(tokens) - 1)
        form = now()["form"] if now()["form"] in forms else forms[0]
        form = control(st.segmented_control, "Shown as", "form", forms, value=form, visible=False, required=True)
    traced = _traced(context, last, position)
    if traced is None:
        return {}
    reached = sentences.reached(traced.shares[position], traced.texts, position)
    in_words(f"Within the decoder alone, {reached}" if traced.mixed.note else reached)
    flow = None
    if form == forms[1]:
        with st.spinner("Looking for the largest flow from each token…"):
            flow = _flow(context.record, last, context.sentence, position)
    every: dict[str, Figure] = {}
    with st.container(horizontal=True, gap="large"):
        if len(traced.mixed.layers):
            every["All positions"] = figures.rollout(traced, selected=position, dark=context.dark)
            with st.container(width="content"):
                picture(
                    every["All positions"], "reach", select="cell", on_click=lambda point: _follow(context, last, point)
                )
        every["This position"] = figures.rollout_row(traced, position, flow, dark=context.dark)
        with st.container(width="content"):
            picture(every["This position"], "reached")
    quiet("Rollout shows where content can go, not what is used.")
    if flow is not None:
        quiet(
            "The flow is the most that can come through all paths from one token, if each layer lets as much pass as "
            "it mixes in. Each token is asked alone, so together they may be more than 100 %."
        )
    with st.expander("How this is computed"):
        quiet(
            "In each layer a position keeps half of itself (the residual connection). The other half comes from where "
            "its heads look: the mean of all, also of those that are off. Values and feed-forward networks are ignored. "
            "Source: Abnar and Zuidema 2020."
        )
    numbers(every["This position"], "reached")
    return every


def _after(sites: list[Site]) -> Site:
    """The stack that is followed and its last layer, kept in the link as "decoder 1"."""
    names = {f"{site.kind} {site.layer}": site for site in sites}
    chosen = now()["stage"] if now()["stage"] in names else [*names][-1]
    name = control(
        st.selectbox,
        "After layer",
        "stage",
        [*names],
        value=chosen,
        part="rollout",
        format_func=lambda name: f"after {names[name]}",
        width=210,
    )
    return names[name]


def _follow(context: Context, last: Site, point: dict) -> None:
    there = {} if (context.site.kind == "encoder") == (last.kind == "encoder") else {"layer": last}
    put(cell=(int(point["query"]), 0), **there)


def _traced(context: Context, last: Site, position: int) -> Traced | None:
    """Rollout after a layer; of a long text one position alone, below a button with its cost."""
    record, text, step = context.record, context.sentence, context.record.step(last)
    layers = sorted(site.layer for site in record.sites if site.kind == last.kind)
    below = layers.index(last.layer)
    if len(record.sites) * record.texts(last, sentence=text)[0].length ** 2 > tracing.MOST_CELLS:
        cost = estimate.of_maps(step, below * step.num_heads)
        key = context.source, context.lines, context.edits, text, last, position
        if not work.is_requested("follow", key, cost, "Follow this position"):
            quiet("The map of all positions is too large, so one of them is followed.")
            return None
        mixed, rows = cache.worked(
            tracing.rows, record, (position,), last.kind, cost=cost, layers=below + 1, sentence=text
        )
        return Traced(record, mixed, last.layer, {position: rows[0].numpy()})
    cost = estimate.of_maps(step, len(layers) * step.num_heads)
    mixed, shares = cache.worked(_followed, record, last.kind, text, cost=cost)
    return Traced(record, mixed, last.layer, shares[below])


def _followed(record: Record, kind: str, sentence: int) -> tuple[Mixed, np.ndarray]:
    mixed = tracing.mixed(record, kind, sentence=sentence)
    return mixed, tracing.rollout(mixed).numpy()


@cache.cached
def _flow(record: Record, last: Site, sentence: int, position: int) -> np.ndarray:
    """Largest flow from each token to a position, through the layers up to one."""
    mixed = tracing.mixed(record, last.kind, sentence=sentence)
    layers = sorted(site.layer for site in record.sites if site.kind == last.kind)
    return tracing.flow(replace(mixed, layers=mixed.layers[: layers.index(last.layer) + 1]), position).numpy()


def gradients(context: Context) -> dict[str, Figure]:
    """Gradient times weight of the chosen head and relevance of each token, or integrated gradients."""
    record, text = context.record, context.sentence
    with st.container(**ROW):
        method = now()["form"] if now()["form"] in METHODS else METHODS[0]
        method = control(st.selectbox, "Method", "form", METHODS, value=method, part="method", width=240)
        position = _position(context, record)
        likely = _likely(context, record, position)
        word = _choose_word("Word", "word", likely, likely[0] if likely else None)
        if method == METHODS[2]:
            steps = now()["number"] if now()["number"] in INTEGRAL else str(studies.STEPS)
            steps = int(control(st.selectbox, "Steps", "number", INTEGRAL, value=steps, part="steps", width=110))
    place = word, position, text
    if method == METHODS[2]:
        return _by_embeddings(context, place, steps)
    quiet("Which weights, and through them which tokens, does the chosen word's logit depend on?")
    if not isinstance(context.head, int):
        raise InputError("Gradients are of one head: choose one above.")
    cost = _cost(context, studies.RUNS)
    if not work.is_requested("gradients", (*_run(context), *place), cost, "Compute gradients"):
        return {}
    names = tuple(map(str, record.sites))
    computed = cache.worked(_relevance, context.source, record, *place, cost=cost, names=names)
    signed = method == METHODS[1]
    layers = sorted(computed.layers)
    every: dict[str, Figure] = {
        "This head": figures.relevance(record, computed, context.site, context.head, signed=signed, dark=context.dark)
    }
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            picture(every["This head"], "relevance")
        with st.container(width="content"):
            layer = int(now()["stage"]) if (now()["stage"] or "") in map(str, layers) else layers[-1]
            options = [*map(str, layers)]
            name = control(st.selectbox, "After layer", "stage", options, value=str(layer), part="relevance", width=150)
            every["Tokens"] = figures.relevance_bars(record, computed, int(name), dark=context.dark)
            picture(every["Tokens"], "relevant")
    quiet(
        "A gradient tells what a small change does. Where the model is sure it can be near zero (saturation), although "
        "the weight matters."
    )
    with st.expander("How this is computed"):
        quiet(
            "The gradient of the logit by each weight, times the weight; negative ones are set to 0, and heads are "
            "averaged. From layer to layer each position adds what the positions have that it looks at: R ← R + Ā R, "
            "from 1 for itself. Source: Chefer, Gur and Wolf 2021."
        )
    numbers(every["Tokens"], "relevant")
    return every


def _by_embeddings(context: Context, place: tuple, steps: int) -> dict[str, Figure]:
    """Integrated gradients of each token, and their gap."""
    quiet("What does the embedding of each token add to the chosen word's logit?")
    cost = _cost(context, studies.RUNS * steps)
    if not work.is_requested("gradients", (*_run(context), *place, steps), cost, "Compute integrated gradients"):
        return {}
    computed = cache.worked(_integrated, context.source, context.record, *place, steps, cost=cost, unit="steps")
    figure = figures.integrated_gradients(context.record, computed, dark=context.dark)
    in_words(gap_in_words(computed))
    picture(figure, "integrated")
    quiet(
        "The tokens sum to the change of the logit, but for the gap: more steps make it smaller. Another baseline than "
        "zero vectors gives other numbers. Positions are not scaled."
    )
    with st.expander("How this is computed"):
        quiet(
            "Each embedding times the mean gradient of the logit on the straight way from a vector of zeros to it, at "
            "the middles of equal steps. Source: Sundararajan, Taly and Yan 2017."
        )
    numbers(figure, "integrated")
    return {"Tokens": figure}


def _run(context: Context) -> tuple[Source, tuple[str, ...], Edits]:
    return context.source, context.lines, context.edits


def _cost(context: Context, count: int) -> Estimate:
    """Cost of a number of runs, with all weights in one graph."""
    lines = cache.sentences(context.source, context.lines)
    cost = budget.of_runs(count, context.source, lines, context.edits)
    return replace(cost, bytes=cost.bytes + studies.COPIES * studies.weights_of(context.record))


def _relevance(source: Source, record: Record, word: str | None, position: int, sentence: int) -> Relevance:
    with cores.used_by(source):
        return studies.relevance(source, record, word, position, sentence=sentence)


def _integrated(
    source: Source, record: Record, word: str | None, position: int, sentence: int, steps: int
) -> IntegratedGradients:
    with progress.counted(steps) as report, cores.used_by(source):
        return studies.integrated(source, record, word, position, sentence=sentence, steps=steps, report=report)
