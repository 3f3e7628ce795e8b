"""Shards on workers of Dask: a cluster of this machine, or one that is there already.

    attnviz.atlas.build("story", "stories.txt", "atlas", work=attnviz.atlas.Engine(workers=2))

Every worker loads the model once and writes its shards itself, so the folder must be one that all workers see. Dask
tries a shard again that fails, and replaces a worker that dies.
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
"""Times that a shard is tried."""
SECONDS = 30
"""For which a scheduler and its first worker are waited for."""
TRIM = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
"""Setting of Dask for its workers, left out here: glibc would ask the kernel for the memory of every tensor anew, which
takes a third more processor time."""


@dataclass(frozen=True)
class Engine:
    """Workers that measure shards.

    Attributes:
        workers: processes of this machine, one thread each; None for one per core. With fewer than two, or where there
            is but one shard to do, this process does it.
        scheduler: address of a Dask scheduler; its workers are used instead.
        memory: most memory of a worker of this machine, such as "4GB"; one that takes more is ended and replaced.
        on_dashboard: function that takes the address of the dashboard.
    """

    workers: int | None = None
    scheduler: str = ""
    memory: str = "auto"
    on_dashboard: Callable[[str], None] = lambda address: None

    def __call__(self, plan: Plan, folder: Path, wanted: Sequence[Shard]) -> Iterator[Outcome]:
        """Measure shards; gives each, and why it failed, in the order in which they end.

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
        """Raises: InputError: if there is no scheduler at the address, no worker, or the memory is no size."""
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
    """Why a shard failed; "" if it did not."""
    from distributed import KilledWorker

    try:
        return task.result()[1]
    except OSError:
        raise
    except KilledWorker:
        return "Its workers died one after another; they may need more memory."
    except Exception as problem:  # such as a worker that has no attnviz
        return building.reason(problem)
