"""The Learn page: the course, one chapter at a time, with an idea, a live picture, a task and one question."""

from dataclasses import replace
from itertools import pairwise

import streamlit as st

from attnviz import figures, lessons, link
from attnviz.analysis import sentences, steps
from attnviz.analysis.sentences import quoted_token
from attnviz.api import model_text, named_model
from attnviz.core.amounts import digits, percent
from attnviz.core.masks import Subsequent
from attnviz.core.request import Request
from attnviz.lessons import LessonStep, peeking
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui import cache, predictions
from attnviz.ui.pages.heads import active_heads
from attnviz.ui.picture import picture
from attnviz.ui.request import change, control, now, open_page, put, session, show_link_errors, valid_choice
from attnviz.ui.text import block, heading, in_words, quiet, table
from attnviz.ui.toolbar import Context, context_of, select, training_step

WIDTHS = tuple(2**i for i in range(11))
"""Values of d_k to choose from."""
COMPARED = (1, 4, 16, 64, 256, 1024)
"""Values of d_k that the picture compares."""
TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
MEASURES = {"entropy": "entropy (nats)", "largest": "largest weight", "gradient": "gradient of the softmax"}
MAP_SIDE = 300
"""Side of a map in pixels, so that a chapter fits one screen."""
ROUNDING = 1e-4
"""Share of the largest output below which a difference counts as rounding."""

_cached_learn = cache.cached(peeking.learn)
_cached_variance = cache.cached(steps.dot_product_variance)


def page(source: Source, request: Request) -> None:
    """Draw the page."""
    course, memory, choices = lessons.course(), session().memory, now()
    number = min(choices["chapter"] or memory.get("chapter", 1), len(course.steps))
    memory["chapter"] = number
    has_only_number = choices.chosen.keys() <= {"model", "chapter"}  # such as a link with ?chapter=3
    if choices["chapter"] != number or has_only_number:  # the other choices of the chapter are not set yet
        _open(number)
        st.rerun()
    chapter = course.steps[number - 1]
    _chapters(number)
    show_link_errors()
    context = context_of(source, request, st.empty())
    left, pictures, right = st.columns([1.2, 1.7, 1], gap="medium")
    with left:
        _text_column(chapter, number)
    with pictures:
        for name in chapter.shows:
            SCENES[name](context)
    with right, st.container(key="asked"):
        _question_column(chapter, number)


def at_chapter(choices: Choices, number: int) -> Choices:
    """Return the choices at the beginning of a chapter, whatever the current choices are."""
    beginning, _ = link.read(lessons.course().steps[number - 1].link)
    return beginning.put(chapter=number)


def _open(number: int) -> None:
    """Open a chapter at its beginning."""
    change(lambda choices: at_chapter(choices, number))


def _chapters(number: int) -> None:
    """Draw the choice of a chapter; answered chapters have a check mark."""
    course, learned = lessons.course(), {*session().memory.setdefault("learned", set())}

    def title(chapter: int) -> str:
        return f"{'✓ ' if chapter in learned else ''}{chapter} · {course.steps[chapter - 1].title}"

    options = {"value": number, "apply": at_chapter, "visible": False, "format_func": title, "width": 480}
    control(st.selectbox, "Chapter", "chapter", range(1, len(course.steps) + 1), **options)


def _text_column(chapter: LessonStep, number: int) -> None:
    """Draw the idea, the task and the new terms of a chapter."""
    block(f"{number} · {chapter.title}", "heading", "h2")
    st.markdown(chapter.idea)
    if chapter.do:
        heading("Try it")
        st.markdown(chapter.do)
    if chapter.terms:
        with st.expander(f"Words: {', '.join(term.name for term in chapter.terms)}"):
            for term in chapter.terms:
                source = f" *{term.source}*" if term.source else ""
                st.markdown(f"**{term.name}**: {term.means}.{source}")


