"""Compare ways to run texts: alone, packed, padded, with a cache, in chunks, or beside other texts.

test = attnviz.same_run(model, ["the cat sat", "on the mat"], tokenizer=tokenizer)
print(*test.lines(), sep="\n")
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnviz import api
from attnviz.capturing import capture
from attnviz.capturing.seen import hidden_states
from attnviz.check.causes import OTHER, PADDING, TextRun, cause, first_true
from attnviz.check.leaks import ROUNDINGS, distance, tolerance
from attnviz.check.moves import RunResult, why_unsteady
from attnviz.core.amounts import counted, percent, rounding
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError, UnsteadyError, quoted
from attnviz.sources.base import HUGGING_FACE, Source
from attnviz.sources.own_code import LOCK, errors_said, in_evaluation
from attnviz.sources.wrapped import Wrapped, ids_of

NEEDS = {"packed": {"documents"}, "left": {"tokens"}, "right": {"tokens"}, "cached": {"cache"}, "chunked": {"cache"}}
NEEDS |= {"batched": set(), "written": {"tokens", "cache"}}
"""Arguments that the call of a model must take, for each way to run texts."""
RUNS = tuple(NEEDS)
CAUSES = ("", "rounding", "mask", "positions", "cache", "window", "scores", "other", "not tried")
"""Causes of a `RunResult`: the first two mean equal outputs, the last means no outputs."""
CHEAP = 2**30
"""Maximum size in bytes of a copy of the model, which is run in another number type."""


class NotTriedError(AttnvizError):
    """A way to run texts that cannot be tried; the message gives the reason."""


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
        texts: strings or lists of token ids, best with different lengths; a window shows only in longer texts.
        runs: ways to run the texts: "packed" (all texts in one row), "left" and "right" (a batch padded on that side),
            "cached" (the first half, then token by token with a cache), "chunked" (about three chunks with a cache),
            "batched" (beside a text of the same length), "written" (a batch padded on the left, then token by token, as
            in `generate`).
        call: function of the model and ids (B, m) that returns the output; by default model(ids), or the function of
            `attnviz.wrap`. Its keyword arguments, as far as it takes them: tokens (B, n), False at padding, for all ids
            so far; positions (B, m) within each text, for packed rows and left padding; documents (B, m), the number of
            the text at each id of a packed row; cache, None in the first call. With a cache, it returns the output and
            the cache for the next call.
        tokenizer: tokenizer for strings: a function that returns ids, or an object with `encode`.

    Raises:
        InputError: if a text has no tokens, a way is unknown, or the model cannot run on a text alone.
        UnsteadyError: if two runs of one text differ.
        NotFiniteError: if the output for a text alone is not finite.
    """
    runs = [runs] if isinstance(runs, str) else list(dict.fromkeys(runs))
    if unknown := [run for run in runs if run not in RUNS]:
        raise InputError(f"There is no run {quoted(unknown[0])}. There are: {', '.join(RUNS)}.")
    runner, own_tokenizer = _runner(model, call)
    texts, tokenizer = [texts] if isinstance(texts, str) else texts, tokenizer or own_tokenizer
    if tokenizer is None and (strings := [text for text in texts if isinstance(text, str)]):
        raise InputError(f"{quoted(strings[0])} is a string: give same_run(..., tokenizer=...), or lists of ids.")
    encode = getattr(tokenizer, "encode", tokenizer)
    with errors_said():
        lists = [ids_of(encode(text) if isinstance(text, str) else text) for text in texts]
    if not lists or not all(lists):
        raise InputError("There is no text, or a text without tokens; give strings or lists of token ids.")
    documents = [torch.tensor(ids) for ids in lists]
    device = next(runner.model.parameters(), torch.zeros(())).device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        runner, alone = _run_alone(runner, documents)
        results = tuple(_result(run, runner, documents, alone) for run in runs)
    dtype = str(alone[0].output.dtype).removeprefix("torch.")
    return SameRun(results, runner.name, tuple(map(len, documents)), dtype, runner.bound)


