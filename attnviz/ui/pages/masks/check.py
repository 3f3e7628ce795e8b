"""Checks of an array or of this model: each finding is a sentence with its fix."""

import io
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st
from torch import Tensor

from attnviz import figures
from attnviz.check import CONVENTIONS, MEANT, MOST_CELLS, NOT_SURE, Finding, Report, check, reading
from attnviz.check.leaks import MOST, LeakTest
from attnviz.check.model import ModelReport, check_model
from attnviz.check.ways_to_run import RUNS
from attnviz.core.amounts import counted
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.masks import Padding
from attnviz.sources.estimate import Estimate, estimate
from attnviz.sources.wrapped import Wrapped
from attnviz.ui import cache, export_menu
from attnviz.ui.pages.masks import rules
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import control, now, put, session
from attnviz.ui.text import clean, in_words, note, quiet, verdict
from attnviz.ui.toolbar import Context, select

ARRAYS = {"check": "File or numbers", "check mask": "This mask", "check weights": "These weights"}
"""Arrays that can be checked, by their names in the link."""
NOT_SAID, OF_PAGE = "not said", "the mask under Compose"
KINDS = {"weights": "weights, after the softmax", "scores": "scores, before the softmax"}
KINDS |= {name: f"{name}: {meaning}" for name, meaning in CONVENTIONS.items()}
"""Meanings of the numbers that the user can choose: a kind of array, or a convention of masks."""
EXAMPLE = "1 0 0 0 0\n0.6 0.4 0 0 0\n0.2 0.3 0.4 0 0.1\n0.1 0.4 0.2 0.3 0\n0.3 0.1 0.2 0.2 0.2"
"""Weights of a causal head with one leak: position 2 attends to position 4."""
SIDE = 360
"""Side of a map in pixels."""
WAYS = "Runs this text and a longer one, each by itself, then in the chosen ways, and compares the outputs."
"""Help of the ways to run a user's own model."""
COMMAND = "attnviz check my_model.py:build"
"""Shell command that checks the user's own model, as the app does not run uploaded code."""


Input = tuple[str, np.ndarray | Tensor]
"""An array to check: its name and its values."""


def remembered(widget: Callable, label: str, name: str, *args: Any, default: Any, **options: Any) -> Any:
    """Draw a widget whose value is not in the link but survives a change of the page."""
    memory = session().memory
    st.session_state.setdefault(name, memory.get(name, default))
    memory[name] = widget(label, *args, key=name, **options)
    return memory[name]


def array(context: Context, lab: str) -> None:
    """Draw the check of an array: the input on the left, the result on the right."""
    left, right = st.columns([1, 1.6])
    with left:
        options = {"value": lab, "visible": False, "format_func": ARRAYS.get, "required": True}
        control(st.segmented_control, "What to check", "lab", [*ARRAYS], part="array", **options)
        place = st.container()
    try:
        with place:
            checked = _input(context, lab)
            arguments = {} if checked is None else _arguments(context, lab, checked)
        with right:
            if checked is not None:
                _answer(context, checked, arguments)
    except AttnvizError as error:
        with right:
            note(str(error))
    quiet("Check a model of your own on the command line, where its code runs on your machine:")
    st.code(f"{COMMAND}\n{COMMAND.replace('check', 'app')}  # the same, on this page", "sh", wrap_lines=True, width=640)


def _input(context: Context, lab: str) -> Input | None:
    """Draw the controls of the array to check, and return the array; None if there is none yet."""
    if lab == "check":
        endings = [ending.removeprefix(".") for ending in reading.ENDINGS]
        label = "Paste a printed tensor, nested lists or rows; or drop a file"
        text = remembered(st.text_area, label, "pasted", default=EXAMPLE, height=130)
        options = {"key": "checked file", "label_visibility": "collapsed"}
        file = st.file_uploader("A file with a mask, weights or scores", endings, **options)
        if file is not None:
            return _choose_array(reading.read_file(clean(file.name), file.getvalue()))
        return _choose_array(reading.read_text(clean(text))) if text.strip() else None
    queries, keys = map(len, context.tokens)
    if queries * keys > MOST_CELLS:
        raise InputError(f"The map has {queries:,} × {keys:,} cells; at most {MOST_CELLS:,} are checked at once.")
    if lab == "check mask":
        return "mask", rules.acting_mask(context).grid(queries, keys, sentence=context.sentence)
    weights = context.record.step(context.site).weights(rules.number(context), sentence=context.sentence)
    return "weights", weights


