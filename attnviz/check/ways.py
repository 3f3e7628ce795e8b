"""The same answer however a model is run: alone, packed, padded, with a cache, in chunks, beside other texts.

test = attnviz.same_run(model, ["the cat sat", "on the mat"], tokenizer=tokenizer)
print(*test.lines(), sep="\\n")
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnviz import api
from attnviz.capturing import capture
from attnviz.capturing.seen import hidden
from attnviz.check.causes import PADDING, Ran, cause, layers
from attnviz.check.moves import RunResult, finite, is_kept, moves
from attnviz.core.amounts import counted, percent, rounding
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError, quoted
from attnviz.core.leaks import ROUNDINGS, tolerance
from attnviz.sources.base import HUGGING_FACE, Source
from attnviz.sources.own_code import errors_said, in_evaluation, lock_of
from attnviz.sources.own_tokens import ids_of
from attnviz.sources.wrapped import Wrapped

NEEDS = {
    "packed": "pack",
    "left": "pad",
    "right": "pad",
    "cached": "step",
    "chunked": "step",
    "batched": "",
    "written": "write",
}
RUNS = tuple(NEEDS)
"""Ways to run a text, beside running it alone; `NEEDS` names the function that each needs."""
CAUSES = ("", "rounding", "mask", "positions", "cache", "window", "scores", "kept", "dropout", "other", "not tried")
"""Causes of a `RunResult`: the first two are of the same answer, the last is of none."""
CHEAP = 2**30
"""Bytes that a copy of a model may take."""
BLOCKS = "Pass a causal mask of blocks, (1, 1, n, n), beside position_ids: with it, the outputs are the same."
PLAIN = "The same with position_ids that count from the first real token; a call without them gives other outputs."
AS_GENERATE = "Pass position_ids, as generate() does: (attention_mask.cumsum(-1) - 1).clamp(min=0)."
Documents = Sequence[Sequence[int]]


class NotTriedError(AttnvizError):
    """Reason why a way cannot be tried, as a sentence."""


@dataclass(frozen=True)
class SameRun:
    """All ways in which the texts were run.

    Attributes:
        results: one for each way, in the order in which they were asked for.
        model: its name.
        tokens: number of tokens of each text.
        reference, dtype: types of numbers of the texts alone, and of all other runs.
        noise: largest share of its length by which an output moves from `dtype` to `reference`.
        bound: a larger difference is more than rounding: `attnviz.core.leaks.SAFETY` times the noise, at least
            `ROUNDINGS` rounding errors of `dtype`; where the noise could not be measured, that for each layer.
    """

    results: tuple[RunResult, ...]
    model: str
    tokens: tuple[int, ...]
    reference: str
    dtype: str
    noise: float
    bound: float

    @property
    def ok(self) -> bool:
        """Whether no way differs, and at least one was tried."""
        return all(result.same for result in self.tried) and bool(self.tried)

    @property
    def tried(self) -> tuple[RunResult, ...]:
        """The results of ways that were tried."""
        return tuple(result for result in self.results if result.cause != "not tried")

    def lines(self) -> list[str]:
        """The report, for people: what was compared, and a line or two for each way."""
        texts = f"{counted(len(self.tokens), 'text')} of {', '.join(map(str, self.tokens))} tokens"
        lines = [
            f"{self.model}: {texts}, each run alone in {self.reference} and compared with runs in {self.dtype}.",
            f"Rounding: differences up to {rounding(self.bound)} of an output's length are ignored.",
        ]
        for result in self.results:
            verdict = "same" if result.same else result.cause
            if result in self.tried and not result.same:
                verdict = f"DIFFERS by up to {percent(result.difference)}: {result.cause}"
            fix = f"fix: {result.fix}" if result.fix else ""
            lines += [f"{result.run}: {verdict}", *(f"  {line}" for line in (result.message, fix) if line)]
        return lines

    def to_json(self) -> dict[str, Any]:
        """All fields, for `json.dumps`; a number that is not finite becomes None."""
        rest = {name: finite(value) for name, value in asdict(self).items() if name != "results"}
        return {"ok": self.ok, **rest, "results": [result.to_json() for result in self.results]}


def same_run(
    model: nn.Module | Source | str,
    texts: Sequence[str | Sequence[int]],
    runs: Sequence[str] = RUNS,
    *,
    pack: Callable[[Documents], Any] | None = None,
    pad: Callable[[Documents, str], Any] | None = None,
    step: Callable[[nn.Module, Tensor, Any], tuple[Any, Any]] | None = None,
    write: Callable[[nn.Module, Tensor, Tensor, Any], tuple[Any, Any]] | None = None,
    tokenizer: Any = None,
) -> SameRun:
    """Run each text alone and in other ways, compare the outputs of its tokens, and say why they differ.

    Arguments of a call are a tensor of ids, a tuple, or a dict of named arguments; they are moved to the model's
    device. Calls hold the tokens of the texts in their order.

    Args:
        model: a model of transformers, or its Hub name or folder; a source made by `attnviz.wrap`; or any module that
            is called as model(ids), ids (B, n). A module runs in the mode that it is in, a source in evaluation.
        texts: strings, or lists of token ids, of several lengths; a window shows only in texts that are longer.
        runs: the ways: "packed" (all texts in one row, with restarting position_ids and no attention mask), "left" and
            "right" (a padded batch with its attention mask), "cached" (the first half, then token by token with
            past_key_values), "chunked" (in about three chunks with a cache), "batched" (beside texts of its length),
            "written" (a batch padded on the left, then token by token with the cache, as `generate` does).
        pack: pack(documents) gives the arguments of a call on all documents, lists of ids, in one row.
        pad: pad(documents, side) gives the arguments of a call on a padded batch; side is "left" or "right".
        step: step(model, ids, cache) calls the model on the next ids, (1, m), and gives its output and its cache; the
            first cache is None.
        write: write(model, ids, tokens, cache) calls it on the next ids of a batch, (B, m), and gives the same; tokens,
            (B, n), are False at the padding among all ids so far.
        tokenizer: of strings: a function to ids, or a tokenizer with `encode`.

    Raises:
        InputError: if a text has no tokens, a way is not known, or the model cannot be run on a text alone.
        NotFiniteError: if the output of a text alone is no number.
    """
    runs = [runs] if isinstance(runs, str) else list(dict.fromkeys(runs))
    if unknown := [run for run in runs if run not in RUNS]:
        raise InputError(f"There is no run {quoted(unknown[0])}. There is: {', '.join(RUNS)}.")
    runner, tokenize = _runner(model, tokenizer)
    functions = {"pack": pack, "pad": pad, "step": step, "write": write}
    own = {name: function for name, function in functions.items() if function}
    with torch.random.fork_rng([runner.device] if runner.device.type == "cuda" else []):
        base = _alone(runner, _documents(texts, tokenize))
        results = tuple(_result(base, run, own) for run in runs)
    names = (str(tensor.dtype).removeprefix("torch.") for tensor in (base.reference[0], base.runs[0].output))
    return SameRun(results, runner.name, tuple(map(len, base.documents)), *names, base.noise, base.bound)


@dataclass(frozen=True, eq=False)
class Runner:
    """A model, and how it is called.

    Attributes:
        call: function from the model and ids (B, n) to its output.
        functions: those of `NEEDS` that there are.
        why_not: for each way that cannot be tried, why, as a sentence.
        more: for each way that has another call with more arguments, a function that adds them.
        running: a context in which a model is run.
        pad_id: the id of padding.
        sites: the sites of its attention calls and their modules, once they are known.
    """

    model: nn.Module
    name: str
    call: Callable[[nn.Module, Tensor], Any]
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    why_not: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    running: Callable[[nn.Module], AbstractContextManager] = nullcontext
    pad_id: int = 0
    sites: Mapping[Site, str] | None = None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters(), torch.zeros(())).device

    def run(self, rows: Sequence[Sequence[tuple[int, int]]], calls: Mapping[int, Callable[[], Any]]) -> Ran:
        """Call the model once or several times, and capture its attention.

        Args:
            rows: for each row of the batch the number of each text, or `PADDING`, and how many tokens it has.
            calls: functions that call the model, by the first slot of each call.

        Raises:
            InputError: if the model's code raises, or gives no output for each token.
        """
        text = torch.tensor([[number for number, count in row for _ in range(count)] for row in rows])
        place = torch.tensor([[i for _, count in row for i in range(count)] for row in rows])
        outputs, passes, ends = [], [], [*list(calls)[1:], text.shape[1]]
        with self.running(self.model), torch.no_grad(), errors_said():
            for (start, function), end in zip(calls.items(), ends, strict=True):
                with capture(self.model, sites=self.sites) as captured:
                    output = function()
                outputs.append(self._outputs(output, len(text), end - start))
                passes.append((start, captured))
        return Ran(text, place, torch.cat(outputs, 1), tuple(passes))

    def _outputs(self, output: Any, batch: int, length: int) -> Tensor:
        """Logits, or hidden states where there are none, (B, n, d); a row that is longer is cut."""
        logits = getattr(output, "logits", None)
        states = hidden(output if logits is None else logits)
        if states is None and isinstance(output, Tensor) and output.dim() == 2 and len(output) == batch * length:
            states = output.unflatten(0, (batch, length))  # without an axis of the batch
        if states is None or len(states) != batch or states.shape[1] < length:
            what = f"{self.name} gives {type(output).__name__ if states is None else tuple(states.shape)}"
            raise InputError(f"{what} for {batch} x {length} tokens; same_run needs (B, n, d), one for each token.")
        return states[:, :length].detach().cpu()

    def with_arguments(self, arguments: Any) -> Any:
        """Call the model with ids, a tuple of arguments, or a dict of named ones."""

        def moved(value: Any) -> Any:
            return value.to(self.device) if isinstance(value, Tensor) else value

        if isinstance(arguments, Mapping):
            return self.model(**{name: moved(value) for name, value in arguments.items()})
        if isinstance(arguments, tuple | list):
            return self.model(*map(moved, arguments))
        return self.call(self.model, moved(arguments))

    def alone(self, ids: list[int], text: int = 0) -> Ran:
        """Run one text by itself."""
        return self.run([[(text, len(ids))]], {0: partial(self.with_arguments, torch.tensor([ids]))})

    def ran(self, documents: list[list[int]], run: str, more: Callable[..., Any] | None = None) -> list[Ran]:
        """Run the texts in one way: all in one run, or each in one.

        Args:
            more: function that adds arguments to those of a call on documents.
        """
        function, numbers = self.functions.get(NEEDS[run]), range(len(documents))
        if NEEDS[run] in ("step", "write") and max(map(len, documents)) < 2:
            raise NotTriedError("Each text has one token, so there is nothing to cache.")
        if run == "batched":  # each text between two others of its length
            calls = [
                partial(self.with_arguments, torch.tensor([[*ids[1:], ids[0]], ids, ids[::-1]])) for ids in documents
            ]
            sizes = [[[(text, len(documents[i]))] for text in (-2, i, -3)] for i in numbers]
            return [self.run(rows, {0: call}) for rows, call in zip(sizes, calls, strict=True)]
        if run in ("cached", "chunked"):
            return [self._stepped(documents[i], i, run) for i in numbers if len(documents[i]) > 1]
        if run == "packed" and len(documents) == 1:  # behind the same words in another order
            documents, numbers = [[*documents[0][1:], documents[0][0]], documents[0]], [1, 0]
        if run == "packed":
            rows, arguments = [[(i, len(ids)) for i, ids in zip(numbers, documents, strict=True)]], function(documents)
        else:
            documents, rows = _with_longer(documents, run)
            if run == "written":
                return [self.run(rows, self._written(documents))]
            arguments = function(documents, run)
        arguments = more(arguments, documents) if more else arguments
        return [self.run(rows, {0: partial(self.with_arguments, arguments)})]

    def _stepped(self, ids: list[int], number: int, run: str) -> Ran:
        """One text in several calls with a cache."""
        tensor, length = torch.tensor([ids], device=self.device), len(ids)
        starts = [0, *range(max(1, length // 2), length)] if run == "cached" else [*range(0, length, -(-length // 3))]

        def call(start: int, end: int, cache: Any) -> tuple[Any, Any]:
            return self.functions["step"](self.model, tensor[:, start:end], cache)

        return self.run([[(number, length)]], _with_cache(call, starts, length))

    def _written(self, documents: list[list[int]]) -> dict[int, Callable[[], Any]]:
        """Calls on a batch that is padded on the left, and on the last half of the shortest text token by token."""
        padded = with_padding(documents, "left", self.pad_id)
        ids, tokens = (padded[name].to(self.device) for name in ("input_ids", "attention_mask"))
        length, count = ids.shape[1], min(map(len, documents)) // 2

        def call(start: int, end: int, cache: Any) -> tuple[Any, Any]:
            return self.functions["write"](self.model, ids[:, start:end], tokens[:, :end].bool(), cache)

        return _with_cache(call, [0, *range(length - count, length)], length)


def _with_cache(
    call: Callable[[int, int, Any], tuple[Any, Any]], starts: list[int], length: int
) -> dict[int, Callable[[], Any]]:
    """Calls of a model on parts of its input, each with the cache of the one before."""
    cache: list[Any] = [None]

    def with_cache(start: int, end: int) -> Any:
        output, cache[0] = call(start, end, cache[0])
        return output

    return {start: partial(with_cache, start, end) for start, end in zip(starts, [*starts[1:], length], strict=True)}


def _with_longer(documents: list[list[int]], side: str) -> tuple[list[list[int]], list[list[tuple[int, int]]]]:
    """Texts of several lengths, if need be with one that is longer by two tokens, and the rows that they fill."""
    longest = max(documents, key=len)
    if min(map(len, documents)) == len(longest):
        documents = [*documents, [*longest, *(longest * 2)[:2]]]
    length = max(map(len, documents))
    rows = [[(PADDING, length - len(ids)), (number, len(ids))] for number, ids in enumerate(documents)]
    return documents, [row[::-1] if side == "right" else row for row in rows]


def with_padding(documents: Documents, side: str, pad_id: int) -> dict[str, Tensor]:
    """Ids of a padded batch and its attention mask, 1 = token, (B, n)."""
    texts = [torch.tensor(ids) for ids in documents]
    ids = pad_sequence(texts, batch_first=True, padding_value=pad_id, padding_side=side)
    mask = pad_sequence([torch.ones_like(text) for text in texts], batch_first=True, padding_side=side)
    return {"input_ids": ids, "attention_mask": mask}


def positions(mask: Tensor) -> Tensor:
    """Positions that `generate` gives a padded batch."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def transformers_runner(model: Any, name: str) -> Runner:
    """The ways in which transformers runs its models."""
    config, has_positions = model.config, "position_ids" in inspect.signature(model.forward).parameters
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{name} reads two texts; same_run compares models of one text.")
    uncached = {"use_cache": False} if hasattr(config, "use_cache") else {}
    pad_id = getattr(config, "pad_token_id", None)
    pad_id = pad_id if isinstance(pad_id, int) and pad_id >= 0 else 0

    def call(model: nn.Module, ids: Tensor) -> Any:
        return model(input_ids=ids, **uncached)

    def pack(documents: Documents) -> dict[str, Any]:
        ids = torch.tensor([[id for document in documents for id in document]])
        positions = torch.cat([torch.arange(len(document)) for document in documents]).unsqueeze(0)
        return {"input_ids": ids, "position_ids": positions, **uncached}

    def pad(documents: Documents, side: str) -> dict[str, Any]:
        return {**with_padding(documents, side, pad_id), **uncached}

    def with_positions(arguments: dict[str, Any], documents: Documents) -> dict[str, Any]:
        return {**arguments, "position_ids": positions(arguments["attention_mask"])}

    def with_blocks(arguments: dict[str, Any], documents: Documents) -> dict[str, Any]:
        blocks = torch.block_diag(*(torch.ones(len(ids), len(ids)).tril() for ids in documents)).bool()
        mask = torch.zeros(blocks.shape).masked_fill(~blocks, torch.finfo(torch.float32).min)
        return {**arguments, "attention_mask": mask[None, None]}

    def step(model: nn.Module, ids: Tensor, cache: Any, **named: Any) -> tuple[Any, Any]:
        cached = {} if cache is None else {"past_key_values": cache}
        output = model(input_ids=ids, use_cache=True, **cached, **named)
        if getattr(output, "past_key_values", None) is None:
            raise NotTriedError(f"{type(model).__name__} gives no past_key_values.")
        return output, output.past_key_values

    def write(model: nn.Module, ids: Tensor, tokens: Tensor, cache: Any) -> tuple[Any, Any]:
        named = {"position_ids": positions(tokens)[:, -ids.shape[1] :]} if has_positions else {}
        return step(model, ids, cache, attention_mask=tokens.long(), **named)

    functions = {"pack": pack, "pad": pad, "step": step, "write": write}
    more = {"left": with_positions, "packed": with_blocks}
    why = f"{type(model).__name__} takes no position_ids, by which packed texts are told apart."
    return Runner(model, name, call, functions, {} if has_positions else {"packed": why}, more, pad_id=pad_id)


