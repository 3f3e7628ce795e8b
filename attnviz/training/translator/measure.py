"""Measure how well the trained translator translates held-out sentences, and where its heads look."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from attnviz.core.edits import Edits, Site
from attnviz.core.record import Step
from attnviz.core.tap import Tap
from attnviz.models.transformer import EncoderDecoder
from attnviz.training.translator.phrases import Pair
from attnviz.training.translator.recipe import FRENCH, START, padded, read_ids, translate

AT_ONCE = 100
"""Sentences in one batch."""

Rows = Iterator[tuple[int, frozenset[int]]]
Question = Callable[[Pair], Rows]
"""Which rows of a head's map to look at, and in which columns the largest weight of each should be."""


def alignment(pair: Pair) -> Rows:
    """Cross-attention: the row that predicts a French word, row 0 for the first; the English words it comes from."""
    yield from enumerate(pair.alignment)


def antecedent(pair: Pair) -> Rows:
    """Cross-attention: the row that predicts il or elle; the noun it stands for."""
    yield from ((i, frozenset({noun})) for i, noun in enumerate(pair.refers) if noun is not None)


def noun_of(pair: Pair, role: str) -> Rows:
    """Encoder: an English article or adjective; the noun that it belongs to."""
    roles = {place: role for role, places in zip(pair.roles, pair.alignment, strict=True) for place in places}
    for place in (place for place, own in roles.items() if own == role):
        noun = place + 1
        while roles.get(noun) in ("adjective", "number"):
            noun += 1
        if roles.get(noun) == "noun":
            yield place, frozenset({noun})


def stands_for(pair: Pair) -> Rows:
    """Encoder: the English pronoun of a second clause; the noun it stands for."""
    for places, noun in zip(pair.alignment, pair.refers, strict=True):
        if noun is not None:
            yield min(places), frozenset({noun})


def neighbor(pair: Pair, by: int, words: tuple[str, ...]) -> Rows:
    """The position so many after the row, where there is one; the sentence has one special token more than words."""
    for row in range(len(words) + 1):
        if 0 <= row + by <= len(words):
            yield row, frozenset({row + by})


QUESTIONS: dict[str, dict[str, Question]] = {
    "cross": {"alignment": alignment, "antecedent": antecedent},
    "encoder": {
        "article": lambda pair: noun_of(pair, "article"),
        "adjective": lambda pair: noun_of(pair, "adjective"),
        "antecedent": stands_for,
        "itself": lambda pair: neighbor(pair, 0, pair.english),
        "before": lambda pair: neighbor(pair, -1, pair.english),
        "after": lambda pair: neighbor(pair, 1, pair.english),
    },
    "decoder": {
        "itself": lambda pair: neighbor(pair, 0, pair.french),
        "before": lambda pair: neighbor(pair, -1, pair.french),
    },
}


@dataclass
class Share:
    """Number of rows, of those with their largest weight where it is asked for, and the sum of the weight there."""

    hits: int = 0
    rows: int = 0
    weight: float = 0.0
    chance: float = 0.0

    @property
    def value(self) -> float:
        return self.hits / max(1, self.rows)

    @property
    def by_chance(self) -> float:
        """The value if every allowed column were as likely as any other."""
        return self.chance / max(1, self.rows)

    @property
    def mean_weight(self) -> float:
        return self.weight / max(1, self.rows)


@dataclass
class Looks:
    """The answer of every head, and of the mean of all heads of a site ("mean"), to every question."""

    shares: dict[tuple[Site, int | str, str], Share] = field(default_factory=dict)

    def add(self, site: Site, head: int | str, weights: torch.Tensor, pair: Pair) -> None:
        """Count the rows of one sentence; `weights` is (Q, K), its columns without padding."""
        largest = weights.argmax(-1).tolist()
        for name, question in QUESTIONS[site.kind].items():
            share = self.shares.setdefault((site, head, name), Share())
            for row, wanted in question(pair):
                share.rows += 1
                share.hits += largest[row] in wanted
                share.weight += float(weights[row, sorted(wanted)].sum())
                share.chance += len(wanted) / (row + 1 if site.kind == "decoder" else weights.shape[1])


def looks(model: EncoderDecoder, pairs: list[Pair]) -> Looks:
    """Measure where all heads look while the decoder reads the right French words."""
    found = Looks()
    for part in _parts(pairs):
        read, lengths = padded([read_ids(pair) for pair in part])
        seen, seen_lengths = padded([[START, *FRENCH.ids(pair.french)] for pair in part])
        tap = Tap()
        with torch.inference_mode():
            model.decode(seen, model.encode(read, lengths, tap=tap), seen_lengths, lengths, tap=tap)
            for step in tap.steps:
                keys = seen_lengths if step.site.kind == "decoder" else lengths
                _add(found, step, part, keys)
    return found


def _add(found: Looks, step: Step, pairs: list[Pair], keys: tuple[int, ...]) -> None:
    for sentence, (pair, count) in enumerate(zip(pairs, keys, strict=True)):
        heads = [step.weights(head, sentence=sentence)[:, :count] for head in range(step.num_heads)]
        for head, weights in enumerate(heads):
            found.add(step.site, head, weights, pair)
        found.add(step.site, "mean", torch.stack(heads).mean(0), pair)


def translations(model: EncoderDecoder, pairs: list[Pair], off: tuple[tuple[Site, int], ...] = ()) -> list[list[str]]:
    """The French words that the model writes, perhaps with heads switched off."""
    made = []
    for part in _parts(pairs):
        edits = Edits(heads_off=frozenset(off))
        made += translate(model, [read_ids(pair) for pair in part], lambda: Tap(edits, keep=False))  # noqa: B023
    return [[FRENCH.names[id] for id in ids] for ids in made]


def exact(made: list[list[str]], pairs: list[Pair]) -> float:
    """The share of sentences that are right in every word."""
    return sum(tuple(words) == pair.french for words, pair in zip(made, pairs, strict=True)) / len(pairs)


def right(made: list[list[str]], pairs: list[Pair], chosen: Callable[[Pair, int], bool]) -> float:
    """The share of the chosen French words, by their place, that stand in the translation at that place."""
    hits = [
        words[i : i + 1] == [word]
        for words, pair in zip(made, pairs, strict=True)
        for i, word in enumerate(pair.french)
        if chosen(pair, i)
    ]
    return sum(hits) / len(hits)


def _parts(pairs: list[Pair]) -> Iterator[list[Pair]]:
    return (pairs[i : i + AT_ONCE] for i in range(0, len(pairs), AT_ONCE))
