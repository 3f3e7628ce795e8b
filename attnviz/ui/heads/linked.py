"""Which heads link the two words of the selected cell, and which matter for the prediction there, as buttons."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from attnviz.analysis.heads import rank
from attnviz.analysis.sentences import quoted_token
from attnviz.core import progress
from attnviz.core.amounts import decimals
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.studies import ablation
from attnviz.ui import budget, cache, cores, runs
from attnviz.ui.heads import words
from attnviz.ui.shared import look, pictures, state
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import session_setting
from attnviz.ui.text import note, quiet

MOST = 8
"""Heads that are listed."""

REQUESTED = session_setting("heads switched off at", None, of="model text")
"""The run and the position for which each head is to be switched off."""


def heads(context: ViewContext) -> None:
    """Both lists, folded, for the selected cell."""
    with pictures.folded(words.LINKING, "linking") as is_open:
        if is_open:
            _linking(context)
    if context.source.read_only or context.source.alone or (context.site.kind == "encoder" and context.record.targets):
        return
    with pictures.folded(words.MATTERING, "mattering") as is_open:
        if is_open:
            _mattering(context)


def _linking(context: ViewContext) -> None:
    names = [quoted_token(part[i].text, i) for part, i in zip(context.tokens, context.cell, strict=True)]
    quiet(words.FROM_TO.format(query=names[0], key=names[1]))
    table = _ranked(context.record, *context.cell, context.sentence)
    table = table[table["kind"] == context.site.kind]
    _buttons(table, lambda row: words.LINKED_HEAD.format(head=_name(row), weight=row["weight"]), "linking")


@cache.cached
def _ranked(record, query: int, key: int, sentence: int) -> pd.DataFrame:
    return rank(record, query, key, sentence=sentence)


def _mattering(context: ViewContext) -> None:
    position, count = context.position, sum(step.num_heads for step in context.record.steps)
    cost = budget.of_runs(count + 1, context.source, context.record.sentences, context.edits)
    request = (context.run, position)
    if cost.seconds > budget.SILENT and state.get(REQUESTED) != request:
        icon = {"icon": ":material/power_settings_new:", "key": "switch each off here"}
        st.button(words.SWITCH_EACH_OFF, on_click=state.put, args=(REQUESTED, request), **icon)
        quiet(f"{cost}.")
        return
    with runs.beside():
        try:
            unit = {"cost": cost, "unit": "heads"}
            table, of_words = cache.worked(_changes, *context.run, position, context.sentence, count, **unit)
        except AttnvizError as error:
            note(str(error), "notice")
            return
        query = quoted_token(context.record.read[context.sentence].tokens[position].text, position)
        quiet((words.CHANGES_AT if of_words else words.VECTOR_AT).format(query=query))
        _buttons(table, lambda row: words.MATTERS_HEAD.format(head=_name(row), change=_change(row)), "mattering")


def _changes(source: Source, request: Request, position: int, sentence: int, count: int) -> tuple[pd.DataFrame, bool]:
    """The change at a position with each head off, and whether it is of a prediction."""
    with progress.counted(count) as report, cores.used_by(source):
        sentences, targets = cache.sentences(source, request), cache.targets(source, request)
        swept = ablation.sweep(source, sentences, request.edits, report=report, targets=targets)
    of_words = swept.by == "divergence" and swept.before.prediction is not None
    return swept.changes_at(position, sentence=sentence), of_words


def _change(row: pd.Series) -> str:
    return decimals(float(row["change"]), 3)


def _name(row: pd.Series) -> str:
    return Site(row["kind"], int(row["layer"])).brief(int(row["head"]))


def _buttons(table: pd.DataFrame, title: Callable[[pd.Series], str], key: str) -> None:
    """The first heads of a table, each a button that opens it."""
    with st.container(horizontal=True, gap="small", key=f"heads {key}"):
        for number, row in enumerate(table.head(MOST).to_dict("records")):
            place = Site(row["kind"], int(row["layer"])), int(row["head"])
            st.button(title(row), key=f"{key} {number}", on_click=look.look_at, args=place)
