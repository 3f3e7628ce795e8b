"""Shards on workers of Dask: a cluster of this machine, or one that is there already.

    attnviz.atlas.build("story", "stories.txt", "atlas", work=attnviz.atlas.Engine(workers=2))

Every worker loads the model once and writes its shards itself, so the folder must be one that all workers see. The
driver holds a few shards per worker at a time, and no numbers. A shard that fails is tried again, by another worker if
there is one; a worker that dies is replaced, and its shard tried again.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from attnviz.atlas import building
from attnviz.atlas.building import Outcome
from attnviz.atlas.corpus import Shard
from attnviz.atlas.plan import Plan
from attnviz.core.errors import InputError, quoted

TRIES = 3
"""Times that a shard is tried."""

AHEAD = 2
"""Shards that wait or run, for each worker."""

SECONDS = 30
"""For which a scheduler is waited for."""

TRIM = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
"""Setting of Dask for its workers, left out here: glibc would ask the kernel for the memory of every tensor anew, which
takes a third more processor time."""


@dataclass(frozen=True)
class Engine:
    """Workers that measure shards.

    Attributes:
        workers: processes of this machine, one thread each; None for one per core. With fewer than two, or where there
            is but one shard to do, this process does it.
        scheduler: the address of a Dask scheduler; its workers are used instead.
        memory: what a worker of this machine may take, such as "4GB"; one that takes more is ended and replaced.
        resources: what a shard takes of its worker while it is measured, such as {"GPU": 1}: a worker that was started
            with one GPU then holds one model and measures one shard at a time, whatever threads it has.
        on_dashboard: takes the address of the dashboard.
    """

    workers: int | None = None
    scheduler: str = ""
    memory: str = "auto"
    resources: Mapping[str, float] = field(default_factory=dict)
    on_dashboard: Callable[[str], None] = lambda address: None

    def __call__(self, plan: Plan, folder: Path, wanted: Sequence[Shard]) -> Iterator[Outcome]:
        count = min(os.cpu_count() or 1 if self.workers is None else self.workers, len(wanted))
        if not wanted or (not self.scheduler and count < 2):
            yield from building.here(plan, folder, wanted)
            return
        with self._client(count) as client:
            self.on_dashboard(client.dashboard_link)
            yield from _work(client, plan, folder.resolve(), wanted, dict(self.resources))

    @contextmanager
    def _client(self, count: int) -> Iterator[Any]:
        """Raises: InputError: if there is no scheduler at the address, or the memory is no size."""
        import dask
        import distributed

        with ExitStack() as stack:
            stack.enter_context(dask.config.set({TRIM: None}))
            try:
                where = self.scheduler or stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=count,
                        threads_per_worker=1,
                        memory_limit=self.memory,
                        resources=dict(self.resources),
                        host="127.0.0.1",
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,
                    )
                )
                client = stack.enter_context(distributed.Client(where, timeout=SECONDS))
            except (OSError, ValueError) as error:
                what = (
                    f"There is no Dask scheduler at {quoted(self.scheduler, 200)}" if self.scheduler else "No cluster"
                )
                raise InputError(f"{what}: {' '.join(str(error).split())[:200]}") from None
            self._await(client)
            yield client

    def _await(self, client: Any) -> None:
        """Wait for a worker that has what a shard takes.

        Raises:
            InputError: if none comes.
        """
        until = monotonic() + SECONDS
        while not _able(client, self.resources):
            if monotonic() > until:
                needs = ", ".join(f"{name}={amount:g}" for name, amount in self.resources.items())
                what = f" with {needs}" if needs else ""
                raise InputError(f"The Dask scheduler at {quoted(self.scheduler, 200)} has no workers{what}.")
            sleep(0.1)


def _able(client: Any, resources: Mapping[str, float]) -> list[str]:
    """The addresses of the workers that have some resources."""
    workers = client.scheduler_info(n_workers=-1)["workers"].items()
    return [
        address
        for address, worker in workers
        if all(worker["resources"].get(name, 0) >= n for name, n in resources.items())
    ]


def _work(
    client: Any, plan: Plan, folder: Path, wanted: Sequence[Shard], resources: dict[str, float]
) -> Iterator[Outcome]:
    """Every shard and whether it failed, in the order in which they end.

    Raises:
        OSError: if a file cannot be written.
    """
    from distributed import as_completed

    job, waiting, tries = replace(plan, shards=()), iter(wanted), {}

    def submitted(shard: Shard, *avoid: str) -> Any:
        others = [address for address in _able(client, resources) if address not in avoid] if avoid else []
        where = {"workers": others, "allow_other_workers": True} if others else {}
        tries[shard.number] = tries.get(shard.number, 0) + 1
        key = f"{shard.number}-{tries[shard.number]}"
        return client.submit(_tried, job, folder, shard, **where, key=key, pure=False, resources=resources)

    count = max(1, len(_able(client, resources)))
    running = as_completed([submitted(shard) for shard in islice(waiting, AHEAD * count)])
    shards = {shard.number: shard for shard in wanted}
    for future in running:
        shard = shards[int(future.key.partition("-")[0])]
        error, worker = _ended(future)
        if error and worker and tries[shard.number] < TRIES:
            running.add(submitted(shard, worker))
            continue
        yield shard, error
        for following in islice(waiting, 1):
            running.add(submitted(following))


def _tried(job: Plan, folder: Path, shard: Shard) -> tuple[str, str]:
    """Why a shard failed, and the worker that tried it, if another may do better; both "" if it did not."""
    from distributed import get_worker

    try:
        return building.measure_shard(job, folder, shard)[1], ""
    except OSError:
        raise
    except Exception as problem:  # whatever a model raises, the other shards are still wanted
        return building.reason(problem), get_worker().address


def _ended(future: Any) -> tuple[str, str]:
    """Raises: OSError: as the worker did, if a file cannot be written."""
    from distributed import KilledWorker

    try:
        return future.result()
    except OSError:
        raise
    except KilledWorker:
        return "Its workers died one after another; they may need more memory.", ""
    except Exception as problem:  # such as a worker that has no attnviz
        return building.reason(problem), ""
