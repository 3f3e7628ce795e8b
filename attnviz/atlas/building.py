"""Build an atlas from a model and a corpus; finished shards are kept, and an interrupted build can be continued."""

import json
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

import torch

from attnviz.atlas import corpus, opened, plan, tables
from attnviz.atlas.corpus import Shard
from attnviz.atlas.measure import Options, measure
from attnviz.atlas.opened import Atlas
from attnviz.atlas.plan import Plan
from attnviz.core import storage
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.sources.base import Source

OnProgress = Callable[[int, int], None]
"""Function that is called with the number of lines done and of all lines; an error that it raises ends the build."""

Outcome = tuple[Shard, str]
"""A shard, and the reason if it failed, else ""."""

Work = Callable[[Plan, Path, list[Shard]], Iterator[Outcome]]
"""Function that measures shards of a plan into a folder."""


def build(
    model: str | Source,
    texts: str | Path,
    folder: str | Path,
    options: Options = Options(),
    edits: Edits = Edits(),
    *,
    settings: dict[str, Any] | None = None,
    work: Work | None = None,
    report: OnProgress = lambda done, of: None,
) -> Atlas:
    """Measure every head of a model on every text of a corpus, shard by shard. A second call continues the build.

    Args:
        model: name for `attnviz.load`, with its `settings`, or FILE.py:FUNCTION; or a source of this process.
        texts: file (one text per line, JSON lines or Parquet), or folder of such files.
        edits: changes to the attention, for a source of this process.
        work: function that measures shards, such as an `Engine`; by default this process, one shard at a time.

    Raises:
        InputError: if the folder holds another atlas, or the corpus changed.
        OSError: if the disk is full; finished shards are kept.
    """
    folder, settings = Path(folder), settings or {}
    root, names = corpus.files(texts)
    shards = tuple(corpus.shards(root, names, options.shard))
    if not shards:
        raise InputError(f"The corpus {quoted(str(texts), 200)} holds no line.")
    folder.mkdir(parents=True, exist_ok=True)
    where = Path(os.path.relpath(root.resolve(), folder.resolve())).as_posix()
    name, source = (model, plan.load(model, **settings)) if isinstance(model, str) else (model.id, model)
    atlas_plan = Plan(name, settings, source.checksum(), options, shards, where)
    if source is model:
        work = partial(_measure_here, source, edits, report)
    atlas_plan.settle(folder)
    (folder / "shards").mkdir(exist_ok=True)
    (folder / opened.RESULT).unlink(missing_ok=True)
    wanted = [shard for shard in shards if not _place(folder, shard).exists()]
    done, failed = atlas_plan.lines - sum(shard.lines for shard in wanted), []
    report(done, atlas_plan.lines)
    for shard, error in (work or here)(atlas_plan, folder, wanted):
        if error:
            failed.append({"file": shard.file, "line": shard.first, "lines": shard.lines, "error": error})
        done += shard.lines
        report(done, atlas_plan.lines)
    measured = [place for shard in shards if (place := _place(folder, shard)).exists()]
    if not measured:
        raise InputError(f"No shard of the corpus could be measured: {failed[0]['error']}")
    merged = tables.merged(measured, options)
    tables.write(merged, folder)
    for left in (folder / "shards").glob(storage.UNFINISHED):
        shutil.rmtree(left)
    totals = {name: int(value) for name, value in merged["totals"].iloc[0].items()}
    storage.write(folder / opened.RESULT, json.dumps(totals | {"failed": failed}, indent=1).encode())
    return opened.open(folder)


def of_texts(
    source: Source, texts: Sequence[str], edits: Edits = Edits(), *, report: OnProgress = lambda done, of: None
) -> Atlas:
    """Measure every head of a source of this process on a few texts; the folder is deleted together with the atlas.

    Raises:
        InputError: if the model can read none of the texts.
    """
    folder = Path(mkdtemp(prefix="attnviz-atlas-"))
    try:
        storage.write(folder / "corpus.jsonl", "\n".join(map(json.dumps, texts)).encode())
        atlas = build(source, folder / "corpus.jsonl", folder, edits=edits, report=report)
        if not atlas.texts:
            why = next(iter(atlas.problems()["problem"]), "all are empty.")
            raise InputError(f"The model reads none of the {len(texts):,} texts: {why}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(atlas, shutil.rmtree, folder, ignore_errors=True)
    return atlas


def _measure_here(
    source: Source, edits: Edits, report: OnProgress, atlas_plan: Plan, folder: Path, wanted: Iterable[Shard]
) -> Iterator[Outcome]:
    """Measure shards one after another with a source of this process."""
    done = 0
    for shard in wanted:
        _measure(source, atlas_plan, folder, shard, edits, lambda n, before=done: report(before + n, atlas_plan.lines))
        done += shard.lines
        yield shard, ""


def _place(folder: Path, shard: Shard) -> Path:
    return folder / "shards" / f"{shard.number:06d}"


def _measure(
    source: Source,
    atlas_plan: Plan,
    folder: Path,
    shard: Shard,
    edits: Edits = Edits(),
    report: Callable[[int], None] = lambda done: None,
) -> None:
    """Measure a shard and write its folder atomically, so that it is complete or absent even after a crash."""
    lines, options, place = corpus.texts(folder / atlas_plan.corpus, shard), atlas_plan.options, _place(folder, shard)
    shard_tables = tables.of_shard(measure(source, lines, options, edits, report=report), shard, options)
    part = place.with_name(f".{uuid4().hex}.part")
    try:
        tables.write(shard_tables, part)
        if not place.exists():  # another worker may have finished it
            os.replace(part, place)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def measure_shard(atlas_plan: Plan, folder: Path, shard: Shard) -> Outcome:
    """Measure one shard and write its tables, on a worker or in this process.

    Raises:
        OSError: if a file cannot be written.
    """
    try:
        _measure(_cached_source(atlas_plan), atlas_plan, folder, shard)
    except AttnvizError as error:
        return shard, str(error)
    return shard, ""


_sources: dict[str, Source] = {}
"""Cache with the model of this process, by name, settings and weights."""


def _cached_source(atlas_plan: Plan) -> Source:
    """Load the model once per process; use one thread, because the order of sums depends on the number of threads."""
    key = json.dumps([atlas_plan.model, atlas_plan.settings, atlas_plan.weights])
    if key not in _sources:
        _sources.clear()
        torch.set_num_threads(1)
        _sources[key] = atlas_plan.source()
    return _sources[key]


def here(atlas_plan: Plan, folder: Path, wanted: Iterable[Shard]) -> Iterator[Outcome]:
    """Measure shards in this process, one after another."""
    before = torch.get_num_threads()
    try:
        for shard in wanted:
            try:
                yield measure_shard(atlas_plan, folder, shard)
            except OSError:
                raise
            except Exception as problem:  # a model may raise any error; continue with other shards
                yield shard, reason(problem)
    finally:
        torch.set_num_threads(before)
        _sources.clear()


def reason(problem: Exception) -> str:
    """Describe in one line why a shard failed."""
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"
