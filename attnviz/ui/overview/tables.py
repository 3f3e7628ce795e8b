"""The numbers of one head, and of all."""

import pandas as pd
import streamlit as st

from attnviz.metrics.heads import METRICS, ROWS, Metric
from attnviz.metrics.roles import roles
from attnviz.ui.overview.every import Order
from attnviz.ui.overview.numbers import OFF, TITLES, Numbers, head_of, heads_of
from attnviz.ui.shared import findings, look, pages, state
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.text import large, table

SHOWN = ("confidence", "effective_keys", "distance", "previous", "self", "first", "special", "output_share")
"""The numbers that stand beside the maps; all are in the table."""


def of_head(at: Look, known: Numbers) -> None:
    """What the framed head looks like on this text, what is known of it, and its numbers."""
    row = known.row((at.site, at.head))
    large(f"Head {at.head} · {at.site}")
    for role in roles(row):
        large(f"On this text it looks like: {role.evidence}.")
    findings.of_head(at.source, at.site, at.head)
    there = [name for name in (*SHOWN, *OFF) if name in known.names and not pd.isna(row[name])]
    with st.container(width=360):
        table([(TITLES[name], _number(name, float(row[name]))) for name in there], numbers=(1,))
    if st.button("Open this head", key="open head", icon=":material/arrow_forward:"):
        look.look_at(at.site, at.head)
        pages.go_to(pages.TITLES[0])


def _number(name: str, value: float) -> str:
    return f"{value:.1%}" if name in ("output", "output_share") else f"{value:.2f}"


def all_heads(known: Numbers, order: Order) -> None:
    """Every head with all numbers; choosing a row frames the head, with the arrow keys too."""
    found = known.table
    if order is not None:
        at = {head: place for place, head in enumerate(order)}
        found = found.assign(place=[at.get(head) for head in heads_of(found)])
        found = found.dropna(subset="place").sort_values("place")
    shown = found[["kind", "layer", "head", "role", *known.names]].reset_index(drop=True)

    def chosen() -> None:
        if rows := state.event("table of heads")["selection"]["rows"]:
            look.look_at(*head_of(shown.iloc[rows[0]].to_dict()))

    named = {"role": st.column_config.TextColumn("looks like", width="medium")}
    named |= {name: st.column_config.NumberColumn(TITLES[name], format="%.3f") for name in known.names}
    options = {"on_select": chosen, "selection_mode": "single-row", "key": "table of heads"}
    st.dataframe(shown, hide_index=True, height=min(280, 35 * len(shown) + 38), column_config=named, **options)
    with st.expander("What the numbers mean"):
        st.markdown("\n\n".join([ROWS, *map(_meaning, (one for one in METRICS if one.name in known.names))]))


def _meaning(metric: Metric) -> str:
    """Markdown: its formula, what it says, between which numbers it is, and where it is from."""
    where = f", {metric.where}" if metric.where else ""
    source = metric.source if metric.source.endswith("?") else f"{metric.source}."
    means = f"{metric.means} From {metric.range}. Source: {source}".replace("<", "\\<").replace("[", "\\[")
    return f"**{metric.title}** &ensp; $\\displaystyle {metric.formula}${where}\\\n{means}"
