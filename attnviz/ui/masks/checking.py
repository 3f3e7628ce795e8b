"""The tab that judges: the model, its mask and its weights, a file, or pasted numbers; the answer first."""

import io
import json
import shlex
from collections.abc import Callable
from functools import partial

import numpy as np
import streamlit as st
from torch import Tensor

from attnviz import figures
from attnviz.charts.size import RECTANGLES
from attnviz.check import CHECKS, CONVENTIONS, KINDS, MEANT, MOST_CELLS, NOT_SURE, Finding, Report, check, reading
from attnviz.core.amounts import counted
from attnviz.core.errors import AttnvizError, quoted
from attnviz.figures.evidence import as_checked, evidence
from attnviz.figures.states import States
from attnviz.ui import cache
from attnviz.ui.masks import leaks, words
from attnviz.ui.masks.lab import CHECKED, FILE, JUDGED, MASK, MODEL, PASTED, WEIGHTS, WITH_WORDS, Lab
from attnviz.ui.shared import everything, pictures, state
from attnviz.ui.shared.setting import Setting, choice, flag, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import clean, details_html, label, note, quiet, table_html, verdict

GUESSED = words.GUESSED

KIND = choice("type", (GUESSED, *KINDS), GUESSED)
CONVENTION = choice("convention", (GUESSED, *CONVENTIONS), GUESSED)
FITS = flag("fits", False)
MEANT_TO_BE = choice("intended", {name: name for name in (GUESSED, *MEANT)} | {words.MEANT_PAGE: "page"}, GUESSED)
ARRAY: Setting[int | None] = session_setting("array", None)

EXAMPLE = "1 0 0 0 0\n0.6 0.4 0 0 0\n0.2 0.3 0.4 0 0.1\n0.1 0.4 0.2 0.3 0\n0.3 0.1 0.2 0.2 0.2"
"""Weights of a causal head with one leak: position 2 sees position 4."""

TYPED = session_setting("pasted", EXAMPLE)

SIDE = 320
"""Pixels of a map of cells that a finding is about: it stands under the finding."""

Array = np.ndarray | Tensor


READ = {"broadcast", "convention"}
"""Rules whose notes say how an array was read."""


def tab(lab: Lab, bar: Toolbar) -> None:
    default = WEIGHTS if lab.source.one_run else MODEL  # one run alone: no word of it can be changed
    judged = control(st.pills, words.CHECK, CHECKED, JUDGED, shown=state.get(CHECKED) or default, lead="")
    if judged == MODEL:
        leaks.judge(lab, bar)
        return
    with bar.export:
        everything.menu(lab)
    _array(lab, judged)


def _array(lab: Lab, what: str) -> None:
    left = right = st.container()
    if what in (FILE, PASTED):
        with left, st.container(horizontal=True, gap="large", key="judged"):
            left = st.container(width={FILE: 720, PASTED: 340}[what], key="given")
            right = st.container(key="found")
    try:
        with left:
            entry = _input(lab, what)
        if entry is not None:
            with right:
                _check(lab, what, *entry)
    except AttnvizError as error:
        with right:
            note(str(error))


def _input(lab: Lab, what: str) -> tuple[str, Array] | None:
    """The name of the array and the array; None while nothing is given."""
    queries, keys = lab.lengths
    if what in (WEIGHTS, MASK) and queries * keys > MOST_CELLS:
        quiet(words.TOO_MANY_CELLS.format(queries=queries, keys=keys, most=MOST_CELLS))
        return None
    if what == WEIGHTS:
        return "weights", lab.record.step(lab.site).weights(lab.number, sentence=lab.sentence)
    if what == MASK:
        return "mask", lab.mask.grid(*lab.lengths, sentence=lab.masked)
    if what == FILE:
        file = st.file_uploader(words.UPLOAD, [end[1:] for end in reading.ENDINGS], key="file")
        if file is None:
            quiet(words.NO_FILE)
            return None
        return _chosen(reading.read_file(clean(file.name), file.getvalue()))
    typed = control(st.text_area, words.TYPE_NUMBERS, TYPED, height=240)
    st.button(words.CHECK_NUMBERS, key="check numbers", type="primary")  # a click ends the typing, which applies it
    return _chosen(reading.read_text(clean(typed)))


def _chosen(contents: reading.ArrayFile) -> tuple[str, Array]:
    """One array; of several the one that is chosen."""
    names = list(contents.arrays)
    name = names[0]
    if len(names) > 1:
        index = next((i for i, name in enumerate(names) if reading.kind_by_name(name)), 0)
        titles = {i: clean(name)[:80] for i, name in enumerate(names)}
        options = {"shown": state.one_of(ARRAY, titles, index), "format_func": titles.get}
        name = names[control(st.selectbox, words.WHICH_ARRAY, ARRAY, range(len(names)), **options)]
    return name, contents.arrays[name]


