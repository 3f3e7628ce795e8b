"""The bug museum: two maps, as it should be and with a bug; which bug is to be found, with hints.

In a link ``bug=4`` is the fourth, and ``found=inverted-axis`` are those that were found.
"""

import streamlit as st

from attnviz import figures
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.lessons import bugs, peeking
from attnviz.lessons.bugs import RIGHT, WRONG, Bug, Maps, Trained
from attnviz.ui.learn import words
from attnviz.ui.shared import cache, pictures, state
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.setting import Setting, State, choice, coded, each, flag, reader, whole
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import heading, label, large, note, plain, quiet

NAMES = {bug.name: bug for bug in bugs.museum()}

_read_found = each(reader("|".join(NAMES), lambda m: m[0], "inverted-axis"), len(NAMES))

BUG = whole("bug", 1, 1, len(NAMES))
FOUND: Setting[frozenset[str]] = coded(
    "found",
    frozenset(),
    lambda found: "-".join(name for name in NAMES if name in found),
    lambda text: frozenset(_read_found(text)),
)
ANSWER = choice("named", tuple(NAMES))
"""The last answer, for the bug that is shown."""
HINTS = whole("hints", 0, 0, max(len(bug.hints) for bug in NAMES.values()))
TRAINED = flag("trained", False)
"""Whether the models of the bug without maps were asked for."""

SIDE = 264
"""Pixels of a map: two stand side by side."""


def gallery(at: Look) -> None:
    """One bug, what it looks like, and its name once it was found."""
    number, found = state.get(BUG), state.get(FOUND)
    bug = tuple(NAMES.values())[number - 1]
    made = None
    if not bug.costs or state.get(TRAINED):
        with st.spinner(words.LEARNING if bug.costs else words.COMPUTING):
            made = _live(bug.name)
    _choice(number, found, made.where if made else Trained.where)
    large(bug.symptom)
    if made:
        _shown(at, made)
    else:
        quiet(bug.costs)
        options = {"icon": ":material/play_arrow:", "type": "primary", "on_click": state.put, "args": (TRAINED, True)}
        st.button(words.TRAIN, key="train bug", **options)
    if bug.name in found:
        _solved(bug, made, number)
    else:
        _asked(bug)


def _choice(number: int, found: frozenset[str], where: str) -> None:
    """All bugs, with a check mark those that were found, and what the bug is shown on; on a phone a list with names."""

    def named(one: int) -> str:
        return f":material/check: {one}" if tuple(NAMES)[one - 1] in found else str(one)

    options = {"shown": number, "lead": "", "step": opened}
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="bugs"):
        label(words.BUG)
        control(st.segmented_control, words.BUG, BUG, range(1, len(NAMES) + 1), format_func=named, **options)
        quiet(words.FOUND_OF.format(found=len(found), all=len(NAMES), where=where))


def opened(now: State, number: int) -> State:
    """The state with another bug, of which nobody has said anything yet."""
    return now.put(BUG, number).put(ANSWER, None).put(HINTS, 0)


def _shown(at: Look, made: Maps | Trained) -> None:
    """What it looks like: two maps, or two trainings."""
    if not isinstance(made, Maps):
        runs = ((RIGHT, made.right.losses), (WRONG, made.wrong.losses))
        pictures.picture(cache.drawn(figures.losses, runs, peeking.GUESS, **at.styled), "losses")
        return
    drawn = at.styled | {"side": SIDE}
    with st.container(horizontal=True, gap="medium", key="both maps"):
        for record, key in ((made.right, "right"), (made.wrong, "wrong")):
            pictures.picture(cache.drawn(_map, record, made.head, **drawn), key=f"bug {key}")


def _map(record: Record, head: int, **drawn: object) -> Figure:
    """The map of a head, with nothing over it but what it is: what both have in common stands above them."""
    title = record.source[0].upper() + record.source[1:]
    return figures.head(record, record.sites[0], head, row_sums=True, domain="fixed", heading=title, **drawn)


def _asked(bug: Bug) -> None:
    """Hints one by one, and the choice among all bugs."""

    def answered(now: State, name: str | None) -> State:
        return now.put(ANSWER, name).put(FOUND, now[FOUND] | ({name} & {bug.name}))

    shown = state.get(HINTS)
    if shown:
        st.markdown("\n".join(f"{number}. {hint}" for number, hint in enumerate(bug.hints[:shown], 1)))
    if shown < len(bug.hints):
        name = words.HINT.format(number=shown + 1, all=len(bug.hints))
        _button(name, "hint", lambda now: now.put(HINTS, shown + 1))
    names = sorted(NAMES, key=lambda name: NAMES[name].title)
    options = {"format_func": lambda name: NAMES[name].title, "step": answered, "at": bug.name}
    control(st.pills, words.WHICH_MISTAKE, ANSWER, names, **options)
    if answer := state.get(ANSWER):
        note(words.NOT_THIS.format(hint=NAMES[answer].would), "notice")


def _solved(bug: Bug, made: Maps | Trained | None, number: int) -> None:
    """What it is, how it is mended, what finds it, and where it happened."""
    st.success(f"**{bug.title}.** {bug.because}", icon=":material/check_circle:")
    heading(words.FIX)
    st.html(f'<pre class="code">{"".join(map(_line, bug.fix.splitlines()))}</pre>')
    heading(words.FINDS)
    if bug.rule:
        finding = made.finding(bug.rule)
        st.markdown(words.FOUND_BY.format(severity=finding.severity, rule=finding.rule, says=finding.says))
    else:
        st.markdown(bug.found_by)
    st.markdown(words.HAPPENED.format(where=f"[{bug.seen_in}]({bug.source})"))
    others = [one for one in range(1, len(NAMES) + 1) if tuple(NAMES)[one - 1] not in state.get(FOUND)]
    if others:
        following = next((one for one in others if one > number), others[0])
        _button(words.NEXT_BUG, "next bug", lambda now: opened(now, following))


def _line(code: str) -> str:
    tag = {"-": "del", "+": "ins"}.get(code[0], "span")
    return f"<{tag}>{plain(code)}\n</{tag}>"


def _button(name: str, key: str, step) -> None:
    st.button(name, key=key, on_click=state.change, args=(step,))


_live = cache.kept(bugs.live)
