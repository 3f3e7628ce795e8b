"""Compare each text run alone with the same text in a padded batch, a packed row, a cache or chunks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.check.difference_causes import RunResult, cause, first_true
from attnviz.check.leaks import ROUNDINGS, distance, tolerance
from attnviz.check.ways_to_run import RUNS, NotTriedError, Runner, TextRun, make_runner
from attnviz.core.amounts import counted, percent, rounding
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError, UnsteadyError, quoted
from attnviz.core.record import Record, check_finite
from attnviz.sources.base import Source
from attnviz.sources.own_code import errors_said
from attnviz.sources.wrapped import ids_of

MOVED = 1e-4
"""Change of an output, relative to its norm, above which it counts; rounding between text lengths gives 1e-6."""
ELSEWHERE = "Look for what mixes positions outside of attention: a mean or a normalization over the text, a state."
"""Repair if attention does not explain the change."""
MOST_COPIED = 2**30
"""Maximum size in bytes of a copy of the model, which is run in another number type."""


@dataclass(frozen=True)
class SameRun:
    """Comparison of several ways to run the same texts.

    Attributes:
        results: one result per way, in the requested order.
        model: name of the model.
        tokens: number of tokens per text.
        dtype: number type of the runs.
        bound: largest relative difference that counts as rounding: 10 times the difference to float64, at least
            `ROUNDINGS` rounding errors per layer.
    """

    results: tuple[RunResult, ...]
    model: str
    tokens: tuple[int, ...]
    dtype: str
    bound: float

    @property
    def ok(self) -> bool:
        """Whether at least one way was tried, and no way differs."""
        tried = [result.same for result in self.results if result.cause != "not tried"]
        return all(tried) and bool(tried)

    def lines(self) -> list[str]:
        """Write the report as lines of text: the texts and the bound, then one to three lines per way."""
        texts = f"{counted(len(self.tokens), 'text')} of {', '.join(map(str, self.tokens))} tokens"
        lines = [f"{self.model}: {texts}, each run alone and compared with other runs, in {self.dtype}."]
        lines += [f"Rounding: differences up to {rounding(self.bound)} of an output's length are ignored."]
        for result in self.results:
            verdict = "same" if result.same else f"DIFFERS by up to {percent(result.difference)}: {result.cause}"
            verdict = result.cause if result.cause == "not tried" else verdict
            fix = f"fix: {result.fix}" if result.fix else ""
            lines += [f"{result.run}: {verdict}", *(f"  {line}" for line in (result.message, fix) if line)]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Convert all fields for `json.dumps`."""
        return {"ok": self.ok, **asdict(self), "results": [result.to_json() for result in self.results]}


def same_run(
    model: nn.Module | Source | str,
    texts: Sequence[str | Sequence[int]],
    runs: Sequence[str] = RUNS,
    *,
    call: Callable[..., Any] | None = None,
    tokenizer: Any = None,
) -> SameRun:
    """Run each text alone and in other ways, compare the outputs of its tokens, and explain differences.

    Args:
        model: a model of transformers, or its Hub name or folder; a source made by `attnviz.wrap`; or any module. It
            runs in evaluation mode.
        texts: strings or lists of token ids, preferably of different lengths, and longer than a window of the model.
        runs: ways to run the texts: "packed" (all texts in one row), "left" and "right" (a batch padded on that side),
            "cached" (the first half, then token by token with a cache), "chunked" (about three chunks with a cache),
            "batched" (beside a text of the same length), "written" (a batch padded on the left, then token by token, as
            in `generate`).
        call: function of the model and ids (B, m) that returns the output; by default model(ids), or the function of
            `attnviz.wrap`. It is given the keyword arguments that it accepts: tokens (B, n), False at padding, for all
            ids so far; positions (B, m) within each text, for packed rows and left padding; documents (B, m), the index
            of the text at each id of a packed row; cache, None in the first call. With a cache, it returns the output
            and the cache for the next call.
        tokenizer: tokenizer for strings: a function that returns ids, or an object with `encode`.

    Raises:
        InputError: if a text has no tokens, a name in `runs` is unknown, or the model cannot run on a text alone.
        UnsteadyError: if two runs of one text differ.
        NotFiniteError: if the output for a text alone is not finite.
    """
    runs = [runs] if isinstance(runs, str) else list(dict.fromkeys(runs))
    texts = [texts] if isinstance(texts, str) else texts
    if unknown := [run for run in runs if run not in RUNS]:
        raise InputError(f"There is no run {quoted(unknown[0])}. Available runs: {', '.join(RUNS)}.")
    runner, model_tokenizer = make_runner(model, call)
    tokenizer = tokenizer or model_tokenizer
    if tokenizer is None and (strings := [text for text in texts if isinstance(text, str)]):
        raise InputError(f"{quoted(strings[0])} is a string: give same_run(..., tokenizer=...), or lists of ids.")
    encode = getattr(tokenizer, "encode", tokenizer)
    with errors_said():
        id_lists = [ids_of(encode(text) if isinstance(text, str) else text) for text in texts]
    if not id_lists or not all(id_lists):
        raise InputError("There is no text, or a text without tokens; give strings or lists of token ids.")
    documents = [torch.tensor(ids) for ids in id_lists]
    device = next(runner.model.parameters(), torch.zeros(())).device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        runner, alone = _run_alone(runner, documents)
        results = tuple(_compare_run(run, runner, documents, alone) for run in runs)
    dtype = str(alone[0].output.dtype).removeprefix("torch.")
    return SameRun(results, runner.name, tuple(map(len, documents)), dtype, runner.bound)


