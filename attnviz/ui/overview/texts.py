"""The numbers of all heads over many texts: their mean and spread, beside those of the text at hand."""

from functools import partial

import pandas as pd
import streamlit as st

from attnviz import figures, texts
from attnviz.core import progress
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError
from attnviz.sources.base import Source
from attnviz.ui.overview import tables, words
from attnviz.ui.overview.card import meant
from attnviz.ui.overview.every import select
from attnviz.ui.overview.numbers import TITLES, all_numbers, asked, numbers
from attnviz.ui.shared import cache, cores, everything, look, pictures, runs, state
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.setting import Setting, kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import Markup, block, in_words, lead, note, plain, quiet
from attnviz.ui.shared.toolbar import Bar

MEASURED: Setting[tuple | None] = kept("over texts", None)
"""Of which model, texts and edits the numbers were asked for."""
NUMBER = kept("number over texts", "confidence")

AT_ONCE = 100
"""Texts that are listed unasked."""

HIGH = 510
"""Pixels of a table beside its picture."""

FORMATS = dict.fromkeys(("here", "mean", "spread"), "%.3f")
"""Of numbers of a head; the others count texts."""

PLACES = ["kind", "layer", "head"]


def over_many_texts(bar: Bar) -> None:
    """Every head on the texts that ship with attnviz, or on a file: means and spreads beside this text's numbers."""
    lead(words.ON_OTHERS)
    at = bar.at
    try:
        with bar.view:
            lines = _lines(at.source)
        found = _measured(at, lines)
    except AttnvizError as error:
        note(str(error))
        found = None
    if found is None:
        with bar.export:
            everything.menu(at)
        return
    with bar.view:
        there = [name for name in TITLES if name in found and found[name].notna().any()]
        options = {"shown": state.one_of(NUMBER, there), "format_func": TITLES.__getitem__, "width": 260}
        name = control(st.selectbox, words.NUMBER, NUMBER, there, lead=words.NUMBER, **options)
    table = _beside(at, found, name)
    marks = _shown(at, table, name, lines)
    with bar.export:
        pictures.take_away(marks, "over texts", more=partial(_more, at, marks, found))


def _more(at: Look, marks: figures.Figure, found: pd.DataFrame) -> None:
    """Every number of every head, not only the one that is shown."""
    all_numbers(found.drop(columns="site", errors="ignore"), "heads-over-texts")
    everything.button(at, (marks,))


def _lines(source: Source) -> tuple[str, ...]:
    """The texts: those of a file of somebody's own, or the fifty that ship with attnviz."""
    with st.popover(words.OWN_TEXTS, icon=":material/upload_file:"):
        st.caption(words.OWN_TEXTS_MEAN)
        given = st.file_uploader(words.UPLOAD, type=["txt"], key="texts", label_visibility="collapsed", width=330)
    return texts.lines(given.getvalue()) if given else texts.shipped(source)


def _measured(at: Look, lines: tuple[str, ...]) -> pd.DataFrame | None:
    """A row per head with its means and spreads, if they are measured at once or were asked for."""
    key, title = (at.source, lines, at.edits), words.MEASURE_ON.format(count=len(lines))
    button = {"key": "measure texts", "icon": ":material/functions:"}
    if asked(MEASURED, key, cost := _cost(*key), title, **button):
        with runs.beside():
            return cache.worked(_over, *key, cost=cost, unit=words.TEXTS)
    _texts(lines)
    return None


_cost = cache.kept(texts.cost)


def _over(source: Source, lines: tuple[str, ...], edits: Edits) -> pd.DataFrame:
    with progress.counted(len(lines)) as report, cores.used_by(source):
        return texts.over_texts(source, lines, report=report, edits=edits)


