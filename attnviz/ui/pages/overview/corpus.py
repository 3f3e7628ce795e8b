"""Statistics of each head over many texts: from an atlas, on the shipped texts, or on the user's own texts."""

import os
from functools import lru_cache
from html import escape
from pathlib import Path

import pandas as pd
import streamlit as st

from attnviz import analysis, atlas, figures
from attnviz.analysis.heads import MAIN, METRICS, roles
from attnviz.atlas import Atlas
from attnviz.core import assets
from attnviz.core.amounts import counted, percent
from attnviz.core.display import visible_text
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.studies import texts
from attnviz.ui import cache, runs
from attnviz.ui.pages.overview.heads import TITLES, choose_row, columns_of, metrics
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import choice, open_page, valid_choice
from attnviz.ui.text import heading, large, note, quiet
from attnviz.ui.toolbar import Context, without_example

FOLDERS = "ATTNVIZ_ATLAS"
"""Environment variable with folders of atlases, separated as in PATH."""
PAIRS = "pairs"
"""Option that ranks texts by the largest weight between two words."""
PLACE = ["kind", "layer", "head"]
MOST, UNFOLDED = 10, 5
"""Maximum number of texts listed for a head, and how many of them are shown outside of the expander."""
COLUMNS = {
    "here": ("This text", ""),
    "mean": ("Mean", "Mean over texts, each with equal weight."),
    "low": ("from", "Lower end of the 95 % confidence interval of the mean."),
    "high": ("to", "Upper end of the 95 % confidence interval of the mean."),
    "spread": ("Std. dev.", "Standard deviation over texts."),
}
ROLES = {
    "often": (
        "Looks there",
        "Share of rows whose largest weight is on the key that the role names, such as the previous token.",
    ),
    "on": ("Correct, head on", "Share of correct predictions with all heads on."),
    "off": ("Correct, head off", "Share of correct predictions with this head off."),
}
"""Title and meaning of each number of a measured role."""


def corpus(context: Context) -> dict[str, Figure]:
    """Measure or open statistics over a corpus, then draw known roles, all heads and the chosen head."""
    quiet("What does each head do over many texts? One text can mislead.")
    with st.popover("Own texts", icon=":material/upload_file:"):
        st.caption("A text on each line. Without a file: fifty texts that ship with attnviz.")
        files = st.file_uploader(".txt files", ["txt"], accept_multiple_files=True, key="texts", width=330)
    own = texts.lines(b"\n".join(file.getvalue() for file in files)) if files else ()
    built = None if own or context.edits != Edits() else _choose_atlas(context.source)
    lines = () if built else own or texts.shipped(context.source)
    measured, key = built, (context.source, lines, context.edits)
    if built is None:
        cost = _cost(*key)
        if runs.is_requested("measure texts", key, cost, f"Measure {counted(len(lines), 'text')}"):
            counts = {"unit": "texts", "count": len(lines)}
            measured = cache.result_of(atlas.of_texts, *key, cost=cost, runs_model=context.source, **counts)
    if measured and lines and measured.texts < len(lines):
        unread, first = counted(len(lines) - measured.texts, "text"), measured.problems().iloc[0]
        note(f"{unread} could not be read. Text {first['line']}: {first['problem']}", "notice")
    if lines:
        with st.expander(f"The {counted(len(lines), 'text')}", on_change="rerun", key="the texts") as fold:
            if fold.open:
                st.dataframe({"Text": lines}, height=260)
    return {} if measured is None else _draw(context, measured)


def _choose_atlas(source: Source) -> Atlas | None:
    """Find the atlas of a model in the folders of `FOLDERS` and the shipped ones; draw a choice if there are more."""
    named = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    shipped = sorted(assets.path("atlas").iterdir()) if assets.path("atlas").is_dir() else []
    atlases: dict[str, Atlas] = {}
    for folder in (*map(Path, named), *shipped):
        finished = folder / "atlas.json"
        opened = _open_atlas(folder, finished.stat().st_mtime if finished.is_file() else 0.0)
        if isinstance(opened, AttnvizError):
            note(str(opened), "notice")
        elif opened.plan.model == source.id and opened.plan.settings.get("step") == source.step:
            atlases[folder.name] = opened
    if len(atlases) < 2:
        valid_choice("library", [*atlases])
        return next(iter(atlases.values()), None)

    titles = {name: f"{name}: {opened.texts:,} texts" for name, opened in atlases.items()}
    options = {"part": "atlas", "format_func": titles.get, "width": 330}
    return atlases[choice(st.selectbox, "Atlas", "library", [*atlases], **options)]


