"""Measurements of the shipped story model: how much is right, with heads off too, and where the heads look."""

import random
from dataclasses import dataclass, replace
from itertools import islice

from attnviz.core.edits import Edits, Site
from attnviz.models.transformer import LanguageModel
from attnviz.training.story import measure
from attnviz.training.story.grammar import stories
from attnviz.training.story.measure import Bigrams, Case, Look, cases
from attnviz.training.story.words import NAMES

KINDS = ("pronoun", "verb", "name")
_NAMES = {name.word for name in NAMES}
Head = tuple[int, int]
"""A layer and a head."""


@dataclass(frozen=True)
class Measured:
    """Shares from 0 to 1, by kind of tested word, on `tested` words of each kind.

    Attributes:
        right: with all heads on.
        without: with one head off.
        silent: with every head of the last layer off.
        looks: where each head looks from the row that predicts the tested word.
        own: where it looks from the row of the tested word itself.
        stop: where it looks from the first full stop after the subject, in `stops` stories.
        clause: where it looks towards "that", from the row that predicts the verb of its clause, in `clauses` stories.
        behind: how often and how strongly each head looks at the word just before, from "the", in `articles` stories.
        second: where it looks from the row that predicts a name, towards the second of the two names.
        pairs: what pairs of words get right; `majority`, what the commonest word gets right.
        perplexity: of the model and of pairs of words, on as many held-out stories.
    """

    tested: int
    right: dict[str, float]
    without: dict[str, dict[Head, float]]
    silent: dict[str, float]
    looks: dict[str, dict[Head, Look]]
    own: dict[str, dict[Head, Look]]
    stop: dict[Head, Look]
    stops: int
    clause: dict[Head, Look]
    clauses: int
    behind: dict[Head, Look]
    articles: int
    second: dict[Head, Look]
    pairs: dict[str, float]
    majority: dict[str, float]
    perplexity: tuple[float, float]

    def needed(self, kind: str, layer: int) -> Head:
        """The head of a layer without which the fewest are right."""
        without = self.without[kind]
        return min((head for head in without if head[0] == layer), key=without.__getitem__)


def off(*heads: Head) -> Edits:
    return Edits(heads_off=frozenset((Site("decoder", layer), head) for layer, head in heads))


def look(model: LanguageModel, number: int, told: int = 20_000) -> Measured:
    """Measure a model on so many held-out words of each kind; pairs of words are counted in `told` stories."""
    tested = {kind: cases(kind, number) for kind in KINDS}
    config = model.config
    heads = [(layer, head) for layer in range(config.num_layers) for head in range(config.num_heads)]
    last = [head for head in heads if head[0] == config.num_layers - 1]
    pairs, held = Bigrams(told), list(islice(stories(random.Random(measure.HELD_OUT), held_out=True), number))

    articles, stops, clauses = _articles(tested["verb"]), _stops(tested["pronoun"]), _clauses(tested["verb"])

    def right(kind: str, *without: Head) -> float:
        return measure.correct(model, tested[kind], off(*without))

    return Measured(
        number,
        right={kind: right(kind) for kind in KINDS},
        without={kind: {head: right(kind, head) for head in heads} for kind in KINDS},
        silent={kind: right(kind, *last) for kind in KINDS},
        looks={kind: measure.looks(model, tested[kind]) for kind in KINDS},
        own={kind: measure.looks(model, tested[kind], after=1) for kind in KINDS},
        stop=measure.looks(model, stops),
        stops=len(stops),
        clause=measure.looks(model, clauses),
        clauses=len(clauses),
        behind=measure.looks(model, articles),
        articles=len(articles),
        second=measure.looks(model, [_second(case) for case in tested["name"]]),
        pairs={kind: pairs.correct(tested[kind]) for kind in KINDS},
        majority={kind: measure.majority(tested[kind]) for kind in KINDS},
        perplexity=(measure.perplexity(model, held), pairs.perplexity(held)),
    )


def _articles(tested: list[Case]) -> list[Case]:
    """The "the" within the opening of each case, as if it were the row of a test whose source is the word before."""
    found = []
    for case in tested:
        words, test = case.story.words, case.test
        articles = [at for at in range(test.source[-1] + 2, test.at) if words[at] == "the"]
        found += [measure.at(case, row=at + 1, source=at - 1) for at in articles[:1]]
    return found


def _stops(tested: list[Case]) -> list[Case]:
    """The row of the first full stop after each subject, for which a pronoun may stand next."""
    found = []
    for case in tested:
        words, test = case.story.words, case.test
        stops = [at for at in range(test.source[-1], len(words)) if words[at] == "."]
        found += [Case(case.story, replace(test, at=at + 1)) for at in stops[:1]]
    return found


def _clauses(tested: list[Case]) -> list[Case]:
    """Rows that predict the verb of a subject with a clause ("the hats that the queen wants"), towards "that"."""
    found = []
    for case in tested:
        words, test = case.story.words, case.test
        that = test.source[-1] + 1
        found += [measure.at(case, row=test.at - 1, source=that)] * (words[that] == "that")
    return found


def _second(case: Case) -> Case:
    """A case whose name must come again, as if the source were always the second name of its opening."""
    words, test = case.story.words, case.test
    begins = test.at - len(test.opening.split())
    _, second = (at for at in range(begins, words.index(".", begins)) if words[at] in _NAMES)
    return measure.at(case, row=test.at, source=second)
