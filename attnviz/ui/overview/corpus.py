"""Every head over a corpus: known roles, all heads beside this text, and one head with texts that open."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.analysis.heads import MAIN, METRICS, Role, roles
from attnviz.atlas.opened import Atlas
from attnviz.core.amounts import counted
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior
from attnviz.studies import texts
from attnviz.ui import runs
from attnviz.ui.overview import atlases, examples, tables, words
from attnviz.ui.overview.numbers import all_numbers, numbers
from attnviz.ui.shared import everything, findings, look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import Markup, heading, lead, note, plain, quiet, table, title

TITLES, MEANS = ({metric.name: getattr(metric, what) for metric in METRICS} for what in ("title", "means"))
NUMBER = choice("number", TITLES, "confidence", "tab")


PLACES = ["kind", "layer", "head"]
FORMATS = dict.fromkeys(("here", "mean", "spread"), "%.3f")
MANY = 100
"""Texts above which they are listed as a table, which draws those alone that are seen."""


def over_a_corpus(bar: Toolbar) -> None:
    """Every head over many texts: those of an atlas, the fifty that ship, or somebody's own."""
    lead(words.ON_OTHERS)
    try:
        with bar.view:
            own = _own_texts()
        built = None if own or bar.at.edits != Edits() else atlases.built(bar.at.source)
        lines = () if built else own or texts.shipped(bar.at.source)
        atlas = built or atlases.measured(bar.at, lines)
    except AttnvizError as error:
        note(str(error))
        lines, atlas = (), None
    figure = atlas and _show(bar.at, atlas)
    if lines:
        _list(lines, atlas)
    with bar.export:
        if figure:
            pictures.take_away(figure, "over corpus", more=partial(_more, bar.at, figure, atlas.heads()))
        else:
            everything.menu(bar.at)


def _more(context: ViewContext, figure: figures.Figure, heads: pd.DataFrame) -> None:
    all_numbers(heads.drop(columns="site"), "heads-over-texts")
    everything.button(context, (figure,))


def _own_texts() -> tuple[str, ...]:
    """The lines of somebody's own files; none if nothing was uploaded."""
    with st.popover(words.OWN_TEXTS, icon=":material/upload_file:"):
        st.caption(words.OWN_TEXTS_MEAN)
        files = st.file_uploader(words.FILES, ["txt"], accept_multiple_files=True, key="texts", width=330)
        folder = st.file_uploader(words.FOLDER, ["txt"], accept_multiple_files="directory", key="folder", width=330)
    uploaded = [*files, *folder]
    return texts.lines(b"\n".join(file.getvalue() for file in uploaded)) if uploaded else ()


def _list(lines: tuple[str, ...], atlas: Atlas | None) -> None:
    """The texts that are measured, folded, and how many of them the model could not read."""
    if atlas and atlas.texts < len(lines):
        count, first = counted(len(lines) - atlas.texts, "text"), atlas.problems().iloc[0]
        note(words.NOT_READ.format(count=count, line=first["line"], why=first["problem"]), "notice")
    with pictures.folded(words.THE_TEXTS.format(count=len(lines)), "the texts") as is_open:
        if is_open and len(lines) > MANY:
            st.dataframe({words.TEXT: lines}, height=260)
        elif is_open:
            st.html(f"<ol>{''.join(f'<li>{plain(line)}</li>' for line in lines)}</ol>")


