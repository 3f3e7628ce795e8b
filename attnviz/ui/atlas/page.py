"""An atlas: every head by two of its numbers over many texts, one head with its evidence, and examples that open."""

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import figures
from attnviz.atlas.opened import Atlas
from attnviz.core.edits import Site
from attnviz.metrics.heads import METRICS
from attnviz.metrics.roles import roles
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior
from attnviz.ui.atlas import built, examples, words
from attnviz.ui.shared import everything, findings, look, pictures, state, toolbar
from attnviz.ui.shared import words as common
from attnviz.ui.shared.examples import with_other_model
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import Setting, choice
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import Markup, heading, plain, quiet, table, title
from attnviz.ui.shared.toolbar import Bar

TITLES, MEANS = ({one.name: getattr(one, what) for one in METRICS} for what in ("title", "means"))
X, Y = choice("atlas-x", TITLES), choice("atlas-y", TITLES)

FEW = ("confidence", "entropy", "distance", "self", "previous", "first", "induction")
"""Numbers of a head that stand first; all others are folded."""


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines)
    bar.predict()
    with bar.export:
        everything.menu(bar.at)
    found = built.chosen(source)
    if found is None:
        _none_of(source)
        return
    _found(bar, found, _clearest(source))


def _found(bar: Bar, found: Atlas, known: tuple[Behavior, ...]) -> None:
    """What the head at hand does; the known roles, texts that show its own, and its numbers."""
    heads, measured = found.heads(), findings.measured(bar.at.source, bar.at.site, bar.at.head)
    row = heads[(heads["site"] == str(bar.at.site)) & (heads["head"] == bar.at.head)]
    title(words.NO_HEAD if row.empty else _answer(bar.at, measured))
    by_weights = [] if row.empty else roles(row.iloc[0].to_dict() | {"texts": found.texts})
    about = words.ABOUT.format(model=bar.at.source.name, texts=found.texts, tokens=found.tokens)
    choose = words.CHOOSE_ROLE if known else words.CHOOSE_HEAD
    quiet(" ".join((*(words.LOOKS_LIKE.format(role=one.evidence) for one in by_weights), about, choose)))
    asked, texts, more = _places()
    with asked:
        _roles(bar.at, known)
    if row.empty:
        return
    with texts:
        examples.of_head(bar.at, found, measured.role if measured else "")
        if measured:
            findings.evidence(measured)
        _distance(bar.at, found)
    with more:
        _numbers(bar.at, row.iloc[0])
        with pictures.folded(words.ALL_HEADS, key="atlas map", opened=not known) as is_open:
            if is_open:
                _map(bar.at, found, heads)
        _alike(bar.at, found)


def _none_of(source: Source) -> None:
    """What an atlas is, the models that have one, each a press away, and how to build one of this model."""
    heading(words.WHAT_IT_IS)
    quiet(words.NO_ATLAS.format(model=source.name))
    with st.container(horizontal=True, gap="small"):
        for name in built.models():
            other = {"on_click": _open_other, "args": (name,), "icon": ":material/arrow_forward:"}
            st.button(words.OPEN_OTHER.format(model=name), key=f"atlas of {name}", **other)
    heading(words.BUILD.format(model=source.name))
    quiet(words.TEXTS)
    step = "" if source.step is None else words.STEP.format(step=source.step)
    commands = words.COMMANDS.format(model=source.id, step=step, variable=built.FOLDERS)
    st.code(commands, "sh", wrap_lines=True, width=560)


def _open_other(name: str) -> None:
    state.change(with_other_model(MODEL), name)


def _places() -> tuple[DeltaGenerator, DeltaGenerator, DeltaGenerator]:
    """For questions, texts, and numbers."""
    with st.container(horizontal=True, gap="large"):
        beside, chosen = st.container(width=560), st.container(width="stretch", key="over-corpus")
        return beside.container(), chosen, beside.container()


def _clearest(source: Source) -> tuple[Behavior, ...]:
    """What heads of the model are known to do, each by the head that does it most clearly."""
    every = source.card.behaviors if source.card and source.step is None else ()
    rising = sorted(every, key=lambda one: max((*one.rates, *one.shares), default=0))
    return tuple(({one.does: one for one in every} | {one.does: one for one in rising}).values())


def _roles(at: Look, known: tuple[Behavior, ...]) -> None:
    """Each known role with its head; a click leads to it and its examples."""
    if not known:
        return
    heading(words.ROLES)
    with st.container(gap="xsmall", key="questions"):
        for i, one in enumerate(known):
            _role(at, one, i)


