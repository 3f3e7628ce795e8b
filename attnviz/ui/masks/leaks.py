"""The check of the model: its masks, and whose output moves with a hidden token, with padding or another text."""

import math
from dataclasses import replace

import streamlit as st

from attnviz import figures
from attnviz.analysis import sentences
from attnviz.check.model import ModelReport, check_model
from attnviz.core import progress
from attnviz.core.amounts import counted, percent
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.leaks import MOST, STATES, LeakTest
from attnviz.core.masks import Mask
from attnviz.core.request import Request
from attnviz.figures.leaks import measured
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate, estimate
from attnviz.ui import cache, cores, runs
from attnviz.ui.masks import words
from attnviz.ui.masks.lab import WITH_WORDS, Lab
from attnviz.ui.shared import everything, look, pictures, state
from attnviz.ui.shared.setting import Setting, choice, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import block_html, details_html, label, large, note, quiet, table, table_html, verdict

WHOLE, LAYER = TESTED = (words.TEST_WHOLE, words.TEST_LAYER)
"""The part of the model that is tested."""

THIS_MASK, FUTURE, TWO_WAY = PROMISES = (words.THIS_MASK, words.NO_FUTURE, words.TWO_WAY)
"""What the model is meant to keep."""

TEST = choice("tested", TESTED, WHOLE, former=dict.fromkeys(words.EXAMPLE_LEAKS, WHOLE))
PROMISE = choice("promise", PROMISES)
REQUESTED: Setting[tuple] = session_setting("leaks asked", ())
"""The test that takes long and was asked for."""

MOST_MOVED, MOST_TRIED = 8, 12
"""Outputs that are named with how far they moved, and changed words that are named, where nothing leaks."""

QUICK = 1.5
"""Seconds that a test may take without being asked for."""


def judge(lab: Lab, bar: Toolbar) -> None:
    """The verdict on the model, the grid of its leak test, and the ways to test something else."""
    try:
        report = _model(lab, lab.site if state.get(TEST) == LAYER else lab.site.kind, _intent(lab))
    except AttnvizError as error:
        note(str(error), "notice")
        report = None
    if report is not None:
        _verdict(report)
    if report is not None and report.future is not None:
        _result(lab, report, report.future, bar)
    else:
        with bar.export:
            everything.menu(lab)
        _options(lab)


def _verdict(report: ModelReport) -> None:
    """Kind of model that it was taken for, the worst finding, the others, and a question that is open."""
    if report.assumed:
        quiet(words.ASSUMED.format(assumed=report.assumed.partition(".")[0] + "."))
    wrong = [finding for finding in report.findings if finding.severity != "note"]
    for place, finding in enumerate(wrong):
        tell = note if place else verdict
        kind = "error" if finding.severity == "error" else "notice"
        message = words.FINDING.format(severity=finding.severity.capitalize(), says=finding.message)
        tell(message, kind)
        where = words.IN_CALLS.format(calls=", ".join(finding.calls)) if finding.calls else ""
        quiet(*filter(None, (words.FIX.format(fix=finding.fix), where)))
    if report.question:
        (note if wrong else verdict)(report.question, "unsure")
    elif not wrong:
        verdict(words.NOTHING_WRONG, "unsure" if report.future is None else "right")
    if report.future is None:
        quiet(*report.skipped)


def _options(lab: Lab) -> None:
    """The part of the model that is tested, and the mask that it is held to; folded."""
    changed = state.get(TEST) != WHOLE or _promise(lab) != _promises(lab)[0]
    with pictures.folded(words.TEST_OTHERWISE, "leak options", changed) as is_open:
        if is_open:
            control(st.segmented_control, words.TESTED, TEST, TESTED)
            control(st.segmented_control, words.EXPECTED, PROMISE, _promises(lab), shown=_promise(lab))


def _strongest(test: LeakTest) -> None:
    """Which outputs moved most, and when what was changed."""
    rows = [
        (
            sentences.quoted_token(test.queries[query].text, query),
            sentences.quoted_token(test.keys[key].text, key),
            _far(test, query, key),
            STATES[test.states[query, key]],
        )
        for query, key in test.strongest[:MOST_MOVED]
    ]
    if rows:
        label(words.MOVED_MOST)
        table(rows, words.MOVED_AS, css="facts moved", numbers=(2,))


def _tried(test: LeakTest) -> str:
    """The words that were changed, for how many outputs each is hidden, and the output that each moves most."""
    most = {key: query for query, key in reversed(test.strongest)}
    changed = test.tested.nonzero().flatten().tolist()
    rows = [_of_word(test, key, most.get(key)) for key in changed[:MOST_TRIED]]
    more = words.TRIED_MORE.format(count=len(changed) - MOST_TRIED) if len(changed) > MOST_TRIED else ""
    return table_html(rows, words.TRIED_AS, css="facts moved", numbers=(1, 2)) + block_html(more, "quiet")