@dataclass(frozen=True, eq=False)
class _Alone:
    """Texts run alone, twice, with which all other runs are compared: (1, n, d) for each in `reference`; `moved` says
    how far two identical runs are from each other, (n,) for each."""

    runner: Runner
    documents: list[list[int]]
    runs: list[Ran]
    again: list[Ran]
    moved: list[Tensor]
    reference: list[Tensor]
    bound: float
    noise: float = math.nan


def _alone(runner: Runner, documents: list[list[int]]) -> _Alone:
    """Run the texts alone: twice, and in float64 if the model can be copied."""
    weights = [tensor for tensor in runner.model.parameters() if tensor.is_floating_point()]
    count, dtype = sum(tensor.numel() for tensor in weights), weights[0].dtype if weights else torch.float32
    if torch.finfo(dtype).bits < 32 and 4 * count <= CHEAP and (copy := _copied(runner, torch.float32)):
        runner, dtype = copy, torch.float32
    runs = [runner.alone(ids, number) for number, ids in enumerate(documents)]
    runner = replace(runner, sites=runs[0].passes[0][1].sites)
    for number, ran in enumerate(runs):
        if bool((odd := ~ran.output[0].isfinite().all(-1)).any()):
            place = int(odd.nonzero()[0])
            raise NotFiniteError(f"Text {number + 1}, run alone, has an output at token {place} that is no number.")
    again = [runner.alone(ids, number) for number, ids in enumerate(documents)]
    bound = ROUNDINGS * torch.finfo(dtype).eps * max(1, len(runner.sites))
    moved = [moves(run.output[0], [], [rerun.output[0]])[0][:, 0] for run, rerun in zip(runs, again, strict=True)]
    base = _Alone(runner, documents, runs, again, moved, [ran.output for ran in runs], bound)
    is_steady = all(bool((far <= bound).all()) for far in moved)
    exact = _copied(runner, torch.float64) if is_steady and 8 * count <= CHEAP else None
    if exact is None:
        return base
    try:
        reference = [exact.alone(ids).output for ids in documents]
        pairs = zip(reference, base.reference, strict=True)
        noise = max(moves(output[0], [other[0]], [output[0]])[1] for output, other in pairs)
        return replace(base, reference=reference, noise=noise, bound=tolerance(noise, dtype))
    except AttnvizError:  # code that makes float32 of its own, or rounding that moves everything
        return base


