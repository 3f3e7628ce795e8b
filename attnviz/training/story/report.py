"""The card of the story model: what it says about itself, with every number measured."""

import json
from typing import Any

from attnviz.models import trained
from attnviz.models.transformer import LanguageModel
from attnviz.training.story.evidence import Head, Measured
from attnviz.training.story.measure import VOCABULARY
from attnviz.training.story.words import NAMES, PRONOUNS, VERBS

GOAL = 0.98
NEAR = 0.02
"""Difference of two shares within which one is as good as the other."""
EXAMPLES = (
    "The cat sat on the mat because it was tired",
    "The keys to the cabinet",
    "Anna saw the dog in the garden because",
    "The dog near the girls slept because",
    "The boys near the table laughed because they",
    "The key to the cabinets",
    "The book that the boys found",
    "Anna and Tom went to the park. Anna gave the ball to",
)
ROLE = {"verb": "subject of the next verb", "pronoun": "subject of the next pronoun", "name": "second of two names"}
"""Where a head looks before such a word, in a few words."""
NEXT = {
    "verb": sorted({form for verb in VERBS for form in (verb.many, verb.one, verb.past, verb.past_many) if form}),
    "pronoun": PRONOUNS,
    "name": [name.word for name in NAMES],
}
"""The words before which a head looks there."""
TESTED = {
    "pronoun": "pronouns right (he, she, it, they) where the nearest noun misleads",
    "verb": "verbs right (singular, plural) where the nearest noun misleads",
    "name": "names right where one of two must come again",
}


def card(model: LanguageModel, found: Measured, *, name: str, steps: int, batch: int) -> dict[str, Any]:
    """The card as `attnviz.sources.cards` reads it."""
    learning = json.loads((trained.folder(name) / "learning.json").read_text(encoding="utf-8"))
    layer, head = found.needed("pronoun", model.config.num_layers - 1)
    ours, pairs = found.perplexity
    return {
        "name": name,
        "title": "Short stories",
        "does": "Continues short English stories word by word, and keeps track of who and what they are about: verbs"
        " and pronouns agree with a subject several words back.",
        "made": f"Trained from random weights: {steps:,} steps of {batch} stories,"
        f" {learning['minutes']:g} minutes on one CPU core. It was only taught to predict the next word; no head was"
        " told where to look.",
        "trained_on": f"Stories of one to four sentences, drawn by rule from {len(VOCABULARY.words)} words that this"
        " project chose. One of ten ways to begin a sentence was kept from training: the model is tested on those"
        f" alone. On held-out stories its perplexity is {ours:.1f}: it is as unsure as if {ours:.1f} words were equally"
        f" likely. From the word before alone it is {pairs:.1f}.",
        "sizes": _sizes(model),
        "measured": _measured(found),
        "command": f"make evidence MODEL={name}\nmake train MODEL={name}",
        "findings": _findings(found, model.config.num_layers - 1),
        "cannot": _cannot(found, model),
        "examples": list(EXAMPLES),
        "opens": {"kind": "decoder", "layer": layer, "head": head},
        "curve": learning["curve"],
        "score": "pronouns and verbs that are right, each kind counted half; a guess, always the commonest pronoun and"
        f" either form of a verb by chance, gets {(found.majority['pronoun'] + 0.5) / 2:.1%}",
    }


def _sizes(model: LanguageModel) -> dict[str, int]:
    config = model.config
    return {
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "layers": config.num_layers,
        "heads per layer": config.num_heads,
        "numbers for each token (d_model)": config.d_model,
        "numbers of a query or a key (d_k)": config.d_model // config.num_heads,
        "width of the feed-forward layer (d_ff)": config.d_ff,
        "words": len(VOCABULARY.words),
        "longest text, in tokens": config.longest,
    }


def _measured(found: Measured) -> list[dict[str, Any]]:
    rows = []
    for kind, what in TESTED.items():
        rows.append(
            (f"{what}, in {found.tested:,} held-out stories", found.right[kind], GOAL if kind != "name" else None)
        )
        as_good = ": as good as that guess" * (abs(found.silent[kind] - found.pairs[kind]) < NEAR)
        rows.append((f"{kind}s right if guessed from the word before alone", found.pairs[kind], None))
        rows.append((f"{kind}s right with every head of the last layer off{as_good}", found.silent[kind], None))
    return [{"what": what, "value": value, "goal": goal} for what, value, goal in rows]