def _check(lab: Lab, what: str, name: str, array: Array) -> None:
    """The verdict; under it the picture, and beside that the rest: how it was read, and what can be said instead."""
    arguments = _arguments(lab, name, what)
    report = check(array, **arguments)
    grids = [evidence(array, report, finding) if _has_cells(finding) else None for finding in report.findings]
    first_grid = next((i for i, grid in enumerate(grids) if grid is not None), None)
    rest = [i for i, finding in enumerate(report.findings) if finding.severity != "note" or finding.rule not in READ]
    if report.worst in ("error", "warning"):
        _finding(lab, report.findings[rest.pop(0)], "verdict")
    else:
        assumed = [words.TAKEN_FOR.format(mask=report.assumed)] if report.assumed else []
        sentences = [report.verdict, *assumed, *_reason(report)]
        verdict(" ".join(sentences), "unsure" if report.verdict == NOT_SURE else "right")
    if report.question:
        note(words.MEANT_ASKED, "remark")
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            _picture(lab, what, array, report, None if first_grid is None else grids[first_grid])
        with st.container(key="beside check"):
            for i in rest:
                _finding(lab, report.findings[i], f"{i}", None if i == first_grid else grids[i])
            quiet(_read_as(report))
            is_unsure = report.verdict == NOT_SURE
            key = "overrides asked" if is_unsure else "overrides"  # a fold of one key opens by itself once
            with pictures.folded(words.SAY_OTHERWISE, key, opened=is_unsure or _is_overridden()) as is_open:
                if is_open:
                    _ways_to_read(lab, what)
            _report(what, name, array, report, arguments)


def _has_cells(finding: Finding) -> bool:
    """Whether its cells are pointed at: those of what is wrong, or may be."""
    return finding.severity != "note"


def _picture(lab: Lab, what: str, array: Array, report: Report, grid: States | None) -> None:
    """The cells of a finding; else what was checked."""
    if grid is not None:
        small = {"side": SIDE} if max(grid.states.shape) <= RECTANGLES else {}  # so that a single cell is found
        pictures.show(figures.states(grid, **lab.styled, **small), key="evidence")
    elif what == WEIGHTS:
        options = lab.drawn | WITH_WORDS
        pictures.picture(cache.rendered(figures.head, lab.record, lab.site, lab.number, **options), "checked")
    elif what == MASK:
        pictures.picture(figures.mask(lab.mask, *lab.tokens, **lab.drawn, **WITH_WORDS), "checked")
    else:
        pictures.show(figures.states(as_checked(array, report), **lab.styled, side=SIDE), key="evidence")


def _reason(report: Report) -> tuple[str, ...]:
    """The reason for the guess, where nothing is wrong or uncertain: a part of the verdict."""
    return () if report.worst in ("error", "warning") or report.verdict == NOT_SURE else report.reasons[-1:]


def _read_as(report: Report) -> str:
    """How the array was read, and why, where the verdict does not say it."""
    sentences, heads, queries, keys = report.shape
    many, of = counted(sentences, "sentence"), counted(heads, "head")
    read = [reason for reason in report.reasons if reason not in _reason(report)]
    notes = [finding for finding in report.findings if finding.severity == "note" and finding.rule in READ]
    read += [text for finding in notes for text in (finding.message, finding.fix) if text]
    if (name := report.convention) and not any(f"'{name}'" in finding.message for finding in report.findings):
        read.append(words.READ_IN.format(convention=name, meaning=CONVENTIONS[name]))
    return " ".join([*read, words.SHAPE.format(sentences=many, heads=of, queries=queries, keys=keys)])


def _is_overridden() -> bool:
    """Whether a person overrides a guess."""
    return any(state.get(setting) != setting.default for setting in (KIND, CONVENTION, FITS, MEANT_TO_BE))


def _arguments(lab: Lab, name: str, what: str) -> dict[str, object]:
    """Arguments of `check`: choices that replace guesses."""
    kind, meant = state.get(KIND), state.get(MEANT_TO_BE)
    convention = state.get(CONVENTION) if kind in (GUESSED, "mask") else GUESSED
    own_mask = lab.mask.of_sentence(lab.sentence) if lab.mask.batch_size else lab.mask
    kind_of_name = reading.kind_by_name(name)
    kind = kind_of_name if kind == GUESSED else kind
    own = "may-attend" if what == MASK and convention == GUESSED else None
    return {
        "kind": None if convention != GUESSED and kind != "mask" else kind,
        "convention": own if convention == GUESSED else convention,
        "intent": {words.MEANT_PAGE: own_mask, GUESSED: None}.get(meant, meant),
        "shape": lab.record.step(lab.site).shape if what in (FILE, PASTED) and state.get(FITS) else None,
    }


