"""Runs of a sentence in which one token is another."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice

import torch
from torch import Tensor

from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.leaks import distance
from attnviz.core.masks import Mask
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Sentence, Token
from attnviz.leaks.look import LeakTarget, output, tokens
from attnviz.sources.base import Source

TOKENS_AT_ONCE = 1024
"""Most tokens in one batch: more would need more memory than one sentence gives reason to expect."""

COPIES = 3
"""How often the unchanged sentence stands in a batch: first, in the middle and last."""

TRIES = 4
"""Other tokens tried where a changed one does not reach the model, or changes its mask."""

PROBES = "the a red cat ."
"""Replacements for the word of a sentence that has no second one."""

OPERATIONS = 2e10
"""Floating-point operations in a second, rather too few than too many."""


@dataclass(frozen=True)
class Probe:
    """Run of a source on a sentence, with what its decoder reads held fixed (`targets`, one or none)."""

    source: Source
    sentence: Sentence
    targets: tuple[Sentence, ...]
    edits: Edits
    look: LeakTarget
    before: Record

    def run(self, copies: Sequence[Sentence]) -> Record:
        """One batch of copies of what is changed, as the decoder's text or the model's."""
        sentences, targets = (self.sentence,) * len(copies), self.targets * len(copies)
        if targets and self.look.kind == "decoder":
            targets = tuple(copies)
        else:
            sentences = tuple(copies)
        return self.source.run(sentences, self.edits, targets)


def run(
    probe: Probe, changed: Sentence, places: list[int], report: Callable[[int, int], object]
) -> tuple[Tensor, float, set[int]]:
    """Change the token at each place; gives how far each output moved, (Q, K), float64, the noise, and the places whose
    every change changed the mask itself, as that of a separator between documents does.

    Columns of tokens that were not changed, whose change never reached the model or changed its mask, are NaN.
    """
    queries, keys = map(len, tokens(probe.before, probe.look))
    moved, noise = torch.full((queries, keys), torch.nan, dtype=torch.float64), 0.0
    others = {place: list(islice(_others(probe, changed, place), TRIES)) for place in places}
    at_once = max(1, TOKENS_AT_ONCE // max(queries, keys) - COPIES)
    left, done, masking = places, 0, set()
    for attempt in range(TRIES):
        tried = [place for place in left if attempt < len(others[place])]
        for start in range(0, len(tried), at_once):
            part = tried[start : start + at_once]
            copies = [_with(changed, place, others[place][attempt]) for place in part]
            columns, far, remasked = _batch(probe, changed, copies, part)
            moved[:, part], noise = columns, max(noise, far)
            masking = masking - set(part) | remasked
            done += len(part) if not attempt else 0
            report(done, len(places))
        left = [place for place in tried if moved[:, place].isnan().all()]
        if not left:
            break
    return moved, noise, masking


def _batch(probe: Probe, plain: Sentence, copies: list[Sentence], places: list[int]) -> tuple[Tensor, float, set[int]]:
    """How far each output moved in each changed copy, (Q, copies), and between the unchanged ones at most; and the
    places whose change changed the mask."""
    half = len(copies) // 2
    record = probe.run([plain, *copies[:half], plain, *copies[half:], plain])
    rows = [*range(1, half + 1), *range(half + 2, len(copies) + 2)]
    before = output(record, probe.look, 0)
    noise = max(float(distance(before, output(record, probe.look, row)).max()) for row in (half + 1, len(copies) + 2))
    columns = torch.stack([distance(before, output(record, probe.look, row)) for row in rows], 1)
    first = next(step for step in record.steps if step.site.kind == probe.look.changes)
    remasked = {place for row, place in zip(rows, places, strict=True) if _changes_mask(record, row)}
    for column, (row, place) in enumerate(zip(rows, places, strict=True)):
        if place in remasked or (not columns[:, column].any() and not _reaches(first, row, place)):
            columns[:, column] = torch.nan
    return columns.cpu(), noise, remasked


def _changes_mask(record: Record, row: int) -> bool:
    """Whether a sentence of a batch has another mask than the first one, in any step."""
    if record.read_only:  # its masks are read off its weights
        return False
    for mask in (step.mask for step in record.steps):
        if isinstance(mask, Tensor) and mask.dim() == 4 and len(mask) > 1 and not torch.equal(mask[0], mask[row]):
            return True
        if isinstance(mask, Mask) and mask.batch_size and mask.of_sentence(0) != mask.of_sentence(row):
            return True
    return False


def _reaches(first: Step, row: int, place: int) -> bool:
    """Whether anything at a place that the first attention is computed from differs from the unchanged sentence's."""
    parts = (first.query, first.key, first.value)
    return any(not torch.equal(part[0, :, place], part[row, :, place]) for part in parts)


def _with(sentence: Sentence, place: int, other: Token) -> Sentence:
    """The sentence with the id and the text of another token at a place."""
    token = replace(sentence.tokens[place], id=other.id, text=other.text)
    return replace(sentence, tokens=(*sentence.tokens[:place], token, *sentence.tokens[place + 1 :]))


def _others(probe: Probe, changed: Sentence, place: int) -> Iterator[Token]:
    """Tokens to put at a place: the next ones of the sentence that differ, from its beginning after its end; then, of
    what a decoder reads, what the model holds most probable there; else words of `PROBES`."""
    around = (*changed.tokens[place + 1 : changed.length], *changed.tokens[:place])
    ids = {changed.tokens[place].id, *probe.source.padding_ids}
    for token in chain(around, _more(probe, place)):
        if token.id not in ids and not token.special:
            ids.add(token.id)
            yield token


def _more(probe: Probe, place: int) -> Iterator[Token]:
    prediction = probe.before.prediction
    if probe.targets and probe.look.kind == "decoder":
        for id in prediction.logits[0, max(0, place - 1)].topk(TRIES + 2).indices.tolist():
            yield Token(prediction.vocabulary[id], id, 0, 0)
    else:
        with suppress(InputError):  # a tokenizer of a person's own may know its own words alone
            yield from probe.source.tokenize([PROBES])[0].tokens


def seconds(numbers: int, tokens: int, layers: int) -> float:
    """About how long a leak test of a model takes on one core: each token is changed, and the model run for each.

    Args:
        numbers: d_model.
        tokens: of the sentence.
        layers: attention calls.
    """
    operations = tokens * tokens * layers * (24 * numbers**2 + 4 * tokens * numbers)
    return operations / OPERATIONS
