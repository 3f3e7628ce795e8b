"""Shards on workers of Dask: whoever dies, the atlas comes out the same."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import dask
import distributed
import psutil
import pytest

from attnviz import atlas
from attnviz.atlas import Engine, building
from attnviz.core.errors import InputError

ROOT = Path(__file__).parents[2]

DRIVER = """
import os, sys, psutil
from attnviz import atlas

def report(done, of):
    if done == 2:
        workers = [one for one in psutil.Process().children() if "spawn_main" in " ".join(one.cmdline())]
        print(*(one.pid for one in workers), flush=True)
        workers[-1].kill()
    if done == 6:
        os.kill(os.getpid(), 9)

if __name__ == "__main__":
    engine = atlas.Engine(workers=2, on_dashboard=lambda address: print(address, flush=True))
    atlas.build("constructed", sys.argv[1], sys.argv[2], atlas.Options(shard=2), work=engine, report=report)
"""


def bytes_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.*"))}


@pytest.mark.parametrize("count", [20, pytest.param(400, marks=pytest.mark.sweep)])
def test_a_worker_and_the_driver_are_killed_and_the_atlas_comes_out_the_same(count, tmp_path):
    """kill -9 of a worker costs no shard, kill -9 of the driver none that was done; no worker outlives its driver."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"a b {chr(99 + i % 9)} a b\n" for i in range(count)))
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, tmp_path / "driver.py", corpus, tmp_path / "killed"]
    ran = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=600
    )

    assert ran.returncode == -signal.SIGKILL, ran.stderr
    address, pids = ran.stdout.splitlines()
    assert address.startswith("http://127.0.0.1:")
    left = [psutil.Process(int(pid)) for pid in pids.split() if psutil.pid_exists(int(pid))]
    assert psutil.wait_procs(left, timeout=60)[1] == []
    done = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "killed" / "shards").glob("0*")}
    assert 3 <= len(done) <= count // 2
    assert not (tmp_path / "killed" / "atlas.json").exists()
    for folder in ("killed", "whole"):
        result = atlas.build("constructed", corpus, tmp_path / folder, atlas.Options(shard=2))
        assert (result.texts, result.failed) == (count, ())
    assert bytes_of(tmp_path / "killed") == bytes_of(tmp_path / "whole")
    assert done.items() <= {p.name: p.stat().st_mtime_ns for p in (tmp_path / "killed" / "shards").iterdir()}.items()


def test_a_scheduler_that_is_not_there_is_said(tmp_path, monkeypatch):
    """With its address."""
    (tmp_path / "corpus.txt").write_text("a b\n")
    monkeypatch.setattr(building, "SECONDS", 0.2)

    with pytest.raises(InputError, match=r"The Dask scheduler at 'tcp://127\.0\.0\.1:9'"):
        atlas.build(
            "constructed", tmp_path / "corpus.txt", tmp_path / "atlas", work=Engine(scheduler="tcp://127.0.0.1:9")
        )


def test_one_shard_needs_no_cluster(tmp_path):
    """This process does it."""
    (tmp_path / "corpus.txt").write_text("a b a b\n")
    addresses = []
    atlas.build("constructed", tmp_path / "corpus.txt", tmp_path / "atlas", work=Engine(on_dashboard=addresses.append))

    assert addresses == []
    assert json.loads((tmp_path / "atlas" / "atlas.json").read_text()) == {
        "texts": 1,
        "tokens": 4,
        "empty_lines": 0,
        "failed": [],
    }


def test_a_shard_that_fails_is_tried_again(tmp_path, monkeypatch):
    """Three times; then it is named, and the others are there. What cannot be mended is tried once."""
    tried, whole = [], building._measure

    def one(source, made, folder, shard):
        tried.append((shard.number, distributed.get_worker().address))
        if shard.number == 1 and [number for number, _ in tried].count(1) == 1:
            raise RuntimeError("Out of luck")
        if shard.number == 2:
            raise RuntimeError("Never\nwell")
        if shard.number == 3:
            raise InputError("The corpus changed.")
        whole(source, made, folder, shard)

    monkeypatch.setattr(building, "_measure", one)
    (tmp_path / "corpus.txt").write_text("a b a\n" * 4)
    how = {"processes": False, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    stays = dask.config.set({"distributed.scheduler.work-stealing": False})
    with stays, distributed.LocalCluster(n_workers=2, **how) as cluster:
        work = Engine(scheduler=cluster.scheduler_address)
        result = atlas.build(
            "constructed", tmp_path / "corpus.txt", tmp_path / "atlas", atlas.Options(shard=1), work=work
        )

    assert sorted((part["line"], part["error"]) for part in result.failed) == [
        (3, "RuntimeError: Never well"),
        (4, "The corpus changed."),
    ]
    assert result.texts == 2
    assert [number for number, _ in sorted(tried)] == [0, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize(("workers", "shards", "started"), [(5, 9, 5), (5, 3, 3)])
def test_as_many_workers_start_as_are_asked_for_and_have_work(tmp_path, monkeypatch, workers, shards, started):
    """With the memory that each may take, and C's own way to keep it; what Dask does not take is said."""
    asked = {}

    def cluster(**how):
        asked.update(how | {"trim": dask.config.get(building.TRIM)})
        raise ValueError("Could not parse\n'4XB'")

    monkeypatch.setattr(distributed, "LocalCluster", cluster)
    (tmp_path / "corpus.txt").write_text("a b a\n" * shards)
    work = Engine(workers, memory="4XB")
    with pytest.raises(InputError, match="The Dask cluster cannot be used: Could not parse '4XB'"):
        atlas.build("constructed", tmp_path / "corpus.txt", tmp_path / "atlas", atlas.Options(shard=1), work=work)

    assert (asked["n_workers"], asked["threads_per_worker"], asked["memory_limit"]) == (started, 1, "4XB")
    assert asked["trim"] is None


def test_a_scheduler_without_workers_is_said(tmp_path, monkeypatch):
    """Nobody waits for ever."""
    monkeypatch.setattr(building, "SECONDS", 0.2)
    (tmp_path / "corpus.txt").write_text("a b\n")
    how = {"processes": False, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(n_workers=0, **how) as cluster:
        work = Engine(scheduler=cluster.scheduler_address)
        with pytest.raises(InputError, match=r"The Dask scheduler at 'inproc://.*' has no workers\."):
            atlas.build("constructed", tmp_path / "corpus.txt", tmp_path / "atlas", work=work)