def _why_not(runner: Runner, longest: Ran, run: str) -> str:
    """Why a way cannot be tried without a function of a person's own; "" if it can."""
    name = NEEDS[run]
    if name and name not in runner.functions:
        return f"Give same_run(..., {name}=...), a function that runs the model in this way."
    try:
        ahead = any(bool(layer.may_attend.triu(1).any()) for layer in layers(longest, 0).values())
    except AttnvizError:  # no attention that could tell
        ahead = False
    if ahead and runner.more and run in ("packed", "cached", "chunked", "written"):
        return f"{runner.name} sees later tokens: it has no cache, and packed texts need a mask of blocks."
    return runner.why_not.get(run, "")


def _result(base: _Alone, run: str, own: dict[str, Callable[..., Any]]) -> RunResult:
    """The result of one way, maybe with a person's `own` function; a plain call of transformers that differs is tried
    with more arguments."""
    if any(bool((moved > base.bound).any()) for moved in base.moved):
        return _unsteady(base, run)
    if NEEDS[run] not in own and (why := _why_not(base.runner, max(base.runs, key=lambda r: r.text.shape[1]), run)):
        return RunResult(run, False, "not tried", message=why)
    base = replace(base, runner=replace(base.runner, functions={**base.runner.functions, **own}))
    try:
        result = _compared(base, run)
    except AttnvizError as error:
        begin = "" if isinstance(error, NotTriedError) else "The model does not run in this way. It says: "
        return RunResult(run, False, "not tried", message=f"{begin}{error}")
    if result.same or NEEDS[run] in own or run not in base.runner.more:
        return result
    try:
        other = _compared(base, run, base.runner.more[run])
    except AttnvizError:
        return result
    if not other.same:
        return result
    return replace(result, fix=BLOCKS) if run == "packed" else replace(other, message=PLAIN, fix=AS_GENERATE)


