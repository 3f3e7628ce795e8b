"""Attribution of a predicted word to heads and tokens: contributions, logit lens, rollout and gradients."""

from dataclasses import replace

import numpy as np
import streamlit as st

from attnviz import analysis, figures
from attnviz.analysis import rollout as tracing
from attnviz.analysis import sentences
from attnviz.analysis.lens import stages
from attnviz.analysis.relevance import IntegratedGradients, Relevance
from attnviz.analysis.rollout import MixingMatrices
from attnviz.core.display import visible_text
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.figures import Figure
from attnviz.figures.attribution import Traced, gap_in_words
from attnviz.figures.lens import MOST_POSITIONS
from attnviz.link import Choices
from attnviz.sources import estimate
from attnviz.studies import ablation
from attnviz.studies import gradients as studies
from attnviz.ui import budget, cache, runs
from attnviz.ui.pages.overview.heads import choose, each_off, opener
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import choice, control, now, put, valid_choice
from attnviz.ui.text import in_words, large, quiet
from attnviz.ui.toolbar import Context

ROW = {"horizontal": True, "vertical_alignment": "bottom", "gap": "small"}
LIKELY = 10
"""Number of most probable words to choose from."""
LONGEST = 100
"""Maximum number of characters of a word in a link."""
UNSIGNED, SIGNED, INTEGRATED = METHODS = ("gradient × weight", "gradient × weight, signed", "integrated gradients")
LENSES = ("words by layer", "words of the head")
INTEGRAL = ("50", "20", "200", "1000")
"""Possible numbers of steps of the integral."""


def contributions(context: Context) -> dict[str, Figure]:
    """Draw the contribution of each head and layer to a word's logit, and the fall of the logit without each head."""
    quiet("Direct logit attribution: which head adds the predicted word, and do others replace it when it is off?")
    record = cache.with_stream(context.source, context.record)
    with st.container(**ROW):
        position, token, likely_words = _position_and_word(context, record)
        minus = _word("Minus", "minus", likely_words, None)
    word = {"token": token, "position": position, "minus": minus, "sentence": context.sentence}
    style = {"focused": (context.site, context.head), "dark": context.dark}
    drawn: dict[str, Figure] = {"Heads": figures.contributions(record, **word, **style)}
    sentence_above, falls = st.container(), None
    with st.container(horizontal=True, gap="medium"):
        with st.container(width="content"):
            picture(drawn["Heads"], "adds", select="head", on_click=choose)
        with st.container(width="content"), runs.part():
            falls = each_off(context, "each off", ablation.logit_falls, **word)
            if falls is not None:
                drawn["Switched off"] = figures.replaced(record, **word, falls=falls, **style)
                picture(drawn["Switched off"], "replaced", select="head", on_click=choose)
        with st.container(width="content"):
            drawn["Parts"] = figures.contribution_parts(record, **word, dark=context.dark)
            picture(drawn["Parts"], "parts")
    with sentence_above:
        added = analysis.contributions(record, **word)
        large(added.in_words(falls))
        if added.strongest_head is not None:
            opener(*added.strongest_head)
    _method(
        "A part adds its vector, divided by the last norm of the whole sum, times the word's column of the "
        "unembedding; a head's vector is its output times its part of W_O. All parts sum to the logit. Effects "
        "through later layers are not counted; the switch-off test includes them. Source: Elhage et al. 2021."
    )
    numbers(drawn["Heads"], "contributions")
    return drawn


def _method(text: str) -> None:
    """Draw a closed expander that says how a picture is computed."""
    with st.expander("How this is computed"):
        quiet(text)


def _position_and_word(context: Context, record: Record) -> tuple[int, str | None, list[str]]:
    """Draw the choices of a position and a word; return both, and the most probable words at the position."""
    position = _position(context, record)
    words = analysis.next_words(record, position, sentence=context.sentence, count=LIKELY)
    likely_words = [word.word for word in words]
    default = likely_words[0] if likely_words else None
    return position, _word("Word", "word", likely_words, default), likely_words


