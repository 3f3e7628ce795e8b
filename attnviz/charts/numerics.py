"""How NaN spreads through layers, and what a row without a key gets: as grids of a few states."""

from collections.abc import Sequence

import numpy as np
import torch

from attnviz.charts.states import Grid, State
from attnviz.core.tokens import Token
from attnviz.numerics import Policy, Spread

Tokens = Sequence[Token | str]

SPREAD = (
    State("numbers", "open"),
    State("no key left", "blocked", "hatch"),
    State("NaN", "warning", "cross"),
)


def spread(found: Spread, tokens: Tokens, *, sentence: int = 0) -> Grid:
    """Which positions of a sentence are NaN behind each layer; the first row is the mask."""
    at = sentence if sentence < len(found.empty) else 0
    layers = torch.stack([found.empty[at].long(), *(2 * layer[at].long() for layer in found.layers)])
    return Grid(
        title="NaN: how it spreads",
        states=layers.numpy(),
        kinds=SPREAD,
        rows=("the mask", *(f"after layer {number}" for number in range(len(found.layers)))),
        columns=tokens,
        titles=("Layer", "Position"),
        lines=("0 times NaN is NaN: who may not attend to it gets it, too",),
        name="nan spreads",
    )


POLICY = (
    State("weight"),
    State("not a number", "warning", "cross"),
    State("no weights: an error is raised", "blocked", "hatch"),
)


def policies(found: Sequence[Policy], query: int, tokens: Tokens) -> Grid:
    """The weights of one row without a key, under each policy.

    Args:
        query: the row; of the first sentence and head.
        tokens: of the keys.
    """
    rows = [_row(policy, query, len(tokens)) for policy in found]
    weights, states = (np.stack(part) for part in zip(*rows, strict=True))
    return Grid(
        title=f"Row {query} without a key",
        states=states,
        kinds=POLICY,
        rows=[policy.name for policy in found],
        columns=tokens,
        titles=("Policy", "Key"),
        lines=("what its weights are, by what is chosen for such rows",),
        name="rows without keys",
        weights=weights,
    )


def _row(policy: Policy, query: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights and states of a row, (K,) each."""
    if policy.weights is None:
        return np.zeros(keys), np.full(keys, 2)
    weights = policy.weights[0, 0, query].double().numpy()
    return np.nan_to_num(weights), np.isnan(weights).astype(int)
