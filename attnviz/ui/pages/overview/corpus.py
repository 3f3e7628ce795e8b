"""Statistics of each head over many texts: from an atlas, on the shipped texts, or on the user's own texts."""

import os
import re
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
"""Columns that name a head."""
ROUNDING = 5e-4
"""Difference of a metric that three decimals do not show."""
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
    """Draw known roles, all heads and the chosen head, measured over the user's texts, an atlas or shipped texts."""
    quiet("What does each head do over many texts? One text can mislead.")
    with st.popover("Own texts", icon=":material/upload_file:"):
        st.caption("A text on each line. Without a file: fifty texts that ship with attnviz.")
        files = st.file_uploader(".txt files", ["txt"], accept_multiple_files=True, key="texts", width=330)
    own_lines = texts.lines(b"\n".join(file.getvalue() for file in files)) if files else ()
    lines, measured = (), None
    if not own_lines and context.edits == Edits():  # an atlas is measured without edits
        measured = _choose_atlas(context.source)
    if measured is None:
        lines = own_lines or texts.shipped(context.source)
        work = context.source, lines, context.edits
        cost = _cost(*work)
        if runs.is_requested("measure texts", work, cost, f"Measure {counted(len(lines), 'text')}"):
            counts = {"unit": "texts", "count": len(lines)}
            measured = cache.result_of(atlas.of_texts, *work, cost=cost, runs_model=context.source, **counts)
    if measured and lines and measured.texts < len(lines):
        count, first = counted(len(lines) - measured.texts, "text"), measured.problems().iloc[0]
        note(f"{count} could not be read. Text {first['line']}: {first['problem']}", "notice")
    if lines:
        with st.expander(f"The {counted(len(lines), 'text')}", on_change="rerun", key="the texts") as fold:
            if fold.open:
                st.dataframe({"Text": lines}, height=260)
    return {} if measured is None else _draw(context, measured)


def _choose_atlas(source: Source) -> Atlas | None:
    """Find the atlas of a model in the folders of `FOLDERS` and the shipped ones; if several fit, draw a choice."""
    own_folders = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    shipped = sorted(assets.path("atlas").iterdir()) if assets.path("atlas").is_dir() else []
    atlases: dict[str, Atlas] = {}
    for folder in (*map(Path, own_folders), *shipped):
        file = folder / "atlas.json"  # written when the atlas is finished
        found = _open_atlas(folder, file.stat().st_mtime if file.is_file() else 0.0)
        if isinstance(found, AttnvizError):
            note(str(found), "notice")
        elif found.plan.model == source.id and found.plan.settings.get("step") == source.step:
            atlases[folder.name] = found
    if len(atlases) < 2:
        valid_choice("library", [*atlases])  # a message if the link names another atlas
        return next(iter(atlases.values()), None)
    titles = {name: f"{name}: {found.texts:,} texts" for name, found in atlases.items()}
    options = {"part": "atlas", "format_func": titles.get, "width": 330}
    return atlases[choice(st.selectbox, "Atlas", "library", [*atlases], **options)]


@lru_cache(maxsize=32)
def _open_atlas(folder: Path, _modified: float) -> Atlas | AttnvizError:
    """Open an atlas, or return the error; another time of modification makes the cache open the atlas again."""
    try:
        return atlas.open(folder)
    except AttnvizError as error:
        return error


_cost = cache.cached(texts.cost)


def _draw(context: Context, measured: Atlas) -> dict[str, Figure]:
    """Draw the role of the chosen head and its texts, with the known roles and all heads to the left."""
    site, head, heads = context.site, context.head, measured.heads()  # a row per head
    chosen = heads[(heads["site"] == str(site)) & (heads["head"] == head)]
    if chosen.empty:
        large("The corpus has numbers of single heads: choose one above.")
    else:
        _role(context, measured, chosen.iloc[0])
    rankings = [PAIRS, *(metric.name for metric in METRICS if heads[metric.name].notna().any())]
    titles = {PAIRS: "Weight between two words"} | TITLES
    options = {"part": "corpus", "format_func": titles.get, "width": 300}
    ranking = choice(st.selectbox, "Texts and heads by", "number", rankings, **options)
    left, right = st.columns([1, 1.15])
    with left:
        known_roles(context)
        heading("All heads")
        _all_heads(context, heads, MAIN[0] if ranking == PAIRS else ranking, measured.texts)
    if chosen.empty:
        return {}
    with right:
        with runs.part():
            _examples(context, measured, ranking, float(chosen.iloc[0]["pairs_above"]))
        curve = measured.table("distances", site, head)
        if curve.empty:
            return {}
        name = site.head(head)
        figure = figures.distance_over_corpus(context.source.name, name, curve, measured.texts, dark=context.dark)
        picture(figure, "over corpus")
        numbers(figure, "over corpus")
    return {"Distance": figure}


