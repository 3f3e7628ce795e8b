"""How the translator is trained: batches of sentence pairs, its loss, and greedy translation in batches."""

import random

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnviz.core.tap import Tap
from attnviz.models.transformer import Config, EncoderDecoder
from attnviz.tokenizers import EOS, PAD, SOS, SPECIAL
from attnviz.tokenizers.vocabulary import UNK, Vocabulary
from attnviz.training.harness import Recipe
from attnviz.training.translator import vocabulary
from attnviz.training.translator.grammar import LONGEST, draw_pair
from attnviz.training.translator.phrases import Pair

ENGLISH, FRENCH = Vocabulary(vocabulary.english()), Vocabulary(vocabulary.written())
START, END, NOTHING, UNKNOWN = SPECIAL[SOS], SPECIAL[EOS], SPECIAL[PAD], ENGLISH.names.index(UNK)
BATCH = 64
FORGOTTEN = 0.02
"""So many of the words that are read in training are replaced by <unk>, so that an unknown word does little harm."""


def padded(rows: list[list[int]]) -> tuple[Tensor, tuple[int, ...]]:
    """Ids of sentences as one tensor, (B, n), and their lengths."""
    lengths = tuple(map(len, rows))
    longest = max(lengths)
    return torch.tensor([row + [NOTHING] * (longest - len(row)) for row in rows]), lengths


def read_ids(pair: Pair) -> list[int]:
    return [*ENGLISH.ids(pair.english), END]


def loss(model: nn.Module, draw: random.Random) -> Tensor:
    """How surprised the model is by the next French word, over one batch."""
    pairs = [draw_pair(draw, held_out=False) for _ in range(BATCH)]
    english = [read_ids(pair) for pair in pairs]
    for ids in english:
        ids[:-1] = [UNKNOWN if draw.random() < FORGOTTEN else id for id in ids[:-1]]
    french = [FRENCH.ids(pair.french) for pair in pairs]
    read, lengths = padded(english)
    seen, seen_lengths = padded([[START, *ids] for ids in french])
    next_word, _ = padded([[*ids, END] for ids in french])
    _, logits = model.decode(seen, model.encode(read, lengths), seen_lengths, lengths)
    return F.cross_entropy(logits.flatten(0, 1), next_word.flatten(), ignore_index=NOTHING)


@torch.inference_mode()
def translate(model: EncoderDecoder, english: list[list[int]], make_tap=lambda: Tap(keep=False)) -> list[list[int]]:
    """The French ids that the model writes for English ids, each time its likeliest word, without <eos>.

    Args:
        make_tap: a fresh tap for each pass, so that heads can be switched off.
    """
    read, lengths = padded(english)
    memory = model.encode(read, lengths, tap=make_tap())
    written = torch.full((len(english), 1), START)
    done = torch.zeros(len(english), dtype=torch.bool)
    while not done.all() and written.shape[1] < model.config.longest:
        _, logits = model.decode(written, memory, None, lengths, tap=make_tap())
        word = logits[:, -1].argmax(-1).masked_fill(done, END)
        written = torch.cat((written, word.unsqueeze(1)), 1)
        done |= word == END
    rows = [row[1:] for row in written.tolist()]
    return [row[: row.index(END)] if END in row else row for row in rows]


def held_out(sentences: int, seed: int) -> list[Pair]:
    """Different sentences that training never shows."""
    draw, pairs = random.Random(seed), {}
    while len(pairs) < sentences:
        pair = draw_pair(draw, held_out=True)
        pairs.setdefault(pair.english, pair)
    return list(pairs.values())


def score(model: nn.Module) -> float:
    """The share of 200 held-out sentences that are translated exactly."""
    pairs = held_out(200, seed=1)
    made = translate(model, [read_ids(pair) for pair in pairs])
    return sum(ids == FRENCH.ids(pair.french) for ids, pair in zip(made, pairs, strict=True)) / len(pairs)


RECIPE = Recipe(
    name="translator",
    config=Config(
        vocabulary=len(ENGLISH),
        d_model=96,
        num_heads=4,
        num_layers=2,
        d_ff=256,
        longest=LONGEST + 2,
        written=len(FRENCH),
    ),
    vocabularies={"english": ENGLISH.words, "french": FRENCH.words},
    loss=loss,
    score=score,
    steps=4500,
    kept=(0, 100, 200, 300, 500, 900, 1800, 4500),
    rate=2.5e-3,
    every=100,
)
