"""The same mask where queries and keys differ in length: aligned top-left and bottom-right, side by side."""

from dataclasses import dataclass

from attnviz.core.masks import ALIGNMENTS, Mask
from attnviz.dialects.dialect import dialect


@dataclass(frozen=True)
class Aligned:
    """A mask in one alignment and one dialect.

    Attributes:
        alignment: "top-left" or "bottom-right".
        mask: as it stands in this alignment.
        says: what the first and the last query see, in words.
        refusal: why the dialect cannot say it, or "".
        code, printout: as of `Dialect`; "" if it cannot be said.
    """

    alignment: str
    mask: Mask
    says: str
    refusal: str
    code: str
    printout: str


def alignments(mask: Mask, queries: int, keys: int, name: str) -> tuple[Aligned, ...]:
    """Both alignments of a mask in the dialect of a name, top-left first.

    With top-left the first query stands at the first key, as with `is_causal` of PyTorch's SDPA; with bottom-right the
    last query stands at the last key, as with a cache. With as many queries as keys they are the same.
    """
    return tuple(
        _aligned(mask.aligned(queries, keys, alignment), alignment, queries, keys, name) for alignment in ALIGNMENTS
    )


def _aligned(mask: Mask, alignment: str, queries: int, keys: int, name: str) -> Aligned:
    known = dialect(name)
    first, last = (int(left) for left in mask.keys_left(queries, keys)[[0, -1]])
    says = f"The first query has {first} of {keys} keys, the last {last}."
    return Aligned(
        alignment,
        mask,
        says,
        known.refuses(mask, queries, keys),
        known.code(mask, queries, keys),
        known.printout(mask, queries, keys),
    )
