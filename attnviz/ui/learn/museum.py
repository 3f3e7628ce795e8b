"""The bug museum: two maps, as it should be and with a bug; which bug is to be found, with hints.

In a link ``bug=4`` is the fourth, and ``found=inverted-axis`` are those that were found.
"""

import streamlit as st

from attnviz import figures
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.lessons import bugs
from attnviz.lessons.bugs import RIGHT, WRONG, Bug, Maps, TrainedPair
from attnviz.lessons.peeking import PeekingRun
from attnviz.ui import cache
from attnviz.ui.learn import words
from attnviz.ui.shared import pictures, state
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import Setting, State, choice, coded, each, flag, reader, whole
from attnviz.ui.shared.state import control
from attnviz.ui.steps.view import table
from attnviz.ui.text import heading, label, large, literal, note, plain, quiet

NAMES = {bug.name: bug for bug in bugs.museum()}

_read_found = each(reader("|".join(NAMES), lambda m: m[0], "inverted-axis"), len(NAMES))

BUG = whole("bug", 1, 1, len(NAMES))
BUGS_FOUND: Setting[frozenset[str]] = coded(
    "found",
    frozenset(),
    lambda names: "-".join(name for name in NAMES if name in names),
    lambda text: frozenset(_read_found(text)),
)
ANSWER = choice("named", tuple(NAMES))
"""The last answer, for the bug that is shown."""
HINTS = whole("hints", 0, 0, max(len(bug.hints) for bug in NAMES.values()))
TRAINED = flag("trained", False)
"""Whether the models of the bug without maps were asked for."""

LOSSES = 6
"""Points of a training from one row of its table to the next."""

SIDE = 264
"""Pixels of a map: two stand side by side."""


def gallery(context: ViewContext) -> None:
    """One bug, what it looks like, and its name once it was found."""
    number, solved = state.get(BUG), state.get(BUGS_FOUND)
    bug = tuple(NAMES.values())[number - 1]
    exhibit = None
    if not bug.costs or state.get(TRAINED):
        with st.spinner(words.LEARNING if bug.costs else words.COMPUTING):
            exhibit = _live(bug.name)
    _choice(number, solved, exhibit.where if exhibit else TrainedPair.where)
    large(bug.symptom)
    if exhibit:
        _comparison(context, exhibit)
    else:
        quiet(bug.costs)
        options = {"icon": ":material/play_arrow:", "type": "primary", "on_click": state.put, "args": (TRAINED, True)}
        st.button(words.TRAIN, key="train bug", **options)
    if bug.name in solved:
        _solved(bug, exhibit, number)
    else:
        _ask(bug)


def _choice(number: int, solved: frozenset[str], where: str) -> None:
    """All bugs, with a check mark those that were found, and what the bug is shown on; on a phone a list with names."""

    def named(bug_number: int) -> str:
        return f":material/check: {bug_number}" if tuple(NAMES)[bug_number - 1] in solved else str(bug_number)

    options = {"shown": number, "lead": "", "step": opened}
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="bugs"):
        label(words.BUG)
        control(st.segmented_control, words.BUG, BUG, range(1, len(NAMES) + 1), format_func=named, **options)
        quiet(words.FOUND_OF.format(found=len(solved), all=len(NAMES), where=where))


def opened(now: State, number: int) -> State:
    """The state with another bug, of which nobody has said anything yet."""
    return now.put(BUG, number).put(ANSWER, None).put(HINTS, 0)


def _comparison(context: ViewContext, exhibit: Maps | TrainedPair) -> None:
    """The symptom: two maps, or two trainings."""
    if not isinstance(exhibit, Maps):
        losses({RIGHT: exhibit.right, WRONG: exhibit.wrong})
        return
    options = context.styled | {"side": SIDE}
    with st.container(horizontal=True, gap="medium", key="both maps"):
        for record, key in ((exhibit.right, "right"), (exhibit.wrong, "wrong")):
            pictures.picture(cache.rendered(_map, record, exhibit.head, **options), key=f"bug {key}")


def losses(runs: dict[str, PeekingRun]) -> None:
    """The losses of some trainings, by name, at a few of their steps."""
    steps = [step for step, _ in next(iter(runs.values())).losses][::LOSSES]
    columns = [dict(run.losses) for run in runs.values()]
    rows = [[f"{step}", *(f"{column[step]:.2f}" for column in columns)] for step in steps]
    table([words.STEP, *(words.LOSS.format(model=name) for name in runs)], rows, numbers=(0, 1, 2))


def _map(record: Record, head: int, **options: object) -> Figure:
    """The map of a head, with nothing over it but what it is: what both have in common stands above them."""
    title = record.source[0].upper() + record.source[1:]
    return figures.head(record, record.sites[0], head, row_sums=True, domain="fixed", heading=title, **options)


def _ask(bug: Bug) -> None:
    """Hints one by one, and the choice among all bugs."""

    def answered(now: State, name: str | None) -> State:
        return now.put(ANSWER, name).put(BUGS_FOUND, now[BUGS_FOUND] | ({name} & {bug.name}))

    hint_count = state.get(HINTS)
    if hint_count:
        st.markdown("\n".join(f"{number}. {hint}" for number, hint in enumerate(bug.hints[:hint_count], 1)))
    if hint_count < len(bug.hints):
        name = words.HINT.format(number=hint_count + 1, all=len(bug.hints))
        _button(name, "hint", lambda now: now.put(HINTS, hint_count + 1))
    names = sorted(NAMES, key=lambda name: NAMES[name].title)
    options = {"format_func": lambda name: NAMES[name].title, "step": answered, "at": bug.name}
    control(st.pills, words.WHICH_MISTAKE, ANSWER, names, **options)
    if answer := state.get(ANSWER):
        note(words.NOT_THIS.format(hint=NAMES[answer].would), "notice")


def _solved(bug: Bug, exhibit: Maps | TrainedPair | None, number: int) -> None:
    """The bug: its cause, fix, detection, and where it happened."""
    st.success(f"**{bug.title}.** {bug.because}", icon=":material/check_circle:")
    heading(words.FIX)
    st.html(f'<pre class="code">{"".join(map(_line, bug.fix.splitlines()))}</pre>')
    heading(words.FINDS)
    if bug.rule:
        finding = exhibit.finding(bug.rule)
        says = literal(finding.message)
        st.markdown(words.FOUND_BY.format(severity=finding.severity, rule=finding.rule, says=says))
    else:
        st.markdown(bug.found_by)
    st.markdown(words.HAPPENED.format(where=f"[{bug.seen_in}]({bug.source})"))
    others = [
        bug_number
        for bug_number in range(1, len(NAMES) + 1)
        if tuple(NAMES)[bug_number - 1] not in state.get(BUGS_FOUND)
    ]
    if others:
        following = next((bug_number for bug_number in others if bug_number > number), others[0])
        _button(words.NEXT_BUG, "next bug", lambda now: opened(now, following))


def _line(code: str) -> str:
    tag = {"-": "del", "+": "ins"}.get(code[0], "span")
    return f"<{tag}>{plain(code)}\n</{tag}>"


def _button(name: str, key: str, step) -> None:
    st.button(name, key=key, on_click=state.change, args=(step,))


_live = cache.cached(bugs.live)
