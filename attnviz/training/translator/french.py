"""How French words change: plural, conjugation, elision and contraction."""

VOWELS = "aeiouyhàâéèêëîïôœûAEIOUHÉ"
ASPIRATED = ("huit",)
"""Words of the lexicon before which nothing is elided, although they begin with h."""

ELIDED = {
    "le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'",
    "je": "j'", "me": "m'", "te": "t'", "se": "s'",
}  # fmt: skip
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
BEFORE_VOWEL = {
    "ce": "cet", "ma": "mon", "ta": "ton", "sa": "son", "beau": "bel", "nouveau": "nouvel", "vieux": "vieil",
}  # fmt: skip
"""What stands before a singular noun, or before its adjective, that begins with a vowel."""


def begins_with_vowel(word: str) -> bool:
    return word[0] in VOWELS and word not in ASPIRATED


def plural(word: str) -> str:
    """Plural of a noun or an adjective: chats, souris, oiseaux, chevaux."""
    if word[-1] in "sxz":
        return word
    if word.endswith("eau"):
        return f"{word}x"
    return f"{word[:-2]}aux" if word.endswith("al") else f"{word}s"


def feminine(participle: str) -> str:
    """Feminine of a participle: allée, assise."""
    return f"{participle}e"


def like_parler(infinitive: str) -> tuple[str, ...]:
    """The present of je, tu, il, nous, ils and the participle of a regular verb in -er: mange, ..., mangeons."""
    stem = infinitive.removesuffix("er")
    return f"{stem}e", f"{stem}es", f"{stem}e", f"{stem}{'e' * stem.endswith('g')}ons", f"{stem}ent", f"{stem}é"


def imperfect(we: str) -> tuple[str, ...]:
    """Imperfect of je, tu, il, nous, ils, from the present of nous: dormons gives dormais, mangeons gives mangions."""
    stem = we.removesuffix("ons")
    soft = stem.removesuffix("e") if stem.endswith("ge") else stem
    return f"{stem}ais", f"{stem}ais", f"{stem}ait", f"{soft}ions", f"{stem}aient"
