"""English and French side by side: a phrase knows for each French word the English words it comes from.

So the alignment of a sentence is known by construction, wherever its words end up.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from attnviz.training.translator import french, lexicon
from attnviz.training.translator.lexicon import Adjective, Noun


@dataclass(eq=False)
class Word:
    """One English word of one sentence: two words "the" are two values."""

    text: str


@dataclass(frozen=True)
class Written:
    """One French word, the English words it comes from, and what part of speech it is."""

    text: str
    source: tuple[Word, ...]
    role: str
    refers: Word | None = None
    """The English noun that a pronoun stands for."""


@dataclass(frozen=True)
class Phrase:
    """English words, and the French words in their own order."""

    english: tuple[Word, ...] = ()
    french: tuple[Written, ...] = ()

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.english + other.english, self.french + other.french)


@dataclass(frozen=True)
class Person:
    """Person or thing that a verb or an adjective agrees with.

    Attributes:
        form: picks among je, tu, il, nous, ils.
        pronoun: the English pronoun that stands for it.
        living: whether it can be tired; if not, it can be wide.
        noun: the English noun, if there is one.
    """

    form: int
    gender: str
    pronoun: str
    living: bool = True
    noun: Word | None = None

    @property
    def plural(self) -> bool:
        return self.form > 2


@dataclass(frozen=True)
class Pair:
    """A sentence in both languages.

    Attributes:
        english, french: their words.
        alignment: for each French word, the positions of the English words it comes from; never empty.
        roles: for each French word, its part of speech.
        refers: for each French word, the position of the English noun that it stands for, if it is such a pronoun.
    """

    english: tuple[str, ...]
    french: tuple[str, ...]
    alignment: tuple[frozenset[int], ...]
    roles: tuple[str, ...]
    refers: tuple[int | None, ...]

    @property
    def text(self) -> str:
        """The English sentence, as a person types it."""
        return " ".join(self.english).replace(" .", ".")


def say(english: str, written: str, role: str) -> Phrase:
    """Words that belong together: each French word comes from all the English ones."""
    words = tuple(Word(text) for text in english.split())
    return Phrase(words, tuple(Written(text, words, role) for text in written.split()))


def pair(phrase: Phrase) -> Pair:
    """The finished sentence: contracted ("du", "au"), elided ("l'", "n'"), with positions instead of words."""
    written = _elided(_contracted(phrase.french))
    place = {word: i for i, word in enumerate(phrase.english)}
    return Pair(
        tuple(word.text for word in phrase.english),
        tuple(piece.text for piece in written),
        tuple(frozenset(place[word] for word in piece.source) for piece in written),
        tuple(piece.role for piece in written),
        tuple(place[piece.refers] if piece.refers else None for piece in written),
    )


def _contracted(pieces: Iterable[Written]) -> list[Written]:
    """De + le becomes du; but de + l' stays, so the word after the article is looked at."""
    pieces, done = list(pieces), []
    for i, piece in enumerate(pieces):
        both = (done[-1].text if done else "", piece.text)
        elides = piece.text == "le" and french.begins_with_vowel(pieces[i + 1].text)
        if both in french.CONTRACTED and not elides:
            done[-1] = Written(french.CONTRACTED[both], done[-1].source + piece.source, "article")
        else:
            done.append(piece)
    return done


def _elided(pieces: list[Written]) -> list[Written]:
    return [
        replace(piece, text=french.ELIDED[piece.text])
        if piece.text in french.ELIDED and after and french.begins_with_vowel(after.text)
        else piece
        for piece, after in zip(pieces, [*pieces[1:], None], strict=True)
    ]


def noun_phrase(
    noun: Noun,
    determiner: str = "the",
    *,
    plural: bool = False,
    number: str = "",
    adjectives: tuple[Adjective, ...] = (),
    denied: bool = False,
) -> Phrase:
    """Such as "the small black cat", "le petit chat noir": French adjectives agree, and some follow their noun.

    Args:
        determiner: English; "" if a number stands alone.
        adjectives: in English order.
        denied: "a" is "de" after a negated verb.
    """
    before = [adjective for adjective in adjectives if adjective.before]
    article = lexicon.DETERMINERS[determiner][2 if plural else int(noun.gender == "f")] if determiner else ""
    if (determiner == "some" and before) or (determiner == "a" and denied):
        article = "de"
    said = [
        *((determiner, article, "article") for _ in range(bool(determiner))),
        *((number, lexicon.NUMBERS[number], "number") for _ in range(bool(number))),
        *((adjective.english, adjective.agreed(noun.gender, plural), "adjective") for adjective in adjectives),
        (noun.english[plural], noun.french[plural], "noun"),
    ]
    words = [say(*parts) for parts in said]
    order = list(words)
    for adjective, word in zip(adjectives, words[-1 - len(adjectives) : -1], strict=True):
        if not adjective.before:
            order.remove(word)
            order.append(word)
    english = tuple(_article(word for phrase in words for word in phrase.english))
    written = [piece for phrase in order for piece in phrase.french]
    return Phrase(english, tuple(written if plural else _before_vowels(written)))


def _article(words: Iterable[Word]) -> Iterable[Word]:
    """An apple, an old man: the word stays the same value."""
    words = list(words)
    if words[0].text == "a" and words[1].text[0] in "aeiou":
        words[0].text = "an"
    return words


def _before_vowels(pieces: list[Written]) -> list[Written]:
    """Mon amie, cet arbre, bel oiseau: only what stands before the noun changes."""
    noun = next(i for i, piece in enumerate(pieces) if piece.role == "noun")
    return [
        replace(piece, text=french.BEFORE_VOWEL.get(piece.text, piece.text))
        if i < noun and french.begins_with_vowel(pieces[i + 1].text)
        else piece
        for i, piece in enumerate(pieces)
    ]
