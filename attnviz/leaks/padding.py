"""Does an output depend on padding, or on the other texts of a batch? Run a text alone and with them, and compare."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.finite import check_finite
from attnviz.core.leaks import distance
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.base import Source

MOVED = 1e-4
"""Share of its length beyond which an output has moved: runs of two lengths differ by a hundredth of it."""
LEAST_WEIGHT = 1e-6
"""Weight on padding beyond which a head sees it."""


@dataclass(frozen=True, eq=False)
class PaddingTest:
    """Outputs that moved, and heads that look at padding.

    Attributes:
        moved: how far the output of each token moved, as a share of its length: of the text, and then of what the
            decoder read, where there is one.
        tokens: of the text.
        padding: how many tokens of padding stood behind it.
        heads: site, head, the token that gives most to padding, and how much of its attention that is.
        read: what a decoder read.
    """

    moved: Tensor
    tokens: tuple[Token, ...]
    padding: int
    heads: tuple[tuple[Site, int, int, float], ...]
    read: tuple[Token, ...] = ()

    @property
    def is_seen(self) -> bool:
        """Whether an output depends on padding."""
        return bool((self.moved > MOVED).any())

    def token(self, site: Site, row: int) -> Token:
        """The token at a row of a step."""
        return (self.read if site.kind == "cross" else self.tokens)[row]


def padding_test(source: Source, text: str, edits: Edits = Edits()) -> PaddingTest:
    """Run a text alone and with padding behind it. A decoder reads the same both times.

    Raises:
        InputError: if the source knows no padding.
        NotFiniteError: if the model gives NaN or infinite numbers.
    """
    (alone,) = source.tokenize([text])
    padded, _ = _padded(source, text)
    if len(padded.tokens) == len(alone.tokens):
        raise InputError(f"'{source.name}' gives a text no padding, so that there is none to see.")
    before = _finite(source.run((alone,), edits))
    fixed = before.targets if source.writes else ()
    after, length = source.run((padded,), edits, fixed), len(alone.tokens)
    moved = _moved(before, after, length, row=0)
    heads = tuple(_heads_on(after, length, len(padded.tokens)))
    read = before.targets[0].tokens if before.targets else ()
    return PaddingTest(moved, alone.tokens, len(padded.tokens) - length, heads, read)


def batch_test(source: Source, text: str, edits: Edits = Edits()) -> tuple[float, str]:
    """Run a text alone, and first and last in a batch with another one, longer where padding is known.

    Gives the share of its length by which an output moved at most, and the place of the text where it moved most.

    Raises:
        InputError: if there is no other text to run it with.
        NotFiniteError: if the model gives NaN or infinite numbers.
    """
    (alone,) = source.tokenize([text])
    before = _finite(source.run((alone,), edits))
    try:
        padded, other = _padded(source, text)
    except InputError:
        padded, other = alone, _rotated(alone)
    if other == alone:
        raise InputError("The text has one token alone, so there is no other text to run beside it.")
    fixed, moves = (before.targets[0],) * 2 if before.targets and source.writes else (), []
    for row, batch in ((0, (padded, other)), (1, (other, padded))):
        moved = _moved(before, source.run(batch, edits, fixed), len(alone.tokens), row)
        moves.append((float(moved.max()), ("first", "last")[row]))
    return max(moves)


def _padded(source: Source, text: str) -> tuple[Sentence, Sentence]:
    """A text with padding behind it, and the longer text that it is padded to."""
    first, bar, second = text.partition("|||")  # of two texts, the first one is padded
    padded, longer = source.tokenize([text, f"{first} {first}{bar}{second}"])
    return padded, longer


def _rotated(sentence: Sentence) -> Sentence:
    """The same words, each one place further on."""
    tokens = sentence.tokens
    return replace(sentence, tokens=(*tokens[1:], tokens[0]))


def _finite(record: Record) -> Record:
    sentence = record.read[0]
    check_finite(record, record.output[0], sentence.length, [token.text for token in sentence.tokens])
    return record


def _moved(before: Record, after: Record, length: int, row: int) -> Tensor:
    """How far the outputs of one sentence moved: of a decoder, what it gets of the encoder's words, and its own."""
    if not before.targets:
        return distance(before.output[0, :length], after.output[row, :length])
    both = zip((before, after), (0, row), strict=True)
    memory = [(next(step for step in record.steps if step.site.kind == "cross"), place) for record, place in both]
    memories = (torch.cat([step.key[i, :, :length], step.value[i, :, :length]], -1) for step, i in memory)
    count = before.read[0].length
    return torch.cat([distance(*memories).amax(0), distance(before.output[0, :count], after.output[row, :count])])


def _heads_on(record: Record, length: int, whole: int) -> Iterator[tuple[Site, int, int, float]]:
    """The heads that give weight to the padding of a text: site, head, the row that gives most, and how much."""
    read = record.read[0].length if record.targets else length
    for step in record.steps:
        if record.targets and step.site.kind == "decoder":
            continue
        rows = slice(0, read if step.site.kind == "cross" else length)
        for head in range(step.num_heads):
            on_padding = step.weights(head, rows, slice(length, whole)).sum(-1).nan_to_num(1)
            on_padding = on_padding.double().round(decimals=6)  # equal ones stay in their order on any processor
            if float(on_padding.max()) > LEAST_WEIGHT:
                yield step.site, head, int(on_padding.argmax()), float(on_padding.max())
