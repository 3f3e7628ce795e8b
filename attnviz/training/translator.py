"""The translator: an encoder-decoder that translates English sentences of a small grammar into French."""

from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnviz.core.edits import Edits
from attnviz.core.tap import Tap
from attnviz.models import trained
from attnviz.models.transformer import Config, EncoderDecoder
from attnviz.tokenizers.vocabulary import UNK, Vocabulary
from attnviz.training import probe
from attnviz.training.probe import Head, Look, Role
from attnviz.training.recipe import END, NOTHING, START, Recipe, pad_ids
from attnviz.training.translator_grammar import LONGEST, Pair, draw_pair, held_out_pairs
from attnviz.training.translator_words import english_vocabulary, french_vocabulary

ENGLISH, FRENCH = Vocabulary(english_vocabulary()), Vocabulary(french_vocabulary())
UNKNOWN = ENGLISH.names.index(UNK)
BATCH = 64
FORGOTTEN = 0.02
"""Share of words replaced by <unk> in training, so that an unknown word does little harm."""
AT_ONCE = 100
"""Number of sentences translated in one batch."""


def read_ids(pair: Pair) -> list[int]:
    """Return the ids that the encoder reads: the English words and <eos>."""
    return [*ENGLISH.ids(pair.english), END]


def loss(model: nn.Module, generator: Random) -> Tensor:
    """Compute the loss of the next French word for a batch, in which a few English words are unknown."""
    pairs = [draw_pair(generator, held_out=False) for _ in range(BATCH)]
    english = [read_ids(pair) for pair in pairs]
    for ids in english:
        ids[:-1] = [UNKNOWN if generator.random() < FORGOTTEN else id for id in ids[:-1]]
    french = [FRENCH.ids(pair.french) for pair in pairs]
    inputs, lengths = pad_ids(english)
    targets, target_lengths = pad_ids([[START, *ids] for ids in french])
    next_words, _ = pad_ids([[*ids, END] for ids in french])
    _, logits = model.decode(targets, model.encode(inputs, lengths), target_lengths, lengths)
    return cross_entropy(logits.flatten(0, 1), next_words.flatten(), ignore_index=NOTHING)


@torch.inference_mode()
def translate(model: EncoderDecoder, english: list[list[int]], edits: Edits = Edits()) -> list[tuple[str, ...]]:
    """Translate English ids into French words, with greedy decoding."""
    inputs, lengths = pad_ids(english)
    memory = model.encode(inputs, lengths, tap=Tap(edits, keep=False))
    written = torch.full((len(english), 1), START)
    done = torch.zeros(len(english), dtype=torch.bool)
    while not done.all() and written.shape[1] < model.config.longest:
        _, logits = model.decode(written, memory, None, lengths, tap=Tap(edits, keep=False))
        word = logits[:, -1].argmax(-1).masked_fill(done, END)
        written = torch.cat((written, word.unsqueeze(1)), 1)
        done |= word == END
    ids = [[*row[1:], END] for row in written.tolist()]  # a text that was cut off has no <eos> yet
    return [tuple(FRENCH.names[id] for id in row[: row.index(END)]) for row in ids]


def translations(model: EncoderDecoder, pairs: list[Pair], *heads_off: Head) -> list[tuple[str, ...]]:
    """Translate the English sentences of pairs, optionally with heads off."""
    english, translated = [read_ids(pair) for pair in pairs], []
    for start in range(0, len(pairs), AT_ONCE):
        translated += translate(model, english[start : start + AT_ONCE], Edits(heads_off=heads_off))
    return translated


def accuracy(model: EncoderDecoder, pairs: list[Pair], *heads_off: Head) -> float:
    """Measure the share of sentences whose translation has no wrong word."""
    translated = translations(model, pairs, *heads_off)
    return sum(words == pair.french for words, pair in zip(translated, pairs, strict=True)) / len(pairs)


SIZES = {"d_model": 96, "num_heads": 4, "num_layers": 2, "d_ff": 256, "longest": LONGEST + 2}
CONFIG = Config(vocabulary=len(ENGLISH), written=len(FRENCH), **SIZES)
RECIPE = Recipe(
    name="translator",
    build=CONFIG.build,
    vocabularies={"english": ENGLISH.words, "french": FRENCH.words},
    loss=loss,
    steps=4500,
    checkpoints=(0, 100, 200, 300, 500, 900, 1800, 4500),
    rate=2.5e-3,
)

ROLES = {
    "alignment": Role(
        "word translated next", "looks at the English word that is translated next", "rows that predict a French word"
    ),
    "antecedent": Role("noun of a pronoun", "looks from a pronoun to the noun that it stands for", "rows of pronouns"),
    "article": Role(
        "noun of an article", "looks from an article to its noun", "rows of English articles and possessives"
    ),
    "adjective": Role(
        "noun of an adjective",
        "looks from an adjective to its noun",
        "rows of English adjectives that stand at a noun",
    ),
    "itself": Role("itself", "looks at the word itself"),
    "before": Role("previous token", "looks at the word before"),
}
SEED = 2024
"""Seed of the measured sentences."""
ALIGNED, EXACT = 0.90, 0.99
"""Goals: share of French words whose English word is found by one head, and share of correct sentences."""
ABLATED = 500
"""Number of sentences translated with each head off."""


