"""Test which outputs change when a token is changed, padding is added, or another text is in the batch.

test = attnviz.leak_test(source, source.tokenize(["the cat sat on the mat"]))
test.pairs            # ((3, 7), ...): position 3 saw position 7, and must not
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from attnviz.check.intent import PerText
from attnviz.check.leaks import MOST, LeakTest, distance, tolerance
from attnviz.core.amounts import counted, percent
from attnviz.core.edits import KINDS, Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.record import Record, Step, check_finite, odd_rows
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.base import Source

PROBE = "The cat sat on the mat"
"""Text for sources without an example."""
PROBES = "the a red cat ."
"""Replacement tokens for a sentence that has too few different tokens."""
TOKENS_AT_ONCE = 1024
"""Maximum number of tokens in one batch, which bounds the memory."""
TRIES = 4
"""Number of replacement tokens to try if a replacement changes the mask."""
MOVED = 1e-4
"""Change of an output, relative to its norm, above which it counts; rounding between text lengths gives 1e-6."""
LEAST_WEIGHT = 1e-6
"""Weight on padding above which a head counts as attending to it."""
JOINED = "Look for heads and sentences that are joined in another order than they are split, or for "
JOINED += "nn.MultiheadAttention without batch_first=True."
"""Repair if another text in the batch changes the outputs."""
ELSEWHERE = "Look for what mixes positions outside of attention: a mean or a normalization over the text, a state."
"""Repair if attention does not explain the change."""


@dataclass(frozen=True)
class RunResult:
    """Comparison of a text run alone and in another way: with padding, beside other texts, or with a cache.

    Attributes:
        run: way to run the text: one of `attnviz.check.ways.RUNS`, or "padding" or "batch".
        same: whether all outputs are equal up to rounding; False if the way was not tried.
        cause: one of `attnviz.check.ways.CAUSES`; "" if no number differs at all.
        layer: layer of the first attention call that differs; None if no call differs, or none could be captured.
        position: position of the first token whose output differs, within its text, from 0.
        text: index of the first text that differs, from 0.
        difference: largest change of an output, relative to its norm; 0 if the way was not tried.
        message: one or two sentences.
        fix: repair; "" if there is nothing to do.
    """

    run: str
    same: bool
    cause: str
    layer: int | None = None
    position: int | None = None
    text: int | None = None
    difference: float = 0.0
    message: str = ""
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        """Convert all fields for `json.dumps`; an infinite difference, from NaN, becomes None."""
        return asdict(self) | {"difference": self.difference if math.isfinite(self.difference) else None}


def leak_test(
    source: Source,
    sentences: Sequence[Sentence] | str | None = None,
    edits: Edits = Edits(),
    *,
    site: str | None = None,
    promised: Mask | None = None,
    report: Callable[[int, int], object] = lambda done, of: None,
    targets: tuple[Sentence, ...] = (),
) -> LeakTest:
    """Change one token at a time, and compare the output at every position with the output before.

    Each token is replaced by another token of the sentence. The changed copies run in batches that also hold the
    unchanged sentence three times; the differences between these three are the noise. The decoder input is held fixed.
    If a token changes the mask itself, earlier keys are allowed, and only later keys are tested. Special tokens are not
    changed; in a long text, `MOST` evenly spaced tokens are changed.

    Args:
        sentences: result of `source.tokenize`, of which the first is tested, with its padding; or a text; by default
            the first example of the source.
        edits: changes to the attention.
        site: outputs to compare: "encoder", "decoder" (its own text is changed), or "cross" (outputs of the decoder
            while the text of the encoder is changed). None for the decoder, if there is one.
        promised: mask that each layer of that kind should keep. By default the built-in mask and the mask of the edits,
            even if the edits switch the built-in mask off; a decoder always promises to hide the future.
        report: function that is called with the number of positions done and the number of all.
        targets: decoder input, one sentence; by default what the model writes.

    Raises:
        InputError: if there is no such site, if outputs for the same input differ, or if the tokens change the mask
            and `promised` is not given.
        NotFiniteError: if the model gives NaN or infinite numbers, unless the edits request NaN for empty rows.
    """
    if sentences is None or isinstance(sentences, str):
        sentences = source.tokenize([sentences or next(iter(source.examples), PROBE)])
    acting = replace(edits, mask=edits.mask and edits.mask.of_sentence(0))
    before = source.run(sentences[:1], acting, targets[:1])
    fixed = before.targets if source.writes else ()
    if fixed and not targets and all(token.special for token in fixed[0].tokens):  # the model wrote nothing
        fixed = source.run(sentences[:1], Edits()).targets
        before = source.run(sentences[:1], acting, fixed)
    own = before if edits == Edits() else source.run(sentences[:1], Edits(), fixed)
    kinds = [kind for kind in KINDS if any(place.kind == kind for place in before.sites)]
    kind = site or ("decoder" if "decoder" in kinds else kinds[0])
    if kind not in kinds:
        raise InputError(f"'{source.name}' has no {quoted(kind)}. It has: {', '.join(kinds)}.")
    probe = _Probe(source, acting, fixed, before, kind)
    compared, changed = probe.texts
    outputs = [output_of(before, 0, kind).cpu()]
    odd = odd_rows(outputs[0])
    if compared is before.read[0] and before.prediction is not None:
        outputs.append(before.prediction.logits[0])
    for output in outputs if edits.empty_rows != "nan" else ():
        check_finite(before, output, compared.length, compared.labels)
    usual = [i for i, token in enumerate(changed.tokens) if not token.special or i >= changed.length]
    if not usual:
        raise InputError("There is no token to change but special ones; give another text.")
    places = usual[:: -(-len(usual) // MOST)]
    moved, noise, masking = probe.change(places, report)
    moved[odd] = torch.nan
    allowed, promise = _promise(own, probe, promised)
    if masking and promised is None and kind != "decoder":
        what = f"What stands at position{_join_numbers(masking)} decides the mask itself: say what it must hide"
        raise InputError(f"{what}, --intent causal or two-way, or promised=Subsequent() in Python.")
    if masking and kind != "cross":
        allowed[:, masking] |= torch.ones_like(allowed).tril()[:, masking]
    left = [i for i in range(len(changed.tokens)) if i not in places]
    special = "special tokens are" if all(changed.tokens[i].special for i in left) else "some tokens are"
    dead = [place for place in places if moved[~odd, place].isnan().all() and not odd.all()]
    notes = (
        (left, f"{special} left as they are, at position{{}}"),
        (masking, "what stands at position{} decides the mask itself, so only the future is judged"),
        (dead, "what stands at position{} moves no output, so nothing can be said of it"),
        (odd.nonzero().flatten().tolist(), "the output at position{} is no number, so nothing is known of it"),
    )
    free = ["every output may depend on every token, so nothing can leak"] if allowed.all() else []
    layers = counted(sum(step.site.kind == kind for step in own.steps), "layer")
    return LeakTest(
        moved=moved,
        promised=allowed,
        noise=noise,
        tolerance=tolerance(noise, torch.float32),
        queries=compared.tokens,
        keys=changed.tokens,
        where=f"{kind}, {layers}",
        promise=promise,
        source=source.name,
        provenance=source.provenance,
        edits=edits,
        text=sentences[0].text,
        notes=(*free, *(note.format(_join_numbers(numbers)) for numbers, note in notes if numbers)),
        opened=probe.reached({step.site: open_cells(step) for step in before.steps}),
    )


def _join_numbers(places: Sequence[int]) -> str:
    """Join numbers after the word "position": " 3", or "s 0 and 7"."""
    *first, last = map(str, places)
    return f"s {', '.join(first)} and {last}" if first else f" {last}"


@dataclass(frozen=True)
class _Probe:
    """Runs of a source on a sentence with changed tokens, to compare with the run `before`.

    Attributes:
        targets: fixed decoder input; empty for a model without a decoder input.
        kind: outputs to compare: "encoder", "decoder", or "cross" (outputs of a decoder while the text of its encoder
            is changed).
    """

    source: Source
    edits: Edits
    targets: tuple[Sentence, ...]
    before: Record
    kind: str

    @property
    def texts(self) -> tuple[Sentence, Sentence]:
        """Sentence whose outputs are compared, and sentence whose tokens are changed."""
        queries, keys = self.before.usual_texts(Site(self.kind, 0))
        return queries[0], keys[0]

    def run(self, copies: Sequence[Sentence]) -> list[tuple[Record, int]]:
        """Run copies as a batch, or as two halves if that is too large; return a record and a row in it per copy."""
        sentences, targets, mask = self.before.sentences * len(copies), self.targets * len(copies), self.edits.mask
        if targets and self.kind == "decoder":
            targets = tuple(copies)
        else:
            sentences = tuple(copies)
        mask = PerText((mask,) * len(copies)) if mask is not None and mask.batch_size else mask
        try:
            record = self.source.run(sentences, replace(self.edits, mask=mask), targets)
        except InputError:
            if len(copies) == 1:
                raise
            half = len(copies) // 2
            return [*self.run(copies[:half]), *self.run(copies[half:])]
        return [(record, row) for row in range(len(copies))]

    def change(self, places: list[int], report: Callable[[int, int], object]) -> tuple[Tensor, float, list[int]]:
        """Change the token at each of the given positions.

        Returns:
            Change of each output, (Q, K), float64, NaN in columns without any change; the noise; and the positions
            where every replacement changed the mask itself, such as a separator between documents.
        """
        plain, sizes = self.texts[1], [len(text.tokens) for text in self.texts]
        moved, noise, masking = torch.full(sizes, torch.nan, dtype=torch.float64), 0.0, []
        at_once = max(1, TOKENS_AT_ONCE // max(sizes) - 3)
        waiting = [(place, others) for place in places if (others := self._replacements(place))]
        while waiting:
            batch, waiting, copies = waiting[:at_once], waiting[at_once:], []
            for place, others in batch:
                token = replace(plain.tokens[place], id=others[0].id, text=others[0].text)
                copies.append(replace(plain, tokens=(*plain.tokens[:place], token, *plain.tokens[place + 1 :])))
            half = len(copies) // 2
            first, *ran = self.run([plain, *copies[:half], plain, *copies[half:], plain])
            before, again = output_of(*first, self.kind), (ran.pop(half), ran.pop())
            noise = max(noise, *(float(distance(before, output_of(*run, self.kind)).max()) for run in again))
            for (place, others), run in zip(batch, ran, strict=True):
                pairs = () if first[0].read_only else zip(first[0].steps, run[0].steps, strict=True)
                is_masking = any(not torch.equal(open_cells(a, first[1]), open_cells(b, run[1])) for a, b in pairs)
                if is_masking and len(others) > 1:
                    waiting.append((place, others[1:]))
                    continue
                if is_masking:
                    masking.append(place)
                column = distance(before, output_of(*run, self.kind)).cpu()
                moved[:, place] = column if column.any() else torch.nan
            report(len(places) - len(waiting), len(places))
        return moved, noise, sorted(masking)

    def _replacements(self, place: int) -> list[Token]:
        """List replacement tokens for a position: later tokens of the sentence, then earlier ones, then `PROBES`, or in
        the text of a decoder its most probable tokens there."""
        changed, prediction, more = self.texts[1], self.before.prediction, ()
        if self.targets and self.kind == "decoder":
            best = prediction.logits[0, max(0, place - 1)].topk(TRIES + 2).indices.tolist()
            more = (Token(prediction.vocabulary[id], id, 0, 0) for id in best)
        else:
            with suppress(InputError):  # the tokenizer of a user may not know these words
                more = self.source.tokenize([PROBES])[0].tokens
        tokens = (*changed.tokens[place + 1 : changed.length], *changed.tokens[:place], *more)
        usual = {token.id: token for token in tokens if not token.special and token.id not in self.source.padding_ids}
        usual.pop(changed.tokens[place].id, None)
        return [*usual.values()][:TRIES]

    def reached(self, cells: Mapping[Site, Tensor], kind: str = "") -> Tensor:
        """Mark the tokens that reach each output through the open cells, (Q, K), of all layers: boolean (Q, tokens).

        A position keeps the tokens that reached it (residual connection); each layer adds those of its open keys.
        """
        kind = kind or self.kind
        sites = [site for site in cells if site.kind in (("decoder", "cross") if kind == "cross" else (kind,))]
        memory = self.reached(cells, "encoder") if kind == "cross" else None
        size = len(cells[sites[0]])
        tokens = torch.eye(size) if memory is None else torch.zeros(size, len(memory))
        for site in sites:
            keys = memory.float() if memory is not None and site.kind == "cross" else tokens
            tokens = ((tokens + cells[site].float() @ keys) > 0).float()
        return tokens > 0


def _promise(own: Record, probe: _Probe, promised: Mask | None) -> tuple[Tensor, str]:
    """Compute on which tokens each output may depend through all layers, boolean (Q, K), and describe the promised
    mask: "window (1 before, 0 after), through 2 layers".

    Args:
        own: run of the model without edits, whose masks are promised even if the edits switch them off.
        promised: mask to promise for the compared kind, instead of the masks of the model and the edits.
    """
    cells, names, edit = {}, [], probe.edits.mask_at(probe.kind)
    for step in own.steps:
        site, allowed, added = step.site, open_cells(step), probe.edits.mask_at(step.site.kind)
        name = str(step.mask) if isinstance(step.mask, Mask) else "the built-in mask"
        name = "full" if step.mask is None else name
        name = name if allowed.any() else "every key blocked"
        if site.kind == "decoder" and not own.read_only:  # for a read-only model, the mask is inferred from weights
            causal = Subsequent().grid(*allowed.shape)
            opens = step.mask is None or (isinstance(step.mask, Tensor) and bool((allowed & ~causal).any()))
            allowed, name = causal if opens else allowed & causal, "causal" if opens else name
        allowed = allowed if added is None else allowed & added.grid(*allowed.shape)
        is_compared = site.kind == probe.kind
        cells[site] = promised.grid(*allowed.shape) if promised is not None and is_compared else allowed
        if is_compared:
            names.append(name)
    named = " or ".join(dict.fromkeys(names))
    if edit is not None and named != str(edit):
        named = str(edit) if named == "full" else f"{named} and {edit}"
    named = named if promised is None else str(promised)
    return probe.reached(cells), f"{named}, through {len(names)} layers" if len(names) > 1 else named


def output_of(record: Record, row: int, kind: str) -> Tensor:
    """Select the output of one sentence of a batch, (n, numbers). For an encoder of an encoder-decoder, return the keys
    and values of the first cross-attention, which are linear maps of its output."""
    if kind != "encoder" or not record.targets:
        return record.output[row]
    step = next(step for step in record.steps if step.site.kind == "cross")
    return torch.cat([step.key[row], step.value[row]], -1).transpose(0, 1).flatten(1)


def masks(step: Step, sentence: int = 0) -> Tensor:
    """Stack the masks of all heads of a step, (H, Q, K), without a sink."""
    columns = slice(0, step.shape[3] - step.has_sink)
    heads = [step.may_attend(head, columns=columns, sentence=sentence) for head in range(step.num_heads)]
    return torch.stack(heads).cpu()


def open_cells(step: Step, sentence: int = 0) -> Tensor:
    """Mark the cells that are open in at least one head of a step, (Q, K)."""
    return masks(step, sentence).any(0)


def batch_test(
    source: Source, text: str, edits: Edits = Edits(), name: Callable[[Site], str] | None = None
) -> Iterator[RunResult]:
    """Compare a text run alone with a run with padding after it ("padding"), and with runs as first and last text of a
    batch with another, if possible longer text ("batch"). The decoder input stays the same.

    Args:
        name: function that names an attention call; by default `source.site_name`.

    Raises:
        NotFiniteError: if the model gives NaN or infinite numbers.
    """
    (alone,) = source.tokenize([text])
    before, length = source.run((alone,), edits), len(alone.tokens)
    sentence = before.read[0]
    check_finite(before, before.output[0], sentence.length, sentence.labels)
    try:
        padded, other = source.tokenize(beside_longer(text))
    except InputError:
        padded, other = alone, replace(alone, tokens=(*alone.tokens[1:], alone.tokens[0]))
    more, reads = len(padded.tokens) - length, [sentence, sentence]
    if more and not source.facts:  # models of transformers write up to their maximum length
        pads = padded.tokens[-1:] * len(sentence.tokens)
        reads = [replace(sentence, tokens=sentence.tokens + tokens) for tokens in (pads, sentence.tokens)]
        reads[1] = replace(reads[1], length=len(reads[1].tokens))

    def run(*order: int) -> tuple[float, Record]:
        """Run the text (0) and the other text (1) in this order; return the change of outputs of 0, and the record."""
        targets, row = [reads[i] for i in order] if source.writes else [], order.index(0)
        record = source.run(tuple((padded, other)[i] for i in order), edits, tuple(targets))
        check_finite(record, record.output[row], sentence.length, sentence.labels)
        size = sentence.length if record.targets else length
        return float(distance(before.output[0, :size], record.output[row, :size]).max()), record

    moved, record = run(0)
    if moved > MOVED:
        yield _padding_result(record, moved, name or source.site_name)
        return  # a batch would show the same change again
    if more:
        message = f"Padding: no output moved when {counted(more, 'token')} of padding followed."
        yield RunResult("padding", True, "rounding", difference=moved, message=message)
    else:
        message = f"Padding: not tested. '{source.name}' gives a text no padding, so that there is none to see."
        yield RunResult("padding", False, "not tried", message=message)
    if other == alone:
        message = "Other texts: not tested. The text has one token alone, so there is no other text to run beside it."
        yield RunResult("batch", False, "not tried", message=message)
        return
    moved, place = max((run(0, 1)[0], "first"), (run(1, 0)[0], "last"))
    if moved > MOVED:
        message = f"Outputs move by up to {percent(moved)} when another text is in the batch, and the text is {place}."
        yield RunResult("batch", False, "other", None, None, 0, moved, message, JOINED)
    else:
        message = "Other texts: no output moved when another text was in the batch."
        yield RunResult("batch", True, "rounding", text=0, difference=moved, message=message)


def _padding_result(record: Record, moved: float, name: Callable[[Site], str]) -> RunResult:
    """Make the result for outputs that changed with padding, naming the head with most weight on padding."""
    heads = []
    for step in record.steps:
        query, key = record.texts(step.site)
        for head in range(step.num_heads):
            weights = step.weights(head, slice(0, query.length), slice(key.length, len(key.tokens))).sum(-1)
            part = round(float(weights.nan_to_num(1).max()), 6)  # of equal heads, the first
            heads.append((part, f"head {head} of {name(step.site)}"))
    part, head = max(heads, key=itemgetter(0))
    message, cause, fix = "though attention gives it no weight.", "other", ELSEWHERE
    if part > LEAST_WEIGHT:
        message, cause = f"to which {head} gives up to {percent(part)} of a row.", "mask"
        fix = "Block the keys of padding in every layer, before the softmax."
    message = f"Outputs move by up to {percent(moved)} when padding follows the text, {message}"
    return RunResult("padding", False, cause, None, None, 0, moved, message, fix)


def beside_longer(text: str) -> list[str]:
    """Return the text and a text of twice its length; in a pair, both texts are doubled."""
    first, bar, second = text.partition("|||")
    return [text, f"{first} {first}{bar}{second} {second}".rstrip()]


def keeps_state(run: Callable[[], Tensor], bound: float) -> tuple[str, str] | None:
    """Run twice with the same seed; if the outputs differ, the model keeps a state: return a message and a repair."""
    outputs = []
    for _ in range(2):
        torch.manual_seed(0)
        outputs.append(run())
    first, second = outputs
    if first.shape == second.shape and not bool((distance(first, second) > bound).any()):
        return None
    sentence = "Two runs of one text differ, under one seed too: something is kept in the model between calls, such as "
    fix = "Begin each text with an empty cache: keep it outside of the module, or clear it before each text."
    return f"{sentence}a cache.", fix