def transformers_call(model: nn.Module, ids: Tensor, **arguments: Any) -> Any:
    """Call a model of transformers as its `generate` does; packed texts are separated by position_ids only."""
    has_positions = "position_ids" in inspect.signature(model.forward).parameters
    if "documents" in arguments and not has_positions:
        raise NotTriedError(f"{type(model).__name__} takes no position_ids, which would separate packed texts.")
    named = {"use_cache": "cache" in arguments} if "cache" in arguments or hasattr(model.config, "use_cache") else {}
    if "tokens" in arguments:
        named["attention_mask"] = arguments["tokens"].long()
    if "positions" in arguments and has_positions:
        named["position_ids"] = arguments["positions"]
    if arguments.get("cache") is not None:
        named["past_key_values"] = arguments["cache"]
    output = model(input_ids=ids, **named)
    if "cache" not in arguments:
        return output
    if getattr(output, "past_key_values", None) is None:
        raise NotTriedError(f"{type(model).__name__} gives no past_key_values.")
    return output, output.past_key_values


def _runner(model: Any, call: Callable[..., Any] | None) -> tuple["Runner", Any]:
    """Make the runner for a model; also return its tokenizer, if it has one."""
    source, tokenize = api.load(model) if isinstance(model, str) else model, None
    name = source.name if isinstance(source, Source) else type(source).__name__
    if isinstance(source, Wrapped) and not source.writes:
        code = source.code
        return Runner(code.model, name, call or code.call, code.pad), code.tokenize
    if isinstance(source, Source) and source.facts and source.provenance in HUGGING_FACE:
        loaded, tokenize, source = source.loaded, partial(_ids_of, source), deepcopy(source.loaded.model)
        if not loaded.trial.is_captured:  # the attention of attnviz needs a tap
            try:
                source.set_attn_implementation("sdpa")
            except (ValueError, ImportError):
                source.set_attn_implementation("eager")
    is_pair = getattr(source, "writes", False) or getattr(getattr(source, "config", None), "is_encoder_decoder", False)
    if isinstance(source, Source) or not isinstance(source, nn.Module) or is_pair:
        problem = "reads two texts" if is_pair else "cannot be run in several ways"
        raise InputError(f"{quoted(name)} {problem}; give a model of transformers, attnviz.wrap(...), or a module.")
    if call is not None or not (hasattr(source, "config") and hasattr(source, "base_model_prefix")):
        return Runner(source, name, call or (lambda model, ids: model(ids))), tokenize
    pad = getattr(source.config, "pad_token_id", None)
    return Runner(source, name, transformers_call, pad if isinstance(pad, int) and pad >= 0 else 0), tokenize


def _ids_of(source: Source, text: str) -> list[int]:
    """Cut a text into tokens and return their ids."""
    return [token.id for token in source.tokenize([text])[0].tokens]


