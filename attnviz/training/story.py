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
from attnviz.training.recipe import END, NOTHING, START, Recipe, is_held_out, pad_ids
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
"""A story and one of its tested words."""


def tensors(batch: list[Story]) -> tuple[Tensor, Tensor]:
    """Return the input ids from <sos> on, and the id of the next word or <eos> for each, both (B, n).

    Because of <sos>, row i predicts word i of a story, and word i is the key i + 1.
    """
    rows = [VOCABULARY.ids(story.words) for story in batch]
    inputs, _ = pad_ids([[START, *row] for row in rows])
    next_words, _ = pad_ids([[*row, END] for row in rows])
    return inputs, next_words


def loss(model: nn.Module, generator: Random) -> Tensor:
    """Compute the loss of the next word for a batch of stories, in which a few words are unknown."""
    ids, targets = tensors([*islice(stories(generator, held_out=False), BATCH)])
    is_forgotten = torch.tensor([[generator.random() < FORGOTTEN for _ in row] for row in ids])
    is_forgotten &= ids >= UNKNOWN  # keep <sos> and padding
    _, logits = model(ids.masked_fill(is_forgotten, UNKNOWN))
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NOTHING)


def cases(kind: str, count: int) -> list[Case]:
    """Draw tested words of one kind from different stories, with openings that training never uses."""
    cases: list[Case] = []
    generated = stories(Random(HELD_OUT), held_out=True)
    while len(cases) < count:
        story = next(generated)
        tests = [test for test in story.tested if test.kind == kind and is_held_out(test.opening)]
        if tests:
            cases.append((story, tests[0]))
    return cases


@torch.inference_mode()
def share_correct(model: nn.Module, tested: list[Case], edits: Edits = Edits()) -> float:
    """Measure the share of tested words that are more probable than all their wrong alternatives."""
    inputs, _ = tensors([story for story, _ in tested])
    _, logits = model(inputs, tap=Tap(edits, keep=False))
    num_correct = 0
    for story_logits, (story, test) in zip(logits, tested, strict=True):
        ids = VOCABULARY.ids((story.words[test.position], *test.wrong))  # the correct word first
        correct_logit, *wrong_logits = story_logits[test.position, ids].tolist()
        num_correct += correct_logit > max(wrong_logits)
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
_FORMS = {form for verb in VERBS for form in (verb.plural, verb.singular, verb.past, verb.past_plural) if form}
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
    """Find the row of a tested word in which heads of a role have weight, and the positions with weight, by role."""
    words, source_end = story.words, test.source[-1]
    if kind == "pronoun":
        return {kind: (test.position, test.source)}
    if kind == "name":
        start = test.position - len(test.opening.split())
        names = {name.word for name in NAMES}
        first_sentence = range(start, words.index(".", start))
        second_name = [position for position in first_sentence if words[position] in names][1]
        return {kind: (test.position, (second_name,))}
    rows = {kind: (test.position, test.source)}
    articles = [position for position in range(source_end + 2, test.position) if words[position] == "the"]
    if articles:
        article = articles[0]
        rows["the"] = article + 1, (article - 1,)  # the row of "the" itself
    return rows


@torch.inference_mode()
def measure_heads(model: LanguageModel, kind: str, tested: list[Case]) -> dict[Head, dict[str, Look]]:
    """Measure the attention of each head at tested words of a kind, by the names of ROLES."""
    inputs, _ = tensors([story for story, _ in tested])
    tap = Tap()
    model(inputs, tap=tap)
    rows_of_role: dict[str, list[tuple[int, int, list[int]]]] = {}
    for sentence, (story, test) in enumerate(tested):
        for role, (row, positions) in cells(kind, story, test).items():
            keys = [position + 1 for position in positions]  # after <sos>
            rows_of_role.setdefault(role, []).append((sentence, row, keys))
    shape = (*inputs.shape, inputs.shape[1])
    patterns = {role: probe.pattern_of(shape, rows) for role, rows in rows_of_role.items()}
    return probe.measure_heads(tap.steps, {"decoder": patterns})


def correct_by_pairs(tested: list[Case], count: int = 20_000) -> float:
    """Measure the accuracy of predictions from the previous word alone, by counts of pairs in training stories."""
    counted = islice(stories(Random(COUNTED), held_out=False), count)
    pairs = Counter(pair for story in counted for pair in pairwise(("<sos>", *story.words, "<eos>")))
    num_correct = 0
    for story, test in tested:
        previous, word = story.words[test.position - 1], story.words[test.position]
        num_correct += pairs[previous, word] > max(pairs[previous, wrong] for wrong in test.wrong)
    return num_correct / len(tested)


def card(count: int) -> dict[str, Any]:
    """Measure the shipped model on `count` held-out words of each kind, and make its card."""
    model = trained.load(RECIPE.name)
    tested = {kind: cases(kind, count) for kind in KINDS}
    looks = {kind: measure_heads(model, kind, tested[kind]) for kind in KINDS}
    heads = list(looks["verb"])
    last_layer = [(site, head) for site, head in heads if site == heads[-1][0]]

    def accuracy(kind: str, *off: Head) -> float:
        """Measure the accuracy of tested words of a kind with heads off."""
        return share_correct(model, tested[kind], Edits(heads_off=off))

    accuracy_without = {kind: {head: accuracy(kind, head) for head in heads} for kind in KINDS}
    most_needed = {kind: min(last_layer, key=accuracy_without[kind].get) for kind in KINDS}
    lower_heads = [head for head in heads if head not in last_layer]
    article_head = min(lower_heads, key=accuracy_without["verb"].get)
    roles = [("verb", "verb", most_needed["verb"]), ("verb", "the", article_head)]
    roles += [(kind, kind, most_needed[kind]) for kind in ("name", "pronoun")]
    measured = []
    for kind, share_name, goal in (
        ("pronoun", "pronouns right (he, she, it, they) where the nearest noun misleads", GOAL),
        ("verb", "verbs right (singular, plural) where the nearest noun misleads", GOAL),
        ("name", "names right where one of two must come again", None),
    ):
        measured += [
            (f"{share_name}, in {count:,} held-out stories", accuracy(kind), goal),
            (f"{kind}s right if guessed from the word before alone", correct_by_pairs(tested[kind]), None),
            (f"{kind}s right with every head of the last layer off", accuracy(kind, *last_layer), None),
        ]
    findings = []
    for kind, role, head in roles:
        look = {head: {role: looks[kind][head][role]}}
        words = {"texts": f"{count:,} held-out stories", "answers": f"{kind}s"}
        findings += probe.findings(look, ROLES, partial(accuracy, kind), **words)
    sizes = {"words": len(VOCABULARY.words), "longest text, in tokens": model.config.longest, **probe.sizes(model)}
    return probe.card(
        RECIPE.name,
        opens=most_needed["pronoun"],
        sizes=sizes,
        measured=measured,
        findings=findings,
        steps=RECIPE.steps,
    )


def shipped_texts(seed: int, count: int) -> list[str]:
    """Draw distinct held-out stories."""
    texts: dict[str, None] = {}  # a set that keeps the order
    generated = stories(Random(seed), held_out=True)
    while len(texts) < count:
        texts[next(generated).text] = None
    return list(texts)
