"""Tables with a row for each head, which choose one."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from attnviz.analysis.heads import MAIN, METRICS, ROWS
from attnviz.charts.theme import theme
from attnviz.studies.ablation import Sweep
from attnviz.ui.overview import card, words
from attnviz.ui.overview.numbers import OFF, TITLES, Numbers, head_of, heads_of
from attnviz.ui.shared import findings, look, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Place, ViewContext
from attnviz.ui.shared.setting import Setting, flag, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import lead, quiet

BESIDE_TEST = 5
"""Numbers beside those of the switch-off test: the table is no wider than a screen."""
MORE = flag("all_numbers", False, "tab")
CELLS: Setting[dict[str, list]] = session_setting("cells of tables", {})
"""Last selected cell, by table."""

METRIC = {metric.name: metric for metric in METRICS}
SHARES = [metric.name for metric in METRICS if metric.high == 1]
"""Numbers from 0 to 1."""

BAR = theme(dark=False).ramp[5]
"""Color of a bar in a table: one of the maps, visible on light and on dark."""

FAINT = 0.1
"""Bound under which all numbers of a column get one more digit."""

MARK = 28
"""Pixels of the column of marks; in a narrower one a browser breaks no line of the others."""
NARROW, WIDE = 106, 340
"""Pixels of the column of roles at least, and at most."""

ON_A_SCREEN = 120
"""Characters of names of columns that a wide screen shows beside each other."""

MOST, HIGH = 12, 433
"""Rows of a table that are all shown, and the pixels of one with more of them."""


def heads(
    context: ViewContext, head_numbers: Numbers, by: str, order: Sequence[Place] | None, swept: Sweep | None
) -> None:
    """A row of numbers for each head: a few of them, or all.

    Args:
        by: the number that orders them.
        order: the heads to show; None for all, in the order of the model.
        swept: the effects of heads that are switched off, if they were measured.
    """
    rows = _ordered(head_numbers.table, order)
    first = (*OFF, *MAIN[:BESIDE_TEST]) if any(name in head_numbers.names for name in OFF) else MAIN
    names = dict.fromkeys((*first, by, *(head_numbers.names if state.get(MORE) else ())))
    names = [name for name in names if name in head_numbers.names and rows[name].notna().any()]
    rows = rows.assign(role=(roles := _roles(context, rows)))
    if swept and by == swept.by:
        card.verdict(context, swept)
    else:
        lead(_largest(rows, (by, *names)))
    choosing(context, rows, ["role", *names], key="table of heads")
    guessed = [words.GUESSED] if any(role and role.endswith("?") for role in roles) else []
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        control(st.toggle, words.ALL_OF_THEM.format(count=len(head_numbers.names)), MORE)
        quiet(" ".join((words.ROWS, words.DASH, *guessed)))
    if swept is None:
        card.verdict(context, None)
    card.named(context, head_numbers, swept)
    with st.expander(common.MEANINGS):
        st.markdown("\n\n".join([ROWS, *map(_meaning, head_numbers.names)]))


def _largest(rows: pd.DataFrame, names: Sequence[str]) -> str:
    """Which head has the most of the first of some numbers that any of these heads has; "" where none has one."""
    name = next((name for name in names if name in rows and rows[name].notna().any()), None)
    if name is None:
        return ""
    row = rows.loc[rows[name].astype(float).idxmax()]
    (site, head), value = head_of(row), card.number(name, float(row[name]))
    return words.LEADS.format(number=TITLES[name], head=site.head(head), value=value)


def choosing(
    context: ViewContext, rows: pd.DataFrame, names: Sequence[str], *, key: str, high: int = HIGH, **columns
) -> None:
    """A row for each head, as "decoder 1.0", the chosen one marked: a cell of another chooses it, reached by keys too.

    Args:
        names: the columns after the head.
        columns: how those are drawn that hold no number of a head.
    """
    every = heads_of(rows)

    def chosen() -> None:
        cells, before = state.event(key=key)["selection"]["cells"], state.get(CELLS)
        state.put(CELLS, {**before, key: cells})
        if cells and (before.get(key) or cells[0][1] != "mark"):  # where a browser begins, unasked
            look.look_at(*every[cells[0][0]])

    rows = rows.assign(place=[site.brief(head) for site, head in every], mark="")
    rows = rows[["mark", "place", *names]].reset_index(drop=True)
    marked = [i for i, head in enumerate(every) if head == (context.site, context.number)]
    rows.loc[marked, "mark"] = words.CHOSEN
    columns = {name: _column(name, rows[name]) for name in names if name in TITLES} | columns
    options = {"on_select": chosen, "selection_mode": "single-cell", "hide_index": True, "placeholder": "–"}
    options["height"] = "content" if len(rows) <= MOST else high
    if "role" in names:
        columns["role"], options["row_height"] = _role_column(rows["role"])
    st.dataframe(
        _marked(rows, marked, context),
        key=key,
        column_config=_first_columns(columns) | columns,
        **options,
    )


def _first_columns(others: dict) -> dict:
    """The mark and the name of a head, which stays where the others are too many to be seen at once; that is said."""
    sideways = sum(len(column["label"]) for column in others.values()) > ON_A_SCREEN
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


def _marked(table: pd.DataFrame, rows: list[int], context: ViewContext) -> Styler:
    """With the row of a head on the color in which it is framed."""
    accent = theme(context.dark).accent
    shares = table.assign(output=100 * table["output"]) if "output" in table else table
    styled = shares.style.map(lambda _: f"background-color:{accent}22", subset=pd.IndexSlice[rows, :])
    strong = f"color:{theme(context.dark).text};font-weight:600"  # a browser dims what is pinned
    styled = styled.map(lambda _: strong, subset=["place"])
    return styled.map(lambda _: f"color:{accent}", subset=pd.IndexSlice[rows, "mark"])


def _ordered(table: pd.DataFrame, order: Sequence[Place] | None) -> pd.DataFrame:
    """The rows of some heads, in their order."""
    if order is None:
        return table
    ranks = {head: rank for rank, head in enumerate(order)}
    return table.assign(place=[ranks.get(head) for head in heads_of(table)]).dropna(subset="place").sort_values("place")


def _column(name: str, values: pd.Series) -> st.column_config.Column:
    """A number; a share, and a change when off, is a bar, too, where there is room. Its meaning is read at its name."""
    percent, most = name == "output", 1 if name in SHARES else float(values.max()) or 1
    label = words.OFF_TITLES.get(name, TITLES[name])
    if percent:
        number_format = "%.1f"
    elif most < FAINT:
        number_format = "%.4f"
    else:
        number_format = "%.3f"
    options = {"label": label, "help": card.meaning(name), "format": number_format}
    if name not in (*SHARES, *OFF):
        return st.column_config.NumberColumn(**options)
    most = 100 * most if percent else most
    wide = max(108, 16 + 67 * len(label) // 10)
    return st.column_config.ProgressColumn(**options, min_value=0, max_value=most, color=BAR, width=wide)


def _roles(context: ViewContext, table: pd.DataFrame) -> list[str | None]:
    """Measured role of each head; else its role on this text, marked as a guess."""
    behaviors = (findings.measured(context.source, *head) for head in heads_of(table))
    each = zip(table["role"], behaviors, strict=True)
    return [words.GUESS.format(role=role) if role and not behavior else role or None for role, behavior in each]


def _meaning(name: str) -> str:
    """Markdown: its formula, what it says, between which numbers it is, and where it is from."""
    if (metric := METRIC.get(name)) is None:
        return words.MEANING_OFF.format(title=TITLES[name], means=card.meaning(name))
    source = metric.source if metric.source.endswith("?") else f"{metric.source}."
    means = words.MEANS.format(means=metric.means, range=metric.range, source=source)
    means = means.replace("<", "\\<").replace("[", "\\[")
    text = words.MEANING_WHERE if metric.where else words.MEANING
    return text.format(title=metric.title, formula=metric.formula, where=metric.where, means=means)