@dataclass(frozen=True, eq=False)
class Runner:
    """A model with the function that calls it.

    Attributes:
        call: see `same_run`.
        pad: id of padding; None if only the argument `tokens` marks padding.
        sites: sites of the attention calls with the names of their modules, once known.
        bound: see `SameRun`.
    """

    model: nn.Module
    name: str
    call: Callable[..., Any]
    pad: int | None = None
    sites: dict[Site, str] | None = None
    bound: float = 0.0

    def takes(self, name: str) -> bool:
        """Whether the call takes an argument with this name."""
        parameters = inspect.signature(self.call).parameters.values()
        return any(parameter.name == name or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    def run(
        self, text: Tensor, ids: Tensor, starts: Sequence[int] = (0,), is_cached: bool = False, **tensors: Tensor
    ) -> TextRun:
        """Run the model on ids (B, S), one forward pass per part between two `starts`, and capture its attention.

        Raises:
            InputError: if the code of the model raises an error, or its output does not have one vector per token.
        """
        outputs, passes, device = [], [], next(self.model.parameters(), ids).device
        tensors = {name: tensor.to(device) for name, tensor in tensors.items() if self.takes(name)}
        cache = {"cache": None} if is_cached else {}
        with LOCK, in_evaluation(self.model), torch.no_grad(), errors_said():
            for start, end in pairwise([*starts, ids.shape[1]]):
                part = {name: x[:, 0 if name == "tokens" else start : end] for name, x in tensors.items()}
                with capture(self.model, sites=self.sites) as captured:
                    output = self.call(self.model, ids[:, start:end].to(device), **part, **cache)
                if is_cached and not (isinstance(output, tuple) and len(output) == 2):
                    raise NotTriedError("Its call returns no cache with the output.")
                if is_cached:
                    output, cache["cache"] = output
                states = hidden_states(getattr(output, "logits", output))
                if states is None or len(states) != len(ids) or states.shape[1] < end - start:
                    result = type(output).__name__ if states is None else tuple(states.shape)
                    needs = f"{len(ids)} x {end - start} tokens; same_run needs (B, n, d), one for each token"
                    raise InputError(f"{self.name} gives {result} for {needs}.")
                outputs.append(states[:, : end - start].detach().cpu())
                passes.append((start, captured))
        return TextRun(text, torch.cat(outputs, 1), tuple(passes))

    def alone(self, ids: Tensor, text: int = 0) -> TextRun:
        """Run one text alone."""
        return self.run(torch.full((1, len(ids)), text), ids[None])

    def runs(self, way: str, documents: Sequence[Tensor]) -> Iterator[TextRun]:
        """Run texts in one way; see `same_run`.

        A single text is packed after its own tokens in another order. If all lengths are equal, a padded batch also has
        a text that is two tokens longer; "written" reads half of the shortest text token by token.

        Raises:
            NotTriedError: if the model does not support this way, or there is nothing to try.
        """
        unneeded = set() if self.pad is None else {"tokens"}  # the model recognizes padding by its id
        if missing := sorted(name for name in NEEDS[way] - unneeded if not self.takes(name)):
            raise NotTriedError(f"The call of the model takes no {missing[0]}; give call=, a function that does.")
        if "cache" in NEEDS[way] and max(map(len, documents)) < 2:
            raise NotTriedError("Each text has one token, so there is nothing to cache.")
        is_encoder = self.call is transformers_call and {site.kind for site in self.sites} == {"encoder"}
        if is_encoder and NEEDS[way] & {"cache", "documents"}:
            reason = "sees later tokens: it has no cache, and packed texts need a mask of blocks"
            raise NotTriedError(f"{self.name} {reason}.")
        if way == "packed":
            numbers = list(range(len(documents)))
            if len(documents) == 1:
                documents, numbers = [documents[0].roll(-1), documents[0]], [1, 0]
            text = torch.cat([torch.full_like(ids, n) for n, ids in zip(numbers, documents, strict=True)])[None]
            positions = torch.cat([torch.arange(len(ids)) for ids in documents])[None]
            yield self.run(text, torch.cat([*documents])[None], documents=text, positions=positions)
        if way in ("left", "right", "written"):
            shortest, longest = min(map(len, documents)), max(documents, key=len)
            if shortest == len(longest):
                documents = [*documents, torch.cat([longest, longest.repeat(2)[:2]])]
            side = {"batch_first": True, "padding_side": "right" if way == "right" else "left"}
            ids = pad_sequence([*documents], padding_value=self.pad or 0, **side)
            tokens = pad_sequence([torch.ones_like(ids) for ids in documents], **side).bool()
            text = torch.arange(len(documents))[:, None].where(tokens, PADDING)
            positions = {} if way == "right" else {"positions": (tokens.cumsum(-1) - 1).clamp(min=0)}
            parts = range(ids.shape[1] - shortest // 2, ids.shape[1]) if way == "written" else ()
            yield self.run(text, ids, [0, *parts], way == "written", tokens=tokens, **positions)
        for number, ids in enumerate(documents) if way in ("cached", "chunked", "batched") else ():
            text, length = torch.full_like(ids, number), len(ids)
            if way == "batched":
                texts, batch = torch.stack([text, torch.full_like(ids, OTHER)]), torch.stack([ids, ids.roll(-1)])
                yield self.run(texts, batch)
                yield self.run(texts.flip(0), batch.flip(0))
            elif length > 1:
                starts = [0, *range(max(1, length // 2), length)]
                starts = range(0, length, -(-length // 3)) if way == "chunked" else starts
                yield self.run(text[None], ids[None], starts, True)


def _run_alone(runner: Runner, documents: list[Tensor]) -> tuple[Runner, list[TextRun]]:
    """Run each text alone twice, and once in float64 if the model can be copied; half precision becomes float32 first.
    Return the runner with `sites` and `bound`, and the first run of each text.
    """
    weights = [tensor for tensor in runner.model.parameters() if tensor.is_floating_point()]
    count, dtype = sum(tensor.numel() for tensor in weights), weights[0].dtype if weights else torch.float32
    if torch.finfo(dtype).bits < 32 and 4 * count <= CHEAP:
        with suppress(Exception):  # quantized weights cannot be converted
            runner, dtype = replace(runner, model=deepcopy(runner.model).float()), torch.float32
    alone = [runner.alone(ids, number) for number, ids in enumerate(documents)]
    for number, ran in enumerate(alone):
        if bool((not_finite := ~ran.output[0].isfinite().all(-1)).any()):
            token = f"output at token {first_true(not_finite)}"
            raise NotFiniteError(f"Text {number + 1}, run alone, has an {token} that is not a number.")
    sites = alone[0].passes[0][1].sites
    bound = ROUNDINGS * torch.finfo(dtype).eps * max(1, len(sites))
    both = list(zip(documents, alone, strict=True))
    if 8 * count <= CHEAP:
        with suppress(Exception):  # code may create float32 itself
            exact = replace(runner, model=deepcopy(runner.model).double(), sites=sites)
            noise = max(float(distance(exact.alone(ids).output[0], ran.output[0]).max()) for ids, ran in both)
            bound = max(bound, tolerance(noise, dtype))
    runner = replace(runner, sites=sites, bound=bound)
    for ids, ran in both:
        if bool((distance(ran.output[0], runner.alone(ids).output[0]) > bound).any()):
            state = why_unsteady(lambda ids=ids: runner.alone(ids).output[0], bound)
            remedy = "Pass training=self.training to F.dropout, or use nn.Dropout."
            chance = "Two runs of one text alone differ, so nothing can be compared: there is dropout in evaluation, or"
            raise UnsteadyError(" ".join(state) if state else f"{chance} chance. {remedy}")
    return runner, alone


def _result(run: str, runner: Runner, documents: list[Tensor], alone: list[TextRun]) -> RunResult:
    """Run one way and report its largest difference, with the cause for the first text that differs."""
    largest, wrong = 0.0, []
    try:
        for ran in runner.runs(run, documents):
            for number, reference in enumerate(alone):
                for row in (ran.text == number).any(1).nonzero().flatten().tolist():
                    slots = (ran.text[row] == number).nonzero().flatten()
                    moved = distance(reference.output[0], ran.output[row, slots])
                    largest = max(largest, float(moved.max()))
                    if bool((differs := moved > runner.bound).any()):
                        wrong.append((number, ran, row, slots, first_true(differs)))
        if not wrong:
            return RunResult(run, "rounding" if largest else "", difference=largest)
        number, ran, row, slots, position = min(wrong, key=itemgetter(0))
        result = cause(ran, row, slots, alone[number], documents[number], runner.alone, 10 * runner.bound)
    except AttnvizError as error:
        prefix = "" if isinstance(error, NotTriedError) else "The model fails when it is run this way: "
        return RunResult(run, "not tried", f"{prefix}{error}")
    order = list(dict.fromkeys(ran.text[row].tolist()))  # documents are counted in their row
    noun = f"Document {order.index(number) + 1}" if run == "packed" else f"Text {number + 1}"
    message = f"{noun} {result.message.rstrip('.')}."
    return replace(result, run=run, position=position, text=number, difference=largest, message=message)
