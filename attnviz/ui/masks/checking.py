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
from attnviz.core.errors import AttnvizError
from attnviz.figures.evidence import evidence
from attnviz.ui.masks.lab import Lab
from attnviz.ui.shared import cache, pictures, state
from attnviz.ui.shared.setting import Setting, choice, kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import clean, in_words, label, note, quiet

WEIGHTS, MASK, FILE, PASTED = CHECKED = ("this head's weights", "this mask", "a file", "pasted numbers")
"""What can be checked."""

GUESSED = "auto-detect"
MEANT_HELP = "A kind with any numbers and any padding, or this page's mask cell by cell. What differs is an error."
CAUSAL = {GUESSED: None, "yes": True, "no": False}

WHAT = choice("checked", CHECKED, WEIGHTS)
KIND, CONVENTION = kept("kind said", GUESSED), kept("convention said", GUESSED)
FUTURE, FITS = kept("causal said", GUESSED), kept("fits", False)
MEANT_TO_BE = kept("meant said", GUESSED)
ARRAY: Setting[int | None] = kept("array", None)

PAGE = "the mask of this page"

EXAMPLE = "1 0 0 0 0\n0.6 0.4 0 0 0\n0.2 0.3 0.4 0 0.1\n0.1 0.4 0.2 0.3 0\n0.3 0.1 0.2 0.2 0.2"
"""Weights of a causal head with one leak: position 2 sees position 4."""

TYPED = kept("pasted", EXAMPLE)

Array = np.ndarray | Tensor


def tab(lab: Lab) -> None:
    what = control(st.pills, "Check", WHAT, CHECKED)
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
        most = f"at most {MOST_CELLS:,} cells are checked at once"
        quiet(f"The map has {queries:,} × {keys:,} cells; {most}. Shorten the text, or check a part of it from Python.")
        return None
    if what == WEIGHTS:
        return "weights", lab.record.step(lab.site).weights(lab.number, sentence=lab.sentence), 0.0
    if what == MASK:
        return "mask", lab.mask.grid(*lab.lengths, sentence=lab.masked), 0.0
    if what == FILE:
        file = st.file_uploader("A mask, weights or scores", [end[1:] for end in reading.ENDINGS], key="file")
        return None if file is None else _chosen(reading.read_file(clean(file.name), file.getvalue()))
    typed = control(st.text_area, "Numbers: rows, nested lists, or a printed tensor", TYPED, height=140)
    return _chosen(reading.read_text(clean(typed), "what was pasted"))


def _chosen(given: reading.Given) -> tuple[str, Array, float]:
    """One array; of several the one that is chosen."""
    names = list(given.arrays)
    name = names[0]
    if len(names) > 1:
        known = next((i for i, name in enumerate(names) if reading.kind_by_name(name)), 0)
        shown = {i: clean(name)[:80] for i, name in enumerate(names)}
        options = {"shown": state.one_of(ARRAY, shown, known), "format_func": shown.get}
        name = names[control(st.selectbox, "Which array", ARRAY, range(len(names)), **options)]
    return name, given.arrays[name], given.rounding


def _check(lab: Lab, what: str, name: str, array: Array, rounding: float) -> None:
    """What the array is read as, what can be said instead, and what was found."""
    said = _overrides(lab, name, what)
    report = check(array, rounding=rounding, **said)
    convention = f", {report.convention}: {CONVENTIONS[report.convention]}" if report.convention else ""
    causal = ", taken to be causal" if report.causal else ""
    in_words(report.lines()[-1].removesuffix(".") + ".")
    quiet(f"{report.kind.capitalize()}{convention}{causal}. (B, H, Q, K) = {report.shape}.")
    for reason in report.reasons:
        quiet(reason)
    for number, found in enumerate(report.findings):
        _finding(lab, array, report, found, number)
    if not report.findings:
        _picture(lab, what)
    _take_away(what, name, array, report, said)


def _picture(lab: Lab, what: str) -> None:
    """What of this page was checked, where no finding shows it already."""
    if what == WEIGHTS:
        pictures.picture(cache.drawn(figures.head, lab.record, lab.site, lab.number, **lab.drawn), "checked")
    elif what == MASK:
        pictures.picture(figures.mask(lab.mask, *lab.tokens, **lab.drawn), "checked")


