"""The command `atlas`: what every head does over a corpus, built shard by shard and inputs."""

import re
import sys
from argparse import Namespace
from time import monotonic
from typing import Any

from attnviz.cli import terminal
from attnviz.cli.terminal import ProgressBar, columns
from attnviz.core.amounts import counted, percent
from attnviz.core.errors import InputError, quoted

MOST_LISTED = 10
"""Problems, and shards that failed, which are named at the end, at most."""

EXTRA = {"duckdb", "distributed", "dask"}
"""Libraries of the extra."""


def run(options: Namespace) -> int:
    """Build or ask an atlas; returns the exit status: 1 if a shard failed."""
    try:
        return {"build": _build, "query": _query}[options.action](options)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise InputError(f"An atlas needs {error.name}: pip install 'attnviz[atlas]'.") from None
    except KeyboardInterrupt:
        terminal.note("Canceled. The same command goes on where this ended.")
        raise


def _build(options: Namespace) -> int:
    from attnviz import atlas

    atlas_options = atlas.Options(options.shard, options.keep, options.pairs, options.ablate)
    settings = {} if options.step is None else {"step": options.step}
    bar = _Rate()
    memory = "auto" if options.memory is None else f"{options.memory:g}GB"
    dask = options.workers, options.scheduler, memory
    engine = atlas.Engine(*dask, on_dashboard=lambda address: terminal.note(f"Dask's dashboard: {address}"))
    try:
        corpus = options.model, options.corpus, options.output, atlas_options
        result = atlas.build(*corpus, settings=settings, work=engine, report=bar.draw)
    except OSError as error:
        reason = " ".join(str(error).split()).partition("Detail: ")
        why = f"{quoted(options.output, 200)} cannot be written: {reason[2] or reason[0]}."
        raise InputError(f"{why} What is done is kept: mend that, and the same command goes on.") from None
    finally:
        bar.end()
    counts = f"{counted(result.texts, 'text')}, {counted(result.tokens, 'token')}"
    left_out = f"{counted(result.empty_lines, 'empty line')}, {len(result.problems()):,} with problems"
    terminal.say(f"{counts}, in {result.folder}. Left out: {left_out}.")
    _left_out(result)
    return int(bool(result.failed))


def _left_out(result: Any) -> None:
    """Name the texts with problems and the shards that failed."""
    lines = [f"{row.file}, line {row.line:,}: {row.problem}" for row in result.problems().itertuples()]
    for part in result.failed:
        last = part["line"] + part["lines"] - 1
        lines.append(f"{part['file']}, lines {part['line']:,} to {last:,}: {part['error']}")
    for line in lines[:MOST_LISTED]:
        terminal.note(line)
    if len(lines) > MOST_LISTED:
        terminal.note(f"{len(lines) - MOST_LISTED:,} more; problems.parquet and atlas.json have them.")


def _query(options: Namespace) -> int:
    from attnviz import atlas
    from attnviz.atlas.opened import ALIASES
    from attnviz.atlas.tables import columns_of

    opened = atlas.open(options.folder)
    heads = opened.heads(options.condition)
    if options.json:
        terminal.say(heads.to_json(orient="records", indent=1))
        return 0
    words = [ALIASES.get(word, word) for word in re.findall(r"\w+", options.condition)]
    named = dict.fromkeys(name for word in words for name in ALIASES.values() if word in columns_of(name))
    rows = [["", "head", *named, "role by its weights alone"]]
    for row in heads.to_dict("records"):
        means = [f"{row[name]:.3g} ({row[f'{name}_low']:.3g} to {row[f'{name}_high']:.3g})" for name in named]
        role = (
            f"{row['role']}, fails in {percent(row['role_fails'], 0)} of texts" if isinstance(row["role"], str) else ""
        )
        rows.append([row["site"], row["head"], *means, role])
    for line in columns(rows):
        terminal.say(line)
    terminal.say(
        f"{counted(len(heads), 'head')}, over {counted(opened.texts, 'text')}: means by text with 95% intervals."
    )
    return 0


class _Rate:
    """A bar with how many texts a second are measured, and how long the rest takes at that rate."""

    def __init__(self):
        self._bar = ProgressBar(sys.stderr)
        self._begun: tuple[float, int] | None = None

    def draw(self, done: int, of: int) -> None:
        if self._begun is None:
            self._begun = monotonic(), done
            if done:
                terminal.note(f"{done:,} of {of:,} texts are done already.")
        begun, before = self._begun
        rate = (done - before) / max(monotonic() - begun, 1e-9)
        minutes = f", {(of - done) / rate / 60:,.0f} min left" if rate else ""
        texts = f"{done:,} of {of:,} texts"
        self._bar.draw("atlas", done / max(1, of), f"{texts}, {rate:,.0f} a second{minutes}")

    def end(self) -> None:
        self._bar.end()
