"""Masks as named predicates with parameters that say which query may attend to which key. Always True = may attend.

A mask is a small frozen value. It gives the boolean tensor (Q, K) or one block of it, the rules that block a cell, the
number of keys that each query has left, and its text. Masks combine with ``&``, ``|`` and ``~``, and can be shifted if
queries and keys differ in length. `attnviz.core.conventions` converts from and to other conventions (True = masked,
0 = masked, additive floats).
"""

import torch
from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.masks.base import RULES, And, Mask, Not, Or, Reason, Shifted
from attnviz.core.masks.rules import *  # noqa: F403
from attnviz.core.masks.text import DEEPEST, LARGEST, mask_from_text
from attnviz.core.parameters import Parameter

mask = mask_from_text
"""The name that `attnviz.mask` exports."""

USUAL = ("causal", "padding", "window", "dilated", "prefix", "documents", "global")
"""Rules that come first in lists."""


def composable() -> tuple[type[Mask], ...]:
    """List the rules that a user can build a mask from: usual rules first, rules with single cells last."""
    rules = [rule for rule in RULES.values() if rule.parameters()]

    def order(rule: type[Mask]) -> tuple[bool, int, str]:
        has_cells = rule.parameters()[0].kind == "cells"
        rank = USUAL.index(rule.keyword) if rule.keyword in USUAL else len(USUAL)
        return has_cells, rank, rule.rule

    return tuple(sorted(rules, key=order))


def initial_mask(rule: type[Mask], keys: int, lengths: tuple[int, ...]) -> Mask:
    """Make the mask that a rule has when a user adds it, for a number of keys and the lengths of the sentences."""
    num_keys, half = max(1, keys), max(1, keys // 2)
    values = {
        "padding": {"lengths": lengths},
        "documents": {"lengths": tuple(length for length in (keys - keys // 2, keys // 2) if length)},
        "media": {"places": (0, half), "size": half},
        "neighborhood": {"size": min(3, num_keys), "length": num_keys},
        "block_diffusion": {"length": half},
        "random": {"every": num_keys},
        "global": {"positions": (0,)},
        "blank": {"positions": (0,)},
    }
    defaults = {p.name: p.default for p in rule.parameters() if p.default is not None}
    return rule(**defaults | values.get(rule.rule, {}))


def subsequent_mask(size: int) -> Tensor:
    """Make the causal mask of a decoder, (1, size, size), True = may attend: query i may attend to keys 0 to i."""
    if size < 0:
        raise MaskError(f"The size of a subsequent mask is {size}; it must be 0 or more.")
    return torch.ones(1, size, size, dtype=torch.bool).tril()
