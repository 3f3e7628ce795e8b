"""Effects of each head on a text: of switching it off (zero ablation), and of patching it from another text.

Many heads are measured in one forward pass, on copies of a sentence with another head changed in each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, floor, log2
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnviz.analysis.contributions import Carried, id_of, logit_of, place_of
from attnviz.analysis.heads import head_metrics
from attnviz.analysis.predictions import position_of, predicting
from attnviz.core.amounts import decimals, percent
from attnviz.core.edits import Edits, Resolved, Site, Take
from attnviz.core.errors import AttnvizError, Canceled, InputError, quoted
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source

TOKENS = 2048
"""Most tokens in one forward pass, including copies."""

Head = tuple[Site, int]

OnProgress = Callable[[int, int], bool | None]
"""Callback with the numbers of runs done and of all runs, or of heads; if it returns False, the study ends."""

EFFECTS = {
    "output": "how far the final vectors move, ‖after − before‖ / ‖before‖, the mean over tokens; 0 is not at all",
    "divergence": "how far the predicted probabilities move, KL(before ‖ after) in nats, the mean over predictions; "
    "0 is not at all, 0.1 as if a sure word fell to 90%, 0.7 to 50% (Conmy et al. 2023)",
    "said": "the probability of what it said before, after minus before, the mean over where it says something",
    "loss": "the loss of the next token of the text, after minus before, in nats, the mean over tokens",
    "rewritten": "the share of the sentences for which the model writes another text",
    "turned": "how far the sentence's vector turns, 1 − cosine of before and after; 0 is not at all, 2 to the opposite",
}
"""Columns of a sweep and their meanings. A column is missing if the model does not have this output."""


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
        """Column used to rank heads: the change of the prediction, or of the output if nothing is predicted."""
        return "output" if self.table["divergence"].isna().all() else "divergence"

    @property
    def strongest(self) -> tuple[Site, int] | None:
        """The head with the largest effect; None if no effect is known."""
        return None if self.table[self.by].isna().all() else self.heads[self._largest(self.by)]

    def sentences(self) -> tuple[str, str]:
        """Name the head with the largest effect, and describe the size of its weights ("" if it cannot be compared)."""
        if self.table[["confidence", self.by]].isna().all().any() or len(self.heads) < 2:
            return "There are no two heads here whose weights and effects could be compared.", ""
        heavy, strong = self._largest("confidence"), self._largest(self.by)
        names = [site.head(head) for site, head in self.heads]
        name, weight = names[strong].capitalize(), f"{self.table['confidence'][heavy]:.2f} on average"
        most = f"{name} matters most here: switched off, it changes {self._effect_text(strong)} on average"
        if self.by != "output":  # KL divergence from probability 1 to p is ln(1/p)
            most += f", as if a sure word fell to {percent(exp(-self.table[self.by][strong]), 0)}"
        if pd.notna(rewritten := self.table["rewritten"][strong]):
            most += "; the model then writes another text" if rewritten else "; the text it writes stays the same"
        most += "."
        if heavy == strong:
            return most, f"{name} also has the largest weights, {weight}."
        return most, (
            f"The largest weights are those of {names[heavy]}, {weight}; off, it changes {self._effect_text(heavy)}. "
            "A weight says where a head looks, not how much arrives."
        )

    def _effect_text(self, row: int) -> str:
        """Effect of switching a head off, with its size, as a phrase."""
        change = self.table[self.by][row]
        if self.by == "output":
            return f"the output vectors by {change:.1%} of their length"
        return f"the predictions by {decimals(change, 3)} nats"

    def _largest(self, name: str) -> int:
        """Row with the largest number in a column, among heads whose effect is known."""
        return int(self.table[name].where(self.table[self.by].notna()).fillna(-1).argmax())


def sweep(
    source: Source,
    sentences: tuple[Sentence, ...],
    edits: Edits = Edits(),
    report: OnProgress | None = None,
    targets: tuple[Sentence, ...] = (),
) -> Sweep:
    """Switch off the heads one by one, and measure the effects.

    With a head off, the decoder of an encoder-decoder reads the text generated with all heads on, so that words can be
    compared position by position; a second run tells whether it would generate another text. With `targets` it reads
    these targets, in a single run. Parts that the edits take from other texts come from a run with all heads on.
    """
    before, heads, off = _run_before(source, sentences, edits, targets)
    effects, is_given = [], bool(targets or edits.taken)
    for some, after in runs_of_copies(source, before, heads, off, is_given=is_given, report=report):
        effects += [_effect(before, after, copy) for copy in range(len(some))]
    table = _table(heads)
    for name in EFFECTS:
        table[name] = pd.array([effect[name] for effect in effects], dtype="Float64")
    batch = [
        head_metrics(before, b, names=("confidence",)).set_index(["site", "head"])["confidence"]
        for b in range(len(sentences))
    ]
    mean = pd.concat(batch, axis=1).mean(axis=1)
    table["confidence"] = pd.array([mean[str(site), head] for site, head in heads], dtype="Float64")
    return Sweep(heads, table)


def _table(heads: tuple[Head, ...]) -> pd.DataFrame:
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

    The words and the position are as in `analysis.contributions`; compared with a head's direct contribution, the
    fall shows whether the rest of the model makes up for the head. A decoder reads the same words in all runs.

    Returns:
        site, kind, layer, head and fall: the logit (or a difference of two logits) before minus after. For a model that
        computes in half precision, `attrs["step"]` is the spacing of its largest logits.
    """
    before, heads, off = _run_before(source, sentences, edits, targets)
    place, *ids = place_of(before, token, position, minus=minus, sentence=sentence)
    falls = []
    for some, (after, _) in runs_of_copies(source, before, heads, off, is_given=True, report=report):
        rows = [copy * len(sentences) + sentence for copy in range(len(some))]
        falls += (logit_of(before, sentence, place, *ids) - logit_of(after, rows, place, *ids)).tolist()
    table = _table(heads).assign(fall=pd.array(falls, dtype=float))
    table.attrs["step"] = step_of(before.prediction.logits[sentence, place])
    return table