def _compared(base: _Alone, run: str, more: Callable[..., Any] | None = None) -> RunResult:
    """The result of a way: its largest difference, and the cause of that of the first text that differs."""
    largest, wrong = 0.0, None
    rans = base.runner.ran(base.documents, run, more)
    for number, ran in ((number, ran) for number in range(len(base.documents)) for ran in rans):
        for row, slots in ran.rows(number):
            moved = moves(base.reference[number][0], [], [ran.output[row, slots]])[0][:, 0]
            largest = max(largest, float(moved.max()))
            if wrong is None and bool((moved > base.bound).any()):
                wrong = number, ran, row, slots, int((moved > base.bound).nonzero()[0])
    if wrong is None:
        return RunResult(run, True, "rounding" if largest else "", difference=largest, bound=base.bound)
    number, ran, row, slots, place = wrong
    why = cause(ran, row, slots, base.runs[number], base.runner.alone, base.documents[number], base.bound)
    fix = "It takes no position_ids, so pad on the right." if run == "left" and base.runner.why_not else why.fix
    noun = f"Document {ran.order(row, number)}" if run == "packed" else f"Text {number + 1}"
    message, fix = f"{noun} {why.message.rstrip('.')}.", fix if why.name == "positions" else why.fix
    return RunResult(run, False, why.name, why.layer, place, number, largest, base.bound, message, fix)


