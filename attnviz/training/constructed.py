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
    """Add the first token as a key to the rows of a pattern that have no key."""
    is_empty = ~pattern.any(-1, keepdim=True)
    return pattern | (probe.first(ids) & is_empty)


def ideals(ids: Tensor) -> dict[Head, tuple[str, str, Tensor]]:
    """Return for each head its role, a clause about it, and its ideal keys, which share the weight evenly."""
    layer_0, layer_1 = Site("decoder", 0), Site("decoder", 1)
    one_before, two_before = _add_first(probe.back(ids), ids), _add_first(probe.back(ids, 2), ids)
    same_words = "every earlier place of the same token, and its own, evenly"
    induction_words = "what came right after earlier places of the same token; else the first token"
    same_previous_words = "all tokens so far that follow the same token as this one, itself included, evenly"
    return {
        (layer_0, 0): ("previous token", "the token just before", one_before),
        (layer_0, 1): ("first token", "the first token", probe.first(ids)),
        (layer_0, 2): ("same token so far", same_words, probe.same(ids)),
        (layer_0, 3): ("looks evenly", "everything it may see, evenly", probe.allowed(ids)),
        (layer_1, 0): ("induction", induction_words, _add_first(probe.after_same(ids), ids)),
        (layer_1, 1): ("itself", "the token itself", probe.back(ids, 0)),
        (layer_1, 2): ("token two before", "the token two before", two_before),
        (layer_1, 3): ("same previous token", same_previous_words, probe.same_before(ids)),
    }


def random_tokens(generator: Random, count: int) -> list[Tensor]:
    """Draw sequences of 1 to LONGEST tokens, (1, n), each from a few ids of 48 bits, so that tokens repeat."""

    def below(number: int) -> int:
        """Draw an integer from 0 to `number` - 1."""
        return int(generator.random() * number)

    sequences = []
    for _ in range(count):
        length = 1 + below(LONGEST)
        ids = [below(2**48) for _ in range(1 + below(LONGEST))]
        sequences.append(torch.tensor([[ids[below(len(ids))] for _ in range(length)]]))
    return sequences


def measure(sequences: list[Tensor]) -> tuple[dict[Head, float], float]:
    """Return the overlap of each head's weights with its ideal map, and the largest difference of a weight from it.

    The overlap of a row is the sum of the smaller of both weights: 1 for equal weights, 0 for disjoint keys.
    """
    overlaps: dict[Head, float] = {}
    farthest = 0.0
    num_rows = sum(ids.shape[1] for ids in sequences)
    for ids in sequences:
        tap = Tap()
        with torch.inference_mode():
            build()(ids, tap=tap)
        for (site, head), (_, _, pattern) in ideals(ids).items():
            ideal = pattern / pattern.sum(-1, keepdim=True)
            weights = probe.weights_of(tap.steps[site.layer], head)
            overlap = float(torch.minimum(weights, ideal).sum()) / num_rows
            overlaps[site, head] = overlaps.get((site, head), 0.0) + overlap
            farthest = max(farthest, float((weights - ideal).abs().max()))
    return {head: min(overlap, 1.0) for head, overlap in overlaps.items()}, farthest  # 1.0: after rounding


def card(number: int) -> dict[str, Any]:
    """Measure the model on `number` random sequences, for its card."""
    overlaps, farthest = measure(random_tokens(Random(0), number))
    farthest = math.ceil(farthest * 10_000) / 10_000
    roles, model = ideals(torch.zeros(1, 1)), build()
    findings = []
    for (site, head), (role, keys, _) in roles.items():
        least = math.floor(overlaps[site, head] * 10_000) / 10_000
        evidence = (
            f"Set so by hand, and measured: on {number:,} random token sequences, at least {least:.2%} of its weight is"
            f" there on average, and no weight of any head is further than {farthest:.4f} from the ideal picture."
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
            (f"weight of {site.head(head)} on {keys}", overlaps[site, head], GOAL)
            for (site, head), (_, keys, _) in roles.items()
        ],
        findings=findings,
    )
