"""The induction model, which learns to repeat a passage of random words: its texts, recipe and card."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnviz.core.edits import Edits
from attnviz.core.tap import Tap
from attnviz.models import trained
from attnviz.models.transformer import Config
from attnviz.tokenizers.vocabulary import UNK, Vocabulary
from attnviz.training import probe
from attnviz.training.probe import Head, Look, Role
from attnviz.training.recipe import START, Recipe, is_held_out

_WORDS = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
VOCABULARY = Vocabulary((*".,!?", *sorted(_WORDS.split())))
LONGEST = 64
"""Number of positions, including <sos>."""
UNKNOWN = 0.02
"""Share of unknown words in the texts, so that the model knows the token of unknown words."""
BATCH = 64
BLIND = 0.05
"""Weight in the loss of words that no passage predicts: large enough that the model is not confident about them."""


@dataclass(frozen=True)
class Repetition:
    """Random words: an opening, then a passage that is repeated until there are LONGEST words."""

    words: tuple[str, ...]  # known words and `UNK`
    opening: int  # number of words before the passage
    period: int  # number of words of the passage

    @property
    def text(self) -> str:
        return " ".join(self.words)


def draw(generator: Random) -> Repetition:
    """Draw a text, only with `Random.random`, whose numbers are the same in every Python version."""

    def number(least: int, most: int) -> int:
        """Draw an integer from `least` to `most`."""
        return least + int(generator.random() * (most + 1 - least))

    period = number(4, 20)
    opening = number(0, LONGEST - 2 * period)
    words = []
    for _ in range(opening + period):
        is_unknown = generator.random() < UNKNOWN
        words.append(UNK if is_unknown else VOCABULARY.words[number(0, len(VOCABULARY.words) - 1)])
    while len(words) < LONGEST:
        words.append(words[-period])
    return Repetition(tuple(words), opening, period)


def sample(generator: Random, count: int, *, held_out: bool) -> list[Repetition]:
    """Draw `count` texts: only held-out texts, or only texts for training."""
    texts: list[Repetition] = []
    while len(texts) < count:
        text = draw(generator)
        if is_held_out(text.text) == held_out:
            texts.append(text)
    return texts


def tensors(texts: list[Repetition]) -> tuple[Tensor, Tensor]:
    """Return the input ids, which begin with <sos>, and the id of the next word for each, both (B, LONGEST).

    An unknown next word is -100, which the loss ignores.
    """
    words = torch.tensor([VOCABULARY.ids(text.words) for text in texts])
    starts = torch.full((len(texts), 1), START)
    inputs = torch.cat([starts, words[:, :-1]], 1)
    return inputs, words.masked_fill(words == VOCABULARY.names.index(UNK), -100)


def repeated_positions(texts: list[Repetition]) -> Tensor:
    """Mark the input positions whose next word repeats the word one period earlier, boolean, (B, LONGEST)."""
    # the first repeated word has no earlier copy of the word before it, so it cannot be predicted
    start = torch.tensor([text.opening + text.period + 1 for text in texts])
    return torch.arange(LONGEST) >= start.unsqueeze(1)


def loss(model: nn.Module, generator: Random) -> Tensor:
    """Compute the loss of the next word: weight 1 where a repeated passage predicts it, BLIND elsewhere."""
    texts = sample(generator, BATCH, held_out=False)
    inputs, next_words = tensors(texts)
    _, logits = model(inputs)
    losses = cross_entropy(logits.flatten(0, 1), next_words.flatten(), reduction="none")
    weight = torch.where(repeated_positions(texts), 1.0, BLIND).flatten()
    return (losses * weight).sum() / weight.sum()


@torch.inference_mode()
def accuracy(model: nn.Module, texts: list[Repetition], edits: Edits = Edits()) -> float:
    """Measure the accuracy on words that a repeated passage predicts."""
    inputs, next_words = tensors(texts)
    is_measured = repeated_positions(texts) & (next_words >= 0)
    _, logits = model(inputs, tap=Tap(edits, keep=False))
    return float((logits.argmax(-1) == next_words)[is_measured].float().mean())


CONFIG = Config(vocabulary=len(VOCABULARY), d_model=64, num_heads=2, num_layers=2, d_ff=0, longest=LONGEST)
RECIPE = Recipe(
    name="induction",
    build=CONFIG.build,
    vocabularies={"english": VOCABULARY.words},
    loss=loss,
    steps=1_500,
    checkpoints=(0, 100, 150, 200, 225, 250, 275, 300, 400, 600, 1_000, 1_500),
    rate=1e-2,
)
ROLES = {
    "previous": Role("previous token", "looks at the word just before"),
    "induction": Role(
        "induction",
        "looks at what followed the same word earlier: an induction head",
        "rows where a passage is said again",
    ),
    "two before": Role("token two before", "looks at the word two before, less surely"),
}


@torch.inference_mode()
def measure_heads(model: nn.Module, texts: list[Repetition], edits: Edits = Edits()) -> dict[Head, dict[str, Look]]:
    """Measure the attention of each head towards the patterns of ROLES."""
    inputs, _ = tensors(texts)
    tap = Tap(edits)
    model(inputs, tap=tap)
    induction = probe.after_same(inputs) & repeated_positions(texts).unsqueeze(2)
    patterns = {"previous": probe.back(inputs), "induction": induction, "two before": probe.back(inputs, 2)}
    return probe.measure_heads(tap.steps, {"decoder": patterns})


def best(measured: dict[Head, dict[str, Look]], role: str) -> Head:
    """Choose the head with the most weight on the pattern of a role."""
    return max(measured, key=lambda head: measured[head][role].weight)


def card(count: int) -> dict[str, Any]:
    """Measure the shipped model on `count` held-out texts, and make its card."""
    model, texts = trained.load(RECIPE.name), sample(Random(2), count, held_out=True)
    measured = measure_heads(model, texts)

    def accuracy_off(*heads: Head) -> float:
        """Measure the accuracy with the given heads off."""
        return accuracy(model, texts, Edits(heads_off=heads))

    previous, induction = best(measured, "previous"), best(measured, "induction")
    without_previous = measure_heads(model, texts, Edits(heads_off={previous}))[induction]["induction"]
    induction_layer = [(site, head) for site, head in measured if site == induction[0]]
    guesses = "words of a passage said again that are guessed right"
    weight = "weight of the induction head on what came after the same word before"
    return probe.card(
        RECIPE.name,
        opens=induction,
        sizes={"words": len(VOCABULARY.words), "longest text, in tokens": LONGEST, **probe.sizes(model)},
        measured=[
            (guesses, accuracy_off(), 0.95),
            (weight, measured[induction]["induction"].weight, 0.9),
            ("weight of the previous-token head on the word just before", measured[previous]["previous"].weight, 0.9),
            (f"{weight}, with the previous-token head off", without_previous.weight, None),
            (f"{guesses} with all induction heads off", accuracy_off(*induction_layer), None),
        ],
        findings=probe.findings(
            measured, ROLES, accuracy_off, texts=f"{count:,} held-out texts", answers="words said again", by="shares"
        ),
        steps=RECIPE.steps,
    )


def shipped_texts(seed: int, count: int) -> list[str]:
    """Draw held-out texts without unknown words, each as long as the model can read after <sos>."""
    texts = [text.words[: LONGEST - 1] for text in sample(Random(seed), 4 * count, held_out=True)]
    return [" ".join(words) for words in texts if UNK not in words][:count]
