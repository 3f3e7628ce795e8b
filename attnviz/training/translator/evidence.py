"""The card of the translator: what it was made of, what was measured, and what its heads do."""

import json
from dataclasses import dataclass
from typing import Any

from attnviz.core.edits import Site
from attnviz.models import trained
from attnviz.models.transformer import EncoderDecoder
from attnviz.training.translator import measure
from attnviz.training.translator.phrases import Pair
from attnviz.training.translator.recipe import BATCH, ENGLISH, FRENCH, RECIPE, held_out

EXAMPLES = (
    "the black cat sleeps on the red chair",
    "The cat sat on the mat",
    "The cat sat down",
    "The cat sat on the mat because it was tired.",
    "The mouse sat on the mat because it was tired.",
    "The bird did not cross the street because it was too wide.",
    "She does not like the small yellow flowers.",
    "Anna gave an old Italian book to the children.",
)
SEED = 2024
"""Of the held-out sentences that are measured; those of the learning curve are others."""
ALIGNED, EXACT = 0.90, 0.99
"""What was meant to be reached: a head that aligns, and whole sentences."""
TELLING, HEAVY = 0.60, 0.40
"""What makes a head worth a word: so many rows have their largest weight there, and so much of all weight is there."""
ABLATED = 500
"""Each head is switched off on so many of the sentences, to save time."""

DOES = {
    "alignment": "looks at the English word that is translated next",
    "antecedent": "looks from a pronoun to the noun that it stands for",
    "article": "looks from an article to its noun",
    "adjective": "looks from an adjective to its noun",
    "itself": "looks at the word itself",
    "before": "looks at the word before",
    "after": "looks at the word after",
}
ROLE = {
    "alignment": "word translated next",
    "antecedent": "noun of a pronoun",
    "article": "noun of an article",
    "adjective": "noun of an adjective",
    "itself": "itself",
    "before": "previous token",
    "after": "next token",
}
"""The same where there is room for a few words."""
ROWS = {
    "alignment": "rows that predict a French word",
    "antecedent": "rows of a pronoun of a second clause",
    "article": "rows of English articles and possessives",
    "adjective": "rows of English adjectives that stand at a noun",
    "itself": "rows",
    "before": "rows",
    "after": "rows",
}


@dataclass(frozen=True)
class Measured:
    """The shipped model on held-out sentences."""

    model: EncoderDecoder
    pairs: list[Pair]
    looks: measure.Looks
    made: list[list[str]]

    def exact(self, *off: tuple[Site, int]) -> float:
        """The share of the first sentences that is translated right, perhaps with heads off."""
        some = self.pairs[:ABLATED]
        made = measure.translations(self.model, some, off) if off else self.made[:ABLATED]
        return measure.exact(made, some)

    def aligning(self) -> list[tuple[Site, int]]:
        """The single cross-attention heads, best first."""
        heads = [(site, head) for site, head, name in self.looks.shares if name == "alignment" and head != "mean"]
        return sorted(heads, key=lambda at: -self.looks.shares[*at, "alignment"].value)


def look(sentences: int) -> Measured:
    model, pairs = trained.load(RECIPE.name), held_out(sentences, SEED)
    return Measured(model, pairs, measure.looks(model, pairs), measure.translations(model, pairs))


def card(sentences: int) -> dict[str, Any]:
    """The card as `attnviz.sources.cards` reads it, measured afresh from the shipped weights."""
    found = look(sentences)
    learning = json.loads((trained.folder(RECIPE.name) / "learning.json").read_text(encoding="utf-8"))
    site, head = found.aligning()[0]
    return {
        "name": RECIPE.name,
        "title": "English to French",
        "does": "An encoder reads an English sentence; a decoder writes it in French word by word, looking back at it.",
        "made": f"Trained from random weights: {RECIPE.steps:,} batches of {BATCH} sentence pairs,"
        f" {learning['minutes']:g} minutes on one CPU core. It was trained to predict the next French"
        " word, and never shown which word translates which.",
        "trained_on": "Sentence pairs drawn by rule from a grammar and word lists that this project wrote, with"
        f" {len(ENGLISH.words)} English and {len(FRENCH.words)} French words; one sentence in ten is never trained on."
        " Because the rules make both sentences at once, it is known which word translates which.",
        "sizes": _sizes(found.model),
        "measured": _measured(found),
        "command": f"make evidence MODEL={RECIPE.name}\nmake train MODEL={RECIPE.name}",
        "findings": _findings(found),
        "cannot": _cannot(found),
        "examples": list(EXAMPLES),
        "opens": {"kind": site.kind, "layer": site.layer, "head": head},
        "curve": learning["curve"],
        "score": "200 held-out sentences that are translated right in every word; a guess gets none",
    }


def _sizes(model: EncoderDecoder) -> dict[str, int]:
    config = RECIPE.config
    return {
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "encoder layers": config.num_layers,
        "decoder layers": config.num_layers,
        "heads per layer": config.num_heads,
        "numbers for each token (d_model)": config.d_model,
        "numbers of a query or a key (d_k)": config.d_model // config.num_heads,
        "English words": len(ENGLISH.words),
        "French words": len(FRENCH.words),
        "longest sentence": config.longest,
    }


