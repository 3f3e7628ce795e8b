"""The sentences of a captured record: words, numbers or patches of a picture for each position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from attnviz.core.errors import InputError, quoted
from attnviz.core.places import Picture, grid
from attnviz.core.record import Step
from attnviz.core.tokens import Sentence, Token

Strings = Sequence[str] | Sequence[Sequence[str]]
"""Words of one sentence, or one list of words per sentence."""
MOST_EXTRA = 16
"""Positions before the patches, such as [CLS] and registers, at most."""


@dataclass(frozen=True)
class Texts:
    """Input sentences of a model, or of its decoder, and those at the keys of cross-attention; None if unknown."""

    queries: tuple[Sentence, ...] | None = None
    keys: tuple[Sentence, ...] | None = None

    @property
    def lengths(self) -> dict[str, tuple[int, ...]]:
        """Number of keys without padding per sentence, by kind of attention."""
        kinds = {"encoder": self.keys or self.queries, "decoder": self.queries, "cross": self.keys}
        return {
            kind: tuple(sentence.length for sentence in sentences) for kind, sentences in kinds.items() if sentences
        }

    def with_places(self, places: tuple[int, int], image: Any, steps: tuple[Step, ...]) -> Self:
        """Fill in patches of pictures for sentences that are None: see `places` in `Capture.record`."""
        batch, images = steps[0].shape[0], image if isinstance(image, tuple | list) else [image]
        if len(images) not in (1, batch):
            raise InputError(f"There are {len(images)} pictures for {batch} sentences; give one for each, or one.")
        is_grid = isinstance(places, tuple | list) and len(places) == 2
        if not is_grid or not all(type(number) is int and number > 0 for number in places):
            raise InputError(f"`places` is {quoted(places)}; it has two whole numbers, rows and columns.")
        rows, columns = places
        sizes = [size for step in steps for size in (step.shape[2], _key_count(step))]
        more = [size - rows * columns for size in sizes if 0 <= size - rows * columns <= MOST_EXTRA]
        if not more:
            what = f"A grid of {rows} x {columns} has {rows * columns:,} patches, and the attention calls have"
            there = ", ".join(map(str, sorted(set(sizes))))
            raise InputError(f"{what} {there} positions; up to {MOST_EXTRA} of them may be other tokens.")
        extra = max(more, key=more.count)
        tokens = patches(rows, columns, ["[CLS]"] if extra == 1 else [f"[extra {i}]" for i in range(extra)])
        pictures = [() if picture is None else (Picture.of(picture),) for picture in images]
        patched = tuple(pictured(tokens, each) for each in pictures) * (batch // len(images))
        if self.queries or self.keys:
            return Texts(self.queries or patched, self.keys or patched)
        counts = [step.shape[2] for step in steps if step.site.kind == "cross" and _key_count(step) == len(tokens)]
        return Texts(sentences([[*map(str, range(counts[0]))]] * batch), patched) if counts else Texts(patched)

    def of_steps(self, steps: tuple[Step, ...]) -> tuple[Self, tuple[Step, ...], list[str]]:
        """Select the steps that fit the texts, at least one; gives texts, steps, and a message per other step."""
        fitting = [step for step in steps if self._fits(step, steps[0].shape[0])]
        if not fitting:
            what = f"There are tokens for {len(self.queries)} x {len(self.queries[0].tokens)} positions"
            shapes = ", ".join(dict.fromkeys(map(_shape_text, steps)))
            raise InputError(f"{what}; the attention calls have {shapes}. Give as many, or none to number positions.")
        what, others = ", not the tokens'" if self.queries else "", [step for step in steps if step not in fitting]
        unseen = [f"{step.site} ({step.name or 'the model'}) has {_shape_text(step)}{what}" for step in others]
        longest = max(size for step in fitting for size in (step.shape[2], _key_count(step)))
        queries = self.queries or sentences([[*map(str, range(longest))]] * fitting[0].shape[0])
        return Texts(queries, self.keys), tuple(fitting), unseen

    def _fits(self, step: Step, batch: int) -> bool:
        """Whether a step fits the positions of the texts; without texts, whether its batch size is `batch`."""
        if not self.queries:
            return step.shape[0] == batch
        sizes = len(self.queries[0].tokens), len((self.keys or self.queries)[0].tokens)
        queries, keys = sizes[step.site.kind == "encoder"], sizes[step.site.kind != "decoder"]
        has_keys = _key_count(step) == keys or (step.site.kind == "cross" and self.keys is None)
        return has_keys and (step.shape[0], step.shape[2]) == (len(self.queries), queries)


def patches(rows: int, columns: int, extra: Sequence[str] = ()) -> tuple[Token, ...]:
    """Tokens "row3·col5" for the patches of a picture, row by row, counted from 0, after the tokens `extra`."""
    before = [Token(name, id, 0, 0, special=True) for id, name in enumerate(extra)]
    names = [f"row{row}·col{column}" for row in range(rows) for column in range(columns)]
    boxes = zip(names, grid(rows, columns), strict=True)
    return (*before, *(Token(name, len(before) + i, 0, 0, box=box) for i, (name, box) in enumerate(boxes)))


def pictured(tokens: tuple[Token, ...], pictures: tuple[Picture, ...]) -> Sentence:
    """Create a sentence from the tokens of pictures."""
    count = sum(token.box is not None for token in tokens)
    return Sentence(f"a picture of {count:,} patches", tokens, len(tokens), pictures)


def sentences(words: Strings) -> tuple[Sentence, ...]:
    """Create sentences from words, with consecutive numbers as ids; shorter sentences are padded at the end."""
    texts = [words] if all(isinstance(word, str) for word in words) else words
    longest, padded = max(map(len, texts)), []
    for text in ([*map(str, words)] for words in texts):
        tokens, start, ids = [], 0, {word: id for id, word in enumerate(dict.fromkeys(text), 1)}
        for word in text:
            tokens.append(Token(word, ids[word], start, start + len(word)))
            start += len(word) + 1
        padding = [Token("<pad>", 0, start, start, special=True)] * (longest - len(text))
        padded.append(Sentence(" ".join(text), (*tokens, *padding), len(text)))
    return tuple(padded)


def _key_count(step: Step) -> int:
    """Number of keys of a step, without a sink."""
    return step.shape[3] - step.has_sink


def _shape_text(step: Step) -> str:
    return f"{step.shape[0]} x {step.shape[2]} queries, {_key_count(step)} keys"
