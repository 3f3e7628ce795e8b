"""Time and memory that a run, or an analysis of attention maps, takes on this machine, and the memory that it has."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from pathlib import Path

import psutil
import torch

from attnviz.core import attention
from attnviz.core.amounts import counted, size
from attnviz.core.edits import Edits
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.record import Record, Step
from attnviz.sources.base import Source

USUAL = 5e9
"""Operations per second that every machine reaches; a run with fewer operations needs no measured speed."""
A_WEIGHT, A_CALL = 2_000, 1e9
"""Cost of computing all metrics, in operations: for each attention weight, and for each call of any size."""
NARROWEST = 64
"""Width of a head below which the time for a cell stays the same, because its exp takes most of the time."""
GROUP = Path("/sys/fs/cgroup")
"""Folder in which Linux shows the control group of a process."""


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of a run, or of maps.

    Attributes:
        tokens: number of tokens in all sentences, with padding, or the number of other things that `unit` names.
        seconds: approximate duration.
        bytes: peak memory.
        record_bytes: part of the memory that the record keeps.
        maps: number of maps to process; 0 for a run.
    """

    tokens: int
    seconds: float
    bytes: int
    record_bytes: int
    maps: int = 0
    unit: str = "tokens"

    def __str__(self) -> str:
        what = f"{self.what} of " if self.maps else ""
        return f"{what}{self.tokens:,} {self.unit}: about {in_time(self.seconds)} and {size(self.bytes)}"

    @property
    def what(self) -> str:
        """Number of maps, such as "12 maps"."""
        return counted(self.maps, "map")


def in_time(seconds: float) -> str:
    """Format a duration in whole seconds, or in minutes from two minutes on."""
    return f"{max(1, round(seconds)):,} s" if seconds < 120 else f"{round(seconds / 60):,} minutes"


def estimate(source: Source, length: int, edits: Edits = Edits(), sentences: int = 1) -> Estimate:
    """Estimate the cost of a run over a number of sentences with `length` tokens each.

    - seconds: see `_operations`.
    - record_bytes = 4 · tokens · (3 · d_model per call + d_model + predicted words) + 8 · tokens · heads of all calls.
    - bytes = record_bytes + 32 · tokens · d_model for the activations of a layer + 4 · length² · `Facts.squares` for
      each sentence. The blocks of scores that are computed at once, at most 64 MB, are not counted.
    """
    layers, width, tokens, facts = len(source.sites), source.d_model, sentences * length, source.facts
    words, squares = (facts.words, facts.squares) if facts else (0, 0)
    stored = 4 * tokens * (3 * width * layers + width + words) + 8 * tokens * source.num_heads * layers
    peak = stored + 32 * tokens * width + 4 * sentences * length**2 * squares
    return Estimate(tokens, _seconds(_operations(source, length, edits, sentences)), peak, stored)


def of_texts(source: Source, runs: Sequence[tuple[int, int]], edits: Edits = Edits()) -> Estimate:
    """Estimate the cost of measuring every head on many texts.

    The operations are those of all runs, of the texts that the model writes, `A_WEIGHT` for each attention weight and
    `A_CALL` for each attention call. A model that writes is assumed to write as many tokens as it reads, and processes
    all previous tokens again for each new token. The bytes are those of the largest run.

    Args:
        runs: pairs of the number of texts in a run and the number of tokens that each text is padded to.
    """
    written = sum(site.kind != "encoder" for site in source.sites) / len(source.sites) if source.writes else 0
    tokens, operations, peak = 0, 0.0, 0
    for count, length in runs:
        tokens += count * length
        operations += _operations(source, length, edits, count) * (1 + written * length / 2)
        operations += len(source.sites) * (A_WEIGHT * count * source.num_heads * length**2 + A_CALL)
        peak = max(peak, estimate(source, length, edits, count).bytes)
    return Estimate(tokens, operations / operations_per_second(), peak, 0)


