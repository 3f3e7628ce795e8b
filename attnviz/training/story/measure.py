"""Measure what a story model gets right after held-out openings, with heads off, and where its heads look."""

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attnviz.core.edits import Edits
from attnviz.core.tap import Tap
from attnviz.models.transformer import LanguageModel
from attnviz.tokenizers.vocabulary import Vocabulary
from attnviz.training.harness import is_held_out
from attnviz.training.story.grammar import stories, vocabulary
from attnviz.training.story.told import Story, Tested

VOCABULARY = Vocabulary(vocabulary())
PAD, SOS, EOS, UNK = range(4)
HELD_OUT, COUNTED = 1, 2
"""Seeds of the stories that are measured, and of those whose pairs of words are counted."""
_BATCH = 256


@dataclass(frozen=True)
class Case:
    """A story and one of its tested words. Row `at` of the model, which begins with <sos>, predicts that word."""

    story: Story
    test: Tested


def cases(kind: str, number: int, seed: int = HELD_OUT) -> list[Case]:
    """Tested words of one kind, never seen after their openings in training, each from a story of its own."""
    found: list[Case] = []
    drawn = stories(random.Random(seed), held_out=True)
    while len(found) < number:
        story = next(drawn)
        tests = [test for test in story.tested if test.kind == kind and is_held_out(test.opening)]
        found += [Case(story, test) for test in tests[:1]]
    return found


def at(case: Case, *, row: int, source: int) -> Case:
    """The same story, looked at from another row of the model, towards another word."""
    return Case(case.story, replace(case.test, at=row, source=(source,)))


def batch(told: list[Story]) -> tuple[Tensor, Tensor]:
    """<sos> and the words of each story, (B, n); the words and <eos> (or nothing, if it just stops), (B, n)."""
    rows = [VOCABULARY.ids(story.words) for story in told]
    longest = 1 + max(map(len, rows))
    read = [[SOS, *row] + [PAD] * (longest - 1 - len(row)) for row in rows]
    said = [[*row, EOS] + [PAD] * (longest - 1 - len(row)) for row in rows]
    return torch.tensor(read), torch.tensor(said)


@torch.inference_mode()
def correct(model: LanguageModel, tested: list[Case], edits: Edits = Edits()) -> float:
    """The share of the tested words that the model finds more probable than each of the wrong ones."""
    right = 0
    for part in _parts(tested):
        ids, _ = batch([case.story for case in part])
        logits = model(ids, tap=Tap(edits, keep=False))[1]
        for row, case in zip(logits, part, strict=True):
            said = row[case.test.at]
            word, *wrong = VOCABULARY.ids((case.story.words[case.test.at], *case.test.wrong))
            right += bool(said[word] > said[wrong].max())
    return right / len(tested)


@dataclass(frozen=True)
class Look:
    """Attention of one head in tested rows: how often it is largest at the source, and its mean weight there."""

    share: float
    weight: float


@torch.inference_mode()
def looks(model: LanguageModel, tested: list[Case], after: int = 0) -> dict[tuple[int, int], Look]:
    """By (layer, head), where the row that predicts the tested word looks; `after` rows later, 1 is the word itself."""
    most, weight = Counter(), Counter()
    for part in _parts(tested):
        tap = Tap()
        model(batch([case.story for case in part])[0], tap=tap)
        for step in tap.steps:
            for head in range(step.num_heads):
                for i, case in enumerate(part):
                    row = case.test.at + after
                    weights = step.weights(head, slice(row, row + 1), sentence=i)[0]
                    source = [at + 1 for at in case.test.source]
                    most[step.site.layer, head] += int(weights.argmax()) in source
                    weight[step.site.layer, head] += float(weights[source].sum())
    return {place: Look(most[place] / len(tested), weight[place] / len(tested)) for place in weight}


@torch.inference_mode()
def perplexity(model: LanguageModel, told: list[Story]) -> float:
    """Among how many words the model is as good as undecided, on average over the words and ends of the stories."""
    total = count = 0.0
    for part in _parts(told):
        ids, targets = batch(part)
        total += float(cross_entropy(model(ids)[1].flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum"))
        count += int((targets != PAD).sum())
    return math.exp(total / count)


class Bigrams:
    """Probabilities of the next word by the word before alone: counted in stories like those of the training."""

    def __init__(self, told: int):
        drawn = stories(random.Random(COUNTED), held_out=False)
        self._pairs = Counter(pair for _ in range(told) for pair in pairwise(_marked(next(drawn))))
        self._first = Counter(first for pair, n in self._pairs.items() for first in (pair[0],) * n)

    def correct(self, tested: list[Case]) -> float:
        """As `correct` of a model."""
        right = 0
        for case in tested:
            words, at = case.story.words, case.test.at
            said = self._pairs[words[at - 1], words[at]]
            right += said > max(self._pairs[words[at - 1], wrong] for wrong in case.test.wrong)
        return right / len(tested)

    def perplexity(self, told: list[Story]) -> float:
        """As `perplexity` of a model; pairs never seen count as seen a tenth of a time."""
        pairs = [pair for story in told for pair in pairwise(_marked(story))]
        logs = (math.log((self._pairs[pair] + 0.1) / (self._first[pair[0]] + 0.1 * len(VOCABULARY))) for pair in pairs)
        return math.exp(-sum(logs) / len(pairs))


def majority(tested: list[Case]) -> float:
    """The share of the word that is right most often."""
    return Counter(case.story.words[case.test.at] for case in tested).most_common(1)[0][1] / len(tested)


def _marked(story: Story) -> tuple[str, ...]:
    return ("<sos>", *story.words, "<eos>")


def _parts(things: list) -> Iterator[list]:
    return (things[i : i + _BATCH] for i in range(0, len(things), _BATCH))