def cells(pair: Pair) -> dict[tuple[str, str], list[tuple[int, Iterable[int]]]]:
    """Find the cells of a sentence in which heads of a role have weight, by kind of attention and role.

    Each entry has a row and its keys. Row 0 of the decoder predicts the first French word.
    """
    french_words = zip(pair.roles, pair.alignment, strict=True)
    english_roles = {position: role for role, positions in french_words for position in positions}
    rows: dict[str, list] = {"article": [], "adjective": []}
    for position, role in english_roles.items():
        noun = position + 1
        while english_roles.get(noun) in ("adjective", "number"):
            noun += 1
        if role in rows and english_roles.get(noun) == "noun":
            rows[role].append((position, [noun]))
    pronouns = [(row, [noun]) for row, noun in enumerate(pair.refers) if noun is not None]
    tokens = range(len(pair.english) + 1)  # the last is <eos>
    return {
        ("encoder", "article"): rows["article"],
        ("encoder", "adjective"): rows["adjective"],
        ("encoder", "antecedent"): [(min(pair.alignment[row]), noun) for row, noun in pronouns],
        ("encoder", "itself"): [(row, [row]) for row in tokens],
        ("encoder", "before"): [(row, [row - 1]) for row in tokens[1:]],
        ("cross", "alignment"): list(enumerate(pair.alignment)),
        ("cross", "antecedent"): pronouns,
    }


@torch.inference_mode()
def measure_heads(model: EncoderDecoder, pairs: list[Pair]) -> dict[Head, dict[str, Look]]:
    """Measure the attention of all heads, by the names of ROLES, while the decoder reads the correct French words."""
    inputs, lengths = pad_ids([read_ids(pair) for pair in pairs])
    targets, target_lengths = pad_ids([[START, *FRENCH.ids(pair.french)] for pair in pairs])
    tap = Tap()
    model.decode(targets, model.encode(inputs, lengths, tap=tap), target_lengths, lengths, tap=tap)
    cells_of_pairs = [cells(pair) for pair in pairs]
    patterns: dict[str, dict[str, Tensor]] = {"encoder": {}, "cross": {}}
    for kind, role in cells_of_pairs[0]:
        rows = [(i, *cell) for i, pair_cells in enumerate(cells_of_pairs) for cell in pair_cells[kind, role]]
        queries = inputs.shape[1] if kind == "encoder" else targets.shape[1]
        patterns[kind][role] = probe.pattern_of((len(pairs), queries, inputs.shape[1]), rows)
    return probe.measure_heads(tap.steps, patterns)


def card(count: int) -> dict[str, Any]:
    """Measure the shipped model on `count` held-out sentences, and make its card."""
    model, pairs = trained.load(RECIPE.name), held_out_pairs(count, SEED)
    looks, ablated = measure_heads(model, pairs), pairs[:ABLATED]
    cross_heads = [(site, head) for site, head in looks if site.kind == "cross"]
    aligning = max(cross_heads, key=lambda head: looks[head]["alignment"].rate)
    alignment, name = looks[aligning]["alignment"], f"{aligning[0]} head {aligning[1]}"
    antecedent_rate = max(by_role["antecedent"].rate for by_role in looks.values() if "antecedent" in by_role)
    layer_heads = [(site, head) for site, head in cross_heads if site == aligning[0]]
    accuracy_off = partial(accuracy, model, ablated)
    sizes = {"English words": len(ENGLISH.words), "French words": len(FRENCH.words)}
    return probe.card(
        RECIPE.name,
        opens=aligning,
        sizes=sizes | {"longest sentence": CONFIG.longest, **probe.sizes(model)},
        measured=[
            (f"of {count:,} held-out sentences translated right in every word", accuracy(model, pairs), EXACT),
            (f"of the French words: {name} looks most at an English word that is translated", alignment.rate, ALIGNED),
            ("the same for a head that picks a position by chance", alignment.even, None),
            ("of the pronouns after because or but: the best head looks most at the noun", antecedent_rate, None),
            (f"of {len(ablated):,} sentences translated right with {name} off", accuracy_off(aligning), None),
            (f"of them with all heads of {aligning[0]} off", accuracy_off(*layer_heads), None),
        ],
        findings=probe.findings(
            looks,
            ROLES,
            accuracy_off,
            texts=f"{count:,} held-out sentences",
            answers=f"first {len(ablated):,} sentences",
        ),
        steps=RECIPE.steps,
    )


def shipped_texts(seed: int, count: int) -> list[str]:
    """Draw distinct held-out sentences."""
    return [pair.text for pair in held_out_pairs(count, seed)]
