"""Corpus: what each head does over many texts, those of an atlas, those that ship, or a person's own."""

import os
import shutil
import tempfile
import weakref
from functools import lru_cache
from html import escape
from pathlib import Path

import pandas as pd
import streamlit as st

from attnviz import analysis, atlas, figures
from attnviz.analysis.heads import MAIN, METRICS
from attnviz.analysis.roles import roles
from attnviz.atlas import Atlas
from attnviz.core import assets, progress
from attnviz.core.amounts import counted, percent
from attnviz.core.display import visible_text
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior
from attnviz.studies import texts
from attnviz.ui import work
from attnviz.ui.pages.overview.heads import TITLES, choose_row, metrics, number
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import change, control, now, put, session
from attnviz.ui.shared import cache, cores
from attnviz.ui.shared.text import heading, large, literal, note, quiet, table
from attnviz.ui.toolbar import Context

FOLDERS = "ATTNVIZ_ATLAS"
"""Environment variable with folders of atlases, separated as those of PATH are."""
PAIRS = "pairs"
"""Choice of texts by the weight between two words."""
PLACE = ["kind", "layer", "head"]
EXAMPLES, UNFOLDED = 10, 5
"""Texts of a head, and how many of them are not folded."""
LEAST = 0.01
"""Probability from which a second predicted word is named."""
USUAL, UNUSUAL = "usual", "unusual"


def corpus(context: Context) -> dict[str, Figure]:
    """Known roles, all heads over the corpus beside this text, and the chosen head with texts that open."""
    quiet("What does each head do over many texts? One text can mislead.")
    own = _own_texts()
    built = None if own or context.edits != Edits() else _built(context.source)
    lines = () if built else own or texts.shipped(context.source)
    measured = built or _measured(context, lines)
    if lines:
        _list(lines, measured)
    return {} if measured is None else _draw(context, measured)


def _own_texts() -> tuple[str, ...]:
    """The lines of a person's own files; none if nothing was uploaded."""
    with st.popover("Own texts", icon=":material/upload_file:"):
        st.caption("A text on each line. Without a file: fifty texts that ship with attnviz.")
        files = st.file_uploader(".txt files", ["txt"], accept_multiple_files=True, key="texts", width=330)
        folder = st.file_uploader(
            "Or a folder of them", ["txt"], accept_multiple_files="directory", key="folder", width=330
        )
    uploaded = [*files, *folder]
    return texts.lines(b"\n".join(file.getvalue() for file in uploaded)) if uploaded else ()


def _built(source: Source) -> Atlas | None:
    """The atlas of a model; one of several is chosen. None if there is none."""
    opened = _opened_all()
    for problem in opened:
        if isinstance(problem, AttnvizError):
            note(str(problem), "notice")
    there = {
        candidate.folder.name: candidate
        for candidate in opened
        if isinstance(candidate, Atlas)
        and candidate.plan.model.name == source.id
        and dict(candidate.plan.model.settings).get("step") == source.step
    }
    if len(there) < 2:
        return next(iter(there.values()), None)
    name = now()["library"] if now()["library"] in there else next(iter(there))
    name = control(
        st.selectbox,
        "Atlas",
        "library",
        [*there],
        value=name,
        part="atlas",
        format_func=lambda name: f"{name}: {there[name].texts:,} texts",
        width=330,
    )
    return there[name]


def _opened_all() -> list[Atlas | AttnvizError]:
    """Each atlas of the named folders and of those that ship, or why it cannot be opened."""
    named = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    shipped = sorted(assets.path("atlas").iterdir()) if assets.path("atlas").is_dir() else []
    folders = (*map(Path, named), *shipped)
    return [_opened(folder, _changed(folder)) for folder in folders]


def _changed(folder: Path) -> float:
    """The time at which an atlas was finished; 0 for one that is not."""
    try:
        return (folder / "atlas.json").stat().st_mtime
    except OSError:
        return 0.0


@lru_cache(maxsize=32)
def _opened(folder: Path, changed: float) -> Atlas | AttnvizError:
    """An atlas as it was when it changed last, or why it cannot be opened."""
    try:
        return atlas.open(folder)
    except AttnvizError as problem:
        return problem


