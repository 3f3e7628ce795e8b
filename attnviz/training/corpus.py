"""Sentences written by rule from words of this project, and the byte-pair encoding that is trained on them.

The sentences teach which words are common and which endings there are; they need not make sense.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from string import ascii_letters

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from attnviz.tokenizers import SPECIAL
from attnviz.training.recipe import Dice

_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PHRASES = _LISTS.pop("phrases").strip().splitlines()
WORDS = {kind: text.split() for kind, text in _LISTS.items()}
ALONE = [kind for kind in WORDS if kind not in ("verbs", "moves", "objects", "said", "prefixes", "stems", "endings")]
"""Lists whose words also stand alone, as the corpus ends."""
SEED, SENTENCES = 0, 30_000
WORD = r"[\p{L}\p{M}]+(?:['’][\p{L}\p{M}]+)*"
PARTS = rf" ?{WORD}| ?\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+|\s+(?!\S)|\s+"
"""Parts of a text that no token crosses: GPT-2's, but marks and apostrophes stay in words, and digits go by three."""


def lines(seed: int = SEED, sentences: int = SENTENCES) -> Iterator[str]:
    """Write the corpus, one text at a time; a seed gives the same corpus on every machine."""
    writer = _Writer(Random(seed))
    for _ in range(sentences):
        yield writer.text()
    for word in (word for kind in ALONE for word in sorted(set(WORDS[kind]))):
        yield from (f"{word} {word}", word.capitalize()) * 6  # also without a space, as a text begins
    for stem in WORDS["stems"]:
        yield from (f"{stem}{ending} {prefix}{stem}" for ending in WORDS["endings"] for prefix in WORDS["prefixes"])
    yield from PHRASES * 40
    yield from ["".join(f" {letter}" for letter in ascii_letters)] * 200  # no space is cut off from its word


class _Writer(Dice):
    """Writer of random sentences."""

    def word(self, kind: str) -> str:
        return self.choose(WORDS[kind])

    def maybe(self, share: float, text: str) -> str:
        return text if self.chance(share) else ""

    def noun(self, kind: str) -> str:
        single = f"{self.word('determiners')} {self.maybe(0.5, self.word('adjectives') + ' ')}{self.word(kind)}"
        many = f"{self.word('numbers')} {self.maybe(0.3, self.word('adjectives') + ' ')}{self.word(kind)}s"
        return self.choose([*[single] * 4, many])

    def subject(self) -> str:
        animate = self.noun("animate")
        return self.choose([*[animate] * 3, self.word("pronouns"), self.word("names")])

    def object(self) -> str:
        thing = self.noun("things")
        return self.choose([*[thing] * 3, self.noun("animate"), self.word("objects")])

    def verb(self, kind: str) -> str:
        present, past = self.word(kind).split("/")
        ing = f"{present.removesuffix('e')}ing"
        simple = [past] * 5 + [f"{present}s"] * 2
        rare = [f"will {present}", f"can {present}", f"did not {present}", f"is {ing}", f"was {ing}"]
        return self.choose(simple + rare)

    def clause(self) -> str:
        does = f"{self.verb('verbs')} {self.object()}"
        goes = f"{self.verb('moves')} {self.word('places')} {self.noun('things')}"
        is_so = f"{self.choose(['was', 'is', 'were', 'are'])} {self.word('adjectives')}"
        predicate = self.choose([does, does, goes, goes, is_so])
        return f"{self.subject()} {predicate}{self.maybe(0.15, ' ' + self.word('adverbs'))}"

    def text(self) -> str:
        clause, year, part = self.clause(), int(self.random() * 2100), int(self.random() * 100)
        plain = f"{clause}."
        joined = f"{clause}{self.maybe(0.3, ',')} {self.word('joins')} {self.clause()}."
        asked = self.choose(["why", "when", "where", "how"])
        question = f"{asked} did {self.subject()} {self.word('verbs').split('/')[0]} it?"
        quoted = f'"{clause[0].upper()}{clause[1:]}," {self.word("said")} {self.subject()}.'
        dated = f"{self.word('adverbs')}, in {year}, {clause} ({part}.{part % 7}, {part * 10}%)!"
        text = self.choose([*[plain] * 5, joined, joined, question, quoted, dated])
        return text[0].upper() + text[1:]


def train_tokenizer() -> str:
    """Train the byte-pair encoding in assets/tokenizers/bpe.json; its JSON is the same bytes every time."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PARTS), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=4_000, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(lines(), trainer)
    return tokenizer.to_str(pretty=True) + "\n"
