"""A language model of short stories: recipe, measurements and card."""

from collections import Counter
from functools import partial
from itertools import islice, pairwise
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnviz.core.edits import Edits
from attnviz.core.tap import Tap
from attnviz.models import trained
from attnviz.models.transformer import Config, LanguageModel
from attnviz.tokenizers.vocabulary import UNK, Vocabulary
from attnviz.training import probe
from attnviz.training import story_grammar as grammar
from attnviz.training.probe import Head, Look, Role
from attnviz.training.recipe import END, NOTHING, START, Recipe, is_held_out, padded
from attnviz.training.story_grammar import NAMES, PRONOUNS, VERBS, HardWord, Story, stories

VOCABULARY = Vocabulary(grammar.vocabulary())
UNKNOWN = VOCABULARY.names.index(UNK)
BATCH = 64
FORGOTTEN = 0.02
"""Share of words replaced by <unk> in training, so that an unknown word does little harm."""
KINDS = ("pronoun", "verb", "name")
HELD_OUT, COUNTED = 1, 2
"""Seeds of the measured stories, and of the stories whose pairs of words are counted."""

Case = tuple[Story, HardWord]
"""A story and one of its tested words. The input begins with <sos>, so row i predicts word i."""


def tensors(batch: list[Story]) -> tuple[Tensor, Tensor]:
    """Return the input ids from <sos> on, (B, n), and the next word or <eos> for each."""
    rows = [VOCABULARY.ids(story.words) for story in batch]
    return padded([[START, *row] for row in rows])[0], padded([[*row, END] for row in rows])[0]


def loss(model: nn.Module, generator: Random) -> Tensor:
    """Compute the loss of the next word for a batch of stories."""
    generated = stories(generator, held_out=False)
    ids, targets = tensors([next(generated) for _ in range(BATCH)])
    forgotten = torch.tensor([[generator.random() < FORGOTTEN for _ in row] for row in ids]) & (ids >= UNKNOWN)
    logits = model(ids.masked_fill(forgotten, UNKNOWN))[1]
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NOTHING)


def cases(kind: str, number: int) -> list[Case]:
    """Draw tested words of one kind from different stories, with openings that training never uses."""
    generated = stories(Random(HELD_OUT), held_out=True)
    held = (
        (story, test)
        for story in generated
        for test in [test for test in story.tested if test.kind == kind and is_held_out(test.opening)][:1]
    )
    return list(islice(held, number))


@torch.inference_mode()
def correct(model: nn.Module, tested: list[Case], edits: Edits = Edits()) -> float:
    """Measure the share of tested words that are more probable than all their wrong alternatives."""
    logits = model(tensors([story for story, _ in tested])[0], tap=Tap(edits, keep=False))[1]
    num_correct = 0
    for row, (story, test) in zip(logits, tested, strict=True):
        word, *wrong = row[test.position][VOCABULARY.ids((story.words[test.position], *test.wrong))].tolist()
        num_correct += word > max(wrong)
    return num_correct / len(tested)


CONFIG = Config(len(VOCABULARY), d_model=128, num_heads=2, num_layers=2, d_ff=256, longest=64)
RECIPE = Recipe(
    name="story",
    build=CONFIG.build,
    vocabularies={"english": VOCABULARY.words},
    loss=loss,
    steps=3000,
    checkpoints=(0, 100, 200, 300, 400, 500, 700, 1000, 1700, 3000),
    rate=2e-3,
)
_FORMS = {form for verb in VERBS for form in (verb.many, verb.single, verb.past, verb.past_many) if form}
ROLES = {
    "verb": Role(
        "subject of the next verb",
        "looks back at the subject where a verb comes next",
        "rows that predict a verb after a noun of the other number",
        " ".join(sorted(_FORMS)),
    ),
    "name": Role(
        "second of two names",
        "looks at the second of two names (“Anna and Tom”) where one comes again",
        "rows that predict a name",
        " ".join(name.word for name in NAMES),
    ),
    "pronoun": Role(
        "subject of the next pronoun",
        "looks at the subject (“cat”) where he, she, it or they may come next",
        "rows that predict a pronoun after a noun that asks for another",
        " ".join(PRONOUNS),
    ),
    "the": Role("word before “the”", "looks from “the” to the word before it", "rows of “the”"),
}
GOAL = 0.98