def step_of(logits: Tensor) -> float | None:
    """Spacing of numbers at the largest of the logits, if they are in half precision; None if not."""
    finite = logits[logits.isfinite()]
    for dtype in (torch.bfloat16, torch.float16):
        if len(finite) and finite.to(dtype).to(finite.dtype).equal(finite):
            return 2.0 ** floor(log2(max(float(finite.abs().max()), 1e-30))) * torch.finfo(dtype).eps
    return None


def _run_before(
    source: Source, sentences: tuple[Sentence, ...], edits: Edits, targets: tuple[Sentence, ...]
) -> tuple[Record, tuple[Head, ...], Callable[[tuple[Head, ...]], Edits]]:
    """Run with no head off besides the edits' own; return the record, its heads, and a function from heads to edits."""
    if why := source.read_only or source.alone:
        raise InputError(why)
    acting, targets = source.resolved(sentences, edits, targets)
    before = replace(source.run(sentences, acting, targets), edits=edits)

    def off(some: tuple[Head, ...]) -> Edits:
        each_off = tuple(frozenset({head}) for head in some for _ in sentences)
        return Resolved(**vars(acting) | {"each_off": each_off})

    steps = before.steps
    heads = tuple((step.site, h) for step in steps for h in range(step.num_heads) if h not in step.heads_off)
    return before, heads, off