def _choose_array(contents: reading.ArrayFile) -> Input:
    """Return the array of a file; if there are several, draw a choice of them."""
    names = list(contents.arrays)
    first = next((i for i, name in enumerate(names) if reading.kind_by_name(name)), 0)
    if len(names) > 1:
        first = st.selectbox("Which array", range(len(names)), first, format_func=lambda i: clean(names[i])[:80])
    return names[first], contents.arrays[names[first]]


def _arguments(context: Context, lab: str, checked: Input) -> dict[str, Any]:
    """Draw the settings of a check, and return them as arguments of `check`."""
    name, values = checked
    intent = _intent([OF_PAGE, *MEANT], "Meant to be")
    kind, padding = {"check mask": "may-attend", "check weights": "weights"}.get(lab), None
    if kind is None:
        with st.expander("What the numbers are, and padding"):
            options = {"default": NOT_SAID, "format_func": lambda name: KINDS.get(name, name)}
            kind = remembered(st.selectbox, "The numbers are", "numbers are", (NOT_SAID, *KINDS), **options)
            kind = reading.kind_by_name(name) if kind == NOT_SAID else kind
            options = {"default": "", "placeholder": "found in the array; or 5, 3"}
            typed = remembered(st.text_input, "Padding: tokens of each text", "padding", **options)
            lengths = rules.whole_numbers(typed, "lengths")
        if lengths and max(lengths) > values.shape[-1]:
            raise InputError(f"A text of {max(lengths)} tokens does not fit the {values.shape[-1]} keys of the array.")
        padding = Padding(lengths).tensor(1, values.shape[-1])[:, 0, 0] if lengths else None
    return {
        "kind": None if kind in CONVENTIONS else kind,
        "convention": kind if kind in CONVENTIONS else None,
        "intent": rules.acting_mask(context) if intent == OF_PAGE else intent,
        "padding": padding,
    }


def _intent(names: list[str], label: str) -> str | None:
    """Draw the choice of the intended mask: a name, or a typed mask."""
    current = now()["intent"] or NOT_SAID
    about = "A kind of mask, with any padding, or a mask as text, such as causal & window(4). The check then names the "
    chosen = control(
        st.selectbox,
        label,
        "intent",
        list(dict.fromkeys((NOT_SAID, *names, current))),
        value=current,
        apply=lambda choices, name: choices.put(intent=None if name in (None, NOT_SAID) else name),
        format_func=lambda name: f"{name}: {MEANT[name]}" if name in MEANT else name,
        accept_new_options=True,
        help=f"{about}mistakes that lead from it to the checked mask.",
    )
    return None if chosen in (None, NOT_SAID) else chosen


def _answer(context: Context, checked: Input, arguments: dict[str, Any]) -> None:
    """Draw the findings with their fixes, a picture of the cells concerned, and the details in an expander."""
    name, values = checked
    report = check(values, **arguments)
    wrong = _findings(report)
    is_unsure = report.verdict == NOT_SURE
    if not wrong:
        assumed = f" Assumed: {report.assumed}." if report.assumed else ""
        verdict(f"{report.verdict}{assumed}", "unsure" if is_unsure else "right")
    if report.question or is_unsure:
        note(report.question or "Choose on the left what the numbers are, or are meant to be.", "remark")
    figure = figures.checked(values, report, dark=context.dark, side=SIDE)
    picture(figure, "checked")
    if report.repaired is not None:
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(report.repaired), allow_pickle=False)
        file = f"{name or 'mask'}-repaired.npy", "application/octet-stream"
        st.download_button("Save the repaired mask", buffer.getvalue(), *file, key="repaired", on_click="ignore")
    with context.export:
        export_menu.menu(context, {"What was checked": figure}, "check")
    with st.expander("How it was read"):
        st.code(clean("\n".join((f"{name}:", *report.lines()))), None, wrap_lines=True)


