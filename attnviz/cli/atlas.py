"""The command `atlas`: what every head does over a corpus, built shard by shard and asked."""

import argparse
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from math import isfinite
from time import monotonic
from typing import Any

from attnviz.cli.bar import ProgressBar
from attnviz.core.amounts import counted, percent
from attnviz.core.errors import InputError, quoted

MOST_LISTED = 10
"""Problems, and shards that failed, which are named at the end, at most."""

EXTRA = {"duckdb", "distributed", "dask"}


def add(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    actions = command.add_subparsers(title="what to do", required=True, metavar="ACTION", dest="action")
    build = actions.add_parser("build", help="measure every text of a corpus", allow_abbrev=False)
    build.add_argument("model", metavar="MODEL", help="see 'attnviz models'; or of Hugging Face; or FILE.py:FUNCTION")
    corpus = "a file with a text on each line, .jsonl or .parquet, a folder of such files, or the name of a data set"
    build.add_argument("corpus", metavar="CORPUS", help=f"{corpus} of the library 'datasets'")
    build.add_argument("-o", "--output", metavar="FOLDER", required=True, help="the folder of the atlas")
    build.add_argument("--step", type=int, metavar="N", help="as the model was after this step of its training")
    group = build.add_argument_group("what is kept")
    whole = {"type": _whole, "metavar": "N"}
    group.add_argument("--shard", default=1000, help="texts of a shard, at most (1000)", **whole)
    group.add_argument("--keep", default=10, help="strongest texts of each metric of each head (10)", **whole)
    group.add_argument("--pairs", default=200, help="strongest pairs of tokens of each head in a shard (200)", **whole)
    ablate = "texts of each shard on which each head is switched off in turn: what that does to the loss (0)"
    group.add_argument("--ablate", default=0, help=ablate, **whole)
    _add_query(actions.add_parser("query", help="the heads of which a condition holds", allow_abbrev=False))
    where = build.add_argument_group("where it is measured")
    where.add_argument("--workers", help="processes of this machine (one per core); 0 for this one alone", **whole)
    dask = "of a Dask scheduler, whose workers are used instead: they need attnviz, and must see both folders"
    where.add_argument("--scheduler", default="", metavar="ADDRESS", help=dask)
    where.add_argument("--memory", default="auto", metavar="SIZE", help="of a worker, such as 4GB (its share of all)")
    takes = "what a shard takes of its worker, such as GPU=1: workers that have none of it are left alone"
    where.add_argument("--resources", default={}, type=_resources, metavar="NAME=NUMBER", help=takes)


def _add_query(query: argparse.ArgumentParser) -> None:
    query.add_argument("folder", metavar="FOLDER", help="the folder of an atlas")
    condition = "an SQL condition, such as 'previous_token > 0.9 and entropy_spread < 0.2'; all heads without it"
    query.add_argument("condition", metavar="CONDITION", nargs="?", default="", help=condition)
    query.add_argument("--json", action="store_true", help="every number of each head as JSON")


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no whole number")
    return int(text)


def _resources(text: str) -> dict[str, float]:
    """Amounts of "GPU=1" or "GPU=1,HIGHMEM=0.5", by name."""
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        amounts = {name.strip(): float(amount) for name, _, amount in pairs}
        if all(name and amount > 0 and isfinite(amount) for name, amount in amounts.items()):
            return amounts
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{quoted(text)} is no resource; write it as GPU=1")


def run(options: Namespace, say: Callable[[str], None], note: Callable[[str], None]) -> int:
    """Do what was asked for; gives the exit status: 1 if a shard failed.

    Raises:
        AttnvizError: if the model, the corpus or the folder do not fit.
    """
    try:
        return {"build": _build, "query": _query}[options.action](options, say, note)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise InputError(f"An atlas needs {error.name}: pip install 'attnviz[atlas]'.") from None
    except KeyboardInterrupt:
        note("Canceled. The same command goes on where this ended.")
        raise


def _build(options: Namespace, say: Callable[[str], None], note: Callable[[str], None]) -> int:
    from attnviz import atlas

    atlas_options = atlas.Options(options.shard, options.keep, options.pairs, options.ablate)
    settings = {} if options.step is None else {"step": options.step}
    bar = _Rate(note)
    dask = options.workers, options.scheduler, options.memory, options.resources
    engine = atlas.Engine(*dask, on_dashboard=lambda address: note(f"Dask's dashboard: {address}"))
    try:
        result = atlas.build(
            options.model,
            options.corpus,
            options.output,
            atlas_options,
            settings=settings,
            work=engine,
            report=bar.draw,
        )
    except OSError as error:
        reason = " ".join(str(error).split()).partition("Detail: ")
        why = f"{quoted(options.output, 200)} cannot be written: {reason[2] or reason[0]}."
        raise InputError(f"{why} What is done is kept: mend that, and the same command goes on.") from None
    finally:
        bar.end()
    counts = f"{counted(result.texts, 'text')}, {counted(result.tokens, 'token')}"
    left_out = f"{counted(result.empty, 'empty line')}, {result.problems:,} with problems"
    say(f"{counts}, in {result.folder}. Left out: {left_out}.")
    _left_out(result, note)
    return int(bool(result.failed))


def _left_out(result: Any, note: Callable[[str], None]) -> None:
    """Name the texts with problems and the shards that failed."""
    import pandas as pd

    problems = pd.read_parquet(result.folder / "problems.parquet")
    for row in problems.head(MOST_LISTED).itertuples():
        note(f"{row.file}, line {row.line:,}: {row.problem}")
    if len(problems) > MOST_LISTED:
        note(f"{len(problems) - MOST_LISTED:,} more; problems.parquet has them.")
    for shard, error in result.failed[:MOST_LISTED]:
        note(f"{shard.file}, lines {shard.first:,} to {shard.first + shard.lines - 1:,}: {error}")
    if len(result.failed) > MOST_LISTED:
        note(f"{len(result.failed) - MOST_LISTED:,} more shards failed; atlas.json names all.")


def _query(options: Namespace, say: Callable[[str], None], note: Callable[[str], None]) -> int:
    from attnviz import atlas
    from attnviz.atlas.merge import columns_of
    from attnviz.atlas.opened import ALIASES
    from attnviz.cli.lines import columns

    opened = atlas.open(options.folder)
    heads = opened.heads(options.condition)
    if options.json:
        say(heads.to_json(orient="records", indent=1))
        return 0
    words = [ALIASES.get(word, word) for word in re.findall(r"\w+", options.condition)]
    named = dict.fromkeys(name for word in words for name in ALIASES.values() if word in columns_of(name))
    rows = [["", "head", *named, "role by its weights alone"]]
    for row in heads.to_dict("records"):
        means = [f"{row[name]:.3g} ({row[f'{name}_low']:.3g} to {row[f'{name}_high']:.3g})" for name in named]
        rows.append([row["site"], row["head"], *means, _role(row)])
    for line in columns(rows):
        say(line)
    say(f"{counted(len(heads), 'head')}, over {counted(opened.texts, 'text')}: means by text with 95% intervals.")
    return 0


def _role(row: dict[str, Any]) -> str:
    """Role that the means of a head suggest, and how often it fails."""
    return f"{row['role']}, fails in {percent(row['role_fails'], 0)} of texts" if isinstance(row["role"], str) else ""


class _Rate:
    """A bar with how many texts a second are measured, and how long the rest takes at that rate."""

    def __init__(self, note: Callable[[str], None]):
        self._bar, self._note = ProgressBar(sys.stderr), note
        self._begun: tuple[float, int] | None = None

    def draw(self, progress: Any) -> None:
        if self._begun is None:
            self._begun = monotonic(), progress.done
            if progress.done:
                self._note(f"{progress.done:,} of {progress.of:,} texts are done already.")
        begun, before = self._begun
        rate = (progress.done - before) / max(monotonic() - begun, 1e-9)
        left = f", {_time((progress.of - progress.done) / rate)} left" if rate and progress.done < progress.of else ""
        texts = f"{progress.done:,} of {progress.of:,} texts"
        self._bar.draw("atlas", progress.done / max(1, progress.of), f"{texts}, {rate:,.0f} a second{left}")

    def end(self) -> None:
        self._bar.end()


def _time(seconds: float) -> str:
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{hours} h"