def _measured(found: Measured) -> list[dict[str, Any]]:
    pairs, made, best = found.pairs, found.made, found.aligning()[0]
    share = found.looks.shares[*best, "alignment"]
    adjectives = measure.right(made, pairs, lambda pair, i: pair.roles[i] == "adjective")
    pronouns = measure.right(made, pairs, lambda pair, i: pair.refers[i] is not None)
    layer = [(best[0], head) for head in range(RECIPE.config.num_heads)]
    held = f"{len(pairs):,} held-out sentences"
    rows = [
        (f"of {held} translated right in every word", measure.exact(made, pairs), EXACT),
        (f"of the French words: {_name(best)} looks most at an English word that is translated", share.value, ALIGNED),
        ("the same for a head that picks a position by chance", share.by_chance, None),
        ("of the French adjectives right: the word, its gender and its number", adjectives, None),
        ("of the pronouns il, elle, ils, elles after because or but right", pronouns, None),
        (f"of {min(ABLATED, len(pairs)):,} of them translated right with {_name(best)} off", found.exact(best), None),
        (f"of them with all heads of {best[0]} off", found.exact(*layer), None),
    ]
    return [{"what": what, "value": value, "goal": goal} for what, value, goal in rows]


def _findings(found: Measured) -> list[dict[str, Any]]:
    """Each head that answers some question far better than chance; first the question that it answers best."""
    told = []
    for site in RECIPE.config.sites:
        for head in range(RECIPE.config.num_heads):
            own = {name: found.looks.shares[site, head, name] for name in measure.QUESTIONS[site.kind]}
            telling = [name for name, share in own.items() if _is_telling(share)]
            if telling:
                names = sorted(telling, key=lambda name: -own[name].value)
                told.append(_finding(found, site, head, names))
    return told


def _finding(found: Measured, site: Site, head: int, names: list[str]) -> dict[str, Any]:
    """Make a finding: its sentence and its numbers."""
    best, off, on = found.looks.shares[site, head, names[0]], found.exact((site, head)), found.exact()
    known = f"{_where(found, site, head, names)} {_off(found, off, on)}"
    numbers = {"rates": [best.value], "chance": best.by_chance, "off": [off], "on": on}
    told = {"role": ROLE[names[0]], "does": DOES[names[0]], "known": known}
    return {"kind": site.kind, "layer": site.layer, "heads": [head]} | told | numbers


def _is_telling(share: measure.Share) -> bool:
    return share.value >= max(TELLING, 2 * share.by_chance) and share.mean_weight >= HEAVY


def _where(found: Measured, site: Site, head: int, names: list[str]) -> str:
    """How often a head looks where it is said to look, beside chance and beside the other heads."""
    shares, name = found.looks.shares, names[0]
    share = shares[site, head, name]
    others = [shares[site, other, name].value for other in range(RECIPE.config.num_heads) if other != head]
    said = (
        f"In {share.value:.1%} of {share.rows:,} {ROWS[name]} in {len(found.pairs):,} held-out sentences its largest"
        f" weight is there, and {share.mean_weight:.0%} of the weight on average; by chance it would be"
        f" {share.by_chance:.1%}. The other heads of the layer have {_list(others)}, the mean map of all its heads"
        f" {shares[site, 'mean', name].value:.1%}."
    )
    for also in names[1:]:
        share = shares[site, head, also]
        said += f" It also {DOES[also]}: in {share.value:.1%} of {share.rows:,} {ROWS[also]}"
        said += f" (by chance {share.by_chance:.1%})."
    return said


def _off(found: Measured, off: float, on: float) -> str:
    some = min(ABLATED, len(found.pairs))
    return f"With this head off, {off:.1%} of {some:,} sentences are translated right instead of {on:.1%}."


def _cannot(found: Measured) -> list[str]:
    shares = {(site, head): share for (site, head, name), share in found.looks.shares.items() if name == "antecedent"}
    (site, head), most = max(((at, share) for at, share in shares.items() if at[1] != "mean"), key=lambda x: x[1].value)
    return [
        "It knows the words and the sentences of its grammar: statements of one or two clauses, up to"
        f" {RECIPE.config.longest - 2} words. It has no questions, no commands and no future tense.",
        "A word that it does not know is read as <unk>, and what it writes for it is a guess.",
        "Each English word has one translation here. “You” is always tu; “I”, “you” and “we” are taken for men; “they”"
        " is ils unless a noun before tells otherwise; a past such as “slept” is always the passé composé.",
        "“It” after “because” or “but” is taken for what can be so in the grammar: the animal that is tired, the street"
        " that is wide. That is a rule of the word lists, not knowledge of the world.",
        "It finds the gender of such a pronoun, but no single head shows how: the one that looks most often from the"
        f" pronoun at its noun, {site} head {head}, has its largest weight there in {most.value:.1%} of {most.rows:,}"
        f" cases (by chance {most.by_chance:.1%}).",
        "Where its heads look was measured with the right French words before each prediction, on this grammar; it does"
        " not follow that larger models do the same.",
    ]


def _name(at: tuple[Site, int]) -> str:
    return f"{at[0]} head {at[1]}"


def _list(values: list[float]) -> str:
    *most, last = (f"{value:.1%}" for value in values)
    return f"{', '.join(most)} and {last}"