def _findings(found: Measured, last: int) -> list[dict[str, Any]]:
    """One for each role, each with its own numbers: a head may have several."""
    verb, pronoun, name = (found.needed(kind, last) for kind in ("verb", "pronoun", "name"))
    marker = found.needed("verb", 0)
    told = (
        (
            "verb",
            verb,
            "back at the subject where a verb comes next, or at the “that” of its clause",
            _agreement,
            found.looks["verb"],
        ),
        ("name", name, "at the second of two names (“Anna and Tom”) where one comes again", _repeated, found.second),
        (
            "pronoun",
            pronoun,
            "at the subject (“cat”) where he, she, it or they may come next",
            _reference,
            found.looks["pronoun"],
        ),
        ("verb", marker, "from “the” to the word before it", _marking, found.behind),
    )
    return [
        {
            "kind": "decoder",
            "layer": head[0],
            "heads": [head[1]],
            "role": "word before “the”" if head == marker else ROLE[kind],
            "does": f"looks {does}",
            "next": "" if head == marker else " ".join(NEXT[kind]),
            "known": known(found, head),
            "rates": [looks[head].share],
            "chance": None,
            "off": [found.without[kind][head]],
            "on": found.right[kind],
        }
        for kind, head, does, known, looks in told
    ]


def _others(found: Measured, kind: str, head: Head) -> str:
    others = max(look.share for place, look in found.looks[kind].items() if place != head)
    return f"of the other heads at most {others:.1%}"


def _fallen(found: Measured, kind: str, head: Head) -> str:
    return (
        f"With this head off {found.without[kind][head]:.1%} of them are right instead of {found.right[kind]:.1%},"
        f" with the whole layer off {found.silent[kind]:.1%}"
    )


def _agreement(found: Measured, head: Head) -> str:
    look, own, clause = found.looks["verb"][head], found.own["pronoun"][head], found.clause[head]
    return (
        f"In {found.tested:,} held-out stories where the noun just before the verb has the other number, its strongest"
        f" weight is on the subject's noun in {look.share:.1%} ({_others(found, 'verb', head)}), with a mean weight of"
        f" {look.weight:.2f}. {_fallen(found, 'verb', head)}; a guess gets 50% (either form by chance) or"
        f" {found.pairs['verb']:.1%} (from the word before alone). Within a clause, as in “the hats that the queen"
        f" wants”, it looks most at “that” where the verb comes next in {clause.share:.1%} of {found.clauses:,}"
        f" stories, with a mean weight of {clause.weight:.2f}. From a tested pronoun itself it looks most at what"
        f" the pronoun stands for in {own.share:.1%}."
    )


def _reference(found: Measured, head: Head) -> str:
    look, stop = found.looks["pronoun"][head], found.stop[head]
    return (
        f"In {found.tested:,} held-out stories where the noun just before asks for another pronoun, its strongest"
        f" weight is on the subject in {look.share:.1%} ({_others(found, 'pronoun', head)}), with a mean weight of"
        f" {look.weight:.2f}. {_fallen(found, 'pronoun', head)}; a guess gets {found.majority['pronoun']:.1%}"
        f" (always the commonest pronoun) or {found.pairs['pronoun']:.1%} (from the word before alone). From a"
        f" full stop, after which a pronoun may stand for the subject, its strongest weight is on the subject in"
        f" {stop.share:.1%} of {found.stops:,} stories, with a mean weight of {stop.weight:.2f}."
    )


def _repeated(found: Measured, head: Head) -> str:
    second, right = found.second[head], found.looks["name"][head]
    return (
        f"In {found.tested:,} held-out stories in which one of two people gives the other something, the other's name"
        f" must come again, out of {len(NAMES)}. Its strongest weight is on the second of the two names in"
        f" {second.share:.1%}, with a mean weight of {second.weight:.2f}, and that is the right one in"
        f" {right.share:.1%} only: where it looks does not tell which of the two comes."
        f" {_fallen(found, 'name', head)}; a guess gets {1 / len(NAMES):.1%} (any name by chance)."
    )


def _marking(found: Measured, head: Head) -> str:
    look, without, right = found.behind[head], found.without, found.right
    return (
        f"In {found.articles:,} held-out stories, from the first “the” after the subject, its strongest weight is on"
        f" the word just before in {look.share:.1%}, with a mean weight of {look.weight:.2f}. With this head off"
        f" {without['verb'][head]:.1%} of the verbs are right instead of {right['verb']:.1%}, and"
        f" {without['pronoun'][head]:.1%} of the pronouns instead of {right['pronoun']:.1%}."
    )


def _cannot(found: Measured, model: LanguageModel) -> list[str]:
    layer = model.config.num_layers - 1
    pronoun = found.needed("pronoun", layer)
    return [
        "It knows its grammar and no world: a pronoun always stands for the subject of the sentence, or of the one"
        " before, even where a person would understand it otherwise.",
        f"Its heads share some work: without the pronoun head {found.without['pronoun'][pronoun]:.0%} of the tested"
        " pronouns are still right, because the other head of the layer looks at the subject too.",
        "Which of two names comes next is tested only where one of two people gives something to the other.",
        f"It reads {len(VOCABULARY.words)} words; all others are one and the same unknown word to it.",
        f"It reads at most {model.config.longest - 1} words and marks (with <sos>, {model.config.longest} tokens), and"
        " was trained on at most 40.",
        "Its attention shows what this small model does on its grammar, not how language works in general.",
    ]