def runs_of_copies(
    source: Source,
    before: Record,
    heads: tuple[Head, ...],
    edits: Callable[[tuple[Head, ...]], Edits],
    *,
    is_given: bool,
    report: OnProgress | None,
) -> Iterator[tuple[tuple[Head, ...], tuple[Record, Record | None]]]:
    """Iterate over groups of heads with a run on copies of the sentences, and a run that generates text anew or None.

    Args:
        edits: function from heads to the edits of a run with a copy per head.
        is_given: whether the decoder's input was given, so that no text is generated for a comparison.
    """
    sentences, done = before.sentences, 0
    read = max(1, len(sentences) * max(before.output.shape[1], len(sentences[0].tokens)))
    at_once = max(1, TOKENS // read)
    while done < len(heads):
        some = heads[done : done + at_once]
        try:
            copies, changed = sentences * len(some), edits(some)
            writes = bool(before.prediction and before.prediction.written)
            after = source.run(copies, changed, *([before.targets * len(some)] if writes else []))
            free = source.run(copies, changed) if writes and not is_given else None
        except AttnvizError:
            if at_once == 1:
                raise
            at_once //= 2  # some models take fewer sentences at once, or one if they cannot pad
            continue
        done += len(some)
        yield some, (after, free)
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
    """Take a part of each head in turn from another text, and measure the logit difference of two words.

    Args:
        sentences: a single sentence, A.
        other: text B, with as many tokens as A.
        edits: edits of both runs; parts that they take from other texts are ignored.
        part: "output", "pattern" or "values".
        position: position after which the words are predicted; negative ones count from the end. By default the last
            position, or the first blank if the model fills in blanks.
        words: a word for A and a word for B, or their ids. By default the most probable words; if these are the same,
            the words whose logits fall and rise most from A to B.

    Raises:
        InputError: if the part cannot be taken, the model predicts no words, or the difference is the same in A and B.
    """
    if len(sentences) != 1:
        raise InputError(f"The way from A to B is measured for one text; there are {len(sentences)}. Give one of them.")
    if part == "stream":
        raise InputError("A stream has no heads; take their output, pattern or values.")
    edits = replace(edits, taken=())
    before = source.run(sentences, edits, targets)
    prediction, targets = predicting(before), before.targets if source.writes else ()
    heads: tuple[Head, ...] = tuple((step.site, head) for step in before.steps for head in range(step.num_heads))
    taking = replace(edits, taken=tuple(Take(other, part, site, head) for site, head in heads))
    donors = dict(zip(heads, source.resolved(sentences, taking, targets)[0].donors, strict=True))

    blanks = prediction.blanks and prediction.blanks[0]
    if position is None:
        position = blanks[0] if blanks else -1
    position = position_of(before, position)
    after = source.run(source.tokenize([other]), edits, targets)
    a, b = (record.prediction.logits[0, position].double() for record in (before, after))
    ids = (int(a.argmax()), int(b.argmax())) if words is None else tuple(id_of(before, word) for word in words)
    moved = words is None and ids[0] == ids[1]
    if moved:
        change = (b - a).nan_to_num(0.0)
        ids = int(change.argmin()), int(change.argmax())
    start, end = (float(logits[ids[0]] - logits[ids[1]]) for logits in (a, b))
    names = tuple(prediction.vocabulary[id] for id in ids)
    if not abs(end - start) > 1e-4 * max(1.0, float(a[[*ids]].abs().max())):
        which = f"{quoted(names[0])} minus {quoted(names[1])} is {decimals(start, 3)} in both texts"
        raise InputError(f"{which} at position {position}, so there is no way between them; choose other words.")

    def edits_of(some: tuple[Head, ...]) -> Edits:
        alone = (replace(donors[head], rows=slice(copy, copy + 1)) for copy, head in enumerate(some))
        return Resolved(**vars(edits), donors=tuple(alone))

    rows = []
    for some, (record, _) in runs_of_copies(source, before, heads, edits_of, is_given=bool(targets), report=report):
        for copy, (site, head) in enumerate(some):
            logits = record.prediction.logits[copy, position].double()
            difference = float(logits[ids[0]] - logits[ids[1]])
            share = (difference - start) / (end - start)
            rows.append((str(site), site.kind, site.layer, head, difference, share))
    table = pd.DataFrame(rows, columns=["site", "kind", "layer", "head", "difference", "carried"])
    texts = sentences[0].text, other
    return Carried(texts, part, position, names, moved, start, end, table)


def _effect(before: Record, runs: tuple[Record, Record | None], copy: int) -> dict[str, float | None]:
    """Effects of one head that is off, each the mean over sentences; None for an effect the model does not have."""
    after, free = runs
    effect: dict[str, list[Any]] = {name: [] for name in EFFECTS}
    for b, read in enumerate(before.read):
        row = copy * len(before.sentences) + b
        old, new = before.output[b, : read.length].double(), after.output[row, : read.length].double()
        moved, length = (new - old).norm(dim=-1), old.norm(dim=-1)
        effect["output"].append((moved / length).where(moved != 0, 0).numpy())
        old, new = _log_probabilities(before, b), _log_probabilities(after, row)
        if old is not None:
            terms = old.exp() * (old - new)  # a word with probability 0 before adds nothing
            effect["divergence"].append(terms.where(old != -torch.inf, 0).sum(-1).clamp(min=0).numpy())
            most = old.argmax(-1, keepdim=True)
            effect["said"].append((new.exp() - old.exp()).gather(-1, most).squeeze(-1).numpy())
            if before.prediction is not None and before.prediction.blanks is None:
                following = torch.tensor([token.id for token in read.tokens[1 : read.length]], dtype=torch.long)
                effect["loss"].append((old - new)[torch.arange(len(following)), following].numpy())
        if free is not None:
            effect["rewritten"].append(free.prediction.written[row] != before.prediction.written[b])
        if before.vectors is not None:
            cosine = torch.cosine_similarity(before.vectors[b].double(), after.vectors[row].double(), dim=0)
            effect["turned"].append(float((1 - cosine).clamp(min=0)))
    means: dict[str, float | None] = {}
    for name, sentences in effect.items():
        numbers = [float(np.mean(of_sentence)) for of_sentence in sentences if np.size(of_sentence)]
        means[name] = sum(numbers) / len(numbers) if numbers and np.isfinite(numbers).all() else None
    return means


def _log_probabilities(record: Record, row: int) -> Tensor | None:
    """Log-probabilities of all predictions, (positions, words): after each token, at blanks, or one row of all classes.

    A label of several that may hold at once has two "words": true and false. None for a regression and without words.
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
