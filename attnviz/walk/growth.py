"""What this attention call costs, and how that grows with the tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.core.cost import Cost, cost
from attnviz.core.edits import Site
from attnviz.core.record import Record

LENGTHS = (1_000, 4_000, 100_000)


@dataclass(frozen=True)
class Growth:
    """The cost of full attention over so many queries and keys, in one layer and for one sentence."""

    queries: int
    keys: int
    cost: Cost


def growth(record: Record, site: Site, *, lengths: Sequence[int] = LENGTHS) -> tuple[Growth, ...]:
    """The cost of a call as it is, and of the same layer over other numbers of tokens, without a mask.

    A mask saves work only where a kernel skips what it blocks; `core.cost` says how much that is.
    """
    step = record.step(site)
    _, heads, queries, keys = step.shape
    sizes = {"heads": heads, "d_k": step.query.shape[-1], "d_v": step.value.shape[-1]}
    sizes["bytes_per_number"] = step.query.element_size()
    pairs = [(queries, keys), *((length, length) for length in lengths)]
    return tuple(Growth(*pair, cost(None, *pair, **sizes, counted=1)) for pair in pairs)