def _role(at: Look, one: Behavior, i: int) -> None:
    """A role and its head; it is marked where that is the head at hand."""
    here = one.does in {known.does for known in at.source.card.behaviors_of(at.site, at.head)}
    site, head = (at.site, at.head) if here else (one.site, one.heads[0])
    marked = {"type": "primary", "icon": ":material/check:"} if here else {}
    label = words.ROLE_OF.format(role=f"{one.role[:1].upper()}{one.role[1:]}", head=site.head(head))
    st.button(label, key=f"find {i}", width="stretch", on_click=look.look_at, args=(site, head), **marked)


def _map(at: Look, found: Atlas, heads: pd.DataFrame) -> None:
    """All heads by any two numbers."""
    there = [name for name in TITLES if heads[name].notna().any()]
    begins = ("confidence", "entropy") if at.site.kind == "cross" else ("previous", "entropy")
    with st.container(horizontal=True, gap="small"):
        axes = zip((common.X_AXIS, common.Y_AXIS), (X, Y), begins, strict=True)
        x, y = (_number(title, setting, there, opening) for title, setting, opening in axes)
    drawn = {"dark": at.dark, "focused": (at.site, at.head), "rev": look.rev("atlas")}
    figure = figures.over_corpus(found.plan.model.name, heads, x, y, found.texts, titles=TITLES, **drawn)
    pictures.show(figure, "atlas", select="head", on_select=_select)


def _number(title: str, setting: Setting, there: list[str], opening: str) -> str:
    shown = state.one_of(setting, there, opening)
    return control(st.selectbox, title, setting, there, shown=shown, format_func=TITLES.__getitem__, width=220)


def _show(point: dict) -> None:
    look.look_at(Site(point["kind"], int(point["layer"])), int(point["head"]))


_select = look.clicks("atlas", _show)


def _answer(at: Look, known: Behavior | None) -> str:
    """What a head does, in a sentence."""
    head = at.site.head(at.head).capitalize()
    return words.ANSWER.format(head=head, does=known.does.rstrip(". ")) if known else words.NO_ROLE.format(head=head)


def _numbers(at: Look, row: pd.Series) -> None:
    """The numbers of a head over the corpus, beside those of the text at hand: a few, and folded the others."""
    here = findings.numbers(at.record, at.sentence, at.site)
    there = [name for name in TITLES if row[f"{name}_texts"]]
    few, more = [name for name in there if name in FEW], [name for name in there if name not in FEW]
    heading(common.NUMBERS)
    _table(few, row, here, at.number)
    quiet(f"{words.COUNTED_THE_SAME} {words.SPREAD}")
    with pictures.folded(words.MORE_NUMBERS.format(count=len(more)), key="atlas numbers") as is_open:
        if is_open:
            _table(more, row, here, at.number)


def _table(names: list[str], row: pd.Series, here: pd.DataFrame | None, head: int) -> None:
    table([_cells(name, row, here, head) for name in names], words.HEAD, numbers=range(1, len(words.HEAD)))


def _named(name: str) -> str:
    """Of a number; what it means is read at it."""
    return Markup(f'<abbr title="{plain(MEANS[name])}">{plain(TITLES[name])}</abbr>')


def _distance(at: Look, found: Atlas) -> None:
    """How far a head looks over the corpus."""
    curve = found.table("distances", at.site, at.number)
    if len(curve):
        drawn = {"dark": at.dark}
        figure = figures.distance_over_corpus(found.plan.model.name, at.site.head(at.head), curve, found.texts, **drawn)
        pictures.show(figure, "atlas distance", common.BY_DISTANCE)


def _alike(at: Look, found: Atlas) -> None:
    """Which heads do the same over a corpus."""
    with pictures.folded(words.ALIKE, key="alike in atlases") as is_open:
        if is_open:
            near = found.alike(at.site, at.number, *built.others(found)).itertuples()
            named = words.OTHER_HEAD.format
            rows = [(named(model=one.model, site=one.site, head=one.head), f"{one.apart:.2f}") for one in near]
            table(rows, ("", words.APART), numbers=(1,))
            quiet(words.APART_MEANS)


def _cells(name: str, row: pd.Series, here: pd.DataFrame | None, head: int) -> tuple[str, ...]:
    """A line of the card: a number over the corpus with its interval, on the text at hand, and how texts spread."""
    value = None if here is None else here[name].iloc[head]
    mean = words.MEAN.format(mean=row[name], half=(row[f"{name}_high"] - row[f"{name}_low"]) / 2)
    middle = words.MIDDLE.format(low=row[f"{name}_q25"], high=row[f"{name}_q75"])
    here = "–" if value is None or pd.isna(value) else f"{value:.2f}"
    return _named(name), mean, here, f"{row[f'{name}_spread']:.2f}", middle