@lru_cache(maxsize=32)
def _open_atlas(folder: Path, changed: float) -> Atlas | AttnvizError:
    """Open an atlas, or return the error; `changed`, the time of its last change, is only a part of the cache key."""
    try:
        return atlas.open(folder)
    except AttnvizError as problem:
        return problem


_cost = cache.cached(texts.cost)


def _draw(context: Context, measured: Atlas) -> dict[str, Figure]:
    """Draw the role of the chosen head and its texts, with the known roles and all heads to the left."""
    site, head, every = context.site, context.head, measured.heads()
    chosen = every[(every["site"] == str(site)) & (every["head"] == head)]
    if chosen.empty:
        large("The corpus has numbers of single heads: choose one above.")
    else:
        _answer(context, measured, chosen.iloc[0])
    rankings = [PAIRS, *(metric.name for metric in METRICS if every[metric.name].notna().any())]
    names = {PAIRS: "Weight between two words"} | TITLES
    options = {"part": "corpus", "format_func": names.get, "width": 300}
    by = choice(st.selectbox, "Texts and heads by", "number", rankings, **options)
    left, right = st.columns([1, 1.15])
    with left:
        known_roles(context)
        heading("All heads")
        _all_heads(context, every, MAIN[0] if by == PAIRS else by, measured.texts)
    if chosen.empty:
        return {}
    with right:
        with runs.part():
            _examples(context, measured, by, float(chosen.iloc[0]["pairs_above"]))
        curve = measured.table("distances", site, head)
        if curve.empty:
            return {}
        name = site.head(head)
        figure = figures.distance_over_corpus(context.source.name, name, curve, measured.texts, dark=context.dark)
        picture(figure, "over corpus")
        numbers(figure, "over corpus")
    return {"Distance": figure}


def _answer(context: Context, measured: Atlas, row: pd.Series) -> None:
    """Draw the measured role of the chosen head, or else the role that its weights over the corpus suggest."""
    name = context.site.head(context.head).capitalize()
    named = roles(row.to_dict() | {"texts": measured.texts})[:1]
    if context.behaviors:
        large(f"{name} {without_example(context.behaviors[0])}.")
    else:
        large(f"{name} suggests a role by its weights: {named[0].name}." if named else f"{name} has no clear role.")
    by_weights = [f"Role by its weights alone: {role.evidence}." for role in named]
    quiet(" ".join([*by_weights, f"Over {measured.texts:,} texts, {measured.tokens:,} tokens."]))


def known_roles(context: Context) -> None:
    """Draw a table of all measured roles; a selected row chooses its head."""
    behaviors = context.source.card.behaviors if context.source.card and context.source.step is None else ()
    if not behaviors:
        return
    rows = pd.DataFrame(
        {
            "kind": behavior.site.kind,
            "layer": behavior.site.layer,
            "head": head,
            "does": f"{behavior.does[:1].upper()}{without_example(behavior)[1:]}",
            "often": behavior.rates[i] if behavior.rates else None,
            "on": behavior.on,
            "off": behavior.off[i] if behavior.off else None,
            "evidence": behavior.evidence,
        }
        for behavior in behaviors
        for i, head in enumerate(behavior.heads)
    )
    heading("Known roles")
    columns = columns_of(ROLES, "percent")
    columns["does"] = st.column_config.TextColumn("What it does", width="medium")
    columns["evidence"] = st.column_config.TextColumn("Evidence", width="large")
    filled = [name for name in ROLES if rows[name].notna().any()]
    choose_row(context, rows, ["does", *filled, "evidence"], columns, "roles")


def _all_heads(context: Context, every: pd.DataFrame, name: str, count: int) -> None:
    """Draw a table of one metric of every head, on this text and over the corpus."""
    here = metrics(context).reindex(columns=[*PLACE, name]).rename(columns={name: "here"})
    many = {name: "mean", f"{name}_low": "low", f"{name}_high": "high", f"{name}_spread": "spread"}
    rows = every[[*PLACE, *many]].rename(columns=many).merge(here, on=PLACE, how="left")
    complete = rows[["here", "mean", "spread"]].notna().all(axis=1)
    both = rows[complete]
    usual = [abs(row.here - row.mean) <= max(2 * row.spread, 5e-4) for row in both.itertuples()]
    rows.loc[complete, "compared"] = ["usual" if is_usual else "unusual" for is_usual in usual]
    quiet(f"{TITLES[name]}: {usual.count(False)} of {len(both)} heads are unusual on this text, compared with {count}.")
    columns = columns_of(COLUMNS, "%.3f") | {"compared": st.column_config.TextColumn("Compared")}
    rows = rows.sort_values("mean", ascending=False, na_position="last", ignore_index=True)
    choose_row(context, rows, ["here", "compared", "mean", "low", "high", "spread"], columns, "over texts")


