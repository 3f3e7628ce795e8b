"""Masks as named predicates: a name, its parameters, and who may attend to whom. True = may attend, always.

A mask is a small frozen value. From it come the boolean tensor for (Q, K) or one block of it, which rule blocked a
cell, how many keys a query has left, and its JSON. Masks combine with ``&``, ``|`` and ``~``, and are shifted where
queries and keys differ in length. Other conventions (True = masked, 0 = masked, additive floats) are named adapters in
`attnviz.core.conventions`.
"""

from attnviz.core.masks.base import ALIGNMENTS, RULES, And, Mask, Not, Or, Shifted
from attnviz.core.masks.reading import DEEPEST, LARGEST, from_json
from attnviz.core.masks.rules import (
    Documents,
    Full,
    Opened,
    Padding,
    Painted,
    Prefix,
    Subsequent,
    Window,
    subsequent_mask,
)
from attnviz.core.masks.sparse import Blocks, Dilated, Global, Random, Strided

__all__ = [
    "ALIGNMENTS",
    "DEEPEST",
    "LARGEST",
    "RULES",
    "And",
    "Blocks",
    "Dilated",
    "Documents",
    "Full",
    "Global",
    "Mask",
    "Not",
    "Opened",
    "Or",
    "Padding",
    "Painted",
    "Prefix",
    "Random",
    "Shifted",
    "Strided",
    "Subsequent",
    "Window",
    "from_json",
    "subsequent_mask",
]
