"""Rules for neighboring places, in a sequence or in a picture."""

from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.parameters import parameter


@dataclass(frozen=True)
class Neighborhood(Mask):
    """Neighborhood attention: each query sees the `size` nearest keys, `step` apart, also at the ends of the sequence.

    The window moves inward at the ends instead of being cut: of `length` tokens, query i sees `size` keys from
    clamp(i - size // 2, 0, length - size) on. With a step, positions form `step` interleaved groups with separate
    neighborhoods. In one dimension, as NATTEN computes it: neighborhood attention (Hassani et al. 2023, "NAT", section
    3) and its dilated form (Hassani and Shi 2022, "DiNAT", section 3).
    """

    rule = "neighborhood"
    meaning = "a window that stops at the ends: every query sees as many keys (NATTEN)"
    words = "neighborhood ({size} of {length} tokens[, step {step}])"
    size: int = parameter("neighbors", least=1, start=3)
    length: int = parameter("tokens", least=1, start=8)
    step: int = parameter("step", default=1, least=1)

    def allows(self, query, key, sentence):
        inside = (query >= 0) & (query < self.length) & (key < self.length) & ((key - query) % self.step == 0)
        place, key_place = query // self.step, key // self.step
        last = (self.length - 1 - query % self.step) // self.step  # last place in the group
        reach = self.size // 2
        from_start = (key_place >= place - reach) | (key_place > last - self.size)
        to_end = (key_place < place - reach + self.size) | (key_place < self.size)
        return inside & from_start & to_end


@dataclass(frozen=True)
class PatchWindows(Mask):
    """Windows of a picture: each patch sees the patches of its own window of `size` x `size` patches.

    Patches are numbered row by row, `columns` per row. With a `shift`, the windows begin that many rows and columns
    later, and the strips before them are separate windows, as in Swin (Liu et al. 2021, section 3.2), where the picture
    is rolled and patches that were not neighbors before are masked.
    """

    rule = "patch_windows"
    meaning = "a patch sees its own window of the picture (Swin)"
    words = "windows of {size} x {size} patches ({columns} columns[, shifted by {shift}])"
    columns: int = parameter("columns", least=1, start=8)
    size: int = parameter("window size", least=1, start=4)
    shift: int = parameter("shift", default=0)

    def allows(self, query, key, sentence):
        moved = self.size - self.shift
        rows = (query // self.columns + moved) // self.size == (key // self.columns + moved) // self.size
        return rows & ((query % self.columns + moved) // self.size == (key % self.columns + moved) // self.size)
