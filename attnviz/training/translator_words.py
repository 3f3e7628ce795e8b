"""Words of the translator: nouns, adjectives and verbs of both languages, and rules for French forms.

They come from translator.toml next to this file; each English word has one French translation.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_name("translator.toml").read_text(encoding="utf-8"))

VOWELS = "aeiouyhàâéèêëîïôœûAEIOUHÉ"
ASPIRATED = ("huit",)
"""Words without elision before them, although they begin with h."""
ELIDED = {word: f"{word[:-1]}'" for word in ("le", "de", "ne", "que", "je", "me", "te", "se")} | {"la": "l'"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
BEFORE_VOWEL = {
    "ce": "cet", "ma": "mon", "ta": "ton", "sa": "son", "beau": "bel", "nouveau": "nouvel", "vieux": "vieil",
}  # fmt: skip
"""Forms before a singular noun or adjective that begins with a vowel."""
BE = {"present": ("am", "are", "is", "are", "are"), "imperfect": ("was", "were", "was", "were", "were")}


def begins_with_vowel(word: str) -> bool:
    return word[0] in VOWELS and word not in ASPIRATED


def french_plural(word: str) -> str:
    """Form the plural of a noun or an adjective: chats, souris, oiseaux, chevaux."""
    if word[-1] in "sxz":
        return word
    if word.endswith("eau"):
        return f"{word}x"
    return f"{word[:-2]}aux" if word.endswith("al") else f"{word}s"


def english_s(word: str) -> str:
    """Add the English -s of plurals and of "he sleeps"."""
    if word.endswith(("s", "x", "ch", "sh", "go")):
        return f"{word}es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return "has" if word == "have" else f"{word}s"


def agree(participle: str, gender: str, plural: bool) -> str:
    """Form the participle of a past tense with être: allé, allée, allés, allées."""
    single = f"{participle}e" if gender == "f" else participle
    return french_plural(single) if plural else single


@dataclass(frozen=True)
class Noun:
    """A noun; `english` and `french` are (singular, plural), `gender` is "m" or "f"."""

    english: tuple[str, str]
    french: tuple[str, str]
    gender: str
    kind: str

    @property
    def living(self) -> bool:
        return self.kind in ("people", "animals")

    @property
    def counted(self) -> bool:
        """Whether the noun can have "a" and a plural, unlike "milk"."""
        return self.kind not in ("meals", "drinks")


@dataclass(frozen=True)
class Adjective:
    """An adjective; `french` is (masculine, feminine), singular. If `before`, it precedes its noun."""

    english: str
    french: tuple[str, str]
    before: bool
    kind: str

    def form(self, gender: str, plural: bool) -> str:
        singular = self.french[gender == "f"]
        return french_plural(singular) if plural else singular


@dataclass(frozen=True)
class Verb:
    """A verb in both languages; the entries after `particle` are French."""

    english: tuple[str, str, str]  # base, past and -ing
    particle: tuple[str, ...]  # second word, such as "at" in "look at", or none
    infinitive: str
    present: tuple[str, ...]  # forms for je, tu, il, nous, ils
    participle: str
    helper: str  # "être" or "se" (with être) for a verb whose past is formed with it; else ""
    objects: tuple[str, ...]  # kinds of nouns that can be its object; empty for a verb without an object

    @property
    def imperfect(self) -> tuple[str, ...]:
        """Forms from the present of nous: dormons gives dormais, mangeons gives mangions."""
        stem = self.present[3].removesuffix("ons")  # the form for nous
        stem_before_i = stem.removesuffix("e") if stem.endswith("ge") else stem
        return f"{stem}ais", f"{stem}ais", f"{stem}ait", f"{stem_before_i}ions", f"{stem}aient"


def _entries(text: str) -> list[list[str]]:
    """Split "a b; c d" into entries of words."""
    return [entry.split() for entry in text.split(";")]


def _noun(kind: str, english: str, french: str, gender: str) -> Noun:
    """Make a noun from an entry such as "cat chat m", or "man/men homme m" for an irregular English plural."""
    singular, _, plural = english.partition("/")
    return Noun((singular, plural or english_s(singular)), (french, french_plural(french)), gender, kind)


def _verb(kind: str, english: str, infinitive: str, *forms: str) -> Verb:
    """Make a verb from an entry such as "look_at/looked/looking regarder", with French forms if it is irregular."""
    base, past, ing = english.split("/")
    base, *particle = base.split("_")
    helper, _, infinitive = infinitive.rpartition("·")  # "être·aller"
    if not forms:  # a regular verb: parler, manger
        stem = infinitive.removesuffix("er")
        stem_of_nous = f"{stem}e" if stem.endswith("g") else stem
        forms = (f"{stem}e", f"{stem}es", f"{stem}e", f"{stem_of_nous}ons", f"{stem}ent", f"{stem}é")
    *present, participle = forms
    objects = tuple(kind.split()[1:])  # kind: "on things animals", or one word for a verb without an object
    return Verb((base, past, ing), tuple(particle), infinitive, tuple(present), participle, helper, objects)


ATTRIBUTES, ADJECTIVES, DESTINATIONS = (_TABLES[name] for name in ("attributes", "adjectives", "destinations"))
BEFORE = _TABLES["before"].split()
NOUN_LIST = tuple(_noun(kind, *entry) for kind, text in _TABLES["nouns"].items() for entry in _entries(text))
ADJECTIVE_LIST = tuple(
    Adjective(english, (masculine, feminine), kind in BEFORE, kind)
    for kind, text in ADJECTIVES.items()
    for english, masculine, feminine in _entries(text)
)
VERB_LISTS = {kind: tuple(_verb(kind, *entry) for entry in _entries(text)) for kind, text in _TABLES["verbs"].items()}
MODALS, ETRE, HAVE, REFLEXIVES = (_TABLES[name] for name in ("modals", "be", "have", "reflexives"))
DETERMINERS, PRONOUNS, PREPOSITIONS = (_TABLES[name] for name in ("determiners", "pronouns", "prepositions"))
NUMBERS, NAMES, OBJECTS, JOINS, ADVERBS = (
    {english: " ".join(french) for english, *french in _entries(_TABLES[name])}
    for name in ("numbers", "names", "objects", "joins", "adverbs")
)


def nouns(names: str) -> tuple[Noun, ...]:
    """Select nouns by the names of kinds, or by single English nouns, separated by spaces."""
    wanted = set(names.split())
    return tuple(noun for noun in NOUN_LIST if noun.kind in wanted or noun.english[0] in wanted)


def english_vocabulary() -> tuple[str, ...]:
    """List all English words of the grammar, sorted, in lower case."""
    be = [form for forms in BE.values() for form in forms]
    words = ["an there to of . never not cannot can can't want wants do does did don't doesn't didn't", *be]
    words += [f"{form}n't" for form in be if form != "am"]
    words += [word for noun in NOUN_LIST for word in noun.english[: 1 + noun.counted]]
    words += [adjective.english for adjective in ADJECTIVE_LIST]
    for verb in (verb for verbs in VERB_LISTS.values() for verb in verbs):
        words += [*verb.english, english_s(verb.english[0]), *verb.particle]
    for table in (DETERMINERS, NUMBERS, NAMES, PRONOUNS, OBJECTS, PREPOSITIONS, JOINS, ADVERBS):
        words += table
    return _sort_words(word.lower() for word in words)


def french_vocabulary() -> tuple[str, ...]:
    """List all French words of the grammar, sorted."""
    words = ["y à de pas jamais . elles ne se cet bel nouvel vieil", *NAMES, *HAVE]
    words += [*NUMBERS.values(), *ADVERBS.values(), *JOINS.values(), *CONTRACTED.values(), *ELIDED.values()]
    words += [form for table in (MODALS, ETRE, DETERMINERS) for forms in table.values() for form in forms]
    words += [form for forms in PRONOUNS.values() for form in forms[:2]]
    words += [phrase for phrase, _ in PREPOSITIONS.values()]
    words += [word for noun in NOUN_LIST for word in noun.french[: 1 + noun.counted]]
    features = [(gender, plural) for gender in "mf" for plural in (False, True)]
    words += [adjective.form(*feature) for adjective in ADJECTIVE_LIST for feature in features]
    for verb in (verb for verbs in VERB_LISTS.values() for verb in verbs):
        words += [verb.infinitive, *verb.present]
        words += [verb.participle] if verb.english[1] else []
        words += verb.imperfect if verb.english[2] else []
        if verb.helper:
            words += [agree(verb.participle, *feature) for feature in features]
    return _sort_words(words)


def _sort_words(phrases: Iterable[str]) -> tuple[str, ...]:
    """Sort the distinct words of phrases."""
    return tuple(sorted({word for phrase in phrases for word in phrase.split()}))