def _findings(report: Report) -> list[Finding]:
    """Draw the errors and warnings, each with its message, its attention calls and its fix; return these findings."""
    wrong = [finding for finding in report.findings if finding.severity != "note"]
    for i, finding in enumerate(wrong):
        kind = "error" if finding.severity == "error" else "notice"
        (note if i else verdict)(f"{finding.severity.capitalize()}: {finding.message}", kind)
        if finding.calls:
            quiet(f"In {', '.join(finding.calls)}.")
        if finding.fix:
            st.code(finding.fix, None, wrap_lines=True)
    return wrong


def model(context: Context) -> None:
    """Draw the check of the model: the verdict, the map of the leak test, and the list of tests."""
    left, right = st.columns([1.6, 1], gap="large")
    with right:
        intent = _intent(["causal", "two-way"], "The model is meant to be")
        is_own, runs = isinstance(context.source, Wrapped), []
        if is_own and not context.source.writes:
            options = {"default": [], "selection_mode": "multi", "help": WAYS}
            runs = remembered(st.pills, "Also run it", "runs", RUNS, **options)
    with left:
        report = _report(context, intent, tuple(runs))
        _verdict(report)
        if report.future is not None:
            _leaks(context, report.future)
    with right, st.expander("What was tested, and the command for it", expanded=True):
        quiet(*report.passed, *report.skipped)
        parts = [context.request.texts[context.sentence], *([] if is_own else ["--model", context.source.id])]
        parts += ["--intent", intent] if intent else []
        parts += ["--runs", ",".join(runs)] if runs else []
        st.code(clean(f"{COMMAND if is_own else 'attnviz check'} {shlex.join(parts)}"), "sh", wrap_lines=True)


def _report(context: Context, intent: str | None, runs: tuple[str, ...]) -> ModelReport:
    """Check the model on the text in view, cached; a long check shows its progress."""
    source, sentence, mask = context.source, context.sentence, context.edits.mask
    edits = replace(context.edits, mask=mask and mask.of_sentence(sentence if mask.batch_size else 0))
    length = min(len(cache.sentences(source, context.request)[sentence].tokens), MOST)
    cost = Estimate(length, estimate(source, length, sentences=length).seconds, 0, 0)
    targets = cache.targets(source, context.request)[sentence : sentence + 1]
    options = {"edits": edits, "intent": intent, "targets": targets, "runs": runs}
    counts = {"unit": "tokens changed", "count": MOST}
    text = context.request.texts[sentence]
    return cache.result_of(check_model, source, text, cost=cost, runs_model=source, **counts, **options)


def _verdict(report: ModelReport) -> None:
    """Draw the findings, or that nothing is wrong, and any question that the user should answer."""
    wrong, test = _findings(report), report.future
    if question := report.question.partition(" Say --")[0]:
        (note if wrong else verdict)(f"{question} Choose on the right what it is meant to be.", "unsure")
    elif not wrong and test is not None and test.is_tested:
        pairs = counted(int(test.hidden.sum()), "pair")
        verdict(f"No leak: no output changes with a token that is hidden from it ({pairs} tried).", "right")
    elif not wrong:
        verdict("Nothing wrong was found, but no output could be compared.", "unsure")
    if report.assumed:
        quiet(f"{report.assumed.partition('. If')[0]}. If it is not, choose another under “meant to be”.")


def _leaks(context: Context, test: LeakTest) -> None:
    """Draw which outputs change with which token, with leaks in red, and the selected cell in words."""
    cell = context.cell
    cell = cell if cell and all(i < size for i, size in zip(cell, test.moved.shape, strict=True)) else None
    pair = cell or next(iter(test.pairs), None)
    if pair is not None:
        text = test.in_words(*pair)
        in_words(f"{text[:1].upper()}{text[1:]}.")
    figure = figures.leaks(test, selected=cell, dark=context.dark, side=SIDE)
    picture(figure, "leaks", select="cell", on_click=select, on_escape=lambda: put(cell=None))
    quiet("If the output of a row changes with the token of a column, the row depends on that token.")
    with context.export:
        export_menu.menu(context, {"Leak test": figure}, "leaks")
    numbers(figure, "leaks")