def _show(context: ViewContext, atlas: Atlas) -> figures.Figure | None:
    """The chosen head's role, texts and numbers, beside the known roles and all heads."""
    heads, behaviors = atlas.heads(), _behaviors(context.source)
    measured = findings.measured(context.source, context.site, context.head)
    chosen = heads[(heads["site"] == str(context.site)) & (heads["head"] == context.number)]
    row = None if chosen.empty else chosen.iloc[0]
    by_weights = () if row is None else roles(row.to_dict() | {"texts": atlas.texts})[:1]
    title(words.NO_HEAD if row is None else _answer(context, measured, by_weights))
    about = words.ABOUT.format(texts=atlas.texts, tokens=atlas.tokens)
    quiet(" ".join((*(words.LOOKS_LIKE.format(role=role.evidence) for role in by_weights), about)))
    with st.container(horizontal=True, gap="large"):
        left, right = st.container(width=560), st.container(width="stretch", key="over-corpus")
    with left:
        _roles(context, behaviors)
        if behaviors:
            with pictures.folded(words.ALL_HEADS, key="heads over corpus") as is_open:
                if is_open:
                    _all_heads(context, heads, atlas.texts)
        else:
            heading(words.ALL_HEADS)
            _all_heads(context, heads, atlas.texts)
    if row is None:
        return None
    with right, runs.beside():
        examples.of_head(context, atlas, measured.role if measured else "")
        if measured:
            findings.evidence(measured)
        figure = _distance(context, atlas)
    with left:
        _numbers(context, row)
        _alike(context, atlas)
    return figure


def _behaviors(source: Source) -> tuple[Behavior, ...]:
    """The known roles of a model, each by the head that shows it most clearly."""
    every = source.card.behaviors if source.card and source.step is None else ()
    rising = sorted(every, key=lambda behavior: max((*behavior.rates, *behavior.shares), default=0))
    return tuple(
        ({behavior.does: behavior for behavior in every} | {behavior.does: behavior for behavior in rising}).values()
    )


def _answer(context: ViewContext, measured: Behavior | None, by_weights: Sequence[Role]) -> str:
    """The chosen head's role: what was measured of it before, else what its weights look like over the corpus."""
    head = context.site.head(context.head).capitalize()
    if measured:
        return words.ANSWER.format(head=head, does=measured.does.rstrip(". "))
    if by_weights:
        return words.ROLE_BY_WEIGHTS.format(head=head, role=by_weights[0].name)
    return words.NO_ROLE.format(head=head)


def _roles(context: ViewContext, behaviors: tuple[Behavior, ...]) -> None:
    """Each known role with its head; a click leads to it and its texts."""
    if not behaviors:
        return
    heading(words.ROLES)
    here = {behavior.does for behavior in context.source.card.behaviors_of(context.site, context.head)}
    with st.container(gap="xsmall", key="questions"):
        for i, behavior in enumerate(behaviors):
            site, head = (context.site, context.head) if behavior.does in here else (behavior.site, behavior.heads[0])
            key, icon = ("here", ":material/check:") if behavior.does in here else ("find", None)
            label = words.ROLE_OF.format(role=f"{behavior.role[:1].upper()}{behavior.role[1:]}", head=site.head(head))
            options = {"icon": icon, "width": "stretch", "on_click": look.look_at, "args": (site, head)}
            st.button(label, key=f"{key} {i}", **options)


def _all_heads(context: ViewContext, heads: pd.DataFrame, count: int) -> None:
    """A number of every head on this text and over the corpus, as a table that chooses a head."""
    there = [name for name in TITLES if heads[name].notna().any()]
    options = {"shown": state.one_of(NUMBER, there), "format_func": TITLES.__getitem__, "width": 260}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        name = control(st.selectbox, words.NUMBER, NUMBER, there, lead=words.NUMBER, **options)
    rows = _beside(numbers(context).table, heads, name)
    unusual, compared = (rows["typical"] == words.UNLIKE).sum(), rows["typical"].notna().sum()
    sentence = words.SOME_UNLIKE if unusual else words.ALL_ALIKE
    quiet(sentence.format(number=TITLES[name], heads=compared, unusual=unusual, count=count))
    names = [column for column in words.COLUMNS if column != "texts" or (rows["texts"] < count).any()]
    columns = {
        column: st.column_config.NumberColumn(words.COLUMNS[column], format=FORMATS.get(column)) for column in names
    }
    columns["typical"] = st.column_config.TextColumn(words.COLUMNS["typical"])
    tables.choosing(context, rows, names, key="table over texts", **columns)


