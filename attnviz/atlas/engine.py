"""Measure shards on Dask workers: a cluster on this machine, or an existing one.

    attnviz.atlas.build("story", "stories.txt", "atlas", work=attnviz.atlas.Engine(workers=2))

Every worker loads the model once and writes its shards itself, so all workers must have access to the folder. Dask
repeats a failed shard, and replaces a worker that dies.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from attnviz.atlas import building
from attnviz.atlas.building import Outcome
from attnviz.atlas.corpus import Shard
from attnviz.atlas.plan import Plan
from attnviz.core.errors import InputError, quoted

TRIES = 3
"""Number of attempts per shard."""
SECONDS = 30
"""Seconds to wait for a scheduler and its first worker."""
TRIM = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
"""Dask setting for workers that is removed here: with it, glibc requests the memory of each tensor from the kernel
again, which takes a third more CPU time."""


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

    def __call__(self, plan: Plan, folder: Path, wanted: Sequence[Shard]) -> Iterator[Outcome]:
        """Measure shards; yield each shard as it ends, with the reason if it failed.

        Raises:
            OSError: if a file cannot be written.
        """
        count = min(os.cpu_count() or 1 if self.workers is None else self.workers, len(wanted))
        if not wanted or (not self.scheduler and count < 2):
            yield from building.here(plan, folder, wanted)
            return
        from distributed import as_completed

        with self._client(count) as client:
            self.on_dashboard(client.dashboard_link)
            job, folder = replace(plan, shards=()), folder.resolve()
            submit = partial(client.submit, building.measure_shard, job, folder, retries=TRIES - 1, pure=False)
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
        return building.reason(problem)
