"""An atlas from a model and a corpus: what is done is never done again, and what was ended goes on."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from attnviz.atlas import corpus, merge, plan, shards
from attnviz.atlas.corpus import Shard
from attnviz.atlas.measure import Options, measure
from attnviz.atlas.plan import Model, Plan
from attnviz.core import whole
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.sources.base import Source

RESULT = "atlas.json"
"""Written last: an atlas that has it is finished."""


@dataclass(frozen=True)
class AtlasProgress:
    """How far an atlas is.

    Attributes:
        done, of: lines of the corpus.
    """

    done: int
    of: int


@dataclass(frozen=True)
class Result:
    """Result of a build.

    Attributes:
        texts, tokens: that were read.
        failed: the shards that could not be measured, and why; they are not in the atlas.
        problems: the lines that could not be read.
        empty: the lines that were empty.
    """

    folder: Path
    texts: int
    tokens: int
    failed: tuple[tuple[Shard, str], ...]
    problems: int
    empty: int


OnProgress = Callable[[AtlasProgress], None]

Outcome = tuple[Shard, str]
"""A shard that was tried, and why it failed; "" if it did not."""


def build(
    model: str,
    texts: str | Path,
    folder: str | Path,
    options: Options = Options(),
    *,
    settings: dict[str, Any] | None = None,
    work: "Callable[[Plan, Path, list[Shard]], Iterator[Outcome]] | None" = None,
    report: OnProgress = lambda progress: None,
) -> Result:
    """Measure every head of a model on every text of a corpus, shard by shard; begun again, it goes on.

    Args:
        model: a name that `attnviz.load` takes, with its `settings`, or FILE.py:FUNCTION.
        texts: a file (a text on each line, JSON lines or Parquet), a folder of such files, or a data set by its name.
        work: what measures shards, such as an `Engine`; by default this process, one after another.

    Raises:
        InputError: if the folder holds another atlas, or the corpus changed.
        OSError: if the disk is full; what is done is kept.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    atlas_plan = _planned(model, settings or {}, texts, folder, options)
    plan.settle(folder, atlas_plan)
    (folder / "shards").mkdir(exist_ok=True)
    (folder / RESULT).unlink(missing_ok=True)
    wanted = [shard for shard in atlas_plan.shards if not path_of(folder, shard).exists()]
    done, of = sum(shard.lines for shard in atlas_plan.shards) - sum(shard.lines for shard in wanted), atlas_plan.lines
    report(AtlasProgress(done, of))
    failed = []
    for shard, error in (work or here)(atlas_plan, folder, wanted):
        if error:
            failed.append((shard, error))
        done += shard.lines
        report(AtlasProgress(done, of))
    return _finished(folder, atlas_plan, tuple(failed))


def measure_texts(
    source: Source,
    texts: Sequence[str],
    folder: Path,
    edits: Edits = Edits(),
    *,
    report: OnProgress = lambda progress: None,
) -> Result:
    """Measure every head of a model of this process on a few texts, with what was changed in it.

    Args:
        folder: an empty folder, or one to be made; it then holds the texts, too.
        report: told how many texts are done; what it raises ends the work.

    Raises:
        InputError: if the model reads none of the texts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole.write(folder / "corpus.jsonl", "\n".join(map(json.dumps, texts)).encode())
    options = Options()
    pieces = tuple(corpus.shards(folder, ["corpus.jsonl"], options.shard))
    atlas_plan = Plan(Model(source.id, weights=source.checksum()), options, pieces, ".")
    plan.settle(folder, atlas_plan)
    (folder / "shards").mkdir()
    done = 0
    for shard in atlas_plan.shards:
        count = partial(_count, report, done, atlas_plan.lines)
        measured = measure(source, corpus.texts(folder, shard), options, edits, report=count)
        shards.write(shards.table(measured, shard, options), path_of(folder, shard))
        done += shard.lines
    result = _finished(folder, atlas_plan, ())
    if not result.texts:
        raise InputError(f"The model reads none of the {len(texts):,} texts: {_first_problem(folder)}")
    return result


def _count(report: OnProgress, before: int, of: int, done: int) -> None:
    report(AtlasProgress(before + done, of))


def _first_problem(folder: Path) -> str:
    problems = pq.read_table(folder / "problems.parquet").to_pylist()
    return problems[0]["problem"] if problems else "all are empty."


def path_of(folder: Path, shard: Shard) -> Path:
    """The file of a shard in the folder of an atlas."""
    return folder / "shards" / f"{shard.number:06d}.parquet"


def measure_shard(atlas_plan: Plan, folder: Path, shard: Shard) -> Outcome:
    """Measure one shard and write its file: what a worker does.

    Raises:
        OSError: if its file cannot be written.
    """
    try:
        measured = measure(
            _loaded(atlas_plan.model), corpus.texts(folder / atlas_plan.corpus, shard), atlas_plan.options
        )
    except AttnvizError as error:
        return shard, str(error)
    shards.write(shards.table(measured, shard, atlas_plan.options), path_of(folder, shard))
    return shard, ""


@lru_cache(maxsize=1)
def _loaded(model: Model) -> Source:
    """The model of this process; on one thread, as the order of sums depends on how many there are."""
    torch.set_num_threads(1)
    return model.source()


def here(atlas_plan: Plan, folder: Path, wanted: Iterable[Shard]) -> Iterator[Outcome]:
    """Measure shards in this process, one after another."""
    before = torch.get_num_threads()
    try:
        for shard in wanted:
            try:
                yield measure_shard(atlas_plan, folder, shard)
            except OSError:
                raise
            except Exception as problem:  # whatever a model raises, the other shards are still wanted
                yield shard, reason(problem)
    finally:
        torch.set_num_threads(before)
        _loaded.cache_clear()


def reason(problem: Exception) -> str:
    """Why a shard failed, in one line."""
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"


def _planned(model: str, settings: dict[str, Any], texts: str | Path, folder: Path, options: Options) -> Plan:
    there = Path(texts)
    root, names = corpus.files(there if there.exists() else corpus.fetched(str(texts), folder))
    pieces = tuple(corpus.shards(root, names, options.shard))
    if not pieces:
        raise InputError(f"The corpus {quoted(str(texts), 200)} holds no line.")
    where = os.path.relpath(root.resolve(), folder.resolve())
    return Plan(Model.of(model, **settings), options, pieces, Path(where).as_posix())


def _finished(folder: Path, atlas_plan: Plan, failed: tuple[Outcome, ...]) -> Result:
    """Merge what there is, and write the tables."""
    measured = [path for shard in atlas_plan.shards if (path := path_of(folder, shard)).exists()]
    if not measured:
        why = failed[0][1] if failed else "there is none"
        raise InputError(f"No shard of the corpus could be measured: {why}")
    tables = merge.merged(measured, atlas_plan.options.keep, atlas_plan.options.pairs)
    for name, table in tables.items():
        shards.write(pa.Table.from_pandas(table, preserve_index=False), folder / f"{name}.parquet")
    for left in (folder / "shards").glob(whole.UNFINISHED):
        left.unlink(missing_ok=True)
    totals = tables["totals"].iloc[0]
    numbers = {name: int(totals[name]) for name in ("texts", "tokens")}
    lost = [{"shard": shard.number, "file": shard.file, "line": shard.first, "error": why} for shard, why in failed]
    whole.write(folder / RESULT, json.dumps(numbers | {"failed": lost}, indent=1).encode())
    return Result(folder, **numbers, failed=failed, problems=len(tables["problems"]), empty=int(totals["empty_lines"]))
