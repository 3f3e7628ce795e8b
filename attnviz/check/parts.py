"""Faults in the parts of a mask whose every rule is known: one is missing, inverted, transposed or off by one.

A mask that is joined of several rules is compared with each of them as it should be and with each fault in it; what
matches to the last cell is named, part by part, with what mends that part and leaves the others.
"""

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from attnviz.check.grids import Grids
from attnviz.core.masks import And, Mask, Padding, Subsequent

MOST_PARTS = 4
"""Rules of a mask whose faults are looked for: with six states of each, 1,296 masks."""

MOST_CELLS = 2**20
"""Cells of all grids times the masks that are tried: above it one part alone may be at fault."""

RULES = {
    "missing": "deviation",
    "inverted": "inverted",
    "transposed": "transposed",
    "wrong-axis": "wrong-axis",
    "ahead": "shifted",
    "behind": "shifted",
}
"""The rule of `CHECKS` for each fault."""

IS = {
    "missing": "is missing",
    "inverted": "is inverted",
    "transposed": "has rows and columns swapped",
    "wrong-axis": "blocks queries instead of keys",
    "ahead": "is off by one and opens the next key",
    "behind": "is off by one and blocks each query's own key",
}


@dataclass(frozen=True)
class PartFault:
    """A fault in one rule of a mask.

    Attributes:
        part: the rule as it should be.
        fault: of `RULES`.
        offset: keys before the first query.
    """

    part: Mask
    fault: str
    offset: int = 0

    @property
    def rule(self) -> str:
        """Name of the rule in `CHECKS`."""
        if isinstance(self.part, Subsequent) and self.fault in ("ahead", "behind"):
            return {"ahead": "future-leak", "behind": "blocks-itself"}[self.fault]
        return RULES[self.fault]

    @property
    def description(self) -> str:
        """The fault in words: "its padding is inverted"."""
        return f"its rule “{self.part}” {IS[self.fault]}"

    @property
    def fix(self) -> str:
        """Change that mends this part and leaves the others."""
        name = f"“{self.part}”"
        if self.fault == "missing":
            return f"Join {name} to the rest with &."
        if self.fault == "wrong-axis":
            return f"Make {name} of shape (B, 1, 1, K), such as (ids != pad)[:, None, None, :], before it is joined."
        if self.fault == "transposed":
            return f"Turn {name} with .mT before it is joined to the rest."
        if self.fault == "inverted":
            return f"Invert {name} with ~ before it is joined to the rest."
        if isinstance(self.part, Subsequent):
            diagonal = self.part.offset + self.offset
            return f"Make {name} with tril(diagonal={diagonal}) before it is joined to the rest."
        return f"Move {name} by one query before it is joined to the rest."


def faults_of(mask: Mask, grids: Grids) -> tuple[PartFault, ...]:
    """The fewest faults in the rules of a mask that make the grids of it, to the last cell; none if no such do."""
    parts = mask.masks if isinstance(mask, And) else (mask,)
    queries, keys = grids.each[0].shape
    first = max(0, keys - queries)
    for offset in dict.fromkeys((0, first)):
        states = [_states(part, grids, offset) for part in parts]
        most = len(parts) if len(grids.each) * queries * keys * 6 ** len(parts) <= 2**8 * MOST_CELLS else 1
        for names in _by_count(states, min(most, MOST_PARTS)):
            chosen = [state[name] for state, name in zip(states, names, strict=True)]
            if all(
                torch.equal(torch.stack([grids_of_part[i] for grids_of_part in chosen]).all(0), grid)
                for i, grid in enumerate(grids.each)
            ):
                pairs = zip(parts, names, strict=True)
                return tuple(PartFault(part, name, offset) for part, name in pairs if name)
    return ()


def _states(part: Mask, grids: Grids, offset: int) -> dict[str, list[Tensor]]:
    """A rule as it should be, "", and with each fault in it, for each grid."""
    queries, keys = grids.each[0].shape
    masks = [part.of_sentence(i) if part.batch_size else part for i in grids.sentences]
    states = {"": [mask.shifted(offset).grid(queries, keys) for mask in masks]}
    states["missing"] = [torch.ones_like(grid) for grid in states[""]]
    states["inverted"] = [~grid for grid in states[""]]
    for name, by in (("ahead", 1), ("behind", -1)):
        states[name] = [mask.shifted(offset + by).grid(queries, keys) for mask in masks]
    if queries == keys:
        name = "wrong-axis" if isinstance(part, Padding) else "transposed"
        states[name] = [grid.mT for grid in states[""]]
    right = states[""]
    same = {name for name, state in states.items() if all(map(torch.equal, state, right))}
    return {name: state for name, state in states.items() if not name or name not in same}


def _by_count(states: list[dict[str, list[Tensor]]], most: int) -> list[tuple[str, ...]]:
    """Names of states, one of each part, with the fewest faults first."""
    counts = {names: sum(map(bool, names)) for names in product(*states)}
    return sorted((names for names, count in counts.items() if 0 < count <= most), key=counts.__getitem__)
