"""Effects of switching off each head on a text (zero ablation), and of patching each head from another text.

Many heads are measured in one forward pass, on copies of a sentence; in each copy, a different head is changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, floor, log2
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnviz.analysis.contributions import Carried, id_of, logit_of, position_and_ids
from attnviz.analysis.heads import head_metrics
from attnviz.analysis.predictions import position_of, predicting
from attnviz.core.amounts import decimals, percent
from attnviz.core.edits import Edits, Resolved, Site, Take
from attnviz.core.errors import AttnvizError, Canceled, InputError, quoted
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source

TOKENS = 2048
"""Maximum number of tokens in one forward pass, including copies."""
Head = tuple[Site, int]
OnProgress = Callable[[int, int], bool | None]
"""Callback with the number of finished steps (or heads) and of all; if it returns False, the study ends."""
EFFECTS = {
    "output": "change of the final vectors, ‖after − before‖ / ‖before‖, mean over tokens; 0: no change",
    "divergence": "change of the predicted probabilities, KL(before ‖ after) in nats, mean over predictions; 0: no "
    "change, 0.1: as if a word's probability fell from 100% to 90%, 0.7: to 50% (Conmy et al. 2023)",
    "said": "change of the probability of the word predicted before, after − before, mean over predictions",
    "loss": "change of the loss of the next token of the text in nats, after − before, mean over tokens",
    "rewritten": "share of the sentences for which the model generates another text",
    "turned": "change of the sentence's vector, 1 − cosine of before and after; 0: no change, 2: opposite direction",
}
"""Columns of a sweep and their meanings; numbers are missing if the model lacks the output that they measure."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Effects of switching off each head alone, without heads that the edits switch off already.

    Attributes:
        heads: all N measured heads, as (site, head).
        table: a row per head: site, kind, layer, head, a column for each of `EFFECTS` (the mean over the sentences),
            and confidence, the mean of each row's largest weight in the run with all heads on.
    """

    heads: tuple[tuple[Site, int], ...]
    table: pd.DataFrame

    @property
    def by(self) -> str:
        """Column of the table by which heads are ranked: "divergence", or "output" if the model predicts nothing."""
        return "output" if self.table["divergence"].isna().all() else "divergence"

    @property
    def strongest(self) -> tuple[Site, int] | None:
        """Head with the largest effect; None if no effect is known."""
        return None if self.table[self.by].isna().all() else self.heads[self._largest(self.by)]

    def sentences(self) -> tuple[str, str]:
        """Describe the head with the largest effect, and the head with the largest weights, in a sentence each."""
        if self.table[["confidence", self.by]].isna().all().any() or len(self.heads) < 2:
            return "Fewer than two heads have weights and effects to compare.", ""
        largest, heaviest = self._largest(self.by), self._largest("confidence")
        names = [site.head(head) for site, head in self.heads]
        name, weight = names[largest].capitalize(), f"{self.table['confidence'][heaviest]:.2f} on average"
        effect = f"{name} matters most here: switched off, it changes {self._effect_text(largest)} on average"
        if self.by != "output":  # KL divergence from probability 1 to p is ln(1/p)
            effect += f", as if a word's probability fell from 100% to {percent(exp(-self.table[self.by][largest]), 0)}"
        if pd.notna(rewritten := self.table["rewritten"][largest]):
            effect += "; the model then writes another text" if rewritten else "; the text it writes stays the same"
        effect += "."
        if heaviest == largest:
            return effect, f"{name} also has the largest weights, {weight}."
        changes = f"switched off, it changes {self._effect_text(heaviest)}"
        weights = f"{names[heaviest].capitalize()} has the largest weights, {weight}; {changes}."
        return effect, f"{weights} A weight says where a head looks, not how much arrives."

    def _effect_text(self, row: int) -> str:
        """Describe the effect of switching off the head of a row as a phrase: "the predictions by 0.12 nats"."""
        change = self.table[self.by][row]
        if self.by == "output":
            return f"the output vectors by {change:.1%} of their length"
        return f"the predictions by {decimals(change, 3)} nats"

    def _largest(self, name: str) -> int:
        """Return the row with the largest number in a column, among heads whose effect is known."""
        return int(self.table[name].where(self.table[self.by].notna()).fillna(-1).argmax())


def sweep(
    source: Source,
    sentences: tuple[Sentence, ...],
    edits: Edits = Edits(),
    report: OnProgress | None = None,
    targets: tuple[Sentence, ...] = (),
) -> Sweep:
    """Switch off the heads one by one, and measure the effects.

    With a head off, the decoder of an encoder-decoder reads the text that was generated with all heads on, so that
    words can be compared position by position; a second run tells whether it would generate another text. Given
    `targets`, the decoder reads these, without a second run. Patched activations are computed with all heads on.
    """
    before, heads, edits_of = _run_before(source, sentences, edits, targets)
    effects, is_given = [], bool(targets or edits.taken)
    for group, runs in runs_of_copies(source, before, heads, edits_of, is_given=is_given, report=report):
        effects += [_effect(before, runs, copy) for copy in range(len(group))]
    table = _table(heads)
    for name in EFFECTS:
        table[name] = pd.array([effect[name] for effect in effects], dtype="Float64")
    metrics = (head_metrics(before, b, names=("confidence",)) for b in range(len(sentences)))
    confidences = [table_of_text.set_index(["site", "head"])["confidence"] for table_of_text in metrics]
    means = pd.concat(confidences, axis=1).mean(axis=1)
    table["confidence"] = pd.array([means[str(site), head] for site, head in heads], dtype="Float64")
    return Sweep(heads, table)


def _table(heads: tuple[Head, ...]) -> pd.DataFrame:
    """Make a table with a row per head: site, kind, layer, head."""
    names = [(str(site), site.kind, site.layer, head) for site, head in heads]
    return pd.DataFrame(names, columns=["site", "kind", "layer", "head"])


def logit_falls(
    source: Source,
    sentences: tuple[Sentence, ...],
    edits: Edits = Edits(),
    report: OnProgress | None = None,
    targets: tuple[Sentence, ...] = (),
    *,
    token: str | int | None = None,
    position: int = -1,
    minus: str | int | None = None,
    sentence: int = 0,
) -> pd.DataFrame:
    """Measure the fall of a word's logit after a position, with each head off in turn.

    The words and the position are as in `analysis.contributions`. If the fall is less than a head's direct
    contribution, the rest of the model makes up for the head. A decoder reads the same words in all runs.

    Returns:
        site, kind, layer, head and fall: the logit (or a difference of two logits) before minus after. For a model that
        computes in half precision, `attrs["step"]` is the spacing of its largest logits.
    """
    before, heads, edits_of = _run_before(source, sentences, edits, targets)
    position, *ids = position_and_ids(before, token, position, minus=minus, sentence=sentence)
    falls = []
    for group, (after, _) in runs_of_copies(source, before, heads, edits_of, is_given=True, report=report):
        rows = [copy * len(sentences) + sentence for copy in range(len(group))]
        falls += (logit_of(before, sentence, position, *ids) - logit_of(after, rows, position, *ids)).tolist()
    table = _table(heads).assign(fall=pd.array(falls, dtype=float))
    table.attrs["step"] = step_of(before.prediction.logits[sentence, position])
    return table


def step_of(logits: Tensor) -> float | None:
    """Return the distance from the largest logit to the next number in half precision; None for other precision."""
    finite = logits[logits.isfinite()]
    for dtype in (torch.bfloat16, torch.float16):
        if len(finite) and finite.to(dtype).to(finite.dtype).equal(finite):
            largest = max(float(finite.abs().max()), 1e-30)
            return 2.0 ** floor(log2(largest)) * torch.finfo(dtype).eps
    return None


def _run_before(
    source: Source, sentences: tuple[Sentence, ...], edits: Edits, targets: tuple[Sentence, ...]
) -> tuple[Record, tuple[Head, ...], Callable[[tuple[Head, ...]], Edits]]:
    """Run the model with the edits; return the record, the heads that are on, and a function from heads to edits.

    The function makes the edits for a run on one copy of the sentences per head: in each copy, its head is off.
    """
    if reason := source.read_only or source.alone:
        raise InputError(reason)
    resolved, targets = source.resolved(sentences, edits, targets)
    before = replace(source.run(sentences, resolved, targets), edits=edits)

    def edits_of(group: tuple[Head, ...]) -> Edits:
        """Make the edits that switch off each head in its copy."""
        off_by_text = tuple(frozenset({head}) for head in group for _ in sentences)
        return Resolved(**vars(resolved) | {"each_off": off_by_text})

    steps = before.steps
    heads = tuple((step.site, h) for step in steps for h in range(step.num_heads) if h not in step.heads_off)
    return before, heads, edits_of


def runs_of_copies(
    source: Source,
    before: Record,
    heads: tuple[Head, ...],
    edits_of: Callable[[tuple[Head, ...]], Edits],
    *,
    is_given: bool,
    report: OnProgress | None,
) -> Iterator[tuple[tuple[Head, ...], tuple[Record, Record | None]]]:
    """Run copies of the sentences, one copy per head, in groups of heads that fit into one forward pass.

    Args:
        edits_of: function that makes the edits of a run for a group of heads, such as each head off in its copy.
        is_given: whether the decoder's input was given, so that no text is generated for a comparison.

    Yields:
        A group of heads; its run, where a decoder reads the words of `before`; a run that generates a text, or None.
    """
    sentences, done = before.sentences, 0
    tokens = max(1, len(sentences) * max(before.output.shape[1], len(sentences[0].tokens)))
    at_once = max(1, TOKENS // tokens)
    generates = bool(before.prediction and before.prediction.written)
    while done < len(heads):
        group = heads[done : done + at_once]
        try:
            copies, edits = sentences * len(group), edits_of(group)
            targets = before.targets * len(group) if generates else ()
            after = source.run(copies, edits, targets)
            generated = source.run(copies, edits) if generates and not is_given else None
        except AttnvizError:
            if at_once == 1:
                raise
            at_once //= 2  # some models take fewer sentences at once, or one if they cannot pad
            continue
        done += len(group)
        yield group, (after, generated)
        if report is not None and report(done, len(heads)) is False:
            raise Canceled(f"The sweep was ended after {done} of {len(heads)} heads.")


def carried(
    source: Source,
    sentences: tuple[Sentence, ...],
    other: str,
    edits: Edits = Edits(),
    part: str = "output",
    *,
    position: int | None = None,
    words: tuple[str | int, str | int] | None = None,
    targets: tuple[Sentence, ...] = (),
    report: OnProgress | None = None,
) -> Carried:
    """Patch one head at a time from the run of text B into text A, and measure the logit difference of two words.

    Args:
        sentences: text A as a tuple of one sentence.
        other: text B, with as many tokens as A.
        edits: edits of both runs; parts that they take from other texts are ignored.
        part: part of the head that is patched: "output", "pattern" or "values".
        position: position after which the words are predicted; negative ones count from the end. By default the last
            position, or the first blank if the model fills in blanks.
        words: a word for A and a word for B, or their ids. By default the most probable words; if these are the same,
            the words whose logits fall and rise most from A to B.

    Raises:
        InputError: if the part cannot be patched, the model predicts no words, or the difference is equal in A and B.
    """
    if len(sentences) != 1:
        raise InputError(f"Patching is measured for one text; there are {len(sentences)}. Give one of them.")
    if part == "stream":
        raise InputError("A stream has no heads; patch their output, pattern or values.")
    edits = replace(edits, taken=())
    before = source.run(sentences, edits, targets)
    prediction, targets = predicting(before), before.targets if source.writes else ()
    heads: tuple[Head, ...] = tuple((step.site, head) for step in before.steps for head in range(step.num_heads))
    patched = replace(edits, taken=tuple(Take(other, part, site, head) for site, head in heads))
    donors = dict(zip(heads, source.resolved(sentences, patched, targets)[0].donors, strict=True))
    if position is None:
        blanks = prediction.blanks[0] if prediction.blanks else ()
        position = blanks[0] if blanks else -1
    position = position_of(before, position)
    after = source.run(source.tokenize([other]), edits, targets)
    a, b = (record.prediction.logits[0, position].double() for record in (before, after))
    ids = (int(a.argmax()), int(b.argmax())) if words is None else tuple(id_of(before, word) for word in words)
    same_prediction = words is None and ids[0] == ids[1]
    if same_prediction:
        change = (b - a).nan_to_num(0.0)
        ids = int(change.argmin()), int(change.argmax())
    start, end = (float(logits[ids[0]] - logits[ids[1]]) for logits in (a, b))
    names = tuple(prediction.vocabulary[id] for id in ids)
    rounding = 1e-4 * max(1.0, float(a[[*ids]].abs().max()))
    if not abs(end - start) > rounding:
        unchanged = f"{quoted(names[0])} minus {quoted(names[1])} is {decimals(start, 3)} in both texts"
        raise InputError(f"{unchanged} at position {position}, so a head can carry no share of it; choose other words.")

    def edits_of(group: tuple[Head, ...]) -> Edits:
        """Make the edits that patch each head in its copy of A."""
        patches = (replace(donors[head], rows=slice(copy, copy + 1)) for copy, head in enumerate(group))
        return Resolved(**vars(edits), donors=tuple(patches))

    differences = []
    for group, (record, _) in runs_of_copies(source, before, heads, edits_of, is_given=bool(targets), report=report):
        differences += logit_of(record, [*range(len(group))], position, *ids).tolist()
    table = _table(heads).assign(difference=pd.array(differences, dtype=float))
    table["carried"] = (table["difference"] - start) / (end - start)
    texts = sentences[0].text, other
    return Carried(texts, part, position, names, same_prediction, start, end, table)


def _effect(before: Record, runs: tuple[Record, Record | None], copy: int) -> dict[str, float | None]:
    """Compute the `EFFECTS` of the head that is off in a copy, as means over sentences; None for undefined effects."""
    after, generated = runs
    effect: dict[str, list[Any]] = {name: [] for name in EFFECTS}
    for b, text in enumerate(before.read):
        row = copy * len(before.sentences) + b
        old, new = before.output[b, : text.length].double(), after.output[row, : text.length].double()
        change, length = (new - old).norm(dim=-1), old.norm(dim=-1)
        effect["output"].append((change / length).where(change != 0, 0).numpy())
        old, new = _log_probabilities(before, b), _log_probabilities(after, row)
        if old is not None:
            terms = old.exp() * (old - new)  # a word with probability 0 before adds nothing
            effect["divergence"].append(terms.where(old != -torch.inf, 0).sum(-1).clamp(min=0).numpy())
            predicted = old.argmax(-1, keepdim=True)
            effect["said"].append((new.exp() - old.exp()).gather(-1, predicted).squeeze(-1).numpy())
            if before.prediction is not None and before.prediction.blanks is None:
                following = torch.tensor([token.id for token in text.tokens[1 : text.length]], dtype=torch.long)
                effect["loss"].append((old - new)[torch.arange(len(following)), following].numpy())
        if generated is not None:
            effect["rewritten"].append(generated.prediction.written[row] != before.prediction.written[b])
        if before.vectors is not None:
            cosine = torch.cosine_similarity(before.vectors[b].double(), after.vectors[row].double(), dim=0)
            effect["turned"].append(float((1 - cosine).clamp(min=0)))
    means: dict[str, float | None] = {}
    for name, sentences in effect.items():
        numbers = [float(np.mean(values)) for values in sentences if np.size(values)]
        means[name] = sum(numbers) / len(numbers) if numbers and np.isfinite(numbers).all() else None
    return means


def _log_probabilities(record: Record, row: int) -> Tensor | None:
    """Compute the log-probabilities of all predictions of a text, (predictions, words).

    There is a prediction after each token, or in each blank. The only prediction of a classifier has its classes as
    words; for independent labels, each label is a prediction of true or false. None for numbers or no predictions.
    """
    if record.prediction is None:
        if record.labels is None or record.label_kind == "number":
            return None
        logits = record.labels[1][row].double()
        if record.label_kind == "several" or len(logits) == 1:
            return torch.stack([logits, torch.zeros_like(logits)], -1).log_softmax(-1)
        return logits.log_softmax(-1).unsqueeze(0)
    blanks = record.prediction.blanks
    positions = list(range(record.read[row].length) if blanks is None else blanks[row])
    return record.prediction.logits[row, positions].double().log_softmax(-1)
