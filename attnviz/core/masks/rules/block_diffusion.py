"""The mask with which a block diffusion model is trained."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.observed import Observed, counts
from attnviz.core.parameters import check_numbers, parameter


@dataclass(frozen=True)
class BlockDiffusion(Mask):
    """A text twice in one sequence, first with noise and then clean, in blocks of `size`; `length` is that of one copy.

    Noised tokens see their own noised block, and the clean blocks before it; clean tokens see the clean blocks up to
    their own, whole. Block diffusion (Arriola et al. 2025, "BD3-LM", section 3.3 and appendix B.6).
    """

    rule = "block_diffusion"
    meaning = "a noised text beside the clean one: own noised block, clean blocks before (BD3-LM)"
    size: int = parameter("block size", least=1, start=2)
    length: int = parameter("tokens of one copy", least=1, start=4)

    def __post_init__(self):
        check_numbers(self, size=1, length=1)

    @classmethod
    def started(cls, keys, lengths):
        return cls(2, max(1, keys // 2))

    def allows(self, query, key, sentence):
        mine, other = query % self.length // self.size, key % self.length // self.size
        noised, seen_noised = query < self.length, key < self.length
        inside = (query >= 0) & (query < 2 * self.length) & (key < 2 * self.length)
        own = noised & seen_noised & (mine == other)
        before = noised & ~seen_noised & (other < mine)
        clean = ~noised & ~seen_noised & (other <= mine)
        return inside & (own | before | clean)

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """Half as long as the sequence; noised queries see one block of noised keys."""
        half = observed.keys // 2
        if observed.queries == observed.keys == 2 * half and not observed.first and half:
            noised = counts(observed.known_open[:half, :half], 1)
            sizes = {int(noised[0]), int(noised.mode().values)}
            yield from (cls(size, half) for size in sizes if 0 < size <= half)

    def __str__(self) -> str:
        return f"block diffusion (blocks of {self.size}, {self.length} tokens)"