def _position(context: Context, record: Record) -> int:
    """Draw the choice of the position whose prediction is explained, by default the query of the selected cell.

    Raises:
        InputError: if the model predicts no words.
    """
    if record.prediction is None:
        raise InputError(f"{context.source.name} predicts no words, so there is no logit to explain.")
    read, text = record.read[context.sentence], context.sentence
    kind = "decoder" if any(site.kind == "decoder" for site in context.source.sites) else "encoder"
    last = read.length - 1
    default = last if context.position is None else context.position
    if record.targets:  # the last predicted word that is not the end of the text
        predicted = record.prediction.words(sentence=text)[: read.length]
        default = max((i for i, word in enumerate(predicted) if word not in sentences.ENDS), default=last)
    tokens = dict(enumerate(read.tokens[: read.length]))
    if analysis.fills_in(record) and (blanks := record.prediction.blanks[text]):
        return _query("In place of", context, kind, {i: tokens[i] for i in blanks}, default)
    return _query("After", context, kind, tokens, default)


def _query(label: str, context: Context, kind: str, tokens: dict[int, Token], default: int) -> int:
    """Draw the choice of a position, and return the position.

    By default, the position is the query of the selected cell if the cell's map has the same text, else `default`.

    Args:
        kind: "encoder" or "decoder", the part of the model that reads the text.
        tokens: tokens of the text that can be chosen, by position.
    """
    is_same_text = (context.site.kind == "encoder") == (kind == "encoder")
    cell = now()["cell"]
    position = cell[0] if cell and is_same_text else default
    last_site = max(site for site in context.source.sites if site.kind == kind)

    def with_position(choices: Choices, position: int) -> Choices:
        if not is_same_text:
            choices = choices.put(layer=last_site)
        return choices.put(cell=(position, 0))

    positions, names = [*tokens], {i: f"{visible_text(token.text)} ({i})" for i, token in tokens.items()}
    value = position if position in tokens else positions[-1]
    options = {"value": value, "apply": with_position, "format_func": names.get, "width": 170}
    return control(st.selectbox, label, "cell", positions, part=label, **options)


def _word(label: str, name: str, likely_words: list[str], default: str | None) -> str | None:
    """Draw the choice of a word of the vocabulary, one of the most probable or a typed one; return the word."""
    word = now()[name] or default
    words = likely_words if word is None or word in likely_words else [*likely_words, word]

    def with_word(choices: Choices, typed: str | None) -> Choices:
        typed = (typed or "").replace("␣", " ")[:LONGEST]
        return choices.put(**{name: None if typed in ("", default) else typed})

    about = "One of the most probable words; or type any token of the vocabulary. ␣ stands for a space."
    choice_of_word = {"value": word, "apply": with_word, "accept_new_options": True, "format_func": visible_text}
    options = {"index": None, "placeholder": "no other word", "help": about, "width": 170}
    control(st.selectbox, label, name, words, **choice_of_word, **options)
    return word


def lens(context: Context) -> dict[str, Figure]:
    """Draw the logit lens, the predictions after each layer, or the words that the chosen head raises and lowers."""
    record = cache.with_stream(context.source, context.record)
    with st.container(**ROW):
        form = choice(st.segmented_control, "Shown as", "form", LENSES, visible=False, required=True)
        is_head = form == "words of the head"
        position = _position(context, record)
    if is_head and not isinstance(context.head, int):
        raise InputError("This view shows a single head: choose one above.")
    first = position // MOST_POSITIONS * MOST_POSITIONS
    columns = slice(first, min(record.read[context.sentence].length, first + MOST_POSITIONS))
    last_stage, style = len(stages(record)) - 1, {"sentence": context.sentence, "dark": context.dark}
    rows = 1 if is_head else last_stage + 1  # row 0 is the last stage, the output of the model
    row = int(valid_choice("stage", [str(row) for row in range(rows)], "0"))
    options = {"columns": columns, "selected": (row, position), **style}
    if is_head:
        quiet(f"Which words does {context.site.head(context.head)} make more or less probable after each token?")
        grid = figures.pushed(record, context.site, context.head, **options)
    else:
        quiet("What would the model predict if it ended after each layer? Click a word for its alternatives.")
        grid = figures.logit_lens(record, **options)
    if row == 0:
        bars = figures.next_word(record, position, **style)
    else:
        bars = figures.lens_words(record, position, stage=last_stage - row, **style)

    def select_word(point: dict) -> None:
        """Select the clicked word: its row, from the last stage down, and its position."""
        put(stage=str(point["query"]), cell=(int(point["key"]), 0))

    picture(grid, "lens", select="cell", on_click=select_word)
    picture(bars, "lens words")
    if is_head:
        how = "The head's output times its part of W_O, divided by the last norm of the whole sum, times the "
        how += "unembedding: its contribution to the logit of each word, without effects through later layers."
    else:
        how = "Each row applies the last norm and the unembedding to the residual stream after a layer (logit lens, "
        how += "nostalgebraist 2020). Norm and unembedding were trained for the last layer: only the top row is a "
        how += "prediction of the model."
    _method(how)
    numbers(grid, "lens")
    return {"Words": grid, "Probabilities": bars}