def _run_alone(runner: Runner, documents: list[Tensor]) -> tuple[Runner, list[TextRun]]:
    """Run each text alone twice, and once in float64 if the model can be copied; half precision becomes float32 first.
    Return the runner with `sites` and `bound`, and the first run of each text."""
    weights = [tensor for tensor in runner.model.parameters() if tensor.is_floating_point()]
    count, dtype = sum(tensor.numel() for tensor in weights), weights[0].dtype if weights else torch.float32
    if torch.finfo(dtype).bits < 32 and 4 * count <= MOST_COPIED:  # 4 bytes per number in float32
        with suppress(Exception):  # quantized weights cannot be converted
            runner, dtype = replace(runner, model=deepcopy(runner.model).float()), torch.float32
    alone = [runner.alone(ids, number) for number, ids in enumerate(documents)]
    for number, text_run in enumerate(alone):
        not_finite = ~text_run.output[0].isfinite().all(-1)
        if bool(not_finite.any()):
            token = f"output at token {first_true(not_finite)}"
            raise NotFiniteError(f"Text {number + 1}, run alone, has an {token} that is not a number.")
    sites = alone[0].passes[0][1].sites
    bound, pairs = ROUNDINGS * torch.finfo(dtype).eps * max(1, len(sites)), list(zip(documents, alone, strict=True))
    if 8 * count <= MOST_COPIED:  # 8 bytes per number in float64
        with suppress(Exception):  # code may create float32 itself
            exact = replace(runner, model=deepcopy(runner.model).double(), sites=sites)
            noise = max(float(distance(exact.alone(ids).output[0], first.output[0]).max()) for ids, first in pairs)
            bound = max(bound, tolerance(noise, dtype))
    runner = replace(runner, sites=sites, bound=bound)
    for ids, first in pairs:
        if bool((distance(first.output[0], runner.alone(ids).output[0]) > bound).any()):
            state = why_unsteady(lambda ids=ids: runner.alone(ids).output[0], bound)
            message = "Two runs of the same text differ, so nothing can be compared: the model draws random numbers, "
            message += "such as dropout in evaluation. Pass training=self.training to F.dropout, or use nn.Dropout."
            raise UnsteadyError(" ".join(state) if state else message)
    return runner, alone


def _compare_run(run: str, runner: Runner, documents: list[Tensor], alone: list[TextRun]) -> RunResult:
    """Run the texts in one way, and compare each with its run alone; find the cause for the first that differs."""
    largest, first = 0.0, None
    try:
        for text_run in runner.runs(run, documents):
            for number, reference in enumerate(alone):
                for row in (text_run.text == number).any(1).nonzero().flatten().tolist():
                    slots = (text_run.text[row] == number).nonzero().flatten()
                    changes = distance(reference.output[0], text_run.output[row, slots])
                    largest = max(largest, float(changes.max()))
                    differs = changes > runner.bound
                    if bool(differs.any()) and (first is None or number < first[0]):
                        first = number, text_run, row, slots, first_true(differs)
        if first is None:
            return RunResult(run, "rounding" if largest else "", difference=largest)
        number, text_run, row, slots, position = first
        result = cause(text_run, row, slots, alone[number], documents[number], runner.alone, 10 * runner.bound)
    except AttnvizError as error:
        prefix = "" if isinstance(error, NotTriedError) else "The model fails when it is run this way: "
        return RunResult(run, "not tried", f"{prefix}{error}")
    texts_of_row = list(dict.fromkeys(text_run.text[row].tolist()))  # packed documents are counted in their row
    noun = f"Document {texts_of_row.index(number) + 1}" if run == "packed" else f"Text {number + 1}"
    message = f"{noun} {result.message.rstrip('.')}."
    return replace(result, run=run, position=position, text=number, difference=largest, message=message)