def _ways_to_read(lab: Lab, what: str) -> None:
    """The controls of all that a person can say of the array."""
    with st.container(horizontal=True, gap="medium"):
        kind = control(st.segmented_control, words.TYPE, KIND, (GUESSED, *KINDS), width="content")
        if kind in (GUESSED, "mask"):
            control(st.selectbox, words.CONVENTION, CONVENTION, (GUESSED, *CONVENTIONS), width=210)
        named = {"format_func": _meant, "help": words.MEANT_MEANS}
        control(st.selectbox, words.MEANT, MEANT_TO_BE, (GUESSED, words.MEANT_PAGE, *MEANT), width=270, **named)
        if what in (FILE, PASTED):
            help = words.FITS_MEANS.format(shape=lab.record.step(lab.site).shape)
            control(st.toggle, words.FITS, FITS, help=help)


def _meant(name: str) -> str:
    return words.MEANT_IS.format(mask=name, meaning=MEANT[name]) if name in MEANT else name


def _finding(lab: Lab, finding: Finding, place: str, grid: States | None = None) -> None:
    """One finding: what it says, the fix, its rule and where; folded under it its cells, if they stand nowhere else.

    A note finds nothing that is wrong: what it advises is no fix.
    """
    kind = {"error": "error", "warning": "notice"}.get(finding.severity)
    with st.container(gap="xsmall", key=f"finding {place}"):
        if kind is None:
            note(finding.message, "remark")
            quiet(*filter(None, [finding.fix]))
            return
        show = verdict if place == "verdict" else note
        show(words.FINDING.format(severity=finding.severity.capitalize(), says=finding.message), kind)
        quiet(
            words.FIX.format(fix=finding.fix),
            (words.WHERE if finding.cells else words.RULE_IS).format(rule=finding.rule, places=finding.places()),
        )
        if grid is not None:
            with pictures.folded(words.EVIDENCE, key=f"cells {place}") as is_open:
                if is_open:
                    figure = figures.states(grid, **lab.styled)
                    pictures.show(figure, key=f"evidence {place}", menu=st.container())


def _report(what: str, name: str, array: Array, report: Report, arguments: dict[str, object]) -> None:
    """The report as files, the array if it is of this page, the command that does the same, and the rules; folded."""
    held = pictures.lent(array, "npy")
    with pictures.folded(words.REPORT, "report") as is_open:
        if not is_open:
            return
        text = clean(f"{quoted(name)}: {report}\n")
        data = json.dumps(report.to_json(), indent=1)
        with st.container(horizontal=True, gap="small"):
            save = partial(st.download_button, on_click="ignore", icon=":material/download:")
            save("JSON", data, "check.json", "application/json", key="report json")
            save(words.AS_TEXT, text, "check.txt", "text/plain", key="report text")
            if what in (WEIGHTS, MASK):
                options = {"key": "checked npy", "icon": ":material/download:", "help": words.CHECKED_ARRAY}
                pictures.save("NPY", partial(_npy, held), f"{name}.npy", "application/octet-stream", **options)
        label(words.IN_SHELL)
        st.code(clean(_command(what, name, arguments)), "sh", wrap_lines=True)
        rules = table_html([*CHECKS.items()], rows_named=True)
        st.html(details_html(words.RULES.format(count=len(CHECKS)), rules))


def _npy(array: Callable[[], Array]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array()), allow_pickle=False)
    return buffer.getvalue()


def _command(what: str, name: str, arguments: dict[str, object]) -> str:
    """The command `check` with what was said."""
    file = state.event("file").name if what == FILE else {PASTED: "-"}.get(what, f"{name}.npy")
    parts = ["attnviz", "check", shlex.quote(file)]
    parts += ["--array", shlex.quote(name)] if what == FILE and name else []
    parts += [part for key in ("kind", "convention") if arguments[key] for part in (f"--{key}", arguments[key])]
    if meant := arguments["intent"]:
        parts.append("--intent " + shlex.quote(meant if isinstance(meant, str) else meant.text))
    parts += ["--shape " + ",".join(map(str, arguments["shape"]))] if arguments["shape"] else []
    return " ".join(parts)
