"""Rules that go by places that are near each other, in a line or in a picture."""

from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.parameters import parameter


@dataclass(frozen=True)
class Neighborhood(Mask):
    """Each query sees the `size` keys nearest to it, as many at the ends as in the middle; `step` apart.

    A window that stops at the ends instead of reaching beyond them: of `length` tokens, query i sees the keys from
    clamp(i - size // 2, 0, length - size) on. With a step, positions fall into `step` interleaved groups, each with
    neighborhoods of its own. In one dimension: neighborhood attention (Hassani et al. 2023, "NAT", section 3) and its
    dilated form (Hassani and Shi 2022, "DiNAT", section 3), as NATTEN computes them.
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
        last = (self.length - 1 - query % self.step) // self.step  # the last place of the group
        reach = self.size // 2
        from_start = (key_place >= place - reach) | (key_place > last - self.size)
        to_end = (key_place < place - reach + self.size) | (key_place < self.size)
        return inside & from_start & to_end


@dataclass(frozen=True)
class PatchWindows(Mask):
    """A picture is cut into windows of `size` x `size` patches, and a patch sees those of its own window.

    Patches are counted row by row, `columns` in each. With a `shift` the windows begin so many rows and columns later,
    and the strips before them are windows of their own, as in Swin (Liu et al. 2021, section 3.2): there a picture is
    rolled, and patches that were not neighbors before do not see each other.
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
