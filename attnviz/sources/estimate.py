"""Estimated cost of a run, and of a page that goes through its maps: seconds on this machine, and bytes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import torch

from attnviz.core import attention
from attnviz.core.amounts import counted, size
from attnviz.core.edits import Edits
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.record import Record, Step
from attnviz.sources.base import Source

FEW = 5e9
"""Operations below which nobody waits for a run, so that the machine is not measured."""

USUAL = 5e9
"""Operations per second that are assumed for these: less than any machine of the last ten years."""


A_WEIGHT, A_CALL = 2_000, 1e9
"""Operations that are done in the time in which every metric takes up a weight; and a call, whatever its size."""

NARROWEST = 64
"""Width of a head below which a cell takes no less time: its exp is most of it."""


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of a run, or of maps.

    Attributes:
        tokens: of all its sentences, padding included; or as many of its `unit`, where no text is run.
        seconds: how long it takes, about.
        bytes: how much memory it has at once, at most.
        record_bytes: what its record keeps of that.
        maps: that it goes through; 0 for a run.
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
        """How many maps it goes through."""
        return counted(self.maps, "map")


def in_time(seconds: float) -> str:
    """Whole seconds, or minutes from two on."""
    return f"{max(1, round(seconds)):,} s" if seconds < 120 else f"{round(seconds / 60):,} minutes"


def estimate(source: Source, length: int, edits: Edits = Edits(), sentences: int = 1) -> Estimate:
    """Cost of a run over sentences of so many tokens each.

    - seconds = (4 · cells · d_model, of each attention call, + 2 · tokens · parameters) / operations per second. The
      cells of a head are the pairs that `core.attention.attend` computes: of long texts not those of tiles that a mask
      blocks; a head narrower than `NARROWEST` takes no less time. A decoder is taken to hide the future, an encoder to
      hide nothing. Parameters that a source does not state are taken to be 12 · d_model² for each layer, as in a
      Transformer; the vectors of tokens are looked up, and count where they are what words are predicted by.
    - record_bytes = 4 · tokens · (3 · d_model for each call + d_model + words, what it says) + 8 · tokens · heads of
      each call.
    - bytes = record_bytes + 32 · tokens · d_model, what a layer holds meanwhile, + 4 · length² for each
      sentence and each of `Facts.squares`. Blocks of at most 64 MB are not counted.
    """
    layers, width, tokens = len(source.sites), source.d_model, sentences * length
    operations = _operations(source, length, edits, sentences)
    words = source.facts.words if source.facts else 0
    stored = 4 * tokens * (3 * width * layers + width + words) + 8 * tokens * source.num_heads * layers
    squares = 4 * sentences * length**2 * source.facts.squares if source.facts else 0
    rate = USUAL if operations < FEW else operations_per_second()
    return Estimate(tokens, operations / rate, stored + 32 * tokens * width + squares, stored)


def of_texts(source: Source, runs: Sequence[tuple[int, int]], edits: Edits = Edits()) -> Estimate:
    """Cost of measuring every head on many texts, here.

    - seconds = (operations of all runs, + those of what the model writes, + `A_WEIGHT` for each weight and `A_CALL` for
      each call that is measured) / operations per second. A model that writes reads all that it has written again for
      each word, and is taken to write as much as it reads.
    - bytes and record_bytes are those of the largest run.

    Args:
        runs: how many texts there are in each run, and how many tokens each is padded to.
    """
    parts = [estimate(source, length, edits, count) for count, length in runs]
    written = sum(site.kind != "encoder" for site in source.sites) / len(source.sites) if source.writes else 0
    operations = 0.0
    for count, length in runs:
        operations += _operations(source, length, edits, count) * (1 + written * length / 2)
        operations += len(source.sites) * (A_WEIGHT * count * source.num_heads * length**2 + A_CALL)
    most = {name: max((getattr(part, name) for part in parts), default=0) for name in ("bytes", "record_bytes")}
    return Estimate(sum(part.tokens for part in parts), operations / operations_per_second(), **most)


def of_maps(step: Step, maps: int = 1, *, rows: range | None = None, columns: range | None = None) -> Estimate:
    """Cost of going through so many maps of a call, or a window of each, block by block.

    - seconds = 2 · cells · (d_k + d_v) / operations per second, as the attention of a head takes. Of a window no cell
      is taken to be blocked.
    - bytes = 48 for each tile, and two blocks.
    """
    queries, keys = step.shape[2:]
    whole = rows is None and columns is None and queries == keys and isinstance(step.mask, Mask)
    sides = [queries if rows is None else len(rows), keys if columns is None else len(columns)]
    cells = _computed(step.mask, queries) if whole else sides[0] * sides[1]
    operations = 2 * maps * cells * max(2 * NARROWEST, step.query.shape[-1] + step.value.shape[-1])
    rate = USUAL if operations < FEW else operations_per_second()
    return Estimate(max(sides), operations / rate, (12 * maps + 2) << 20, 0, maps)


def of_all_maps(record: Record) -> Estimate:
    """Cost of going through the map of every head of a run."""
    parts = [of_maps(step, step.num_heads) for step in record.steps]
    together = {
        name: sum(getattr(part, name) for part in parts) for name in ("seconds", "bytes", "record_bytes", "maps")
    }
    return Estimate(max(part.tokens for part in parts), **together)


def longest(source: Source, most: int, seconds: float, bytes: int, edits: Edits = Edits(), sentences: int = 1) -> int:
    """Tokens of each sentence, up to `most`, that a run may have to stay within seconds and bytes."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        cost = estimate(source, middle, edits, sentences)
        low, high = (middle, high) if cost.seconds <= seconds and cost.bytes <= bytes else (low, middle - 1)
    return low


def _operations(source: Source, length: int, edits: Edits, sentences: int) -> float:
    """Operations of a run; see `estimate`."""
    cells = sum(_computed(_mask(edits, site.kind), length) for site in source.sites)
    parameters = 12 * source.d_model**2 * len(source.sites)
    if facts := source.facts:
        parameters = facts.parameters - (0 if facts.words else facts.vocabulary * source.d_model)
    heads = source.num_heads * max(NARROWEST, source.d_model // source.num_heads)
    return 4 * sentences * cells * heads + 2 * sentences * length * parameters


@cache
def operations_per_second() -> float:
    """Measured once for each process, in a sixtieth of a second or so: attention of 512 queries and 8,192 keys."""
    query, key = torch.zeros(1, 1, attention.TILE, 64), torch.zeros(1, 1, 2 * attention.LONG, 64)
    operations, best = 4 * query.shape[2] * key.shape[2] * 64, float("inf")
    with torch.inference_mode():
        for _ in range(3):  # the first is slower, and another program may disturb one
            begun = time.perf_counter()
            attention.attend(query, key, key)
            best = min(best, time.perf_counter() - begun)
    return operations / best


def _mask(edits: Edits, kind: str) -> Mask | None:
    own, more = (Subsequent() if kind == "decoder" and edits.own_mask else None), edits.mask_at(kind)
    return own & more if own and more else own or more


@lru_cache(maxsize=64)
def _computed(mask: Mask | None, length: int) -> int:
    """Pairs of a query and a key that one head computes."""
    if mask is None or length <= attention.LONG:
        return length**2
    parts = [range(start, min(start + attention.TILE, length)) for start in range(0, length, attention.TILE)]
    return sum(
        len(rows) * len(columns) for rows in parts for columns in parts if mask.is_open(rows, columns) is not False
    )
