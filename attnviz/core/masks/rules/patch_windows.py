"""Windows of a picture."""

from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import in_same
from attnviz.core.parameters import check_numbers, parameter


@dataclass(frozen=True)
class PatchWindows(Mask):
    """A picture is cut into windows of `size` x `size` patches, and a patch sees those of its own window.

    Patches are counted row by row, `columns` in each. With a `shift` the windows begin so many rows and columns later,
    and the strips before them are windows of their own, as in Swin (Liu et al. 2021, section 3.2): there a picture is
    rolled, and patches that were not neighbors before do not see each other.
    """

    rule = "patch_windows"
    meaning = "a patch sees its own window of the picture (Swin)"
    columns: int = parameter("columns", least=1, start=8)
    size: int = parameter("window size", least=1, start=4)
    shift: int = parameter("shift", default=0)

    def __post_init__(self):
        check_numbers(self, columns=1, size=1, shift=0)

    def allows(self, query, key, sentence):
        moved = self.size - self.shift
        rows = (query // self.columns + moved) // self.size == (key // self.columns + moved) // self.size
        return rows & ((query % self.columns + moved) // self.size == (key % self.columns + moved) // self.size)

    def is_open(self, queries, keys):
        moved = self.size - self.shift
        rows = [
            tuple((position // self.columns + moved) // self.size for position in (part[0], part[-1]))
            for part in (queries, keys)
        ]
        return None if in_same(*rows) is not False else False

    def __str__(self) -> str:
        shift = f", shifted by {self.shift}" if self.shift else ""
        return f"windows of {self.size} x {self.size} patches ({self.columns} columns{shift})"