def cells(kind: str, story: Story, test: HardWord) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Return the row of a tested word for each role, and the positions of the words that the role attends to.

    Because of <sos>, a word is one column after its position; the row of its position predicts the word.
    """
    words, last = story.words, test.source[-1]
    if kind == "pronoun":
        return {kind: (test.position, test.source)}
    if kind == "name":
        start = test.position - len(test.opening.split())
        named = {name.word for name in NAMES}
        second = [i for i in range(start, words.index(".", start)) if words[i] in named][1]
        return {kind: (test.position, (second,))}
    rows = {kind: (test.position, test.source)}
    articles = [position for position in range(last + 2, test.position) if words[position] == "the"]
    if articles:
        rows["the"] = articles[0] + 1, (articles[0] - 1,)
    return rows


@torch.inference_mode()
def measure_heads(model: LanguageModel, kind: str, tested: list[Case]) -> dict[Head, dict[str, Look]]:
    """Measure the attention of each head at tested words of a kind, by the names of ROLES."""
    inputs, tap = tensors([story for story, _ in tested])[0], Tap()
    model(inputs, tap=tap)
    named: dict[str, list[tuple[int, int, list[int]]]] = {}
    for sentence, (story, test) in enumerate(tested):
        for name, (row, positions) in cells(kind, story, test).items():
            named.setdefault(name, []).append((sentence, row, [position + 1 for position in positions]))
    patterns = {name: probe.pattern_of((*inputs.shape, inputs.shape[1]), rows) for name, rows in named.items()}
    return probe.measure_heads(tap.steps, {"decoder": patterns})


def correct_by_pairs(tested: list[Case], count: int = 20_000) -> float:
    """Measure the accuracy of predictions from the previous word alone, by counts of pairs in training stories."""
    counted = islice(stories(Random(COUNTED), held_out=False), count)
    pairs = Counter(pair for story in counted for pair in pairwise(("<sos>", *story.words, "<eos>")))
    num_correct = 0
    for story, test in tested:
        before, word = story.words[test.position - 1 : test.position + 1]
        num_correct += pairs[before, word] > max(pairs[before, wrong] for wrong in test.wrong)
    return num_correct / len(tested)


def card(number: int) -> dict[str, Any]:
    """Measure the shipped model on `number` held-out words of each kind, and make its card."""
    model = trained.load(RECIPE.name)
    tested = {kind: cases(kind, number) for kind in KINDS}
    where = {kind: measure_heads(model, kind, tested[kind]) for kind in KINDS}
    heads = list(where["verb"])
    last = [head for head in heads if head[0] == heads[-1][0]]

    def accuracy(kind: str, *off: Head) -> float:
        return correct(model, tested[kind], Edits(heads_off=off))

    without = {kind: {head: accuracy(kind, head) for head in heads} for kind in KINDS}
    needed = {kind: min(last, key=without[kind].__getitem__) for kind in KINDS}
    article = min(heads, key=lambda head: (head in last, without["verb"][head]))
    roles = [("verb", "verb", needed["verb"]), ("verb", "the", article)]
    roles += [(kind, kind, needed[kind]) for kind in ("name", "pronoun")]
    measured = []
    for kind, what, goal in (
        ("pronoun", "pronouns right (he, she, it, they) where the nearest noun misleads", GOAL),
        ("verb", "verbs right (singular, plural) where the nearest noun misleads", GOAL),
        ("name", "names right where one of two must come again", None),
    ):
        measured += [
            (f"{what}, in {number:,} held-out stories", accuracy(kind), goal),
            (f"{kind}s right if guessed from the word before alone", correct_by_pairs(tested[kind]), None),
            (f"{kind}s right with every head of the last layer off", accuracy(kind, *last), None),
        ]
    findings = [
        finding
        for kind, name, head in roles
        for finding in probe.findings(
            {head: {name: where[kind][head][name]}},
            ROLES,
            partial(accuracy, kind),
            texts=f"{number:,} held-out stories",
            answers=f"{kind}s",
        )
    ]
    sizes = {"words": len(VOCABULARY.words), "longest text, in tokens": model.config.longest, **probe.sizes(model)}
    return probe.card(
        RECIPE.name,
        opens=needed["pronoun"],
        sizes=sizes,
        measured=measured,
        findings=findings,
        steps=RECIPE.steps,
    )


def shipped_texts(seed: int, count: int) -> list[str]:
    """Draw distinct held-out stories."""
    texts, generated = {}, stories(Random(seed), held_out=True)
    while len(texts) < count:
        texts[next(generated).text] = None
    return list(texts)