def _examples(context: Context, measured: Atlas, by: str, above: float) -> None:
    """Draw up to `MOST` texts of a head, shaded by the weights of one query; a click opens the text on Heads."""
    heading(f"Texts with the largest {'weight between two words' if by == PAIRS else TITLES[by].lower()}")
    role = context.behaviors[0].role if context.behaviors else ""
    word = role.partition("“")[2].partition("”")[0]
    if by == PAIRS:
        rows = measured.table("pairs", context.site, context.head)
        if word:
            rows = rows.sort_values("query_token", key=lambda tokens: tokens.str.lower() != word, kind="stable")
        rows = rows.drop_duplicates(["file", "line"]).head(MOST)
        rows = rows.assign(text=list(map(measured.text, rows["file"], rows["line"])))
    else:
        rows = measured.examples(context.site, context.head, by, MOST)
    if rows.empty:
        quiet("No texts: this metric is not defined for this head.")
        return
    shaded = "The word before the arrow" if context.site.kind == "cross" else "The underlined word"
    order = f" Pairs from “{word}” come first: that is its role." if word and by == PAIRS else ""
    quiet(f"{shaded} attends to the shaded words; a stronger shade is a larger weight.{order}")
    first, more = rows[:UNFOLDED].to_dict("records"), rows[UNFOLDED:].to_dict("records")
    with st.container(gap="xsmall", key="atlas-texts"):
        for i, row in enumerate(first):
            _example(context, row, i, by)
    if more:
        with st.expander(f"{len(more)} more", on_change="rerun", key="more texts") as fold:
            for i, row in enumerate(more if fold.open else (), UNFOLDED):
                _example(context, row, i, by)
    if by == PAIRS:
        quiet(f"Each pair of words is listed once. Below {above:.2f} some may be missing.")


def _example(context: Context, row: dict, index: int, by: str) -> None:
    """Draw one text, shaded by its weights, with its prediction and a button that opens the text."""
    site, head = context.site, context.head
    record = cache.record(context.source, Request((row["text"],), edits=context.edits))
    largest, keys = analysis.strongest(record.step(site), head)
    query = int(row["query"]) if "query" in row else min(1 + int(largest[1:].argmax()), len(largest) - 1)
    cell = query, int(row["key"] if "key" in row else keys[query])
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        action = {"kwargs": {"text": row["text"], "layer": site, "head": head, "cell": cell}, "args": ("Heads",)}
        options = {"type": "tertiary", "icon": ":material/arrow_forward:", "on_click": open_page}
        st.button("Open", key=f"open example {index}", **options, **action)
        st.html(_shaded_html(context, record, *cell, "" if by == PAIRS else f"{TITLES[by]} {row['value']:.2f}"))


def _shaded_html(context: Context, record: Record, query: int, key: int, remark: str) -> str:
    """Write HTML of the keys, each shaded by its weight, with the query underlined and the prediction after it."""
    queries, keys = record.tokens(context.site)
    weights = record.step(context.site).weights(context.head, slice(query, query + 1))[0].tolist()
    name, parts = escape(visible_text(queries[query].text)), []
    for i, (token, weight) in enumerate(zip(keys, weights, strict=True)):
        is_query = context.site.kind != "cross" and i == query
        text = f"<u>{name}</u>" if is_query else escape(visible_text(token.text))
        space = "" if token.joined or not i else " "
        parts.append(f'{space}<span style="--weight: {max(0.0, weight):.0%}">{text}</span>')
    caption = escape(remark) or f"“{name}” → “{escape(visible_text(keys[key].text))}” {percent(weights[key], 0)}"
    if record.predicted(context.site):
        likely = analysis.next_words(record, query, count=3)
        words = [f"“{visible_text(word.word)}” {percent(word.probability, 0)}" for word in likely]
        caption += f"; predicts {escape(', '.join(words))}"
    before = f"{name} → " if context.site.kind == "cross" else ""
    return f'<div class="shaded">{before}{"".join(parts)} <i>{caption}</i></div>'