def _of_word(test: LeakTest, key: int, most: int | None) -> tuple[str, str, str, str]:
    """A changed word: its name, how many outputs must not move and how many of them did, and what moved most."""
    hidden, moved = (int(part[:, key].sum()) for part in (test.hidden, test.leaks))
    named = (
        words.NONE_MOVED
        if most is None
        else words.MOVED_BY.format(
            query=sentences.quoted_token(test.queries[most].text, most), far=_far(test, most, key)
        )
    )
    return sentences.quoted_token(test.keys[key].text, key), str(hidden), str(moved), named


def _far(test: LeakTest, query: int, key: int) -> str:
    far = float(test.moved[query, key])
    return percent(far) if far < math.inf else words.BECAME_NAN


def _promises(lab: Lab) -> list[str]:
    is_self = lab.site.kind != "cross"
    return [name for name in PROMISES if is_self or name == THIS_MASK]


def _promise(lab: Lab) -> str:
    return state.one_of(PROMISE, _promises(lab))


def _intent(lab: Lab) -> str | None:
    """Intent that each layer is held to; None for the built-in mask with that of the page."""
    return {FUTURE: "causal", TWO_WAY: "two-way"}.get(_promise(lab))


def _model(lab: Lab, place: Site | str, intent: Mask | str | None) -> ModelReport | None:
    """The check of the model; if it takes long, when it is asked for."""
    mask = None if lab.source.read_only or lab.edits.mask is None else lab.edits.mask.of_sentence(lab.sentence)
    edits = replace(lab.edits, mask=mask)
    tested = (lab.source, replace(lab.request, edits=edits), place, intent, lab.sentence)
    tokens = min(len(lab.key_sentences[lab.sentence].tokens), MOST)
    seconds = estimate(lab.source, tokens, sentences=tokens).seconds
    if seconds <= QUICK:
        return _cached_test(*tested)
    if state.get(REQUESTED) != tested:
        quiet(words.TAKES_LONG.format(tokens=tokens))
        if not st.button(words.TEST, key="test leaks", type="primary"):
            return None
        state.put(REQUESTED, tested)
    with runs.beside():
        return cache.worked(_test, *tested, cost=Estimate(tokens, seconds, 0, 0), unit=words.TOKENS_CHANGED)
    return None


def _test(source: Source, request: Request, place: Site | str, intent: Mask | str | None, sentence: int) -> ModelReport:
    targets = cache.targets(source, request)[sentence : sentence + 1]
    with progress.counted(MOST) as report, cores.used_by(source):
        options = {"intent": intent, "site": place, "targets": targets, "report": report}
        return check_model(source, request.texts[sentence], edits=request.edits, **options)


_cached_test = cache.cached(_test)


def _result(lab: Lab, report: ModelReport, test: LeakTest, bar: Toolbar) -> None:
    """The number of leaks, the grid, the selected cell in words, and what else was tested."""
    cell = lab.cell if lab.cell and all(i < n for i, n in zip(lab.cell, test.moved.shape, strict=True)) else None
    figure = figures.leaks(test, selected=cell, rev=look.rev("cell"), **lab.styled, **WITH_WORDS)
    tried = counted(int(test.hidden.sum()), words.PAIR)
    if test.pairs:
        note(words.LEAKING.format(count=sentences.count_of_leaks(test)), "error")
    elif test.is_tested:
        note((words.NONE_HIDDEN if test.is_faulty else words.NO_LEAK).format(pairs=tried), "remark")
    else:
        note(words.NO_VERDICT.format(reason=sentences.count_of_leaks(test)), "remark")
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            pictures.picture(figure, "leaks", select="cell", on_select=look.select)
            everything.above(lab, figure, "leaks", bar.export)
        with st.container(key="beside leaks"):
            if cell or test.pairs:
                text = sentences.leak(test, *(cell or test.pairs[0]))
                large(f"{text[0].upper()}{text[1:]}.")
            quiet(f"{words.HOW} {pictures.selecting(cell is not None)}")
            if test.pairs:
                _strongest(test)
            how = block_html(" ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in measured(test)), "quiet")
            how += "".join(block_html(line, "quiet") for line in (*report.passed, *report.skipped))
            st.html(details_html(words.HOW_MEASURED, how if test.pairs else how + _tried(test)))
            _options(lab)
    pictures.numbers(figure, "leaks")
