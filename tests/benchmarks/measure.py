"""Fair timings on a busy machine: the cases run in turns, and the median counts."""

import os
import platform
import time
from collections.abc import Callable
from statistics import median

import torch


def interleaved(
    cases: dict[str, Callable[[], object]],
    *,
    rounds: int = 15,
    span: float = 0.02,
    budget: float = 6.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds per call of each case: the median of up to `rounds` turns, each about `span` seconds long.

    All cases take a turn in every round, each round begins with another one, and the first round is not counted. So
    what the machine does besides slows all of them. After `budget` seconds, and at least five rounds, it is enough.
    With a span of 0 each is called once in a turn: for what takes many seconds. With `time.thread_time` as its clock
    only this thread's work counts, not what it waits for.
    """
    names, start = list(cases), time.perf_counter()
    repeats = {name: max(1, round(span / max(1e-7, _once(cases[name], 2, clock)))) if span else 1 for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for i in range(rounds + 1):
        turns = {name: _once(cases[name], repeats[name], clock) for name in _rotated(names, i)}
        if i:
            for name, took in turns.items():
                seconds[name].append(took)
        if i >= 5 and time.perf_counter() - start > budget:
            break
    return {name: median(times) for name, times in seconds.items()}


def _rotated(names: list[str], by: int) -> list[str]:
    by %= len(names)
    return names[by:] + names[:by]


def _once(case: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        case()
    return (clock() - start) / repeats


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    print(f"\n{title}\n")
    for cells in (columns, ["-" * width for width in widths], *rows):
        print("| " + " | ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)) + " |")


def machine() -> str:
    """Describe the machine and its load in one line; the load should be near 0 before a run that counts."""
    facts = [platform.machine(), f"Python {platform.python_version()}", f"torch {torch.__version__}"]
    facts.append(f"{torch.get_num_threads()} torch thread(s)")
    if hasattr(os, "getloadavg"):
        facts.append(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return ", ".join(facts)