def _unsteady(base: _Alone, run: str) -> RunResult:
    """The result of every way where two identical runs differ."""
    number = next(number for number, moved in enumerate(base.moved) if bool((moved > base.bound).any()))
    ids, place = base.documents[number], int((base.moved[number] > base.bound).nonzero()[0])
    first, slots = base.runs[number], torch.arange(len(ids))
    layer = cause(base.again[number], 0, slots, first, base.runner.alone, ids, base.bound).layer
    what = "Two runs of one text alone differ, so nothing can be compared:"
    name, message = "dropout", f"{what} there is dropout in evaluation, or other chance."
    fix = "Pass training=self.training to F.dropout, or use nn.Dropout."
    with base.runner.running(base.runner.model):
        is_training = any(module.training for module in base.runner.model.modules())
    if state := is_kept(lambda: base.runner.alone(ids).output[0], base.bound):
        name, (message, fix) = "kept", state
    elif is_training:
        message, fix = f"{what} the model is in training mode.", "Call model.eval()."
    largest = max(float(moved.max()) for moved in base.moved)
    return RunResult(run, False, name, layer, place, number, largest, base.bound, message, fix)


def _copied(runner: Runner, dtype: torch.dtype) -> Runner | None:
    """The same on a copy of the model with other numbers; None if it cannot be copied."""
    try:
        return replace(runner, model=deepcopy(runner.model).to(dtype))
    except Exception:  # of a person's code, or of quantized weights
        return None