def _beside(here: pd.DataFrame, heads: pd.DataFrame, name: str) -> pd.DataFrame:
    """A number of each head on this text, and its mean, standard deviation and texts over many; unusual ones first."""
    here = here.reindex(columns=[*PLACES, name]).rename(columns={name: "here"})
    many = {name: "mean", f"{name}_spread": "spread", f"{name}_texts": "texts"}
    rows = heads[[*PLACES, *many]].rename(columns=many).merge(here, on=PLACES, how="left")
    rows["typical"] = [_compared(row.here, row.mean, row.spread) for row in rows.itertuples()]
    rows = rows.sort_values("mean", ascending=False, na_position="last")
    return rows.sort_values("typical", key=lambda column: column != words.UNLIKE, kind="stable")


def _compared(here: float | None, mean: float, spread: float) -> str | None:
    """Whether a number is usual; None where one of the numbers is missing."""
    if pd.isna([here, mean, spread]).any():
        return None
    return words.LIKE if texts.is_typical(here, mean, spread) else words.UNLIKE


def _numbers(context: ViewContext, row: pd.Series) -> None:
    """The numbers of a head over the corpus, beside those of the text at hand: a few, and folded the others."""
    table = findings.numbers(context.record, context.sentence, context.site)
    here = {} if table is None else table.iloc[context.number]
    there = [name for name in TITLES if row[f"{name}_texts"] > 0]
    few, more = [name for name in there if name in MAIN], [name for name in there if name not in MAIN]
    heading(common.NUMBERS)
    _table(few, row, here)
    quiet(f"{words.COUNTED_THE_SAME} {words.SPREAD}")
    with pictures.folded(words.MORE_NUMBERS.format(count=len(more)), key="atlas numbers") as is_open:
        if is_open:
            _table(more, row, here)


def _table(names: list[str], row: pd.Series, here: pd.Series | dict) -> None:
    rows = [_cells(name, row, here.get(name)) for name in names]
    table(rows, words.HEAD, numbers=range(1, len(words.HEAD)))


def _cells(name: str, row: pd.Series, here: float | None) -> tuple[str, ...]:
    """A number over the corpus with its interval, on the text at hand, and its spread; its meaning is at its name."""
    title = Markup(f'<abbr title="{plain(MEANS[name])}">{plain(TITLES[name])}</abbr>')
    mean = words.MEAN.format(mean=row[name], half=(row[f"{name}_high"] - row[f"{name}_low"]) / 2)
    middle = words.MIDDLE.format(low=row[f"{name}_q25"], high=row[f"{name}_q75"])
    this = "–" if pd.isna(here) else f"{here:.2f}"
    return title, mean, this, f"{row[f'{name}_spread']:.2f}", middle


def _distance(context: ViewContext, atlas: Atlas) -> figures.Figure | None:
    """Attention by distance over the corpus."""
    curve = atlas.table("distances", context.site, context.number)
    if curve.empty:
        return None
    name, head = context.source.name, context.site.head(context.head)
    figure = figures.distance_over_corpus(name, head, curve, atlas.texts, dark=context.dark)
    pictures.picture(figure, "over corpus")
    return figure


def _alike(context: ViewContext, atlas: Atlas) -> None:
    """Heads that do the same over a corpus."""
    with pictures.folded(words.ALIKE, key="alike in atlases") as is_open:
        if is_open:
            near = atlas.alike(context.site, context.number, *atlases.others(atlas.plan.model.name)).itertuples()
            rows = [
                (
                    words.OTHER_HEAD.format(model=neighbor.model, site=neighbor.site, head=neighbor.head),
                    f"{neighbor.apart:.2f}",
                )
                for neighbor in near
            ]
            table(rows, ("", words.APART), numbers=(1,))
            quiet(words.APART_MEANS)
