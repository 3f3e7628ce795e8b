"""The tab of the check: an array of one's own, or one of this page, and what is wrong with it."""

import io
import json
import shlex
from collections.abc import Callable
from functools import partial

import numpy as np
import streamlit as st
from torch import Tensor

from attnviz import figures
from attnviz.check import CONVENTIONS, KINDS, MEANT, MOST_CELLS, Finding, Report, check, reading
from attnviz.core.amounts import counted
from attnviz.core.errors import AttnvizError
from attnviz.figures.evidence import as_checked, evidence
from attnviz.figures.states import Grid
from attnviz.ui.masks import words
from attnviz.ui.masks.lab import Lab
from attnviz.ui.shared import cache, pictures, state
from attnviz.ui.shared.setting import Setting, choice, kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import clean, in_words, label, large, note, quiet

WEIGHTS, MASK, FILE, PASTED = CHECKED = (words.OF_HEAD, words.OF_PAGE, words.OF_FILE, words.PASTED)
"""What can be checked."""

GUESSED = words.GUESSED
CAUSAL = {GUESSED: None, words.YES: True, words.NO: False}

WHAT = choice("checked", CHECKED, WEIGHTS)
KIND, CONVENTION = kept("kind said", GUESSED), kept("convention said", GUESSED)
FUTURE, FITS = kept("causal said", GUESSED), kept("fits", False)
MEANT_TO_BE = kept("meant said", GUESSED)
ARRAY: Setting[int | None] = kept("array", None)

EXAMPLE = "1 0 0 0 0\n0.6 0.4 0 0 0\n0.2 0.3 0.4 0 0.1\n0.1 0.4 0.2 0.3 0\n0.3 0.1 0.2 0.2 0.2"
"""Weights of a causal head with one leak: position 2 sees position 4."""

TYPED = kept("pasted", EXAMPLE)

Array = np.ndarray | Tensor


def tab(lab: Lab) -> None:
    what = control(st.pills, words.CHECK, WHAT, CHECKED, lead="")
    try:
        found = _given(lab, what)
        if found is not None:
            _check(lab, what, *found)
    except AttnvizError as error:
        note(str(error))


def _given(lab: Lab, what: str) -> tuple[str, Array, float] | None:
    """The array with its name, and half of the last digit of its numbers; None while nothing is given."""
    queries, keys = lab.lengths
    if what in (WEIGHTS, MASK) and queries * keys > MOST_CELLS:
        quiet(words.TOO_MANY_CELLS.format(queries=queries, keys=keys, most=MOST_CELLS))
        return None
    if what == WEIGHTS:
        return "weights", lab.record.step(lab.site).weights(lab.number, sentence=lab.sentence), 0.0
    if what == MASK:
        return "mask", lab.mask.grid(*lab.lengths, sentence=lab.masked), 0.0
    if what == FILE:
        file = st.file_uploader(words.UPLOAD, [end[1:] for end in reading.ENDINGS], key="file")
        return None if file is None else _chosen(reading.read_file(clean(file.name), file.getvalue()))
    with st.container(gap=None, key="numbers box"):
        typed = control(st.text_area, words.TYPE_NUMBERS, TYPED, height=140)
        st.button(words.CHECK_NUMBERS, key="check numbers", type="primary")  # a click ends the typing, which applies it
    return _chosen(reading.read_text(clean(typed), words.WAS_PASTED))


def _chosen(given: reading.Given) -> tuple[str, Array, float]:
    """One array; of several the one that is chosen."""
    names = list(given.arrays)
    name = names[0]
    if len(names) > 1:
        known = next((i for i, name in enumerate(names) if reading.kind_by_name(name)), 0)
        shown = {i: clean(name)[:80] for i, name in enumerate(names)}
        options = {"shown": state.one_of(ARRAY, shown, known), "format_func": shown.get}
        name = names[control(st.selectbox, words.WHICH_ARRAY, ARRAY, range(len(names)), **options)]
    return name, given.arrays[name], given.rounding


def _check(lab: Lab, what: str, name: str, array: Array, rounding: float) -> None:
    """What was found, with its picture; beside it what the array is read as, and what can be said instead."""
    said = _said(lab, name, what)
    report = check(array, rounding=rounding, **said)
    in_words(report.verdict.removesuffix(".") + ".")
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            seen = _picture(lab, what, array, report)
        with st.container(key="beside check"):
            is_right = report.worst in (None, "note")
            if is_right:  # what it is comes first where nothing is wrong with it
                large(" ".join(report.reasons))
            for number, found in enumerate(report.findings):
                _finding(lab, array, report, found, number, folds=found is not seen)
            quiet(" ".join([*(() if is_right else report.reasons), _read_as(report)]))
            with pictures.folded(words.SAY_OTHERWISE, "overrides", opened=_is_said()) as is_open:
                if is_open:
                    _ways_to_read(lab, what)
            _take_away(what, name, array, report, said)


def _picture(lab: Lab, what: str, array: Array, report: Report) -> Finding | None:
    """The cells of the first finding that has some, and that finding; else what was checked."""
    for found in report.findings:
        if (grid := _evidence(array, report, found)) is not None:
            pictures.show(figures.states(grid, **lab.styled), key="evidence")
            return found
    if what == WEIGHTS:
        pictures.picture(cache.drawn(figures.head, lab.record, lab.site, lab.number, **lab.drawn), "checked")
    elif what == MASK:
        pictures.picture(figures.mask(lab.mask, *lab.tokens, **lab.drawn), "checked")
    else:
        pictures.show(figures.states(as_checked(array, report), **lab.styled), key="evidence")
    return None


