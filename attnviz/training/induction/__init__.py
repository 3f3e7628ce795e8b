"""The language model that learns to repeat: how it is trained, and what its card says."""

import json
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnviz.models import trained
from attnviz.models.transformer import Config
from attnviz.training.harness import Recipe
from attnviz.training.induction.measure import Head, Measured, accuracy, evenly, measure, off
from attnviz.training.induction.texts import LONGEST, VOCABULARY, Drawn, sample, tensors, told

BATCH = 64
BLIND = 0.05
"""What a word that no passage tells weighs in the loss: enough for the model not to seem sure of it."""


def loss(model: nn.Module, chance: Random) -> Tensor:
    """Loss of the next word: at full weight where a passage tells it, at BLIND elsewhere."""
    drawn = sample(chance, BATCH, held_out=False)
    read, after = tensors(drawn)
    each = cross_entropy(model(read)[1].flatten(0, 1), after.flatten(), reduction="none")
    weight = torch.where(told(drawn), 1.0, BLIND).flatten()
    return (each * weight).sum() / weight.sum()


RECIPE = Recipe(
    name="induction",
    config=Config(vocabulary=len(VOCABULARY), d_model=64, num_heads=2, num_layers=2, d_ff=0, longest=LONGEST),
    vocabularies={"english": VOCABULARY.words},
    loss=loss,
    score=lambda model: accuracy(model, sample(Random(1), 200, held_out=True)),
    steps=1_500,
    kept=(0, 100, 150, 200, 225, 250, 275, 300, 400, 600, 1_000, 1_500),
    rate=1e-2,
    every=25,
)

EXAMPLES = (
    "The cat sat on the mat because it was tired. The cat sat on the mat because it was tired.",
    "The cat sat down. The cat sat",
    "river seven window apple cold bread river seven window apple cold bread",
    "Emma found an old book, and the fox ran home. Emma found an old book, and the fox ran home.",
    "Yes, my dog likes tea! Yes, my dog likes tea! Yes, my dog",
)


def card(sentences: int) -> dict[str, Any]:
    """The card, measured on so many held-out texts with the shipped weights."""
    model, drawn = trained.load(RECIPE.name), sample(Random(2), sentences, held_out=True)
    learning = json.loads((trained.folder(RECIPE.name) / "learning.json").read_text(encoding="utf-8"))
    found, right = measure(model, drawn), accuracy(model, drawn)
    return {
        "name": RECIPE.name,
        "title": "Repetition",
        "does": "Reads words in any order, and knows the next one when it has read the same words before.",
        "made": (
            f"Trained here from random weights: {RECIPE.steps:,} steps of {BATCH} texts, "
            f"{learning['minutes']:g} minutes on one core."
        ),
        "trained_on": (
            f"Texts of {LONGEST} words drawn at random from {len(VOCABULARY.words)}: first some words that lead "
            "nowhere, then a passage of 4 to 20 words, said again until the text is full. Nothing can be learned by "
            "heart, because the next text is another one; one possible text in ten is held out."
        ),
        "sizes": {
            "words": len(VOCABULARY.words),
            "layers": RECIPE.config.num_layers,
            "heads per layer": RECIPE.config.num_heads,
            "numbers for each token (d_model)": RECIPE.config.d_model,
            "longest text, in tokens": LONGEST,
            "weights": sum(weight.numel() for weight in model.parameters()),
        },
        "measured": [
            {"what": "words of a passage said again that are guessed right", "value": right, "goal": 0.95},
            {
                "what": "weight of the induction head on what came after the same word before",
                "value": found.prefix[found.finder],
                "goal": 0.9,
            },
            {
                "what": "weight of the previous-token head on the word just before",
                "value": found.previous[found.behind],
                "goal": 0.9,
            },
        ],
        "command": f"make evidence MODEL={RECIPE.name}\nmake train MODEL={RECIPE.name}",
        "findings": findings(model, drawn, found, right),
        "cannot": [
            "It knows no grammar and no meaning: where no passage is said again, it has no idea what comes next.",
            "After a word that was followed by different words before, it looks at all of them and can only guess.",
            "All words outside its vocabulary are one and the same to it.",
            f"It reads at most {LONGEST - 1} words and marks: with <sos>, {LONGEST} tokens.",
            "Its attention shows how this small model repeats random words, not how language works in general.",
        ],
        "examples": list(EXAMPLES),
        "opens": {"kind": "decoder", "layer": found.finder[0], "head": found.finder[1]},
        "curve": learning["curve"],
        "score": "words of a passage said again that are guessed right; any of"
        f" {len(VOCABULARY):,} words by chance gets {1 / len(VOCABULARY):.1%}",
    }


def findings(model: nn.Module, drawn: list[Drawn], found: Measured, right: float) -> list[dict[str, Any]]:
    """Behaviors of the heads, each with its evidence; `right` is the share guessed right with all heads on."""
    texts = f"On {len(drawn):,} held-out texts"
    before, alike = evenly(drawn)
    induction = [head for head in found.prefix if found.prefix[head] >= 0.5]
    cut = measure(model, drawn, off(found.behind))

    def each(scores: dict[Head, float], heads: list[Head]) -> str:
        return " and ".join(f"{scores[head]:.1%} (head {head[1]})" for head in heads)

    def without(*heads: Head) -> float:
        return accuracy(model, drawn, off(*heads))

    alone, blind = [without(head) for head in induction], without(found.behind)
    either = " or ".join(f"{share:.1%}" for share in alone)
    said = [
        finding(
            [found.behind],
            "previous token",
            "looks at the word just before",
            f"{texts}, {found.previous[found.behind]:.1%} of its weight is on the word just before, where an even look "
            f"would put {before:.1%}. Switched off, {blind:.1%} of the words said again are guessed right "
            f"instead of {right:.1%}, because the induction heads in layer 1 lose what they look for: their weight on "
            f"it falls to {each(cut.prefix, induction)}.",
            {"shares": [found.previous[found.behind]], "chance": before, "off": [blind], "on": right},
        ),
        finding(
            induction,
            "induction",
            "looks at what followed the same word earlier: an induction head",
            f"{texts}, where a passage is said again, {each(found.prefix, induction)} of the weight is there; an even "
            f"look would put {alike:.1%} there. With one such head off, {either} of those words are still guessed "
            f"right, with all of them off {without(*induction):.1%} instead of {right:.1%}.",
            {"shares": [found.prefix[head] for head in induction], "chance": alike, "off": alone, "on": right},
        ),
    ]
    further = [head for head in found.before_that if found.before_that[head] >= 0.3]
    return said + [
        finding(
            [head],
            "token two before",
            "looks at the word two before, less surely",
            f"{texts}, {found.before_that[head]:.1%} of its weight is on the word two before, the rest is spread. It "
            f"helps a little: switched off, {share:.1%} of the words said again are guessed right instead of "
            f"{right:.1%}.",
            {"shares": [found.before_that[head]], "chance": None, "off": [share], "on": right},
        )
        for head in further
        for share in [without(head)]
    ]


def finding(heads: list[Head], role: str, does: str, known: str, numbers: dict[str, Any]) -> dict[str, Any]:
    """About heads of one layer: in words, and the numbers of them that every finding has."""
    about = {"kind": "decoder", "layer": heads[0][0], "heads": [head for _, head in heads]}
    return about | {"role": role, "does": does, "known": known} | numbers
