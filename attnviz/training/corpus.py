"""Sentences written by rule, from words chosen by this project: nothing is copied and nothing is downloaded.

They teach the byte-pair encoding which words are common and which endings there are; they need not make sense.
"""

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import ascii_letters

_LISTS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
PHRASES = _LISTS.pop("phrases").strip().splitlines()
WORDS = {kind: text.split() for kind, text in _LISTS.items()}
ALONE = [kind for kind in WORDS if kind not in ("verbs", "moves", "objects", "said", "prefixes", "stems", "endings")]

SEED, SENTENCES = 0, 30_000


def lines(seed: int = SEED, sentences: int = SENTENCES) -> Iterator[str]:
    """The corpus, one text at a time; the same seed gives the same corpus on every machine."""
    draw = _Draw(seed)
    for _ in range(sentences):
        yield draw.text()
    for word in (word for kind in ALONE for word in sorted(set(WORDS[kind]))):
        yield from (f"{word} {word}", word.capitalize()) * 6  # also as a text begins: without a space
    for stem in WORDS["stems"]:
        yield from (f"{stem}{ending} {prefix}{stem}" for ending in WORDS["endings"] for prefix in WORDS["prefixes"])
    yield from PHRASES * 40
    yield from ["".join(f" {letter}" for letter in ascii_letters)] * 200  # so that no space is cut off from its word


class _Draw:
    """Random sentences. Only `Random.random` is used: Python promises its numbers in every version."""

    def __init__(self, seed: int):
        self._random = random.Random(seed).random

    def among(self, choices: list[str]) -> str:
        return choices[int(self._random() * len(choices))]

    def one(self, kind: str) -> str:
        return self.among(WORDS[kind])

    def maybe(self, chance: float, text: str) -> str:
        return text if self._random() < chance else ""

    def noun(self, kind: str) -> str:
        one = f"{self.one('determiners')} {self.maybe(0.5, self.one('adjectives') + ' ')}{self.one(kind)}"
        many = f"{self.one('numbers')} {self.maybe(0.3, self.one('adjectives') + ' ')}{self.one(kind)}s"
        return self.among([one, one, one, one, many])

    def subject(self) -> str:
        animate = self.noun("animate")
        return self.among([animate, animate, animate, self.one("pronouns"), self.one("names")])

    def object(self) -> str:
        thing = self.noun("things")
        return self.among([thing, thing, thing, self.noun("animate"), self.one("objects")])

    def verb(self, kind: str) -> str:
        present, past = self.one(kind).split("/")
        ing = present.removesuffix("e") + "ing"
        simple = [past] * 5 + [f"{present}s"] * 2
        return self.among(
            [*simple, f"will {present}", f"can {present}", f"did not {present}", f"is {ing}", f"was {ing}"]
        )

    def clause(self) -> str:
        does = f"{self.verb('verbs')} {self.object()}"
        goes = f"{self.verb('moves')} {self.one('places')} {self.noun('things')}"
        is_so = f"{self.among(['was', 'is', 'were', 'are'])} {self.one('adjectives')}"
        said = self.among([does, does, goes, goes, is_so])
        return f"{self.subject()} {said}{self.maybe(0.15, ' ' + self.one('adverbs'))}"

    def text(self) -> str:
        clause, year, part = self.clause(), int(self._random() * 2100), int(self._random() * 100)
        plain = f"{clause}."
        joined = f"{clause}{self.maybe(0.3, ',')} {self.one('joins')} {self.clause()}."
        asked = (
            f"{self.among(['why', 'when', 'where', 'how'])} did {self.subject()} {self.one('verbs').split('/')[0]} it?"
        )
        quoted = f'"{clause[0].upper()}{clause[1:]}," {self.one("said")} {self.subject()}.'
        dated = f"{self.one('adverbs')}, in {year}, {clause} ({part}.{part % 7}, {part * 10}%)!"
        text = self.among([*[plain] * 5, joined, joined, asked, quoted, dated])
        return text[0].upper() + text[1:]