def _question_column(chapter: LessonStep, number: int) -> None:
    """Draw the question, its choices, the answer, and the buttons to other chapters and pages."""
    last, memory = len(lessons.course().steps), session().memory
    if chapter.question:
        st.markdown(f"**{chapter.question}**")
    if chapter.choices:
        options = {"index": None, "label_visibility": "collapsed"}
        answer = st.radio("Your answer", chapter.choices, key=f"choices {number}", **options)
        is_right = answer == chapter.right
        if answer and not is_right:
            st.info(f"Not quite. {chapter.hint}")
    else:
        if st.button("Show the answer", key="show answer"):
            memory[f"answer {number}"] = True
        is_right = memory.get(f"answer {number}", False)
    if is_right:
        memory["learned"].add(number)
        st.success(chapter.answer, icon=":material/check_circle:")
    with st.container(horizontal=True, gap="small"):
        kind = "primary" if is_right else "secondary"
        if number < last:
            st.button("Next chapter", key="next", type=kind, on_click=_open, args=(number + 1,))
        if number > 1:
            st.button("Back", key="back", type="tertiary", on_click=_open, args=(number - 1,))
        st.button("Reset this chapter", key="again", type="tertiary", on_click=_open, args=(number,))
        action = {"on_click": open_page, "args": (chapter.page,), "kwargs": {"chapter": None}}
        options = {"type": "tertiary", "icon": ":material/arrow_forward:"}
        st.button(f"Go on in {chapter.page}", key="go on", **action, **options)
    if session().before_course is not None:
        quiet("The other pages show your own model and text again.")
    if number == last and is_right:
        st.markdown(lessons.course().closing)


def _map(context: Context) -> None:
    """Draw the map of the head with the sums of its rows, and the selected cell in words."""
    options = {"selected": context.cell, "row_sums": True, "side": MAP_SIDE, "dark": context.dark}
    figure = figures.head(context.record, context.site, context.head, **options)
    picture(figure, "head", select="cell", on_click=select, on_escape=lambda: put(cell=None))
    if context.cell is None:
        quiet("Click a cell to read it in words.")
    else:
        in_words(sentences.cell(context.record, context.site, context.head, *context.cell))


def _heads(context: Context) -> None:
    """Draw the heads of the layer, to choose a head and to switch heads off."""
    active_heads(context.source, context.site)
    figure = figures.heads(context.record, context.site, focused=context.head, dark=context.dark)
    picture(figure, "every", select="head", on_click=lambda point: put(head=int(point["head"])))


def _training_step(context: Context) -> None:
    """Draw the choice of a training step of the model."""
    training_step(context.source)


def _query(context: Context) -> None:
    """Draw the choice of a row."""
    names = {i: f"{i} · {token.text}" for i, token in enumerate(context.tokens[0])}
    options = {"value": _row_of(context), "apply": lambda choices, row: choices.put(cell=(row, 0))}
    control(st.selectbox, "Row", "cell", [*names], part="row", format_func=names.get, width=180, **options)


def _row_of(context: Context) -> int:
    """Return the chosen row; by default the last."""
    return context.cell[0] if context.cell else len(context.tokens[0]) - 1


def _row(context: Context) -> None:
    """Draw a table of the chosen query's unmasked keys with q · k and weight, and the weighted values."""
    row, tokens = steps.row(context.record, context.site, context.head, _row_of(context)), context.tokens[1]
    lines = []
    for i, key in enumerate(row.keys):
        if not row.rules[i]:
            product = f"{row.sums[i]:.2f}".replace("-", "−")
            lines.append([quoted_token(tokens[key].text, key), product, f"{row.weights[i]:.3f}"])
    table(lines, ["key", "q · k", "weight"], numbers=(1, 2))
    quiet("The output of the query: each line is the value of a word times its weight; the last line is their sum.")
    stage = steps.values_stage(row, len(tokens))
    options = {"selected": (row.query, int(row.weights.argmax())), "dark": context.dark}
    values = figures.stage(context.record, context.site, context.head, stage, stage.matrices, **options)
    picture(values, "values")


def _d_k(context: Context) -> None:
    """Draw statistics of random queries and keys for a chosen d_k, with and without scaling."""
    chosen = int(valid_choice("number", [*map(str, WIDTHS)], "16"))
    options = {"value": chosen, "apply": lambda choices, width: choices.put(number=str(width))}
    d_k = control(st.select_slider, "dₖ", "number", WIDTHS, **options)
    (products,) = _cached_variance((d_k,))
    rows = [["variance of the scores", digits(products.variance), digits(products.scaled_variance)]]
    for field, name in MEASURES.items():
        rows.append([name, digits(getattr(products.unscaled, field)), digits(getattr(products.scaled, field))])
    table(rows, [f"500 random queries, dₖ = {d_k}", "q·k as it is", "q·k / √dₖ"], numbers=(1, 2))
    rows = []
    for width in sorted({*COMPARED, d_k}):
        (products,) = _cached_variance((width,))
        rows.append([f"dₖ = {width:,}", percent(products.unscaled.largest), percent(products.scaled.largest)])
    table(rows, ["largest weight of a row of 16 keys", "q·k as it is", "q·k / √dₖ"], numbers=(1, 2))


def _future(context: Context) -> None:
    """Draw the switch of the built-in causal mask."""
    control(st.toggle, "Hide the future (causal mask)", "own_mask")


