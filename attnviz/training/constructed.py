"""Card of the model whose weights are set by hand: each head is compared with its ideal attention map."""

import math
from random import Random
from typing import Any

import torch
from torch import Tensor

from attnviz.core.edits import Site
from attnviz.core.tap import Tap
from attnviz.models.constructed import build
from attnviz.training import probe
from attnviz.training.probe import Head

LONGEST = 64
GOAL = 0.999


def _add_first(pattern: Tensor, ids: Tensor) -> Tensor:
    """Add the first token to rows without a key."""
    return pattern | probe.first(ids) & ~pattern.any(-1, keepdim=True)


def ideals(ids: Tensor) -> dict[Head, tuple[str, str, Tensor]]:
    """Return for each head its role, a clause about it, and its ideal keys, which share the weight evenly."""
    lower, upper = Site("decoder", 0), Site("decoder", 1)
    previous, second = _add_first(probe.back(ids), ids), _add_first(probe.back(ids, 2), ids)
    same = "every earlier place of the same token, and its own, evenly"
    follows = "what came right after earlier places of the same token; else the first token"
    same_previous = "all tokens so far that follow the same token as this one, itself included, evenly"
    return {
        (lower, 0): ("previous token", "the token just before", previous),
        (lower, 1): ("first token", "the first token", probe.first(ids)),
        (lower, 2): ("same token so far", same, probe.same(ids)),
        (lower, 3): ("looks evenly", "everything it may see, evenly", probe.allowed(ids)),
        (upper, 0): ("induction", follows, _add_first(probe.after_same(ids), ids)),
        (upper, 1): ("itself", "the token itself", probe.back(ids, 0)),
        (upper, 2): ("token two before", "the token two before", second),
        (upper, 3): ("same previous token", same_previous, probe.same_before(ids)),
    }


def random_tokens(generator: Random, count: int) -> list[Tensor]:
    """Draw sequences of 1 to LONGEST tokens from a few ids of 48 bits, so that tokens repeat."""
    sequences = []
    for _ in range(count):
        length, kinds = 1 + int(generator.random() * LONGEST), 1 + int(generator.random() * LONGEST)
        ids = [int(generator.random() * 2**48) for _ in range(kinds)]
        sequences.append(torch.tensor([[ids[int(generator.random() * kinds)] for _ in range(length)]]))
    return sequences


def measure(sequences: list[Tensor]) -> tuple[dict[Head, float], float]:
    """Return the overlap of each head's weights with its ideal map, and the largest difference of a weight.

    The overlap of a row is the sum of the smaller of both weights: 1 for equal weights, 0 for disjoint keys.
    """
    shares: dict[Head, float] = {}
    worst, rows = 0.0, sum(ids.shape[1] for ids in sequences)
    for ids in sequences:
        tap = Tap()
        with torch.inference_mode():
            build()(ids, tap=tap)
        for (site, head), (_, _, pattern) in ideals(ids).items():
            ideal, weights = pattern / pattern.sum(-1, keepdim=True), probe.weights_of(tap.steps[site.layer], head)
            shares[site, head] = shares.get((site, head), 0.0) + float(torch.minimum(weights, ideal).sum()) / rows
            worst = max(worst, float((weights - ideal).abs().max()))
    return {head: min(share, 1.0) for head, share in shares.items()}, worst  # rounding may exceed 1


def card(number: int) -> dict[str, Any]:
    """Measure the model on `number` random sequences, for its card."""
    shares, worst = measure(random_tokens(Random(0), number))
    worst = math.ceil(worst * 10_000) / 10_000
    roles, model = ideals(torch.zeros(1, 1)), build()
    findings = []
    for (site, head), (role, keys, _) in roles.items():
        least = math.floor(shares[site, head] * 10_000) / 10_000
        evidence = (
            f"Set so by hand, and measured: on {number:,} random token sequences, at least {least:.2%} of its weight is"
            f" there on average, and no weight of any head is further than {worst:.4f} from the ideal picture."
        )
        words = {"role": role, "does": f"looks at {keys}", "known": evidence}
        findings.append({"kind": site.kind, "layer": site.layer, "heads": [head], "shares": [least]} | words)
    return probe.card(
        "constructed",
        opens=(Site("decoder", 1), 0),
        sizes={
            "layers": len(model.sites),
            "heads per layer": model.num_heads,
            "numbers for each token (d_model)": model.stack.layers[0].attention.w_q.in_features,
            "weights": sum(weight.numel() for weight in model.parameters()),
        },
        measured=[
            (f"weight of {site.head(head)} on {keys}", shares[site, head], GOAL)
            for (site, head), (_, keys, _) in roles.items()
        ],
        findings=findings,
    )