def _read_as(report: Report) -> str:
    """The shape of an array, and what it was read as where neither the reasons nor a finding say it."""
    kind, name = report.kind.capitalize(), report.convention
    sentences, heads, queries, keys = report.shape
    many, of = counted(sentences, "sentence"), counted(heads, "head")
    shape = words.SHAPE.format(sentences=many, heads=of, queries=queries, keys=keys)
    if name and not any(f"'{name}'" in found.says for found in report.findings):
        return words.READ_IN.format(kind=kind, convention=name, meaning=CONVENTIONS[name], shape=shape)
    return shape if report.reasons else words.READ_AS.format(kind=kind, shape=shape)


def _is_said() -> bool:
    """Whether a person says anything of the array."""
    return any(state.get(one) != one.default for one in (KIND, CONVENTION, FUTURE, FITS, MEANT_TO_BE))


def _said(lab: Lab, name: str, what: str) -> dict[str, object]:
    """What a person says of the array instead of having it guessed."""
    kind, meant = state.get(KIND), state.get(MEANT_TO_BE)
    convention = state.get(CONVENTION) if kind in (GUESSED, "mask") else GUESSED
    own_mask = lab.mask.of_sentence(lab.sentence) if lab.mask.batch_size else lab.mask
    known = reading.kind_by_name(name)
    kind = known if kind == GUESSED else kind
    own = "may-attend" if what == MASK and convention == GUESSED else None
    return {
        "kind": None if convention != GUESSED and kind != "mask" else kind,
        "convention": own if convention == GUESSED else convention,
        "causal": CAUSAL[state.get(FUTURE)],
        "meant": {words.MEANT_PAGE: own_mask, GUESSED: None}.get(meant, meant),
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
        control(st.segmented_control, words.FUTURE_BLOCKED, FUTURE, CAUSAL, width="content")
        if what in (FILE, PASTED):
            help = words.FITS_MEANS.format(shape=lab.record.step(lab.site).shape)
            control(st.toggle, words.FITS, FITS, help=help)


def _meant(name: str) -> str:
    return words.MEANT_IS.format(mask=name, meaning=MEANT[name]) if name in MEANT else name


def _evidence(array: Array, report: Report, found: Finding) -> Grid | None:
    """The cells of a finding, if it is more than a note."""
    return evidence(array, report, found) if found.severity != "note" else None


def _finding(lab: Lab, array: Array, report: Report, found: Finding, number: int, *, folds: bool) -> None:
    """One finding: its rule, what it says, where, and the fix; `folds` whether its cells stand under it, folded.

    A note finds nothing that is wrong: what it advises is no fix.
    """
    kind = {"error": "error", "warning": "notice"}.get(found.severity, "remark")
    with st.container(gap="xsmall", key=f"finding {number}"):
        note(words.FINDING.format(severity=found.severity, rule=found.rule, says=found.says), kind)
        if found.fix:
            quiet(found.fix if found.severity == "note" else words.FIX.format(fix=found.fix))
        if found.cells and found.severity != "note":
            quiet(words.WHERE.format(places=found.places()))
        if folds and (grid := _evidence(array, report, found)) is not None:
            with pictures.folded(words.EVIDENCE, key=f"cells {number}") as is_open:
                if is_open:
                    figure = figures.states(grid, **lab.styled)
                    pictures.show(figure, key=f"evidence {number}", menu=st.container())


def _take_away(what: str, name: str, array: Array, report: Report, said: dict[str, object]) -> None:
    """The report as files, what was checked if it is of this page, and the command that does the same."""
    told = clean("\n".join(report.lines(name)) + "\n")
    data = json.dumps(report.to_json(), indent=1)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label(words.REPORT)
        held = pictures.lent(array, "npy")
        save = partial(st.download_button, on_click="ignore", icon=":material/download:")
        save("JSON", data, "check.json", "application/json", key="report json")
        save(words.AS_TEXT, told, "check.txt", "text/plain", key="report text")
        if what in (WEIGHTS, MASK):
            save("NPY", pictures.made(partial(_npy, held)), f"{name}.npy", key="checked npy", help=words.CHECKED_ARRAY)
    label(words.IN_SHELL)
    st.code(clean(_command(what, name, said)), "sh", wrap_lines=True)


def _npy(array: Callable[[], Array]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array()), allow_pickle=False)
    return buffer.getvalue()


def _command(what: str, name: str, said: dict[str, object]) -> str:
    """The command `check` with what was said."""
    file = state.event("file").name if what == FILE else {PASTED: "-"}.get(what, f"{name}.npy")
    parts = ["python", "-m", "attnviz", "check", shlex.quote(file)]
    parts += ["--array", shlex.quote(name)] if what == FILE and name else []
    parts += [part for key in ("kind", "convention") if said[key] for part in (f"--{key}", said[key])]
    parts += [] if said["causal"] is None else ["--causal" if said["causal"] else "--no-causal"]
    if meant := said["meant"]:
        parts.append("--meant " + shlex.quote(meant if isinstance(meant, str) else json.dumps(meant.to_json())))
    parts += ["--shape " + ",".join(map(str, said["shape"]))] if said["shape"] else []
    return " ".join(parts)
