"""How NaN spreads through layers, and what a fully masked row gets: as grids of a few states."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from attnviz.charts.state import CellState
from attnviz.figures.states import States, Tokens

SPREAD = (
    CellState("numbers", "open"),
    CellState("fully masked row", "blocked", "hatch"),
    CellState("NaN", "warning", "cross"),
)


def spread(empty: Tensor, layers: Sequence[Tensor], tokens: Tokens, *, sentence: int = 0) -> States:
    """Which positions of a sentence are NaN after each layer; the first row is the mask.

    Args:
        empty, layers: as of `attnviz.numerics.Spread`.
    """
    index = sentence if sentence < len(empty) else 0
    states = torch.stack([empty[index].long(), *(2 * layer[index].long() for layer in layers)])
    return States(
        title="How NaN spreads through layers",
        states=states.numpy(),
        kinds=SPREAD,
        rows=("mask", *map(str, range(len(layers)))),
        columns=tokens,
        titles=("After layer", "Position"),
        lines=("0 × NaN is NaN: rows that may not look at it get it, too",),
        name="nan spreads",
    )


POLICY = (
    CellState("weight", "ramp", legend=""),
    CellState("not a number", "blocked", "cross"),
    CellState("no weights: an error is raised", "blocked", "dash"),
)
NAMES = {"zero": "zeros", "nan": "NaN", "uniform": "uniform", "error": "error"}
"""Names of the weights of a fully masked row, by policy."""


def policies(weights_by_policy: Mapping[str, Tensor | None], query: int, tokens: Tokens) -> States:
    """The weights of one fully masked row, under each policy.

    Args:
        weights_by_policy: (1, 1, Q, K), by the name of the policy; None where it raised an error.
        query: the row.
        tokens: of the keys.
    """
    rows = [_row(weights, query, len(tokens)) for weights in weights_by_policy.values()]
    weights, states = (np.stack(part) for part in zip(*rows, strict=True))
    return States(
        title=f"What a fully masked row gets: row {query}",
        states=states,
        kinds=POLICY,
        rows=tuple(NAMES[name] for name in weights_by_policy),
        columns=tokens,
        titles=("Its weights", "Key"),
        lines=("by what the code does with such rows",),
        name="fully masked rows",
        weights=weights,
    )


def _row(weights: Tensor | None, query: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights and states of a row, (K,) each."""
    if weights is None:
        return np.zeros(keys), np.full(keys, 2)
    row = weights[0, 0, query].double().numpy()
    return np.nan_to_num(row), np.isnan(row).astype(int)