def _role(context: Context, measured: Atlas, row: pd.Series) -> None:
    """Draw the known role of the chosen head, or else the role that its weights over the corpus (`row`) suggest."""
    name = context.site.head(context.head).capitalize()
    suggested = roles(row.to_dict() | {"texts": measured.texts})[:1]
    if context.behaviors:
        large(f"{name} {without_example(context.behaviors[0])}.")
    elif suggested:
        large(f"{name} suggests a role by its weights: {suggested[0].name}.")
    else:
        large(f"{name} has no clear role.")
    by_weights = [f"Role by its weights alone: {role.evidence}." for role in suggested]
    quiet(" ".join([*by_weights, f"Over {measured.texts:,} texts, {measured.tokens:,} tokens."]))


def known_roles(context: Context) -> None:
    """Draw a table of all measured roles; a selected row chooses its head."""
    source = context.source
    if source.card is None or source.step is not None or not source.card.behaviors:
        return
    records = []  # one for each head of each behavior
    for behavior in source.card.behaviors:
        site, does = behavior.site, without_example(behavior)
        text = {"does": f"{does[:1].upper()}{does[1:]}", "evidence": behavior.evidence}
        for i, head in enumerate(behavior.heads):
            rates = {"often": behavior.rates[i] if behavior.rates else None, "on": behavior.on}
            rates["off"] = behavior.off[i] if behavior.off else None
            records.append({"kind": site.kind, "layer": site.layer, "head": head} | text | rates)
    rows = pd.DataFrame(records)
    heading("Known roles")
    columns = columns_of(ROLES, "percent")
    columns["does"] = st.column_config.TextColumn("What it does", width="medium")
    columns["evidence"] = st.column_config.TextColumn("Evidence", width="large")
    filled = [name for name in ROLES if rows[name].notna().any()]
    choose_row(context, rows, ["does", *filled, "evidence"], columns, "roles")


def _all_heads(context: Context, heads: pd.DataFrame, name: str, num_texts: int) -> None:
    """Draw a table of one metric of every head, on this text and over the corpus.

    A head is unusual if its metric on this text is more than two standard deviations from its mean over the corpus.
    """
    here = metrics(context).reindex(columns=[*PLACE, name]).rename(columns={name: "here"})
    columns = {name: "mean", f"{name}_low": "low", f"{name}_high": "high", f"{name}_spread": "spread"}
    rows = heads[[*PLACE, *columns]].rename(columns=columns).merge(here, on=PLACE, how="left")
    is_complete = rows[["here", "mean", "spread"]].notna().all(axis=1)
    complete = rows[is_complete]
    limit = (2 * complete["spread"]).clip(lower=ROUNDING)
    usual = ((complete["here"] - complete["mean"]).abs() <= limit).tolist()
    rows.loc[is_complete, "compared"] = ["usual" if is_usual else "unusual" for is_usual in usual]
    unusual = f"{usual.count(False)} of {len(complete)} heads are unusual on this text"
    quiet(f"{TITLES[name]}: {unusual}, compared with {num_texts}.")
    columns = columns_of(COLUMNS, "%.3f") | {"compared": st.column_config.TextColumn("Compared")}
    rows = rows.sort_values("mean", ascending=False, na_position="last", ignore_index=True)
    choose_row(context, rows, ["here", "compared", "mean", "low", "high", "spread"], columns, "over texts")


