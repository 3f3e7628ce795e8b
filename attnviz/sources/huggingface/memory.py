"""Memory that a model needs, and memory of the devices, in bytes."""

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
"""Memory for runs as a share of the model's memory; each run is also checked by itself, see `sources.estimate`."""


def needed(model: nn.Module, numbers: int, dtype: torch.dtype) -> int:
    """Bytes for a model with this number of parameters, for its buffers, and for its runs."""
    buffers = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    return round((numbers * dtype.itemsize + buffers) * (1 + RUN))


def free(device: torch.device) -> int:
    """Bytes that are available on a device, including those that torch has reserved and does not use."""
    if device.type == "cuda":
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + reserve
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    limit, used = _control_group()
    return min(psutil.virtual_memory().available, limit - used)


def used() -> int:
    """Bytes that this process and its child processes use."""
    own = psutil.Process()
    total = 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            total += process.memory_info().rss
    return total


def give_back() -> None:
    """Return freed memory to the system; without this call the C library may keep it for later allocations."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def whole(device: torch.device) -> int:
    """Total memory of a device in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    if device.type == "mps":
        return torch.mps.recommended_max_memory()
    return min(psutil.virtual_memory().total, _control_group()[0])


def devices() -> list[torch.device]:
    """Devices of this machine that can run models, the fastest first."""
    available = [torch.device("cpu")]
    if torch.backends.mps.is_available():
        available.insert(0, torch.device("mps"))
    if torch.cuda.is_available():
        available.insert(0, torch.device("cuda"))
    return available


def _control_group() -> tuple[int, int]:
    """Memory limit and used bytes of this process's control group under Linux; `sys.maxsize` and 0 without a limit.
    The cache of inactive files is not counted as used, as the system frees it when memory is needed."""
    v2 = ("memory.max", "memory.current", "memory.stat", "inactive_file ")
    names = ("limit_in_bytes", "usage_in_bytes", "stat")
    v1 = (*(f"memory/memory.{name}" for name in names), "total_inactive_file ")
    for limit, used, stat, read in (v2, v1):
        with suppress(OSError, ValueError):  # no such group, or "max": no limit
            most, taken = int((GROUP / limit).read_text()), int((GROUP / used).read_text())
            lines = (GROUP / stat).read_text().splitlines()
            return most, taken - sum(int(line.removeprefix(read)) for line in lines if line.startswith(read))
    return sys.maxsize, 0
