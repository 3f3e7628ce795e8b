"""Masks as named predicates: a name, its parameters, and who may attend to whom. True = may attend, always.

A mask is a small frozen value. From it come the boolean tensor for (Q, K) or one block of it, which rule blocked a
cell, how many keys a query has left, and its text. Masks combine with ``&``, ``|`` and ``~``, and are shifted
where queries and keys differ in length. Other conventions (True = masked, 0 = masked, additive floats) are named
adapters in `attnviz.core.conventions`.
"""

import torch
from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.masks.base import ALIGNMENTS, RULES, And, Mask, Not, Or, Reason, Shifted
from attnviz.core.masks.rules import *  # noqa: F403
from attnviz.core.masks.text import DEEPEST, LARGEST, mask_from_text
from attnviz.core.parameters import Parameter

mask = mask_from_text
"""The name that `attnviz.mask` exports."""

USUAL = ("causal", "padding", "window", "dilated", "prefix", "documents", "global")
"""The rules that stand first in a list."""


def composable() -> tuple[type[Mask], ...]:
    """The rules that a person composes a mask of, the usual ones first; the last ones hold cells painted by hand."""
    rules = [rule for rule in RULES.values() if rule.parameters()]
    place = {name: number for number, name in enumerate(USUAL)}

    def order(rule: type[Mask]) -> tuple[bool, int, str]:
        return rule.parameters()[0].kind == "cells", place.get(rule.keyword, len(place)), rule.rule

    return tuple(sorted(rules, key=order))


def started(rule: type[Mask], keys: int, lengths: tuple[int, ...]) -> Mask:
    """The mask that a control of a rule begins with, for a number of keys and the lengths of the sentences."""
    whole, half = max(1, keys), max(1, keys // 2)
    starts = {
        "padding": {"lengths": lengths},
        "documents": {"lengths": tuple(part for part in ((keys + 1) // 2, keys // 2) if part)},
        "media": {"places": (0, half), "size": half},
        "neighborhood": {"size": min(3, whole), "length": whole},
        "block_diffusion": {"length": half},
        "random": {"every": whole},
        "global": {"positions": (0,)},
        "blank": {"positions": (0,)},
    }
    usual = {p.name: p.default for p in rule.parameters() if p.default is not None}
    return rule(**usual | starts.get(rule.rule, {}))


def subsequent_mask(size: int) -> Tensor:
    """The mask of the decoder's self-attention, (1, size, size), True = may attend: row i sees the keys 0 to i."""
    if size < 0:
        raise MaskError(f"The size of a subsequent mask is {size}; it must be 0 or more.")
    return torch.ones(1, size, size, dtype=torch.bool).tril()
