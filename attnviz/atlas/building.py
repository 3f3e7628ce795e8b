"""Build an atlas from a model and a corpus, in this process or on Dask workers; an interrupted build can be continued.

    attnviz.atlas.build("story", "stories.txt", "atlas", work=attnviz.atlas.Engine(workers=2))

Every worker loads the model once and writes its shards itself, so all workers must have access to the folder. Dask
repeats a failed shard, and replaces a worker that dies.
"""

import json
import logging
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

import torch

from attnviz.atlas import corpus, opened, tables
from attnviz.atlas.corpus import Shard
from attnviz.atlas.measure import Options, measure
from attnviz.atlas.opened import Atlas, Plan
from attnviz.core import storage
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.sources.base import Source

OnProgress = Callable[[int, int], None]
"""Function that is called with the number of lines done and of all lines; an error that it raises ends the build."""

TRIES = 3
"""Number of attempts per shard."""
SECONDS = 30
"""Seconds to wait for a scheduler and its first worker."""
TRIM = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
"""Dask setting for workers that is removed here: with it, glibc requests the memory of each tensor from the kernel
again, which takes a third more CPU time."""

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
    name, source = (model, opened.load(model, **settings)) if isinstance(model, str) else (model.id, model)
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


_sources: dict[str, Source] = {}
"""Cache with the model of this process, by name, settings and weights."""


def measure_shard(atlas_plan: Plan, folder: Path, shard: Shard) -> Outcome:
    """Measure one shard and write its tables, on a worker or in this process.

    Raises:
        OSError: if a file cannot be written.
    """
    key = json.dumps([atlas_plan.model, atlas_plan.settings, atlas_plan.weights])
    try:
        if key not in _sources:
            _sources.clear()
            torch.set_num_threads(1)  # the order of sums depends on the number of threads
            _sources[key] = atlas_plan.source()
        _measure(_sources[key], atlas_plan, folder, shard)
    except AttnvizError as error:
        return shard, str(error)
    return shard, ""


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


@dataclass(frozen=True)
class Engine:
    """Dask workers that measure shards.

    Attributes:
        workers: number of processes on this machine, each with one thread; None for one per core. With fewer than two
            workers or shards, this process measures the shards.
        scheduler: address of a Dask scheduler, whose workers are used instead.
        memory: memory limit per worker on this machine, such as "4GB"; a worker above the limit is replaced.
        on_dashboard: function that is called with the address of the dashboard.
    """

    workers: int | None = None
    scheduler: str = ""
    memory: str = "auto"
    on_dashboard: Callable[[str], None] = lambda address: None

    def __call__(self, atlas_plan: Plan, folder: Path, wanted: Sequence[Shard]) -> Iterator[Outcome]:
        """Measure shards; yield each shard as it ends, with the reason if it failed.

        Raises:
            OSError: if a file cannot be written.
        """
        count = min(os.cpu_count() or 1 if self.workers is None else self.workers, len(wanted))
        if not wanted or (not self.scheduler and count < 2):
            yield from here(atlas_plan, folder, wanted)
            return
        try:
            from distributed import as_completed
        except ImportError:
            raise InputError("Workers need distributed: pip install 'attnviz[atlas]'.") from None

        with self._client(count) as client:
            self.on_dashboard(client.dashboard_link)
            job, folder = replace(atlas_plan, shards=()), folder.resolve()
            submit = partial(client.submit, measure_shard, job, folder, retries=TRIES - 1, pure=False)
            tasks = {submit(shard): shard for shard in wanted}
            for task in as_completed(tasks):
                yield tasks[task], _outcome(task)

    @contextmanager
    def _client(self, count: int) -> Iterator[Any]:
        """Connect to Dask; raise InputError if there is no scheduler or worker, or `memory` is not a size."""
        import dask
        import distributed

        with ExitStack() as stack:
            stack.enter_context(dask.config.set({TRIM: None}))
            how = {
                "threads_per_worker": 1,
                "memory_limit": self.memory,
                "host": "127.0.0.1",
                "dashboard_address": "127.0.0.1:0",
                "silence_logs": logging.CRITICAL,
            }
            try:
                cluster = self.scheduler or stack.enter_context(distributed.LocalCluster(n_workers=count, **how))
                client = stack.enter_context(distributed.Client(cluster, timeout=SECONDS))
                client.wait_for_workers(1, timeout=SECONDS)
            except TimeoutError:
                raise InputError(f"The Dask scheduler at {quoted(self.scheduler, 200)} has no workers.") from None
            except (OSError, ValueError) as error:
                at = f"There is no Dask scheduler at {quoted(self.scheduler, 200)}" if self.scheduler else "No cluster"
                raise InputError(f"{at}: {' '.join(str(error).split())[:200]}") from None
            yield client


def _outcome(task: Any) -> str:
    """Return the reason why a shard failed, or ""."""
    from distributed import KilledWorker

    try:
        return task.result()[1]
    except OSError:
        raise
    except KilledWorker:
        return "Its workers died one after another; they may need more memory."
    except Exception as problem:  # such as a worker that has no attnviz
        return reason(problem)
