"""How much memory a model needs, and how much there is; in bytes."""

import ctypes
import gc
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import torch
from torch import nn

GROUP = Path("/sys/fs/cgroup")
"""Folder in which Linux shows the control group of a process."""
RUN = 0.1
"""Memory for runs beside a model, as a share of its own; each run is checked on its own, see `sources.estimate`."""


def needed(model: nn.Module, numbers: int, dtype: torch.dtype) -> int:
    """Bytes for a model of so many numbers, its buffers, and runs of it."""
    buffers = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    return round((numbers * dtype.itemsize + buffers) * (1 + RUN))


def free(device: torch.device) -> int:
    """Bytes that can still be had on a device, with those that torch holds in reserve there."""
    if device.type == "cuda":
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + reserve
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    limit, used = _container()
    return min(psutil.virtual_memory().available, limit - used)


def used() -> int:
    """Bytes that this process and those that it started use."""
    own = psutil.Process()
    total = 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            total += process.memory_info().rss
    return total


def give_back() -> None:
    """Give the system back what was freed: the C library keeps it for the next one who asks, where it can be told."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def whole(device: torch.device) -> int:
    """Bytes of a device, used or not."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    if device.type == "mps":
        return torch.mps.recommended_max_memory()
    return min(psutil.virtual_memory().total, _container()[0])


def devices() -> list[torch.device]:
    """Devices that models can run on here, the fastest first."""
    available = [torch.device("cpu")]
    if torch.backends.mps.is_available():
        available.insert(0, torch.device("mps"))
    if torch.cuda.is_available():
        available.insert(0, torch.device("cuda"))
    return available


def _container() -> tuple[int, int]:
    """The limit of the control group of this process, under Linux, and how much of it is used; the largest and 0 if
    there is none. What files were read into memory is given up when it is needed, so it is not counted as used."""
    v2 = ("memory.max", "memory.current", "memory.stat", "inactive_file ")
    names = ("limit_in_bytes", "usage_in_bytes", "stat")
    v1 = (*(f"memory/memory.{name}" for name in names), "total_inactive_file ")
    for limit, used, stat, read in (v2, v1):
        with suppress(OSError, ValueError):  # no such group, or "max": no limit
            most, taken = int((GROUP / limit).read_text()), int((GROUP / used).read_text())
            lines = (GROUP / stat).read_text().splitlines()
            return most, taken - sum(int(line.removeprefix(read)) for line in lines if line.startswith(read))
    return sys.maxsize, 0
