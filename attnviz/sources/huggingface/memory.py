"""How much memory a model needs, and how much there is; in bytes."""

import ctypes
import gc
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import torch

GROUP = Path("/sys/fs/cgroup")
"""Folder in which Linux shows the control group of a process."""
USUAL = 512
"""Tokens that a run is reckoned with, if the model reads so many."""


def needed(model: Any, numbers: int, dtype: torch.dtype, longest: int | None) -> int:
    """Bytes for the weights of a model, its buffers, and a run over `longest` tokens or 512, whichever is less."""
    buffers = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    return numbers * dtype.itemsize + buffers + activations(model.config, min(longest or USUAL, USUAL))


def activations(config: Any, tokens: int) -> int:
    """Bytes that one run over so many tokens needs, reckoned generously: what each layer keeps, one layer's scores,
    its feed-forward part, and the scores over the vocabulary."""
    per_token, _, heads = _sizes(config.get_text_config())
    return 4 * tokens * (per_token + 4 * heads * tokens)


def run(config: Any, sentences: int, tokens: int, *, own: bool, masks: bool = True) -> int:
    """Bytes that a run over a batch needs at least; `own` is a model that computes attention itself, and so gives the
    weights of all layers and heads at once. Through the tap only `masks` are as large as that, and T5's biases."""
    config = config.get_text_config()
    per_token, layers, heads = _sizes(config)
    square = 2 * layers * heads if own else 3 * heads * hasattr(config, "relative_attention_num_buckets")
    return 4 * sentences * tokens * (per_token + (square + 2 * masks) * tokens)


def _sizes(config: Any) -> tuple[int, int, int]:
    """Numbers that a run keeps of each token; how many layers there are, and heads in each."""

    def number(*names: str, otherwise: int) -> int:
        return next((value for name in names if isinstance(value := getattr(config, name, None), int)), otherwise)

    d_model = number("hidden_size", "d_model", otherwise=1024)
    layers = number("num_hidden_layers", "num_layers", otherwise=12) + number("decoder_layers", otherwise=0)
    heads = number("num_attention_heads", "num_heads", otherwise=16)
    inner = number("intermediate_size", "d_ff", "encoder_ffn_dim", "n_inner", otherwise=4 * d_model)
    return 6 * layers * d_model + 3 * inner + 2 * number("vocab_size", otherwise=0), layers, heads


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