def _measured(context: Context, lines: tuple[str, ...]) -> Atlas | None:
    """The atlas of a model with its changes on some texts; None below a button with its cost."""
    key = context.source, lines, context.edits
    cost = _cost(*key)
    if not work.is_requested("measure texts", key, cost, f"Measure {counted(len(lines), 'text')}"):
        return None
    return cache.worked(_measure, *key, cost=cost, unit="texts")


_cost = cache.cached(texts.cost)


def _measure(source: Source, lines: tuple[str, ...], edits: Edits) -> Atlas:
    """Measure an atlas in a folder that lives as long as it does."""
    folder = Path(tempfile.mkdtemp(prefix="attnviz-atlas-"))
    try:
        with progress.counted(len(lines)) as report, cores.used_by(source):
            atlas.measure_texts(source, lines, folder, edits, report=lambda now: report(now.done, now.of))
        opened = atlas.open(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(opened, shutil.rmtree, folder, ignore_errors=True)
    return opened


def _list(lines: tuple[str, ...], measured: Atlas | None) -> None:
    """The texts, folded, and how many of them the model could not read."""
    if measured and measured.texts < len(lines):
        unread, first = counted(len(lines) - measured.texts, "text"), measured.problems().iloc[0]
        note(f"{unread} could not be read. Text {first['line']}: {first['problem']}", "notice")
    with st.expander(f"The {counted(len(lines), 'text')}", on_change="rerun", key="the texts") as fold:
        if fold.open:
            st.dataframe({"Text": lines}, height=260)


def _draw(context: Context, measured: Atlas) -> dict[str, Figure]:
    """The role of the chosen head, its texts and numbers, beside the known roles and all heads."""
    site, head, every = context.site, context.head, measured.heads()
    chosen = every[(every["site"] == str(site)) & (every["head"] == head)]
    row = None if chosen.empty else chosen.iloc[0]
    named = () if row is None else roles(row.to_dict() | {"texts": measured.texts})[:1]
    behavior = context.behaviors[0] if context.behaviors else None
    name = site.head(head).capitalize() if isinstance(head, int) else f"{head} of all heads"
    if row is None:
        large(f"The corpus has no numbers of {name}; choose a head.")
    elif behavior:
        large(f"{name} {behavior.does.rstrip('. ')}.")
    else:
        large(f"{name} looks like this, by its weights: {named[0].name}." if named else f"{name} has no clear role.")
    quiet(
        *(f"Role by its weights alone: {role.evidence}." for role in named),
        f"Over {measured.texts:,} texts, {measured.tokens:,} tokens.",
    )
    by = _number(every)
    left, right = st.columns([1, 1.15])
    with left:
        _known(context)
        heading("All heads")
        _all_heads(context, every, MAIN[0] if by == PAIRS else by, measured.texts)
        if row is not None:
            _numbers(context, row)
    if row is None:
        return {}
    curve = measured.table("distances", site, head)
    with right:
        with work.part():
            _examples(context, measured, by, behavior.role if behavior else "")
        if curve.empty:
            return {}
        figure = figures.distance_over_corpus(
            context.source.name, site.head(head), curve, measured.texts, dark=context.dark
        )
        picture(figure, "over corpus")
        numbers(figure, "over corpus")
    return {"Distance": figure}


def _number(every: pd.DataFrame) -> str:
    """The number that all heads are compared by and whose largest texts are listed."""
    there = [PAIRS, *(metric.name for metric in METRICS if every[metric.name].notna().any())]
    return control(
        st.selectbox,
        "Texts and heads by",
        "number",
        there,
        value=now()["number"] if now()["number"] in there else PAIRS,
        part="corpus",
        format_func=lambda name: TITLES.get(name, "Weight between two words"),
        width=300,
    )


def _known(context: Context) -> None:
    """Each known role of the model with its clearest head; a click chooses it and shows its texts."""
    card = context.source.card if context.source.step is None else None
    if card is None or not card.behaviors:
        return
    clearest: dict[str, Behavior] = {}
    for behavior in sorted(card.behaviors, key=lambda each: max((*each.rates, *each.shares), default=0)):
        clearest[behavior.does] = behavior
    heading("Known roles")
    own = {behavior.does for behavior in card.behaviors_of(context.site, context.head)}
    with st.container(gap="xsmall", key="questions"):
        for i, (does, behavior) in enumerate(reversed(clearest.items())):
            is_own = does in own
            site, head = (context.site, context.head) if is_own else (behavior.site, behavior.heads[0])
            st.button(
                f"{literal(behavior.role[:1].upper() + behavior.role[1:])} *{site.head(head)}*",
                key=f"{'here' if is_own else 'find'} {i}",
                icon=":material/check:" if is_own else None,
                width="stretch",
                on_click=put,
                kwargs={"layer": site, "head": head},
            )


def _all_heads(context: Context, every: pd.DataFrame, name: str, count: int) -> None:
    """A number of every head on this text and over the corpus."""
    here = metrics(context).reindex(columns=[*PLACE, name]).rename(columns={name: "here"})
    many = {name: "mean", f"{name}_spread": "spread", f"{name}_texts": "texts"}
    rows = every[[*PLACE, *many]].rename(columns=many).merge(here, on=PLACE, how="left")
    rows["compared"] = [_compared(row.here, row.mean, row.spread) for row in rows.itertuples()]
    rows = rows.sort_values("mean", ascending=False, na_position="last", ignore_index=True)
    unusual, both = (rows["compared"] == UNUSUAL).sum(), rows["compared"].notna().sum()
    quiet(f"{TITLES[name]}: {unusual} of {both} heads are unusual on this text, compared with {count} texts.")
    columns = {
        column: st.column_config.NumberColumn(label, format="%.3f")
        for column, label in {"here": "This text", "mean": "Mean", "spread": "Std. dev."}.items()
    }
    columns |= {"name": st.column_config.TextColumn("Head"), "compared": st.column_config.TextColumn("Compared")}
    choose_row(context, rows, ["here", "compared", "mean", "spread"], columns, "table over texts")


def _compared(here: float | None, mean: float, spread: float) -> str | None:
    """Whether a number is usual; None where one of the numbers is missing."""
    if pd.isna([here, mean, spread]).any():
        return None
    return USUAL if texts.is_typical(here, mean, spread) else UNUSUAL


def _numbers(context: Context, row: pd.Series) -> None:
    """All numbers of the chosen head over the corpus, beside those of the text."""
    here = metrics(context)
    is_head = (here["kind"] == row["kind"]) & (here["layer"] == row["layer"]) & (here["head"] == row["head"])
    own = here[is_head].iloc[0]
    rows = []
    for metric in METRICS:
        name = metric.name
        if row[f"{name}_texts"] > 0:
            half = (row[f"{name}_high"] - row[f"{name}_low"]) / 2
            text = "–" if name not in own or pd.isna(own[name]) else number(name, float(own[name]))
            middle = f"{row[f'{name}_q25']:.2f} to {row[f'{name}_q75']:.2f}"
            rows.append((metric.title, f"{row[name]:.2f} ± {half:.2f}", text, f"{row[f'{name}_spread']:.2f}", middle))
    with st.expander(f"All {len(rows)} numbers of this head"):
        table(rows, ("", "Mean ± 95% interval", "This text", "Std. dev.", "Middle half"), numbers=range(1, 5))
        quiet(
            "Each text counts the same. The interval is where the mean of all such texts lies, 19 times in 20. Std. "
            "dev.: how far texts are from their mean. Middle half: a quarter of the texts is below it, a quarter above."
        )


def _examples(context: Context, measured: Atlas, by: str, role: str) -> None:
    """Ten texts of a head, each with the weights of one query as shades; a click opens one on Heads."""
    heading(f"Texts with the largest {'weight between two words' if by == PAIRS else TITLES[by].lower()}")
    word = role.partition("“")[2].partition("”")[0]
    if by == PAIRS:
        rows = _pairs(context, measured, word)
    else:
        rows = measured.examples(context.site, context.head, by, EXAMPLES)
    if rows.empty:
        quiet("There are none: the head has no such number.")
        return
    shaded = "The word before the arrow" if context.site.kind == "cross" else "The underlined word"
    order = f" Pairs from “{word}” come first: that is its role." if word and by == PAIRS else ""
    quiet(f"{shaded} looks at the shaded ones: the stronger, the more.{order}")
    each = rows.to_dict("records")
    with st.container(gap="xsmall", key="atlas-texts"):
        for i, row in enumerate(each[:UNFOLDED]):
            _example(context, row, i, by)
    if more := each[UNFOLDED:]:
        with st.expander(f"{counted(len(more), 'more text')}", on_change="rerun", key="more texts") as fold:
            for i, row in enumerate(more if fold.open else (), UNFOLDED):
                _example(context, row, i, by)
    if by == PAIRS:
        heads = measured.heads()
        is_head = (heads["site"] == str(context.site)) & (heads["head"] == context.head)
        above = heads[is_head]["pairs_above"].max()
        quiet(f"Each pair of words is listed once. Below {above:.2f} some may be missing.")


def _pairs(context: Context, measured: Atlas, word: str) -> pd.DataFrame:
    """The strongest pair of each text, those from a word first, if one is given."""
    pairs = measured.table("pairs", context.site, context.head)
    if word:
        pairs = pairs.sort_values("query_token", key=lambda tokens: tokens.str.lower() != word, kind="stable")
    pairs = pairs.drop_duplicates(["file", "line"]).head(EXAMPLES)
    return pairs.assign(text=list(map(measured.text, pairs["file"], pairs["line"])))


def _example(context: Context, row: dict, index: int, by: str) -> None:
    """One text with its weights and what is predicted, and the button that opens it."""
    record = cache.record(context.source, (row["text"],), context.edits)
    query, key = (
        (int(row["query"]), int(row["key"])) if "query" in row else _strongest(record, context.site, context.head)
    )

    def open_text(choices: Choices) -> Choices:
        return choices.without("text").put(text=row["text"], layer=context.site, head=context.head, cell=(query, key))

    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        st.button(
            "Open",
            key=f"open example {index}",
            type="tertiary",
            icon=":material/arrow_forward:",
            on_click=_open,
            args=(open_text,),
        )
        st.html(_shaded(context, record, query, key, "" if by == PAIRS else f"{TITLES[by]} {row['value']:.2f}"))


def _open(step) -> None:
    """Open a text on the page Heads."""
    change(step)
    session().memory["open"] = "Heads"


def _strongest(record: Record, site: Site, head: int) -> tuple[int, int]:
    """The cell with the largest weight of the rows that have a choice."""
    largest, keys = analysis.strongest(record.step(site), head)
    query = 1 + int(largest[1:].argmax()) if len(largest) > 1 else 0
    return query, int(keys[query])


def _shaded(context: Context, record: Record, query: int, key: int, remark: str) -> str:
    """HTML of the keys, each shaded by its weight, with the query underlined, and what is predicted after it."""
    queries, keys = record.tokens(context.site)
    weights = record.step(context.site).weights(context.head, slice(query, query + 1))[0].tolist()
    name, parts = escape(visible_text(queries[query].text)), []
    for i, (token, weight) in enumerate(zip(keys, weights, strict=True)):
        is_query = context.site.kind != "cross" and i == query
        text = f"<u>{name}</u>" if is_query else escape(visible_text(token.text))
        space = "" if token.joined or not i else " "
        parts.append(f'{space}<span style="--weight: {max(0.0, weight):.0%}">{text}</span>')
    pair = f"“{name}” → “{escape(visible_text(keys[key].text))}” {percent(weights[key], 0)}"
    caption = [escape(remark) or pair]
    if record.predicted(context.site):
        first, *others = analysis.next_words(record, query, count=3)
        likely = [first, *(word for word in others if word.probability >= LEAST)]
        caption.append(f"predicts {', '.join(map(_likely, likely))}")
    before = f"{name} → " if context.site.kind == "cross" else ""
    return f'<div class="shaded">{before}{"".join(parts)} <i>{"; ".join(caption)}</i></div>'


def _likely(word: analysis.NextWord) -> str:
    """HTML of a predicted word with its probability."""
    name = "end of the text" if word.word == "<eos>" else f"“{escape(visible_text(word.word))}”"
    return f"{name} {percent(word.probability, 0)}"