def _runner(model: Any, tokenizer: Any) -> tuple[Runner, Any]:
    """The ways to run a model, and its tokenizer."""
    source = api.load(model) if isinstance(model, str) else model
    if isinstance(source, Wrapped) and not source.writes:
        code, pad = source.code, source.code.pad
        functions = {} if pad is None else {"pad": lambda ids, side: with_padding(ids, side, pad)["input_ids"]}
        runner = Runner(code.model, source.name, code.call, functions, running=_in_turn, pad_id=pad or 0)
        return runner, tokenizer or code.tokenize
    if isinstance(source, Source) and source.facts and source.provenance in HUGGING_FACE:
        loaded, copy = source.loaded, deepcopy(source.loaded.model)
        if not loaded.keeps_own_attention:  # then it is that of attnviz, which needs a tap
            try:
                copy.set_attn_implementation("sdpa")
            except (ValueError, ImportError):
                copy.set_attn_implementation("eager")
        tokenizer = tokenizer or (lambda text: [token.id for token in source.tokenize([text])[0].tokens])
        return transformers_runner(copy, source.name), tokenizer
    if isinstance(source, Source) or not isinstance(source, nn.Module):
        what = "reads two texts" if getattr(source, "writes", False) else "is no model that is run in several ways"
        raise InputError(f"{quoted(source)} {what}; give a model of transformers, attnviz.wrap(...), or a module.")
    name = type(source).__name__
    if hasattr(source, "config") and hasattr(source, "base_model_prefix"):
        return transformers_runner(source, name), tokenizer
    return Runner(source, name, lambda model, ids: model(ids)), tokenizer


@contextmanager
def _in_turn(model: nn.Module) -> Iterator[None]:
    """Run the model here alone, in evaluation, as a source does."""
    with lock_of(model), in_evaluation(model):
        yield


def _documents(texts: Any, tokenize: Any) -> list[list[int]]:
    """Ids of each text."""
    texts = [texts] if isinstance(texts, str) else texts
    if tokenize is None and (strings := [text for text in texts if isinstance(text, str)]):
        raise InputError(f"{quoted(strings[0])} is a string: give same_run(..., tokenizer=...), or lists of ids.")
    encode = getattr(tokenize, "encode", tokenize)
    with errors_said():
        documents = [ids_of(encode(text) if isinstance(text, str) else text)[0] for text in texts]
    if not documents or not all(documents):
        raise InputError("There is no text to run, or one without tokens; give strings or lists of token ids.")
    return documents