def _overrides(lab: Lab, name: str, what: str) -> dict[str, object]:
    """What a person says of the array instead of having it guessed."""
    with pictures.part("How it is read", "overrides", titled=False) as is_open:
        if is_open:
            _ways_to_read(lab, what)
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
        "meant": {PAGE: own_mask, GUESSED: None}.get(meant, meant),
        "shape": lab.record.step(lab.site).shape if what in (FILE, PASTED) and state.get(FITS) else None,
    }


def _ways_to_read(lab: Lab, what: str) -> None:
    """The controls of all that a person can say of the array."""
    with st.container(horizontal=True, gap="medium"):
        kind = control(st.segmented_control, "Type", KIND, (GUESSED, *KINDS), width="content")
        if kind in (GUESSED, "mask"):
            control(st.selectbox, "Convention of a mask", CONVENTION, (GUESSED, *CONVENTIONS), width=210)
        named = {"format_func": lambda name: f"{name}: {MEANT[name]}" if name in MEANT else name, "help": MEANT_HELP}
        control(st.selectbox, "Meant to be", MEANT_TO_BE, (GUESSED, PAGE, *MEANT), width=270, **named)
        control(st.segmented_control, "The future must be blocked", FUTURE, CAUSAL, width="content")
        if what in (FILE, PASTED):
            help = f"How it broadcasts to (B, H, Q, K) = {lab.record.step(lab.site).shape} is then explained."
            control(st.toggle, "for the scores of this page", FITS, help=help)


def _finding(lab: Lab, array: Array, report: Report, found: Finding, number: int) -> None:
    """One finding: its rule, what it says, where, and the fix; the first picture of evidence stands open."""
    kind = {"error": "error", "warning": "notice"}.get(found.severity, "remark")
    with st.container(gap="xsmall", key=f"finding {number}"):
        note(f"{found.severity} · {found.rule}: {found.says}", kind)
        if found.fix:
            quiet(f"Fix: {found.fix}")
        if found.cells:
            quiet(f"Where: {found.places()}.")
        grid = evidence(array, report, found) if found.severity != "note" else None
        if grid is not None:
            with pictures.folded("The cells", f"cells {number}", not number) as is_open:
                if is_open:
                    figure = figures.states(grid, **lab.styled)
                    pictures.show(figure, f"evidence {number}", menu=st.container())


def _take_away(what: str, name: str, array: Array, report: Report, said: dict[str, object]) -> None:
    """The report as files, what was checked if it is of this page, and the command that does the same."""
    told = clean("\n".join(report.lines(name)) + "\n")
    data = json.dumps(report.to_json(), indent=1)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("The report")
        held = pictures.lent(array, "npy")
        save = partial(st.download_button, on_click="ignore", icon=":material/download:")
        save("JSON", data, "check.json", "application/json", key="report json")
        save("Text", told, "check.txt", "text/plain", key="report text")
        if what in (WEIGHTS, MASK):
            save("NPY", pictures.made(partial(_npy, held)), f"{name}.npy", key="checked npy", help="What was checked")
    label("The same in the shell, with an exit status for CI")
    st.code(clean(_command(what, name, said)), "sh", wrap_lines=True)


def _npy(array: Callable[[], Array]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array()), allow_pickle=False)
    return buffer.getvalue()


def _command(what: str, name: str, said: dict[str, object]) -> str:
    """The command `check` with what was said."""
    file = state.event("file").name if what == FILE else {PASTED: "-"}.get(what, f"{name}.npy")
    parts = ["python -m attnviz check", shlex.quote(file)]
    parts += [f"--array {shlex.quote(name)}"] if what == FILE and name else []
    parts += [f"--{key} {said[key]}" for key in ("kind", "convention") if said[key]]
    parts += [] if said["causal"] is None else ["--causal" if said["causal"] else "--no-causal"]
    if meant := said["meant"]:
        parts.append("--meant " + shlex.quote(meant if isinstance(meant, str) else json.dumps(meant.to_json())))
    parts += ["--shape " + ",".join(map(str, said["shape"]))] if said["shape"] else []
    return " ".join(parts)
