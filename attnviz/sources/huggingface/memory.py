"""How much memory a model needs, and how much there is; in bytes."""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

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


def run(config: Any, sentences: int, tokens: int, *, own: bool) -> int:
    """Bytes that a run over a batch needs at least; `own` is a model that computes attention itself, and so gives the
    weights of all layers and heads at once. Through the tap only masks are as large as that, and T5's biases."""
    config = config.get_text_config()
    per_token, layers, heads = _sizes(config)
    square = 2 * layers * heads if own else 3 * heads * hasattr(config, "relative_attention_num_buckets")
    return 4 * sentences * tokens * (per_token + (square + 2) * tokens)


def _sizes(config: Any) -> tuple[int, int, int]:
    """What a run keeps of each token, in numbers; how many layers there are, and heads in each."""

    def number(*names: str, otherwise: int) -> int:
        return next((found for name in names if isinstance(found := getattr(config, name, None), int)), otherwise)

    d_model = number("hidden_size", "d_model", otherwise=1024)
    layers = number("num_hidden_layers", "num_layers", otherwise=12) + number("decoder_layers", otherwise=0)
    heads = number("num_attention_heads", "num_heads", otherwise=16)
    inner = number("intermediate_size", "d_ff", "encoder_ffn_dim", "n_inner", otherwise=4 * d_model)
    return 6 * layers * d_model + 3 * inner + 2 * number("vocab_size", otherwise=0), layers, heads


def free(device: torch.device) -> int | None:
    """Bytes that can still be had on a device; None if nobody says."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    found = [bytes for bytes in (_machine(), _container()) if bytes is not None]
    return min(found, default=None)


def devices() -> list[torch.device]:
    """What models can run on here, the fastest first."""
    found = [torch.device("cpu")]
    if torch.backends.mps.is_available():
        found.insert(0, torch.device("mps"))
    if torch.cuda.is_available():
        found.insert(0, torch.device("cuda"))
    return found


def _machine() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, AttributeError):  # what macOS has in all: it does not say what is free
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if sys.platform == "win32":
        status = (ctypes.c_ulonglong * 8)(64)  # MEMORYSTATUSEX: its own length first, what is available third
        if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
            return status[2]
    return None


def _container() -> int | None:
    """What the control group of this process has left, under Linux."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):  # no such group, or "max": no limit
            group = Path("/sys/fs/cgroup")
            return int((group / limit).read_text()) - int((group / used).read_text())
    return None
