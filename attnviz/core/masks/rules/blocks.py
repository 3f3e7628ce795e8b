"""Block-sparse attention."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import any_known, within
from attnviz.core.masks.observed import Observed
from attnviz.core.parameters import check_numbers, parameter


@dataclass(frozen=True)
class Blocks(Mask):
    """Block-sparse: positions fall into blocks of `size`, and a query sees whole blocks of keys.

    It sees its own block, `before` blocks before it and `after` after it; the `first` blocks see all and are seen by
    all. These are the window and the global blocks of BigBird (Zaheer et al. 2020, section 2 and appendix D, "ITC");
    its random keys are `Random`.
    """

    rule = "blocks"
    meaning = "block-sparse: a query sees whole blocks of keys"
    size: int = parameter("block size", least=1, start=2)
    before: int = parameter("blocks before", default=1)
    after: int = parameter("blocks after", default=1)
    first: int = parameter("global blocks", default=0)

    def __post_init__(self):
        check_numbers(self, size=1, first=0)

    def allows(self, query, key, sentence):
        query_block, key_block = query // self.size, key // self.size
        near = (key_block >= query_block - self.before) & (key_block <= query_block + self.after)
        if not self.first:
            return near
        return near | (key_block < self.first) | ((query_block >= 0) & (query_block < self.first))

    def is_open(self, queries, keys):
        query_blocks, key_blocks = ((part[0] // self.size, part[-1] // self.size) for part in (queries, keys))
        near = within(key_blocks[0] - query_blocks[1], key_blocks[1] - query_blocks[0], -self.before, self.after)
        return any_known({near, *(within(*part, 0, self.first - 1) for part in (query_blocks, key_blocks))})

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """Sizes that the turns of the rows have in common, and any where random keys hide them."""
        sizes = {math.gcd(*observed.turns), math.gcd(*observed.ends), int(observed.per_row[0])} - {0, 1}
        for size in sorted(sizes):
            if size < observed.keys:
                yield from cls._of_size(observed, size)

    @classmethod
    def among_random(cls, observed: Observed) -> Iterator[Mask]:
        """Masks of any size, where random keys make every row another."""
        for size in range(2, min(observed.keys // 2, 64) + 1):
            yield from cls._of_size(observed, size)

    @classmethod
    def _of_size(cls, observed: Observed, size: int) -> Iterator[Mask]:
        """Around itself as far as whole blocks are open, with the first blocks that are open to most."""
        if observed.first or observed.queries != observed.keys:
            return
        blocks = observed.in_blocks(size)
        count = blocks.keys
        first = int((blocks.open_keys & blocks.open_rows).int().cumprod(0).sum())
        if first < count:
            rest = blocks.without(rows=torch.arange(count) < first, keys=torch.arange(count) < first)
            before, after = rest.window or (0, 0)
            yield cls(size, before, after, first)

    def __str__(self) -> str:
        first = f", first {self.first}" if self.first else ""
        return f"blocks of {self.size} ({self.before} before, {self.after} after{first})"