def rollout(context: Context) -> dict[str, Figure]:
    """Draw attention rollout after a layer: a map of each token's share in each position, and bars for one position."""
    record, text = context.record, context.sentence
    sites = {str(site): site for site in reversed(context.source.sites) if site.kind != "cross"}
    if not sites:
        raise InputError(f"{context.source.name} has no self-attention to follow.")
    with st.container(**ROW):
        options = {"part": "rollout", "format_func": "after {}".format, "width": 210}
        last = sites[choice(st.selectbox, "After layer", "stage", [*sites], **options)]
        query_text, _ = record.texts(last, sentence=text)
        tokens = dict(enumerate(query_text.tokens[: query_text.length]))
        position = _query("Position", context, last.kind, tokens, query_text.length - 1)
    quiet("Attention rollout: which tokens are mixed into each position, through all layers? Click a row to follow it.")
    traced = _trace(context, last, position)
    if traced is None:
        return {}
    largest_shares = sentences.reached(traced.shares[position], traced.texts, position)
    in_words(f"Within the decoder alone, {largest_shares}" if traced.mixed.note else largest_shares)

    def follow(point: dict) -> None:
        """Select the clicked row; if the page shows a layer of another text, change to the layer of the map."""
        is_same_text = (context.site.kind == "encoder") == (last.kind == "encoder")
        put(cell=(int(point["query"]), 0), layer=now()["layer"] if is_same_text else last)

    drawn: dict[str, Figure] = {}
    with st.container(horizontal=True, gap="large"):
        if len(traced.mixed.layers):
            drawn["All positions"] = figures.rollout(traced, selected=position, dark=context.dark)
            with st.container(width="content"):
                picture(drawn["All positions"], "reach", select="cell", on_click=follow)
        drawn["This position"] = figures.rollout_row(traced, position, dark=context.dark)
        with st.container(width="content"):
            picture(drawn["This position"], "reached")
    quiet("Rollout shows how content can flow, not which content is used.")
    _method(
        "In each layer, half of a position is its own state (the residual connection), and half is mixed by the mean "
        "weights of all heads, including heads that are off. Values and feed-forward networks are ignored. "
        "Source: Abnar and Zuidema 2020."
    )
    numbers(drawn["This position"], "reached")
    return drawn


def _trace(context: Context, last: Site, position: int) -> Traced | None:
    """Compute rollout after the layer `last`; for a long text only at one position, None before a click on a button."""
    record, text, step = context.record, context.sentence, context.record.step(last)
    layers = sorted(site.layer for site in record.sites if site.kind == last.kind)
    num_below = layers.index(last.layer)  # number of layers of the encoder or decoder before `last`
    if len(record.sites) * record.texts(last, sentence=text)[0].length ** 2 <= tracing.MOST_CELLS:
        cost = estimate.of_maps(step, len(layers) * step.num_heads)
        mixed, shares_by_layer = cache.result_of(_mix_and_rollout, record, last.kind, text, cost=cost)
        return Traced(record, mixed, last.layer, shares_by_layer[num_below])
    cost = estimate.of_maps(step, num_below * step.num_heads)
    work = context.source, context.request, text, last, position
    if not runs.is_requested("follow", work, cost, "Follow this position"):
        quiet("The map of all positions is too large, so only one is followed.")
        return None
    options = {"layers": num_below + 1, "sentence": text, "cost": cost}
    mixed, (shares,) = cache.result_of(tracing.rows, record, (position,), last.kind, **options)
    return Traced(record, mixed, last.layer, {position: shares.numpy()})


