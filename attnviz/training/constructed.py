"""The evidence for the model whose weights are set by hand; nothing is trained."""

import math
from random import Random
from typing import Any

import torch
from torch import Tensor

from attnviz import tokenizers
from attnviz.core.tap import Tap
from attnviz.models.constructed import build
from attnviz.training import corpus, patterns

LONGEST = 64

PATTERNS = {
    (0, 0): (patterns.back, "the token just before"),
    (0, 1): (patterns.first, "the first token"),
    (0, 2): (patterns.same, "every earlier place of the same token, and its own, evenly"),
    (0, 3): (patterns.seen, "everything it may see, evenly"),
    (1, 0): (
        lambda ids: induction(ids),
        "what came right after earlier places of the same token; else the first token",
    ),
    (1, 1): (lambda ids: patterns.back(ids, 0), "the token itself"),
    (1, 2): (lambda ids: patterns.back(ids, 2), "the token two before"),
    (1, 3): (patterns.same_before, "tokens that come after the same token as this one does, itself among them, evenly"),
}
"""What each head, (layer, head), was made to look at."""
ROLES = (
    ("previous token", "first token", "same token so far", "looks evenly"),
    ("induction", "itself", "token two before", "same previous token"),
)
"""The same in a few words, of each layer."""


def induction(ids: Tensor) -> Tensor:
    """After earlier occurrences; the first token where there is none."""
    after = patterns.after_same(ids)
    return after | patterns.first(ids) & ~after.any(-1, keepdim=True)


def random_tokens(chance: Random, sentences: int) -> list[Tensor]:
    """Sequences of 1 to LONGEST tokens, each drawn from a few ids of 48 bits, so that some come again."""
    found = []
    for _ in range(sentences):
        length, kinds = 1 + int(chance.random() * LONGEST), 1 + int(chance.random() * LONGEST)
        ids = [int(chance.random() * 2**48) for _ in range(kinds)]
        found.append(torch.tensor([[ids[int(chance.random() * kinds)] for _ in range(length)]]))
    return found


def real_sentences(sentences: int) -> list[Tensor]:
    """Pairs of English sentences of the corpus, as the app cuts them into words."""
    lines = list(corpus.lines(seed=1, sentences=2 * sentences))[: 2 * sentences]
    texts = [f"{one} {two}" for one, two in zip(lines[::2], lines[1::2], strict=True)]
    words = tokenizers.load("words")
    return [torch.tensor([[token.id for token in words.encode(text)]]) for text in texts]


def measure(sequences: list[Tensor]) -> tuple[dict[tuple[int, int], float], float]:
    """Share of each head's weights with the ideal picture, and the largest difference of any weight from it.

    The share of a row is the sum of the smaller of both weights: 1 if they are the same, 0 if it looks elsewhere.
    """
    shares: dict[tuple[int, int], float] = dict.fromkeys(PATTERNS, 0.0)
    worst, rows = 0.0, sum(ids.shape[1] for ids in sequences)
    for ids in sequences:
        tap = Tap()
        with torch.inference_mode():
            build()(ids, tap=tap)
        for (layer, head), (make, _) in PATTERNS.items():
            ideal, weights = patterns.ideal(make(ids)), patterns.weights(tap.steps[layer], head)
            shares[layer, head] += float(torch.minimum(weights, ideal).sum()) / rows
            worst = max(worst, float((weights - ideal).abs().max()))
    return {head: min(share, 1.0) for head, share in shares.items()}, worst  # rounding may give a little more than 1


def card(sentences: int) -> dict[str, Any]:
    """The card, measured on so many random sequences and as many texts."""
    texts = real_sentences(sentences)
    drawn, drawn_worst = measure(random_tokens(Random(0), sentences))
    read, read_worst = measure(texts)
    worst = math.ceil(max(drawn_worst, read_worst) * 10_000) / 10_000
    among = f"{sentences:,} random token sequences and {sentences:,} English texts"

    def least(place: tuple[int, int]) -> float:
        return math.floor(min(drawn[place], read[place]) * 10_000) / 10_000

    def known(within: float) -> str:
        return (
            f"Set so by hand, and measured: on {among}, at least {within:.2%} of its weight is there on average, and "
            f"no weight of any head is further than {worst:.4f} from the ideal picture."
        )

    return {
        "name": "constructed",
        "title": "Built by hand",
        "does": "A decoder with weights set by hand, so that where each of its eight heads looks is known beforehand.",
        "made": "Nothing is trained: attnviz/models/constructed.py sets every weight.",
        "trained_on": "Nothing. It reads any text: a token's vector is made from a hash of the token.",
        "sizes": {
            "layers": len(build().sites),
            "heads per layer": build().num_heads,
            "numbers for each token (d_model)": build().stack.layers[0].attention.w_q.in_features,
            "weights": sum(weight.numel() for weight in build().parameters()),
        },
        "measured": [
            {
                "what": f"weight of head {head} of decoder layer {layer} on {what} ({kind})",
                "value": shares[place],
                "goal": 0.999,
            }
            for kind, shares in (("random tokens", drawn), ("English texts", read))
            for place, (_, what) in PATTERNS.items()
            for layer, head in [place]
        ],
        "command": "make evidence MODEL=constructed",
        "findings": [
            {
                "kind": "decoder",
                "layer": layer,
                "heads": [head],
                "role": ROLES[layer][head],
                "does": f"looks at {what}",
                "known": known(least(place)),
            }
            | {"shares": [least(place)], "chance": None, "off": [], "on": None}
            for place, (_, what) in PATTERNS.items()
            for layer, head in [place]
        ],
        "cannot": [
            "It has learned nothing and predicts nothing: it shows what heads can do, not what they come to do.",
            "Six of its eight heads write nothing: they are there to be looked at, and off or on makes no difference.",
            "The same token is the same spelling: “The” and “the” are two.",
        ],
        "examples": [
            "The cat sat on the mat because it was tired. The cat sat on the mat because it was tired.",
            "to be or not to be, that is the question",
            "She sells sea shells by the sea shore; the shells she sells are sea shells, I am sure.",
        ],
        "opens": {"kind": "decoder", "layer": 1, "head": 0},
        "curve": [],
    }
