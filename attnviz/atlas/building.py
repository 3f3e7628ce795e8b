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
"""Callback with the number of lines done, and of all lines; an error that it raises ends the build."""

TRIES = 3
"""Number of attempts per shard."""
SECONDS = 30
"""Seconds to wait for a scheduler and its first worker."""
TRIM = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
"""Dask setting that is removed for workers: with it, glibc requests the memory of each tensor from the kernel again,
which takes a third more CPU time."""

Outcome = tuple[Shard, str]
"""A shard, and the reason if it failed, else ""."""

Work = Callable[[Plan, Path, list[Shard]], Iterator[Outcome]]
"""Function that measures shards of a plan, writes their tables into a folder, and yields an outcome for each."""


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
        model: name for `attnviz.load`, with its `settings`, or FILE.py:FUNCTION; or a loaded source.
        texts: file (one text per line, JSON lines or Parquet), or folder of such files.
        edits: changes to the attention, if `model` is a loaded source.
        work: function that measures shards, such as an `Engine`; by default `here`, which uses this process. Ignored
            for a loaded source, which is always measured in this process.

    Raises:
        InputError: if the folder holds another atlas, or the corpus changed.
        OSError: if the disk is full; finished shards are kept.
    """
    folder, settings, work = Path(folder), settings or {}, work or here
    root, file_names = corpus.files(texts)
    shards = tuple(corpus.shards(root, file_names, options.shard))
    if not shards:
        raise InputError(f"The corpus {quoted(str(texts), 200)} holds no line.")
    folder.mkdir(parents=True, exist_ok=True)
    corpus_path = Path(os.path.relpath(root.resolve(), folder.resolve())).as_posix()
    if isinstance(model, str):
        name, source = model, opened.load(model, **settings)
    else:
        name, source, work = model.id, model, partial(_measure_with, model, edits, report)
    atlas_plan = Plan(name, settings, source.checksum(), options, shards, corpus_path)
    atlas_plan.settle(folder)
    (folder / "shards").mkdir(exist_ok=True)
    (folder / opened.RESULT).unlink(missing_ok=True)  # until the build is complete again
    missing = [shard for shard in shards if not _shard_folder(folder, shard).exists()]
    done, failed = atlas_plan.lines - sum(shard.lines for shard in missing), []
    report(done, atlas_plan.lines)
    for shard, error in work(atlas_plan, folder, missing):
        if error:
            failed.append({"file": shard.file, "line": shard.first, "lines": shard.lines, "error": error})
        done += shard.lines
        report(done, atlas_plan.lines)
    measured = [path for shard in shards if (path := _shard_folder(folder, shard)).exists()]
    if not measured:
        raise InputError(f"No shard of the corpus could be measured: {failed[0]['error']}")
    merged = tables.merged(measured, options)
    tables.write(merged, folder)
    for unfinished in (folder / "shards").glob(storage.UNFINISHED):
        shutil.rmtree(unfinished)
    totals = {name: int(value) for name, value in merged["totals"].iloc[0].items()}
    storage.write(folder / opened.RESULT, json.dumps(totals | {"failed": failed}, indent=1).encode())
    return opened.open(folder)


def of_texts(
    source: Source, texts: Sequence[str], edits: Edits = Edits(), *, report: OnProgress = lambda done, of: None
) -> Atlas:
    """Measure every head of a loaded source on a few texts, in a temporary folder that is deleted with the atlas.

    Raises:
        InputError: if the model can read none of the texts.
    """
    folder = Path(mkdtemp(prefix="attnviz-atlas-"))
    try:
        storage.write(folder / "corpus.jsonl", "\n".join(map(json.dumps, texts)).encode())
        atlas = build(source, folder / "corpus.jsonl", folder, edits=edits, report=report)
        if not atlas.texts:
            problems = [*atlas.problems()["problem"], "all are empty."]
            raise InputError(f"The model can read none of the {len(texts):,} texts: {problems[0]}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(atlas, shutil.rmtree, folder, ignore_errors=True)
    return atlas


def _measure_with(
    source: Source, edits: Edits, report: OnProgress, atlas_plan: Plan, folder: Path, missing: Iterable[Shard]
) -> Iterator[Outcome]:
    """Measure shards one after another with a loaded source; report progress within a shard, too."""
    done = 0

    def report_in_shard(lines: int) -> None:
        report(done + lines, atlas_plan.lines)

    for shard in missing:
        _measure(source, atlas_plan, folder, shard, edits, report_in_shard)
        done += shard.lines
        yield shard, ""


def _shard_folder(folder: Path, shard: Shard) -> Path:
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
    lines = corpus.texts(folder / atlas_plan.corpus, shard)
    options, target = atlas_plan.options, _shard_folder(folder, shard)
    shard_tables = tables.of_shard(measure(source, lines, options, edits, report=report), shard, options)
    unfinished = target.with_name(f".{uuid4().hex}.part")
    try:
        tables.write(shard_tables, unfinished)
        if not target.exists():  # another worker may have finished the shard
            os.replace(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


_sources: dict[str, Source] = {}
"""Cache of the model that this process loaded last, by its name, settings and weights."""


def measure_shard(atlas_plan: Plan, folder: Path, shard: Shard) -> Outcome:
    """Measure one shard and write its tables, on a worker or in this process; raise OSError if the disk is full."""
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


def here(atlas_plan: Plan, folder: Path, missing: Iterable[Shard]) -> Iterator[Outcome]:
    """Measure shards in this process, one after another."""
    num_threads = torch.get_num_threads()
    try:
        for shard in missing:
            try:
                yield measure_shard(atlas_plan, folder, shard)
            except OSError:
                raise
            except Exception as problem:  # a model may raise any error; continue with other shards
                yield shard, reason(problem)
    finally:
        torch.set_num_threads(num_threads)
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
        scheduler: address of a Dask scheduler, whose workers measure the shards in place of `workers` on this machine.
        memory: memory limit per worker on this machine, such as "4GB"; a worker above the limit is replaced.
        on_dashboard: callback with the address of Dask's dashboard.
    """

    workers: int | None = None
    scheduler: str = ""
    memory: str = "auto"
    on_dashboard: Callable[[str], None] = lambda address: None

    def __call__(self, atlas_plan: Plan, folder: Path, missing: Sequence[Shard]) -> Iterator[Outcome]:
        """Measure shards; yield each when it is done, with the reason if it failed. Raise OSError if a disk is full."""
        workers = self.workers if self.workers is not None else os.cpu_count() or 1
        count = min(workers, len(missing))
        if not missing or (not self.scheduler and count < 2):
            yield from here(atlas_plan, folder, missing)
            return
        try:
            from distributed import as_completed
        except ImportError:
            raise InputError("Workers need distributed: pip install 'attnviz[atlas]'.") from None

        with self._client(count) as client:
            self.on_dashboard(client.dashboard_link)
            inputs = replace(atlas_plan, shards=()), folder.resolve()  # a worker needs only its own shard
            submit = partial(client.submit, measure_shard, *inputs, retries=TRIES - 1, pure=False)
            tasks = {submit(shard): shard for shard in missing}
            for task in as_completed(tasks):
                yield tasks[task], _outcome(task)

    @contextmanager
    def _client(self, count: int) -> Iterator[Any]:
        """Connect to Dask; raise InputError if there is no scheduler or worker, or `memory` is not a size."""
        import dask
        import distributed

        with ExitStack() as stack:
            stack.enter_context(dask.config.set({TRIM: None}))
            settings = {
                "threads_per_worker": 1,
                "memory_limit": self.memory,
                "host": "127.0.0.1",
                "dashboard_address": "127.0.0.1:0",
                "silence_logs": logging.CRITICAL,
            }
            try:
                cluster = self.scheduler or stack.enter_context(distributed.LocalCluster(n_workers=count, **settings))
                client = stack.enter_context(distributed.Client(cluster, timeout=SECONDS))
                client.wait_for_workers(1, timeout=SECONDS)
            except TimeoutError:
                raise InputError(f"The Dask scheduler at {quoted(self.scheduler, 200)} has no workers.") from None
            except (OSError, ValueError) as error:
                name = f"The Dask scheduler at {quoted(self.scheduler, 200)}" if self.scheduler else "The Dask cluster"
                raise InputError(f"{name} cannot be used: {' '.join(str(error).split())[:200]}") from None
            yield client


def _outcome(task: Any) -> str:
    """Return the reason why the shard of a finished Dask task failed, or ""."""
    from distributed import KilledWorker

    try:
        return task.result()[1]
    except OSError:
        raise
    except KilledWorker:
        return "Several workers died on this shard; they may need more memory."
    except Exception as problem:  # such as a worker that has no attnviz
        return reason(problem)
