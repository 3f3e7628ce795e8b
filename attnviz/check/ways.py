"""The same answer however a model is run: alone, packed, padded, with a cache, in chunks, beside other texts.

test = attnviz.same_run(model, ["the cat sat", "on the mat"], tokenizer=tokenizer)
print(*test.lines(), sep="\\n")
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnviz import api
from attnviz.capturing import capture
from attnviz.capturing.seen import hidden
from attnviz.check.causes import PADDING, Ran, cause
from attnviz.check.moves import RunResult, is_kept
from attnviz.core.amounts import counted, percent, rounding
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError, UnsteadyError, quoted
from attnviz.core.leaks import ROUNDINGS, distance, tolerance
from attnviz.sources.base import HUGGING_FACE, Source
from attnviz.sources.own_code import errors_said, in_evaluation, lock_of
from attnviz.sources.wrapped import Wrapped, ids_of

Documents = Sequence[Sequence[int]]
Rows = list[list[tuple[int, int]]]
"""For each row of a batch the number of each text, or `PADDING`, and how many tokens it has."""
Calls = dict[int, Callable[[], Any]]
"""Functions that call a model, by the first slot of each call."""
Runs = Iterator[tuple[Rows, Calls]]
CAUSES = ("", "rounding", "mask", "positions", "cache", "window", "scores", "other", "not tried")
"""Causes of a `RunResult`: the first two are of the same answer, the last is of none."""
CHEAP = 2**30
"""Bytes that a copy of a model may take."""
UNSTEADY = (
    "Two runs of one text alone differ, so nothing can be compared: there is dropout in evaluation, or chance. Pass "
)
UNSTEADY += "training=self.training to F.dropout, or use nn.Dropout."


class NotTriedError(AttnvizError):
    """Reason why a way cannot be tried, as a sentence."""


@dataclass(frozen=True, eq=False)
class Runner:
    """A model, and how it is called.

    Attributes:
        call: function from the model and ids (B, n) to its output.
        functions: those that `WAYS` need, by name.
        pad_id: the id of padding.
        sites: the sites of its attention calls and their modules, once they are known.
    """

    model: nn.Module
    name: str
    call: Callable[[nn.Module, Tensor], Any]
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    pad_id: int = 0
    sites: Mapping[Site, str] | None = None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters(), torch.zeros(())).device

    def run(self, rows: Rows, calls: Calls) -> Ran:
        """Call the model once or several times, and capture its attention.

        Raises:
            InputError: if the model's code raises, or gives no output for each token.
        """
        text = torch.tensor([[number for number, count in row for _ in range(count)] for row in rows])
        outputs, passes, ends = [], [], [*list(calls)[1:], text.shape[1]]
        with lock_of(self.model), in_evaluation(self.model), torch.no_grad(), errors_said():
            for (start, function), end in zip(calls.items(), ends, strict=True):
                with capture(self.model, sites=self.sites) as captured:
                    output = function()
                outputs.append(self._outputs(output, len(text), end - start))
                passes.append((start, captured))
        return Ran(text, torch.cat(outputs, 1), tuple(passes))

    def _outputs(self, output: Any, batch: int, length: int) -> Tensor:
        """Logits, or hidden states where there are none, (B, n, d); a row that is longer is cut."""
        logits = getattr(output, "logits", None)
        states = hidden(output if logits is None else logits)
        if states is None or len(states) != batch or states.shape[1] < length:
            what = f"{self.name} gives {type(output).__name__ if states is None else tuple(states.shape)}"
            raise InputError(f"{what} for {batch} x {length} tokens; same_run needs (B, n, d), one for each token.")
        return states[:, :length].detach().cpu()

    def once(self, arguments: Any) -> Calls:
        """One call with ids, or with a dict of named arguments."""

        def moved(value: Any) -> Any:
            return value.to(self.device) if isinstance(value, Tensor) else value

        if isinstance(arguments, Mapping):
            return {0: partial(self.model, **{name: moved(value) for name, value in arguments.items()})}
        return {0: partial(self.call, self.model, moved(arguments))}

    def alone(self, ids: list[int], text: int = 0) -> Ran:
        """Run one text by itself."""
        return self.run([[(text, len(ids))]], self.once(torch.tensor([ids])))

    def with_cache(self, name: str, ids: Tensor, starts: Sequence[int], tokens: Tensor | None = None) -> Calls:
        """Calls of a function on parts of ids (B, n), each with the cache of the one before."""
        ids, cache, ends = ids.to(self.device), [None], [*starts[1:], ids.shape[1]]

        def call(start: int, end: int) -> Any:
            so_far = () if tokens is None else (tokens[:, :end].to(self.device),)
            output, cache[0] = self.functions[name](self.model, ids[:, start:end], *so_far, cache[0])
            return output

        return {start: partial(call, start, end) for start, end in zip(starts, ends, strict=True)}


def _packed(runner: Runner, documents: Documents) -> Runs:
    """All texts in one row; one text behind the same words in another order."""
    numbers = range(len(documents))
    if len(documents) == 1:
        documents, numbers = [[*documents[0][1:], documents[0][0]], documents[0]], [1, 0]
    row = [(number, len(ids)) for number, ids in zip(numbers, documents, strict=True)]
    yield [row], runner.once(runner.functions["pack"](documents))


def _padded(runner: Runner, documents: Documents, side: str, *, writes: bool = False) -> Runs:
    """All texts in a padded batch, with one that is two tokens longer if all lengths are equal; with `writes`, half of
    the shortest text is read token by token."""
    longest, shortest = max(documents, key=len), min(map(len, documents))
    if shortest == len(longest):
        documents = [*documents, [*longest, *(longest * 2)[:2]]]
    length = max(map(len, documents))
    rows = [[(PADDING, length - len(ids)), (number, len(ids))] for number, ids in enumerate(documents)]
    if writes:
        batch = with_padding(documents, side, runner.pad_id)
        starts = [0, *range(length - shortest // 2, length)]
        yield rows, runner.with_cache("write", batch["input_ids"], starts, batch["attention_mask"].bool())
    else:
        rows = [row[::-1] for row in rows] if side == "right" else rows
        yield rows, runner.once(runner.functions["pad"](documents, side))


def _stepped(runner: Runner, documents: Documents, *, in_chunks: bool = False) -> Runs:
    """Each text in about three chunks; or its first half, then token by token."""
    for number, ids in enumerate(documents):
        length = len(ids)
        starts = range(0, length, -(-length // 3)) if in_chunks else [0, *range(max(1, length // 2), length)]
        if length > 1:
            yield [[(number, length)]], runner.with_cache("step", torch.tensor([ids]), starts)


def _batched(runner: Runner, documents: Documents) -> Runs:
    """Each text first and last in a batch with another one of its length."""
    for number, ids in enumerate(documents):
        first, last = (number, OTHER), (OTHER, number)
        yield [[(text, len(ids))] for text in first], runner.once(torch.tensor([ids, [*ids[1:], ids[0]]]))
        yield [[(text, len(ids))] for text in last], runner.once(torch.tensor([ids[::-1], ids]))


OTHER = PADDING - 1
"""Number of a text that is only beside others."""
WAYS: dict[str, tuple[str, Callable[[Runner, Documents], Runs]]] = {
    "packed": ("pack", _packed),
    "left": ("pad", partial(_padded, side="left")),
    "right": ("pad", partial(_padded, side="right")),
    "cached": ("step", _stepped),
    "chunked": ("step", partial(_stepped, in_chunks=True)),
    "batched": ("", _batched),
    "written": ("write", partial(_padded, side="left", writes=True)),
}
"""Ways to run texts, beside running each alone: the function that each needs, and the rows and calls of each run."""
RUNS = tuple(WAYS)


def with_padding(documents: Documents, side: str, pad_id: int) -> dict[str, Tensor]:
    """Ids of a padded batch and its attention mask, 1 = token, (B, n)."""
    texts = [torch.tensor(ids) for ids in documents]
    ids = pad_sequence(texts, batch_first=True, padding_value=pad_id, padding_side=side)
    mask = pad_sequence([torch.ones_like(text) for text in texts], batch_first=True, padding_side=side)
    return {"input_ids": ids, "attention_mask": mask}


def transformers_runner(model: Any, name: str) -> Runner:
    """The ways in which transformers runs its models."""
    config, has_positions = model.config, "position_ids" in inspect.signature(model.forward).parameters
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{name} reads two texts; same_run compares models of one text.")
    uncached = {"use_cache": False} if hasattr(config, "use_cache") else {}
    pad_id = getattr(config, "pad_token_id", None)
    pad_id = pad_id if isinstance(pad_id, int) and pad_id >= 0 else 0

    def counted_from(tokens: Tensor) -> Tensor:
        return (tokens.cumsum(-1) - 1).clamp(min=0)

    def call(model: nn.Module, ids: Tensor) -> Any:
        return model(input_ids=ids, **uncached)

    def pack(documents: Documents) -> dict[str, Any]:
        if not has_positions:
            what = f"{type(model).__name__} takes no position_ids, by which packed texts are told apart."
            raise NotTriedError(what)
        ids = torch.tensor([[id for document in documents for id in document]])
        starts = torch.cat([torch.arange(len(document)) for document in documents])
        return {"input_ids": ids, "position_ids": starts[None], **uncached}

    def pad(documents: Documents, side: str) -> dict[str, Any]:
        padded = with_padding(documents, side, pad_id)
        positions = {"position_ids": counted_from(padded["attention_mask"])} if has_positions else {}
        return {**padded, **(positions if side == "left" else {}), **uncached}

    def step(model: nn.Module, ids: Tensor, cache: Any, **named: Any) -> tuple[Any, Any]:
        cached = {} if cache is None else {"past_key_values": cache}
        output = model(input_ids=ids, use_cache=True, **cached, **named)
        if getattr(output, "past_key_values", None) is None:
            raise NotTriedError(f"{type(model).__name__} gives no past_key_values.")
        return output, output.past_key_values

    def write(model: nn.Module, ids: Tensor, tokens: Tensor, cache: Any) -> tuple[Any, Any]:
        named = {"position_ids": counted_from(tokens)[:, -ids.shape[1] :]} if has_positions else {}
        return step(model, ids, cache, attention_mask=tokens.long(), **named)

    functions = {"pack": pack, "pad": pad, "step": step, "write": write}
    return Runner(model, name, call, functions, pad_id)


@dataclass(frozen=True, eq=False)
class _Alone:
    """Texts run alone, with which all other runs are compared; `bound` is that of `SameRun`."""

    runner: Runner
    documents: list[list[int]]
    runs: list[Ran]
    bound: float

    @classmethod
    def of(cls, runner: Runner, documents: list[list[int]]) -> "_Alone":
        """Run the texts alone, twice, and in float64 if the model can be copied; one in half precision in float32."""
        weights = [tensor for tensor in runner.model.parameters() if tensor.is_floating_point()]
        count, dtype = sum(tensor.numel() for tensor in weights), weights[0].dtype if weights else torch.float32
        if torch.finfo(dtype).bits < 32 and 4 * count <= CHEAP:
            with suppress(Exception):  # of quantized weights
                runner, dtype = replace(runner, model=deepcopy(runner.model).float()), torch.float32
        runs = [runner.alone(ids, number) for number, ids in enumerate(documents)]
        for number, ran in enumerate(runs):
            if bool((odd := ~ran.output[0].isfinite().all(-1)).any()):
                place = int(odd.nonzero()[0])
                raise NotFiniteError(f"Text {number + 1}, run alone, has an output at token {place} that is no number.")
        runner = replace(runner, sites=runs[0].passes[0][1].sites)
        bound = ROUNDINGS * torch.finfo(dtype).eps * max(1, len(runner.sites))
        if 8 * count <= CHEAP:
            with suppress(Exception):  # of code that makes float32 of its own, and of quantized weights
                exact = replace(runner, model=deepcopy(runner.model).double())
                pairs = ((exact.alone(ids).output[0], ran.output[0]) for ran, ids in zip(runs, documents, strict=True))
                bound = max(bound, tolerance(max(float(distance(*pair).max()) for pair in pairs), dtype))
        for ran, ids in zip(runs, documents, strict=True):
            if bool((distance(ran.output[0], runner.alone(ids).output[0]) > bound).any()):
                state = is_kept(lambda ids=ids: runner.alone(ids).output[0], bound)
                raise UnsteadyError(" ".join(state) if state else UNSTEADY)
        return cls(runner, documents, runs, bound)

    def result(self, run: str, own: Mapping[str, Callable[..., Any]]) -> RunResult:
        """The result of one way, maybe with a person's `own` function."""
        try:
            return self._compared(run, own)
        except AttnvizError as error:
            begin = "" if isinstance(error, NotTriedError) else "The model does not run in this way. It says: "
            return RunResult(run, False, "not tried", message=f"{begin}{error}")

    def _compared(self, run: str, own: Mapping[str, Callable[..., Any]]) -> RunResult:
        """The result of a way: its largest difference, and the cause of that of the first text that differs."""
        (needs, way), kinds = WAYS[run], {site.kind for site in self.runner.sites}
        runner = replace(self.runner, functions={**self.runner.functions, **own})
        if needs and needs not in runner.functions:
            raise NotTriedError(f"Give same_run(..., {needs}=...), a function that runs the model in this way.")
        if needs in ("step", "write") and max(map(len, self.documents)) < 2:
            raise NotTriedError("Each text has one token, so there is nothing to cache.")
        if needs in ("pack", "step", "write") and needs not in own and kinds == {"encoder"}:
            what = "sees later tokens: it has no cache, and packed texts need a mask of blocks"
            raise NotTriedError(f"{runner.name} {what}.")
        largest, wrong = 0.0, []
        for ran in [runner.run(*each) for each in way(runner, self.documents)]:
            for number, reference in enumerate(self.runs):
                for row, slots in ran.rows(number):
                    moved = distance(reference.output[0], ran.output[row, slots])
                    largest = max(largest, float(moved.max()))
                    if bool((far := moved > self.bound).any()):
                        wrong.append((number, ran, row, slots, int(far.nonzero()[0])))
        if not wrong:
            return RunResult(run, True, "rounding" if largest else "", difference=largest)
        number, ran, row, slots, place = min(wrong, key=itemgetter(0))

        def repeated(token: int, length: int) -> Ran:
            return runner.alone([self.documents[number][token]] * length)

        why = cause(ran, row, slots, self.runs[number], repeated, self.bound)
        noun = f"Document {ran.order(row, number)}" if run == "packed" else f"Text {number + 1}"
        message = f"{noun} {why.message.rstrip('.')}."
        return replace(why, run=run, position=place, text=number, difference=largest, message=message)