def of_maps(step: Step, maps: int = 1, *, rows: range | None = None, columns: range | None = None) -> Estimate:
    """Estimate the cost of processing attention maps of a call, or a window of each map, block by block.

    The operations are 2 · (d_k + d_v, at least 2 · `NARROWEST`) for each cell. In a window, no cell is assumed to be
    blocked. The bytes are 12 MiB for each map (a tile of 512 × 512 cells with 48 bytes each), and two blocks of 1 MiB.
    """
    queries, keys = step.shape[2:]
    whole = rows is None and columns is None and queries == keys and isinstance(step.mask, Mask)
    sides = [queries if rows is None else len(rows), keys if columns is None else len(columns)]
    cells = _computed_pairs(step.mask, queries) if whole else sides[0] * sides[1]
    operations = 2 * maps * cells * max(2 * NARROWEST, step.query.shape[-1] + step.value.shape[-1])
    return Estimate(max(sides), _seconds(operations), (12 * maps + 2) << 20, 0, maps)


def of_all_maps(record: Record) -> Estimate:
    """Estimate the cost of processing the attention maps of all heads of a run."""
    costs = [of_maps(step, step.num_heads) for step in record.steps]
    seconds, peak = sum(cost.seconds for cost in costs), sum(cost.bytes for cost in costs)
    return Estimate(max(cost.tokens for cost in costs), seconds, peak, 0, sum(cost.maps for cost in costs))


def _operations(source: Source, length: int, edits: Edits, sentences: int) -> float:
    """Number of operations of a run: 4 · cells · d_model for each attention call + 2 · tokens · parameters.

    The cells of a head are the pairs that `core.attention.attend` computes: in long texts it skips tiles that a mask
    blocks. A head narrower than `NARROWEST` counts as that wide. Decoders are assumed to be causal, encoders to have no
    mask. A source that does not state its parameters is assumed to have 12 · d_model² per layer, as a Transformer has.
    Token embeddings count only if the model predicts words with them.
    """
    cells = 0
    for site in source.sites:
        own_mask = Subsequent() if site.kind == "decoder" and edits.own_mask else None
        edited = edits.mask_at(site.kind)
        mask = own_mask & edited if own_mask and edited else own_mask or edited
        cells += _computed_pairs(mask, length)
    parameters = 12 * source.d_model**2 * len(source.sites)
    if facts := source.facts:
        parameters = facts.parameters - (0 if facts.words else facts.vocabulary * source.d_model)
    heads = source.num_heads * max(NARROWEST, source.d_model // source.num_heads)
    return 4 * sentences * cells * heads + 2 * sentences * length * parameters


@lru_cache(maxsize=64)
def _computed_pairs(mask: Mask | None, length: int) -> int:
    """Number of pairs of a query and a key that one head computes: long maps leave out tiles that a mask blocks."""
    if mask is None or length <= attention.LONG:
        return length**2
    ranges = [range(start, min(start + attention.TILE, length)) for start in range(0, length, attention.TILE)]
    tiles = product(ranges, ranges)
    return sum(len(rows) * len(columns) for rows, columns in tiles if mask.is_open(rows, columns) is not False)


def _seconds(operations: float) -> float:
    """Duration of operations: at the speed `USUAL` if that takes under a second, else at the measured speed."""
    return operations / (USUAL if operations < USUAL else operations_per_second())


@cache
def operations_per_second() -> float:
    """Measure the speed of attention with 512 queries and 8,192 keys, once per process, in about 1/60 second."""
    query, key = torch.zeros(1, 1, attention.TILE, 64), torch.zeros(1, 1, 2 * attention.LONG, 64)
    operations, best = 4 * query.shape[2] * key.shape[2] * 64, float("inf")
    with torch.inference_mode():
        for _ in range(3):  # the first call is slower, and another program may slow down any of them
            begun = time.perf_counter()
            attention.attend(query, key, key)
            best = min(best, time.perf_counter() - begun)
    return operations / best


def devices() -> list[torch.device]:
    """Devices of this machine that can run models, the fastest first."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [torch.device(name) for name, is_available in available.items() if is_available]


def free_bytes(device: torch.device) -> int:
    """Bytes that are available on a device, including those that torch has reserved and does not use."""
    if device.type == "cuda":
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + reserve
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    free = psutil.virtual_memory().available
    with suppress(OSError, ValueError):  # no control group of Linux, or "max": no limit
        limit, used = (int((GROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        statistics = (GROUP / "memory.stat").read_text().split()  # a name and a number in each line
        inactive = int(statistics[statistics.index("inactive_file") + 1])  # cache of files, freed when needed
        return min(free, limit - used + inactive)
    return free