def _scores(context: Context) -> None:
    """Draw the controls of scale and temperature, and their effect on the chosen row."""
    site, temperatures = context.site, sorted({*TEMPERATURES, now()["temperature"]})
    control(st.toggle, "Divide by √dₖ", "scaled", apply=lambda choices, on: choices.put(scaled=on, scored=site))
    options = {"apply": lambda choices, value: choices.put(temperature=value, scored=site)}
    control(st.select_slider, "Temperature", "temperature", temperatures, format_func="{:g}".format, **options)
    query = _row_of(context)
    trained, changed, _ = steps.compare(context.original, context.record, site, context.head, query)
    rows = [
        [title, digits(getattr(trained, field)), digits(getattr(changed, field))] for field, title in MEASURES.items()
    ]
    row = f"Row {quoted_token(context.tokens[0][query].text, query)}"
    table(rows, [row, "as trained", "now"], numbers=(1, 2))


def _positions(context: Context) -> None:
    """Draw the switch of positions, and how much the outputs change if the words are reversed."""
    name, parameters = named_model(now()["model"])

    def with_positions(choices: Choices, on: bool) -> Choices:
        return choices.put(model=model_text(name, parameters | {"positions": on}))

    options = {"value": parameters.get("positions", True), "apply": with_positions}
    control(st.toggle, "Add positions to the words", "model", part="positions", **options)
    change_of_output, largest = _change_by_order(context)
    text = "each word keeps its output: the model ignores the order."
    if change_of_output > ROUNDING * largest:
        text = f"the outputs change by up to {change_of_output:.2g}; their largest number is {largest:.2g}."
    quiet(f"With the words in reverse order {text}")


def _change_by_order(context: Context) -> tuple[float, float]:
    """Return the largest change of any output number if the words are in reverse order, and the largest output number.

    A word's output in the reversed text is compared with the same word's output in the text.
    """
    sentence, output = context.record.sentences[context.sentence], context.record.output[context.sentence]
    words = [i for i, token in enumerate(sentence.tokens) if not token.special]
    order = [*range(len(sentence.tokens))]  # old position of each token; special tokens keep their positions
    for position, word in zip(words, reversed(words), strict=True):
        order[position] = word
    backwards = replace(sentence, tokens=tuple(sentence.tokens[i] for i in order))
    output_backwards = context.source.run((backwards,), context.edits).output[0]
    return float((output_backwards - output[order]).abs().max()), float(output.abs().max())


def _peeking(context: Context) -> None:
    """Draw a button that trains two small models, with and without a mask of later words, and then their losses."""
    if not session().memory.get("peeking"):
        tokens = context.tokens[0]
        rows = [[quoted_token(token.text, i), f"“{after.text}”"] for i, (token, after) in enumerate(pairwise(tokens))]
        table(rows, ["row", "has to predict"])
        action = {"on_click": session().memory.update, "args": ({"peeking": True},)}
        st.button("Train both models", icon=":material/play_arrow:", type="primary", **action)
        return
    with st.spinner("Both models train …"):
        masked, unmasked = _cached_learn(Subsequent()), _cached_learn(None)
    losses_unmasked = dict(unmasked.losses)
    rows = [[f"{step}", f"{loss:.2f}", f"{losses_unmasked[step]:.2f}"] for step, loss in masked.losses[::4]]
    table(rows, ["training step", "loss with the mask", "loss without a mask"], numbers=(0, 1, 2))
    in_words(
        f"When they generate, and no later words exist yet, their losses are {masked.generation_loss:.2f} with the "
        f"mask and {unmasked.generation_loss:.2f} without one; guessing at random gives {peeking.GUESS:.2f}."
    )


def _bugs(context: Context) -> None:
    """Draw each bug of the museum: an expander with the symptom as its title, the cause and the fix inside."""
    for bug in lessons.museum():
        with st.expander(bug.symptom, key=f"mistake {bug.name}"):
            st.markdown(f"**{bug.title}.** {bug.because}")
            st.code(bug.fix, None, wrap_lines=True)
            quiet(f"Where it happened: {bug.seen_in}.")


def _prediction(context: Context) -> None:
    """Draw the prediction after the selected row, by default after the last token."""
    predictions.panel(context, context.cell[0] if context.cell else context.record.read[0].length - 1)


SCENES = {
    "map": _map,
    "heads": _heads,
    "prediction": _prediction,
    "training step": _training_step,
    "query": _query,
    "row": _row,
    "d_k": _d_k,
    "future": _future,
    "scores": _scores,
    "positions": _positions,
    "peeking": _peeking,
    "bugs": _bugs,
}
"""Functions that draw the scenes of chapters, by their names in `assets/lessons/course.toml`."""
