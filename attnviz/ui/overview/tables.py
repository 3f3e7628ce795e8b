"""The numbers of all heads: as a table, two of them against each other, and the chosen head."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from attnviz import figures
from attnviz.ablation import fallen
from attnviz.charts.theme import theme
from attnviz.core.amounts import decimals
from attnviz.figures import figure
from attnviz.metrics.heads import METRICS, ROWS
from attnviz.ui.overview import words
from attnviz.ui.overview.card import meant, named, number
from attnviz.ui.overview.every import Order, ordered, select
from attnviz.ui.overview.numbers import (
    LAYER,
    NAMES,
    OFF,
    SORT,
    TITLES,
    Numbers,
    all_numbers,
    head_of,
    heads_of,
    numbers,
    switched_off,
)
from attnviz.ui.shared import everything, findings, look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.setting import Setting, choice, kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import lead, quiet
from attnviz.ui.shared.toolbar import Bar

COUNT = "heads"
"""What stands up where heads of about the same number are stacked."""
ACROSS, UP = choice("across", NAMES), choice("up", NAMES | {COUNT: words.COUNT})

FIRST = ("confidence", "effective_keys", "distance", "previous", "self", "first", "output_share")
TESTED = (*OFF, "confidence", "distance", "previous", "self", "output_share")
"""The numbers that a table begins with, before and after the switch-off test; it is no wider than a screen."""
MORE = kept("all numbers", False)
CELLS: Setting[dict[str, list]] = kept("cells of tables", {})
"""Of each table the cell that was reached last."""

METRIC = {metric.name: metric for metric in METRICS}
SHARES = [metric.name for metric in METRICS if metric.high == 1]
"""Numbers from 0 to 1."""

BAR = theme(dark=False).ramp[5]
"""Of a bar in a table: a color of the maps, seen on light and on dark."""

FAINT = 0.1
"""Of a column whose numbers are all below it, one more digit is read."""

MARK = 28
"""Pixels of the column of marks; in a narrower one a browser breaks no line of the others."""
NARROW, ON_A_PHONE, WIDE = 106, 148, 340
"""Pixels of the column of roles at least, and at most."""

HEAD, BARS = 76, 96
"""Pixels of the columns of a phone before it: of heads in two lines, and of a number with its bar."""

SIDE_BY_SIDE, ON_A_SCREEN = 26, 120
"""Characters of names of columns that a phone, and a wide screen, shows beside each other."""

MOST, HIGH = 12, 433
"""Rows of a table that are all shown, and the pixels of one with more of them."""


def panel(bar: Bar) -> None:
    """Every head with its numbers, and two of them against each other."""
    switched_off(bar.at, ask=False)
    known = numbers(bar.at)
    with bar.view:
        opening = next((name for name in OFF if name in known.names), None)
        order, *_ = ordered(known, opening=opening)
    by = state.one_of(SORT, (LAYER, *known.names), opening or LAYER)
    if not known.names:  # not asked for yet
        with bar.export:
            everything.menu(bar.at)
        return
    _all_heads(bar.at, known, order, by)
    scatter = _against(bar.at, known)
    with bar.export:
        pictures.take_away(scatter, "scatter", more=partial(_more, bar.at, scatter, known))


def _more(at: Look, scatter: figures.Figure, known: Numbers) -> None:
    all_numbers(known.table, figure.stem(at.record, "heads", sentence=at.sentence))
    everything.button(at, (scatter,))


def _all_heads(at: Look, known: Numbers, order: Order, by: str) -> None:
    """What was measured of each head; few of its numbers, or all; on a phone first the one they are sorted by."""
    found = _ordered(known.table, order)
    first = TESTED if any(name in known.names for name in OFF) else FIRST
    names = dict.fromkeys((*first, state.get(SORT), *(known.names if state.get(MORE) else ())))
    names = [name for name in names if name in known.names]
    found = found.assign(role=(roles := _roles(at, found)))
    lead(_answer(found, (by, *names)))
    choosing(at, found, _columns(names, by), key="table of heads")
    every, chosen = heads_of(found), (at.site, at.number)
    where = [i for i, head in enumerate(every, 1) if head == chosen]
    brief, head = at.site.brief(at.number), at.site.head(at.number)
    marked = [words.MARKED.format(brief=brief, head=head, row=row, rows=len(every)) for row in where]
    guessed = [words.GUESSED] * any(role and role.endswith("?") for role in roles)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        control(st.toggle, words.ALL_OF_THEM.format(count=len(known.names)), MORE)
        quiet(" ".join((words.ROWS, *marked, words.DASH, *guessed)))


def _answer(found: pd.DataFrame, names: Sequence[str]) -> str:
    """Which head has the most of the first of some numbers that any of these heads has; "" where none has one."""
    name = next((name for name in names if name in found and found[name].notna().any()), None)
    if name is None:
        return ""
    row = found.loc[found[name].astype(float).idxmax()]
    (site, head), value = head_of(row), float(row[name])
    if name not in OFF:
        size = number(name, value)
        return words.LEADS.format(number=TITLES[name], head=site.head(head), value=size, means=meant(name))
    size = number(name, value) if name == "output" else decimals(value, 4 if value < FAINT else 3)
    return words.LEADS_OFF[name].format(head=site.head(head), value=size, sure=fallen(value))


def _columns(names: list[str], by: str) -> list[str]:
    """Of a table after its heads."""
    return ["role", *names]


def choosing(
    at: Look, found: pd.DataFrame, names: Sequence[str], *, key: str, high: int = HIGH, brief: bool = False, **columns
) -> None:
    """A row for each head, as "decoder 1.0", that of `at` marked: a cell of another frames it, reached by keys too.

    Args:
        names: the columns after the head.
        brief: whether changes have short names.
        columns: how those are drawn that hold no number of a head.
    """
    every = heads_of(found)

    def chosen() -> None:
        cells, before = state.event(key=key)["selection"]["cells"], state.get(CELLS)
        state.put(CELLS, {**before, key: cells})
        if cells and (before.get(key) or cells[0][1] != "mark"):  # where a browser begins, unasked
            look.look_at(*every[cells[0][0]])

    found = found.assign(place=short_names(found), mark="")[["mark", "place", *names]].reset_index(drop=True)
    marked = [i for i, head in enumerate(every) if head == (at.site, at.number)]
    found.loc[marked, "mark"] = words.CHOSEN
    columns = {name: _column(name, found[name], brief) for name in names if name in TITLES} | columns
    options = {"on_select": chosen, "selection_mode": "single-cell", "hide_index": True, "placeholder": "–"}
    options |= {"height": height(found, high)}
    if "role" in names:
        columns["role"], options["row_height"] = _role_column(found["role"])
    st.dataframe(
        _marked(found, marked, at),
        key=key,
        column_config=_first_columns(columns) | columns,
        **options,
    )


def _first_columns(others: dict) -> dict:
    """The mark and the name of a head, which stays where the others are too many to be seen at once; that is said."""
    sideways = sum(len(one["label"]) for one in others.values()) > ON_A_SCREEN
    return {
        "mark": st.column_config.TextColumn("", pinned=True, width=MARK),
        "place": st.column_config.Column(words.LAYER_HEAD, pinned=sideways, help=words.HEAD_NAMES),
    }


def _role_column(roles: pd.Series) -> tuple[st.column_config.Column, int | None]:
    """As wide as the longest role, or one that is wrapped, in rows that are higher than two lines."""
    longest = int(roles.fillna("").str.len().max())
    needed = 14 + 32 * longest // 5
    wide = min(WIDE, max(NARROW, needed))
    high = max(62, 26 + 14 * (longest // (wide // 9))) if needed > wide else None
    return st.column_config.TextColumn(common.ROLE, help=words.ROLE_MEANS, width=wide), high


def _marked(found: pd.DataFrame, rows: list[int], at: Look) -> Styler:
    """With the row of a head on the color in which it is framed."""
    accent = theme(at.dark).accent
    shares = found.assign(output=100 * found["output"]) if "output" in found else found
    styled = shares.style.map(lambda _: f"background-color:{accent}22", subset=pd.IndexSlice[rows, :])
    strong = f"color:{theme(at.dark).text};font-weight:600"  # a browser dims what is pinned
    styled = styled.map(lambda _: strong, subset=["place"])
    return styled.map(lambda _: f"color:{accent}", subset=pd.IndexSlice[rows, "mark"])


def _ordered(found: pd.DataFrame, order: Order) -> pd.DataFrame:
    """The heads of an order, in it."""
    if order is None:
        return found
    ranks = {head: rank for rank, head in enumerate(order)}
    return found.assign(place=[ranks.get(head) for head in heads_of(found)]).dropna(subset="place").sort_values("place")


def _column(name: str, values: pd.Series, brief: bool) -> st.column_config.Column:
    """A number; a share, and a change when off, is a bar, too, where there is room. Its meaning is read at its name."""
    percent, most = name == "output", 1 if name in SHARES else float(values.max()) or 1
    label = (words.OFF_IN_SHORT if brief else words.OFF_TITLES).get(name, TITLES[name])
    options = {"label": label}
    options |= {"help": meant(name), "format": "%.1f" if percent else "%.4f" if most < FAINT else "%.3f"}
    if name not in (*SHARES, *OFF):
        return st.column_config.NumberColumn(**options)
    most = 100 * most if percent else most
    wide = max(108, 16 + 67 * len(label) // 10)
    return st.column_config.ProgressColumn(**options, min_value=0, max_value=most, color=BAR, width=wide)


def _roles(at: Look, found: pd.DataFrame) -> list[str | None]:
    """What each head was measured to do; else what it looks like on this text, said so."""
    known = (findings.measured(at.source, *head) for head in heads_of(found))
    each = zip(found["role"], known, strict=True)
    return [(role if one else words.GUESS.format(role=role)) if role else None for role, one in each]


def short_names(found: pd.DataFrame) -> list[str]:
    """Each head in one column, for a phone: "decoder 1.0"."""
    return [site.brief(head) for site, head in heads_of(found)]


def height(rows: pd.DataFrame, high: int = HIGH) -> int | str:
    """Of a table: what its rows take, if they are few."""
    return "content" if len(rows) <= MOST else high


def _meaning(name: str) -> str:
    """Markdown: its formula, what it says, between which numbers it is, and where it is from."""
    if (metric := METRIC.get(name)) is None:
        return words.MEANING_OFF.format(title=TITLES[name], means=meant(name))
    source = metric.source if metric.source.endswith("?") else f"{metric.source}."
    means = words.MEANS.format(means=metric.means, range=metric.range, source=source)
    means = means.replace("<", "\\<").replace("[", "\\[")
    text = words.MEANING_WHERE if metric.where else words.MEANING
    return text.format(title=metric.title, formula=metric.formula, where=metric.where, means=means)


def _against(at: Look, known: Numbers) -> figures.Figure:
    """Two numbers against each other, or one alone, which is given, beside what they mean."""
    up = "distance" if known.table["distance"].notna().all() else "output_share"
    drawn = {"titles": TITLES, "dark": at.dark}
    drawn |= {"focused": (at.site, at.head), "rev": look.rev("every")}
    with st.container(horizontal=True, gap="large"):
        place, beside = st.container(width="content"), st.container(width="stretch", key="beside")
        with beside, st.container(horizontal=True, gap="small"):
            x = _number(known.names, common.X_AXIS, ACROSS, "confidence")
            y = _number((*known.names, COUNT), common.Y_AXIS, UP, up)
        with place:
            scatter = figures.scatter(at.record, known.table, x, None if y == COUNT else y, **drawn)
            pictures.picture(scatter, "scatter", select="head", on_select=select)
        with beside:
            named(at)
            st.markdown("\n\n".join(_meaning(name) for name in dict.fromkeys((x, y)) if name != COUNT))
            with st.expander(common.MEANINGS):
                st.markdown("\n\n".join([ROWS, *map(_meaning, known.names)]))
    return scatter


def _number(names: tuple[str, ...], title: str, setting: Setting[str], opening: str) -> str:
    """A column of the table, by its title."""
    chosen = state.one_of(setting, names, opening if opening in names else names[0])
    options = {"shown": chosen, "format_func": (TITLES | {COUNT: words.COUNT}).__getitem__, "width": 240}
    return control(st.selectbox, title, setting, names, **options)