def _mix_and_rollout(record: Record, kind: str, sentence: int) -> tuple[MixingMatrices, np.ndarray]:
    """Average the heads of each layer, and compute rollout after each layer, (layers, n, n)."""
    mixed = tracing.mixed(record, kind, sentence=sentence)
    return mixed, tracing.rollout(mixed).numpy()


def gradients(context: Context) -> dict[str, Figure]:
    """Draw gradient × weight of the chosen head with the relevance of each token, or integrated gradients."""
    record, text = context.record, context.sentence
    steps = None
    with st.container(**ROW):
        method = choice(st.selectbox, "Method", "form", METHODS, part="method", width=240)
        position, word, _ = _position_and_word(context, record)
        if method == INTEGRATED:
            steps = int(choice(st.selectbox, "Steps", "number", INTEGRAL, part="steps", width=110))
    source, request = context.source, context.request
    num_runs = studies.RUNS * (steps or 1)  # forward and backward passes take as long as this number of runs
    cost = budget.of_runs(num_runs, source, cache.sentences(source, request), context.edits)
    cost = replace(cost, bytes=cost.bytes + studies.COPIES * studies.weights_of(record))
    if not runs.is_requested("gradients", (source, request, word, position, text, steps), cost, "Compute gradients"):
        return {}
    arguments = source, record, word, position
    options = {"sentence": text, "cost": cost, "runs_model": source}
    if steps is not None:
        computed = cache.result_of(studies.integrated, *arguments, steps=steps, unit="steps", count=steps, **options)
        return _embedding_gradients(context, computed)
    computed = cache.result_of(studies.relevance, *arguments, names=tuple(map(str, record.sites)), **options)
    return _weight_gradients(context, computed, signed=method == SIGNED)


def _weight_gradients(context: Context, computed: Relevance, *, signed: bool) -> dict[str, Figure]:
    """Draw gradient × weight of the chosen head, and the relevance of each token after a layer."""
    if not isinstance(context.head, int):
        raise InputError("Gradients are shown for one head: choose one above.")
    quiet("On which weights does the logit of the chosen word depend, and through them on which tokens?")
    record, style = context.record, {"dark": context.dark}
    head = figures.relevance(record, computed, context.site, context.head, signed=signed, **style)
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            picture(head, "relevance")
        with st.container(width="content"):
            layers = [*map(str, sorted(computed.layers, reverse=True))]
            name = {"part": "relevance", "format_func": "after layer {}".format, "width": 150, "visible": False}
            layer = int(choice(st.selectbox, "After layer", "stage", layers, **name))
            bars = figures.relevance_bars(record, computed, layer, **style)
            picture(bars, "relevant")
    _method(
        "Ā is the gradient of the logit with respect to each weight, times the weight; negative products are set to "
        "0, then heads are averaged. From layer to layer, the relevance R becomes R + Ā R. If the model is certain, "
        "a gradient can be near zero although the weight matters. Source: Chefer et al. 2021."
    )
    numbers(bars, "relevant")
    return {"This head": head, "Tokens": bars}


def _embedding_gradients(context: Context, computed: IntegratedGradients) -> dict[str, Figure]:
    """Draw the integrated gradients of each token, with the gap between their sum and the change of the logit."""
    quiet("What does the embedding of each token add to the chosen word's logit?")
    figure = figures.integrated_gradients(context.record, computed, dark=context.dark)
    in_words(gap_in_words(computed))
    picture(figure, "integrated")
    _method(
        "Each embedding times the mean gradient of the logit on the straight line from a zero vector to the embedding. "
        "The tokens sum to the change of the logit, up to a gap that more steps reduce. Source: Sundararajan 2017."
    )
    numbers(figure, "integrated")
    return {"Tokens": figure}