@dataclass(frozen=True)
class SameRun:
    """All ways in which the texts were run.

    Attributes:
        results: one for each way, in the order in which they were asked for.
        model: its name.
        tokens: number of tokens of each text.
        dtype: type of numbers in which they were run.
        bound: a larger difference is more than rounding: `attnviz.core.leaks.SAFETY` times what float64 changes, at
            least `ROUNDINGS` rounding errors for each layer.
    """

    results: tuple[RunResult, ...]
    model: str
    tokens: tuple[int, ...]
    dtype: str
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
            f"{self.model}: {texts}, each run alone and compared with other runs, in {self.dtype}.",
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
        """All fields, for `json.dumps`."""
        return {"ok": self.ok, **asdict(self), "results": [result.to_json() for result in self.results]}


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

    Arguments of a call are a tensor of ids, or a dict of named arguments; they are moved to the model's
    device. Calls hold the tokens of the texts in their order.

    Args:
        model: a model of transformers, or its Hub name or folder; a source made by `attnviz.wrap`; or any module that
            is called as model(ids), ids (B, n). It runs in evaluation mode.
        texts: strings, or lists of token ids, of several lengths; a window shows only in texts that are longer.
        runs: the ways: "packed" (all texts in one row, with restarting position_ids and no attention mask), "left" and
            "right" (a padded batch with its attention mask, on the left with position_ids as `generate` gives them),
            "cached" (the first half, then token by token with past_key_values), "chunked" (in about three chunks with a
            cache), "batched" (beside texts of its length), "written" (a batch padded on the left, then token by token
            with the cache, as `generate` does).
        pack: pack(documents) gives the arguments of a call on all documents, lists of ids, in one row.
        pad: pad(documents, side) gives the arguments of a call on a padded batch; side is "left" or "right".
        step: step(model, ids, cache) calls the model on the next ids, (1, m), and gives its output and its cache; the
            first cache is None.
        write: write(model, ids, tokens, cache) calls it on the next ids of a batch, (B, m), and gives the same; tokens,
            (B, n), are False at the padding among all ids so far.
        tokenizer: of strings: a function to ids, or a tokenizer with `encode`.

    Raises:
        InputError: if a text has no tokens, a way is not known, or the model cannot be run on a text alone.
        UnsteadyError: if two runs of one text differ.
        NotFiniteError: if the output of a text alone is no number.
    """
    runs = [runs] if isinstance(runs, str) else list(dict.fromkeys(runs))
    if unknown := [run for run in runs if run not in RUNS]:
        raise InputError(f"There is no run {quoted(unknown[0])}. There is: {', '.join(RUNS)}.")
    runner, tokenize = _runner(model, tokenizer)
    functions = {"pack": pack, "pad": pad, "step": step, "write": write}
    own = {name: function for name, function in functions.items() if function}
    with torch.random.fork_rng([runner.device] if runner.device.type == "cuda" else []):
        base = _Alone.of(runner, _documents(texts, tokenize))
        results = tuple(base.result(run, own) for run in runs)
    dtype = str(base.runs[0].output.dtype).removeprefix("torch.")
    return SameRun(results, runner.name, tuple(map(len, base.documents)), dtype, base.bound)


def _runner(model: Any, tokenizer: Any) -> tuple[Runner, Any]:
    """The ways to run a model, and its tokenizer."""
    source = api.load(model) if isinstance(model, str) else model
    if isinstance(source, Wrapped) and not source.writes:
        code, pad = source.code, source.code.pad
        functions = {} if pad is None else {"pad": lambda ids, side: with_padding(ids, side, pad)["input_ids"]}
        return Runner(code.model, source.name, code.call, functions, pad or 0), tokenizer or code.tokenize
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