def _beside(at: Look, found: pd.DataFrame, name: str) -> pd.DataFrame:
    """One number of each head: on this text, and its mean, standard deviation and texts over many."""
    here = numbers(at).table.reindex(columns=[*PLACES, name]).rename(columns={name: "here"})
    many = {name: "mean", f"{name}_spread": "spread", f"{name}_texts": "texts"}
    found = found[[*PLACES, *many]].rename(columns=many)
    found = found.merge(here, on=PLACES, how="left")
    found["typical"] = [_is_typical(one) for one in found.itertuples()]
    ordered = found.sort_values("mean", ascending=False, na_position="last")
    return ordered.sort_values("typical", key=lambda said: said != words.UNLIKE, kind="stable")


def _is_typical(one: object) -> str | None:
    """What a head's number here is beside those on other texts; None where one of them is not known."""
    if pd.isna([one.here, one.mean, one.spread]).any():
        return None
    return words.LIKE if texts.is_typical(one.here, one.mean, one.spread) else words.UNLIKE


def _of_all(table: pd.DataFrame, number: str, count: int) -> str:
    """How many heads do on this text what they do on others, and which do not."""
    heads, unlike = table["typical"].notna().sum(), (table["typical"] == words.UNLIKE).sum()
    said = words.SOME_UNLIKE if unlike else words.ALL_ALIKE
    return said.format(number=number, heads=heads, unlike=unlike, count=count)


def _said(at: Look, table: pd.DataFrame, number: str, count: int) -> str:
    """Whether the framed head does on this text what it does on others."""
    framed = (table["kind"] == at.site.kind) & (table["layer"] == at.site.layer) & (table["head"] == at.number)
    row = table[framed].iloc[0]
    head = at.site.head(at.number).capitalize()
    if row["typical"] is None:
        return words.NOT_KNOWN.format(head=head, number=number)
    here, mean, spread = row["here"], row["mean"], row["spread"]
    compared = words.HERE_AND_THERE.format(head=head, number=number, here=here, count=count, mean=mean, spread=spread)
    return f"{compared} {words.LIKE_MOST if row['typical'] == words.LIKE else words.UNUSUAL}"


def _shown(at: Look, table: pd.DataFrame, name: str, lines: tuple[str, ...]) -> figures.Figure:
    """Every head by its number here and its mean, as marks, which are given, and as a table; both choose a head."""
    title, count = TITLES[name], len(lines)
    titles = {"here": words.ON_THIS.format(number=title), "mean": words.OVER_TEXTS.format(number=title, count=count)}
    drawn = {"titles": titles, "spread": ("spread", texts.TYPICAL), "dark": at.dark}
    drawn |= {"focused": (at.site, at.head), "rev": look.rev("every")}
    of_all = _of_all(table, title, count)
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            marks = figures.scatter(at.record, table, "here", "mean", **drawn)
            pictures.picture(marks, "over texts", select="head", on_select=select)
        left_out = set() if (table["texts"] < count).any() else {"texts"}
        names = [name for name in words.COLUMNS if name not in left_out]
        columns = {one: st.column_config.NumberColumn(words.COLUMNS[one], format=FORMATS.get(one)) for one in names}
        columns["typical"] = st.column_config.TextColumn(words.COLUMNS["typical"])
        with st.container(width="stretch", key="over-texts"):
            in_words(of_all)
            tables.choosing(at, table, names, key="table over texts", high=HIGH, **columns)
            number = f"{title[:1].lower()}{title[1:]}"
            quiet(_said(at, table, number, count), words.NUMBER_MEANS.format(number=title, means=meant(name)))
            with pictures.folded(words.THE_TEXTS.format(count=count), "the texts") as is_open:
                if is_open:
                    _texts(lines, 260)
    return marks


def _texts(lines: tuple[str, ...], high: int = 460) -> None:
    """Whole texts below each other; of many a table, which draws those alone that are seen."""
    if len(lines) > AT_ONCE:
        st.dataframe({words.UPLOAD: lines}, height=high)
        return
    listed = Markup(f"<ol>{''.join(f'<li>{plain(line)}</li>' for line in lines)}</ol>")
    frame = {"role": "region", "tabindex": "0", "aria-label": words.UPLOAD, "style": f"max-height:{high}px"}
    block(listed, "texts", **frame)