def batch_test(
    source: Source, text: str, edits: Edits = Edits(), name: Callable[[Site], str] | None = None
) -> Iterator[RunResult]:
    """Compare a text run alone with a run with padding after it ("padding"), and with runs as first and last text of a
    batch with a longer text ("batch"). The decoder input stays the same. `name` names an attention call.

    Raises:
        InputError: if the model takes no text of twice the length.
        NotFiniteError: if the model gives NaN or infinite numbers.
    """
    (alone,) = source.tokenize([text])
    reference, length = source.run((alone,), edits), len(alone.tokens)
    sentence = reference.read[0]
    check_finite(reference, reference.output[0], sentence.length, sentence.labels)
    padded, longer = source.tokenize(with_longer_text(text))
    num_padding = len(padded.tokens) - length
    decoder_inputs = [sentence, sentence]  # for the padded text, and for the longer text
    if num_padding and not source.facts:  # double them, too; models of transformers write up to their maximum length
        pads, repeated = padded.tokens[-1:] * len(sentence.tokens), sentence.tokens * 2
        longer_input = replace(sentence, tokens=repeated, length=len(repeated))
        decoder_inputs = [replace(sentence, tokens=sentence.tokens + pads), longer_input]

    def run(*order: int) -> tuple[float, Record]:
        """Run padded text (0) and longer text (1) in this order; return the largest change of text 0 and the record."""
        batch = tuple((padded, longer)[i] for i in order)
        targets = tuple(decoder_inputs[i] for i in order) if source.writes else ()
        record = source.run(batch, edits, targets)
        output = record.output[order.index(0)]
        check_finite(record, output, sentence.length, sentence.labels)
        size = sentence.length if record.targets else length
        return float(distance(reference.output[0, :size], output[:size]).max()), record

    change, record = run(0)
    if change > MOVED:  # a batch would show the same change again
        largest, head_name = 0.0, ""
        for step in record.steps:
            query, key = record.texts(step.site)
            for head in range(step.num_heads):
                weights = step.weights(head, slice(0, query.length), slice(key.length, len(key.tokens))).sum(-1)
                share = round(float(weights.nan_to_num(1).max()), 6)  # rounded, so that the first of equal heads counts
                if share > largest:
                    largest, head_name = share, f"head {head} of {(name or source.site_name)(step.site)}"
        cause, detail, fix = "other", "though attention gives it no weight", ELSEWHERE
        if largest > 1e-6:  # less is rounding
            cause, detail = "mask", f"to which {head_name} gives up to {percent(largest)} of a row"
            fix = "Block the keys of padding in every layer, before the softmax."
        message = f"Outputs move by up to {percent(change)} when padding follows the text, {detail}."
        yield RunResult("padding", cause, message, fix, change)
        return
    if num_padding:
        message = f"Padding: no output moved when {counted(num_padding, 'token')} of padding followed."
        yield RunResult("padding", "rounding", message, difference=change)
    else:
        message = f"Padding: not tested. '{source.name}' does not pad texts of different lengths."
        yield RunResult("padding", "not tried", message)
    change, place = max((run(0, 1)[0], "first"), (run(1, 0)[0], "last"))
    if change > MOVED:
        message = f"Outputs move by up to {percent(change)} when another text is in the batch, and the text is {place}."
        fix = "Look for heads and sentences that are joined in another order than they are split, or for "
        fix += "nn.MultiheadAttention without batch_first=True."
        yield RunResult("batch", "other", message, fix, change, text=0)
    else:
        message = "Other texts: no output moved when another text was in the batch."
        yield RunResult("batch", "rounding", message, difference=change, text=0)


def with_longer_text(text: str) -> list[str]:
    """Return the text and a text of twice its length. If "|||" joins two texts, each of them is doubled."""
    return [text, "|||".join(f"{part} {part}" for part in text.split("|||", 1)).rstrip()]


def why_unsteady(run: Callable[[], Tensor], bound: float) -> tuple[str, str] | None:
    """Run twice with the same seed; return a message and a repair if the outputs differ by more than `bound`."""
    outputs = []
    for _ in range(2):
        torch.manual_seed(0)
        outputs.append(run())
    first, second = outputs
    if first.shape == second.shape and not bool((distance(first, second) > bound).any()):
        return None
    message = "Two runs of one text differ with the same seed: the model keeps state between calls, such as a cache."
    return message, "Begin each text with an empty cache: keep it outside of the module, or clear it before each text."