def _examples(context: Context, measured: Atlas, ranking: str, least_weight: float) -> None:
    """Draw up to `MOST` texts of a head, shaded by the weights of one query; a click opens the text on Heads.

    Args:
        ranking: name of the metric whose largest values choose the texts; `PAIRS` for the largest single weights.
        least_weight: weight above which the atlas has all pairs of words.
    """
    title = "weight between two words" if ranking == PAIRS else TITLES[ranking].lower()
    heading(f"Texts with the largest {title}")
    quoted = re.search("“(.*?)”", context.behaviors[0].role) if context.behaviors else None
    word = quoted[1] if quoted else ""  # the word that the role is about, as in: looks back from “it”
    if ranking == PAIRS:
        rows = measured.table("pairs", context.site, context.head)
        if word:
            is_other = rows["query_token"].str.lower() != word
            rows = pd.concat([rows[~is_other], rows[is_other]])
        rows = rows.drop_duplicates(["file", "line"]).head(MOST)
        rows = rows.assign(text=list(map(measured.text, rows["file"], rows["line"])))
    else:
        rows = measured.examples(context.site, context.head, ranking, MOST)
    if rows.empty:
        quiet("No texts: this metric is not defined for this head.")
        return
    query_word = "The word before the arrow" if context.site.kind == "cross" else "The underlined word"
    order = f" Pairs from “{word}” come first: that is its role." if word and ranking == PAIRS else ""
    quiet(f"{query_word} attends to the shaded words; a stronger shade is a larger weight.{order}")
    first, more = rows[:UNFOLDED].to_dict("records"), rows[UNFOLDED:].to_dict("records")
    with st.container(gap="xsmall", key="atlas-texts"):
        for i, row in enumerate(first):
            _example(context, row, i, ranking)
    if more:
        with st.expander(f"{len(more)} more", on_change="rerun", key="more texts") as fold:
            for i, row in enumerate(more if fold.open else (), UNFOLDED):
                _example(context, row, i, ranking)
    if ranking == PAIRS:
        quiet(f"Each pair of words is listed once. Below {least_weight:.2f} some may be missing.")


def _example(context: Context, row: dict, index: int, ranking: str) -> None:
    """Draw one text, shaded by its weights, with its prediction and a button that opens the text."""
    site, head = context.site, context.head
    record = cache.record(context.source, Request((row["text"],), edits=context.edits))
    if ranking == PAIRS:
        cell = int(row["query"]), int(row["key"])
    else:  # the strongest cell, but not in the first row: in a causal map it has a single key
        weights, keys = analysis.strongest(record.step(site), head)
        query = 1 + int(weights[1:].argmax()) if len(weights) > 1 else 0
        cell = query, int(keys[query])
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        action = {"kwargs": {"text": row["text"], "layer": site, "head": head, "cell": cell}, "args": ("Heads",)}
        options = {"type": "tertiary", "icon": ":material/arrow_forward:", "on_click": open_page}
        st.button("Open", key=f"open example {index}", **options, **action)
        remark = "" if ranking == PAIRS else f"{TITLES[ranking]} {row['value']:.2f}"
        st.html(_shaded_html(context, record, cell, remark))


def _shaded_html(context: Context, record: Record, cell: tuple[int, int], remark: str) -> str:
    """Write HTML of the keys, each shaded by its weight, with the query underlined; the caption has the prediction."""
    (query, key), (queries, keys) = cell, record.tokens(context.site)
    weights = record.step(context.site).weights(context.head, slice(query, query + 1))[0].tolist()
    query_word, spans = escape(visible_text(queries[query].text)), []
    for i, (token, weight) in enumerate(zip(keys, weights, strict=True)):
        is_query = context.site.kind != "cross" and i == query
        text = f"<u>{query_word}</u>" if is_query else escape(visible_text(token.text))
        space = "" if token.joined or i == 0 else " "
        spans.append(f'{space}<span style="--weight: {max(0.0, weight):.0%}">{text}</span>')
    caption = escape(remark)
    if not remark:
        caption = f"“{query_word}” → “{escape(visible_text(keys[key].text))}” {percent(weights[key], 0)}"
    if record.predicted(context.site):
        likely = analysis.next_words(record, query, count=3)
        words = [f"“{visible_text(word.word)}” {percent(word.probability, 0)}" for word in likely]
        caption += f"; predicts {escape(', '.join(words))}"
    before = f"{query_word} → " if context.site.kind == "cross" else ""
    return f'<div class="shaded">{before}{"".join(spans)} <i>{caption}</i></div>'
