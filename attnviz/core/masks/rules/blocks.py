"""Block-sparse attention."""

from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.parameters import check_numbers, parameter


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
        looking, seen = query // self.size, key // self.size
        near = (seen >= looking - self.before) & (seen <= looking + self.after)
        if not self.first:
            return near
        return near | (seen < self.first) | ((looking >= 0) & (looking < self.first))

    def __str__(self) -> str:
        first = f", first {self.first}" if self.first else ""
        return f"blocks of {self.size} ({self.before} before, {self.after} after{first})"
