"""The same answer however a model is run: alone, packed, padded, with a cache, in chunks, beside other texts.

test = attnviz.same_run(model, ["the cat sat", "on the mat"], tokenizer=tokenizer)
print(*test.lines(), sep="\\n")
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnviz import api
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError, quoted
from attnviz.core.leaks import ROUNDINGS, distance, tolerance
from attnviz.same import causes, ways
from attnviz.same.results import RUNS, RunResult, SameRun
from attnviz.same.ways import Documents, NotTriedError, Ran, Runner
from attnviz.sources.base import HUGGING_FACE, Source
from attnviz.sources.own_code import errors_said, in_evaluation, lock_of
from attnviz.sources.own_tokens import ids_of
from attnviz.sources.wrapped import Wrapped

CHEAP = 2**30
"""Bytes that a copy of a model may take."""
TITLES = {
    "packed": "Packed",
    "left": "Padded on the left",
    "right": "Padded on the right",
    "cached": "With a cache, token by token",
    "chunked": "With a cache, in chunks",
    "batched": "Beside other texts",
}
"""Beginnings of the sentence on each way."""
POSITIONS = {
    "packed": "Restart the positions at each document.",
    "left": "Count positions from the first real token: (attention_mask.cumsum(-1) - 1).clamp(min=0).",
    "cached": "Count positions on from the number of tokens in the cache.",
    "chunked": "Count positions on from the number of tokens in the cache.",
}
"""Remedies of wrong positions."""
GIVE = {
    "packed": "same_run(..., pack=...), a function from a list of lists of ids to the arguments of the model's call",
    "left": "same_run(..., pad=...), a function from a list of lists of ids and a side to the arguments of its call",
    "cached": "same_run(..., step=...), a function from the model, ids (1, m) and a cache to its output and its cache",
}
GIVE |= {"right": GIVE["left"], "chunked": GIVE["cached"]}
NEEDS = {"packed": "pack", "left": "pad", "right": "pad", "cached": "step", "chunked": "step"}
"""Functions that ways need."""


def same_run(
    model: nn.Module | Source | str,
    texts: Sequence[str | Sequence[int]],
    runs: Sequence[str] = RUNS,
    *,
    pack: Callable[[Documents], Any] | None = None,
    pad: Callable[[Documents, str], Any] | None = None,
    step: Callable[[nn.Module, Tensor, Any], tuple[Any, Any]] | None = None,
    tokenizer: Any = None,
) -> SameRun:
    """Run each text alone and in other ways, compare the outputs of its tokens, and say why they differ.

    Arguments of a call are a tensor, a tuple, or a dict of named arguments; they are moved to the model's device. What
    `pack`, `pad` and `step` give holds the tokens of the texts in their order.

    Args:
        model: a model of transformers, or its Hub name or folder; a source made by `attnviz.wrap`; or any module that
            is called as model(ids), ids (B, n). A module runs in the mode that it is in, a source in evaluation.
        texts: strings, or lists of token ids; two or more of several lengths show most. A window shows only in texts
            that are longer.
        runs: the ways: "packed" (all texts in one row, with restarting position_ids and no attention mask), "left" and
            "right" (a padded batch with its attention mask), "cached" (the first half, then token by token with
            past_key_values), "chunked" (in about three chunks with a cache), "batched" (beside texts of its length).
        pack: pack(documents) gives the arguments of a call on all documents, lists of ids, in one row.
        pad: pad(documents, side) gives the arguments of a call on a padded batch; side is "left" or "right".
        step: step(model, ids, cache) calls the model on the next ids, (1, m), and gives its output and its cache; the
            first cache is None.
        tokenizer: of strings: a function to ids, or a tokenizer with `encode`.

    Raises:
        InputError: if a text has no tokens, a way is not known, or the model cannot be run on a text alone.
        NotFiniteError: if the output of a text alone is no number.
    """
    runs = [runs] if isinstance(runs, str) else list(dict.fromkeys(runs))
    if unknown := [run for run in runs if run not in RUNS]:
        raise InputError(f"There is no run {quoted(unknown[0])}. There is: {', '.join(RUNS)}.")
    runner, tokenize = _runner(model, tokenizer)
    given = {"pack": pack, "pad": pad, "step": step}
    with torch.random.fork_rng([runner.device] if runner.device.type == "cuda" else []):
        base = _alone(runner, _documents(texts, tokenize))
        runner = _causal(base) if runner.is_transformers else base.runner
        runner = replace(runner, **{name: function for name, function in given.items() if function})
        why_not = {run: why for run, why in runner.why_not.items() if not given.get(NEEDS[run])}
        base = replace(base, runner=replace(runner, why_not=why_not))
        plain = {run for run in runs if base.runner.is_transformers and not given.get(NEEDS.get(run))}
        results = tuple(_result(base, run, run in plain) for run in runs)
    names = (str(dtype).removeprefix("torch.") for dtype in (base.reference_dtype, base.dtype))
    return SameRun(results, runner.name, tuple(map(len, base.documents)), *names, base.noise, base.bound)


@dataclass(frozen=True, eq=False)
class Alone:
    """Texts run alone, with which all other runs are compared.

    Attributes:
        runner: the model and its ways.
        documents: ids of each text.
        runs, again: each text alone, twice.
        is_steady: whether two identical runs give the same.
        dtype: the type of numbers of all runs but the reference.
        reference: (1, n, d) for each text, and its type of numbers.
        noise, bound: see `SameRun`.
    """

    runner: Runner
    documents: list[list[int]]
    runs: list[Ran]
    again: list[Ran]
    dtype: torch.dtype
    reference: list[Tensor]
    reference_dtype: torch.dtype
    noise: float
    bound: float
    is_steady: bool


def _alone(runner: Runner, documents: list[list[int]]) -> Alone:
    """Run the texts alone: twice, and in float64 if the model can be copied.

    Raises:
        InputError: if the model cannot be run on a text.
        NotFiniteError: if an output is no number.
    """
    weights = [tensor for tensor in runner.model.parameters() if tensor.is_floating_point()]
    count, dtype = sum(tensor.numel() for tensor in weights), weights[0].dtype if weights else torch.float32
    if torch.finfo(dtype).bits < 32 and 4 * count <= CHEAP and (copy := _copied(runner, torch.float32)):
        runner, dtype = copy, torch.float32
    runs = [ways.alone(runner, ids, number) for number, ids in enumerate(documents)]
    runner = replace(runner, sites=runs[0].passes[0][1].sites)
    for number, ran in enumerate(runs):
        if bool((odd := ~ran.output[0].isfinite().all(-1)).any()):
            place = int(odd.nonzero()[0])
            raise NotFiniteError(f"Text {number + 1}, run alone, has an output at token {place} that is no number.")
    again = [ways.alone(runner, ids, number) for number, ids in enumerate(documents)]
    reference = [ran.output for ran in runs]
    bound = ROUNDINGS * torch.finfo(dtype).eps * max(1, len(runner.sites))
    is_steady = _largest(reference, [ran.output for ran in again]) <= bound
    base = Alone(runner, documents, runs, again, dtype, reference, dtype, math.nan, bound, is_steady)
    exact = _copied(runner, torch.float64) if is_steady and 8 * count <= CHEAP else None
    if exact is None:
        return base
    try:
        exact_outputs = [ways.alone(exact, ids).output for ids in documents]
        noise = _largest(exact_outputs, reference)
        bound = tolerance(noise, dtype)
    except AttnvizError:  # code that makes float32 of its own, or rounding that moves everything
        return base
    return replace(base, reference=exact_outputs, reference_dtype=torch.float64, noise=noise, bound=bound)


def _largest(before: list[Tensor], after: list[Tensor]) -> float:
    """The largest distance of outputs of the same texts."""
    return max(float(distance(*pair).max()) for pair in zip(before, after, strict=True))


def _result(base: Alone, run: str, is_plain: bool) -> RunResult:
    """The result of one way; a plain call of transformers that differs is tried with more arguments."""
    if not base.is_steady:
        return _dropout(base, run)
    if why_not := _why_not(base.runner, run):
        return RunResult(run, False, "not tried", message=why_not)
    try:
        result = _compared(base, run, _run(base, run))
    except NotTriedError as error:
        return RunResult(run, False, "not tried", message=str(error))
    except AttnvizError as error:
        message = f"{TITLES[run]}: the model cannot be run. {error}"
        return RunResult(run, False, "other", difference=math.inf, bound=base.bound, message=message)
    return _with_more(base, result) if is_plain and not result.same else result


def _why_not(runner: Runner, run: str) -> str:
    """Why a way cannot be tried; "" if it can."""
    if run == "batched":
        return ""
    if run in runner.why_not:
        return runner.why_not[run]
    if run in ("left", "right"):
        has = runner.pad is not None or runner.pad_id is not None
    else:
        has = (runner.pack if run == "packed" else runner.step) is not None
    return "" if has else f"Give {GIVE[run]}."


def _run(base: Alone, run: str, **other: Any) -> list[Ran]:
    if run in ("left", "right"):
        return ways.padded(base.runner, base.documents, run, **other)
    return getattr(ways, run)(base.runner, base.documents, **other)


def _compared(base: Alone, run: str, rans: list[Ran]) -> RunResult:
    """The result of a way: its largest difference, and the cause of that of the first text that differs."""
    largest, wrong = 0.0, None
    for number, reference in enumerate(base.reference):
        for ran in rans:
            for row, slots in ran.rows(number):
                moved = distance(reference[0], ran.output[row, slots])
                largest = max(largest, float(moved.max()))
                if wrong is None and bool((moved > base.bound).any()):
                    wrong = number, ran, row, slots, int((moved > base.bound).nonzero()[0])
    if wrong is None:
        return RunResult(run, True, "rounding" if largest else "", difference=largest, bound=base.bound)
    number, ran, row, slots, place = wrong
    why = causes.cause(ran, row, slots, base.runs[number], base.documents[number], base.runner, base.bound)
    noun = f"document {ran.order(row, number)}" if run == "packed" else f"text {number + 1}"
    fix = POSITIONS.get(run, why.fix) if why.name == "positions" and not why.fix else why.fix
    if run == "left" and "packed" in base.runner.why_not and why.name == "positions":
        fix = "It takes no position_ids, so pad on the right."
    message = f"{TITLES[run]}: {noun} {why.message.rstrip('.')}."
    return RunResult(run, False, why.name, why.layer, place, number, largest, base.bound, message, fix)


def _with_more(base: Alone, result: RunResult) -> RunResult:
    """The result of a model of transformers with arguments that its plain call lacks: positions for padding on the
    left, as `generate` gives them; for packed texts a mask of blocks, which nobody gives them but the caller."""
    runner, run = base.runner, result.run
    more = {
        "left": {"pad": lambda documents, side: ways.with_positions(runner.pad(documents, side))},
        "packed": {"pack": lambda documents: ways.with_block_mask(runner.pack(documents), documents, base.dtype)},
    }
    if run not in more:
        return result
    try:
        other = _compared(base, run, _run(base, run, **more[run]))
    except AttnvizError:
        return result
    if not other.same:
        return result
    if run == "packed":
        fix = "Pass a causal mask of blocks, (1, 1, n, n), beside position_ids: with it, the outputs are the same."
        return replace(result, fix=fix)
    message = (
        "The same with position_ids that count from the first real token; a call without them gives other outputs."
    )
    return replace(other, message=message, fix=f"Pass position_ids, as generate() does. {POSITIONS['left']}")


def _dropout(base: Alone, run: str) -> RunResult:
    """The result of every way where two identical runs differ."""
    pairs = zip(base.runs, base.again, strict=True)
    moves = [distance(first.output[0], second.output[0]) for first, second in pairs]
    number = next(number for number, moved in enumerate(moves) if bool((moved > base.bound).any()))
    first, second, ids = base.runs[number], base.again[number], base.documents[number]
    why = causes.cause(second, 0, torch.arange(len(ids)), first, ids, base.runner, base.bound)
    is_training = any(module.training for module in base.runner.model.modules())
    message = "Two runs of one text alone differ, so nothing can be compared: "
    message += "the model is in training mode." if is_training else "there is dropout in evaluation, or other chance."
    fix = "Call model.eval()." if is_training else "Pass training=self.training to F.dropout, or use nn.Dropout."
    place, largest = int((moves[number] > base.bound).nonzero()[0]), max(float(moved.max()) for moved in moves)
    return RunResult(run, False, "dropout", why.layer, place, number, largest, base.bound, message, fix)


def _causal(base: Alone) -> Runner:
    """The ways without those that only a causal model has, if this one sees later tokens."""
    longest = max(base.runs, key=lambda ran: ran.text.shape[1])
    try:
        ahead = any(bool(layer.may_attend.triu(1).any()) for layer in causes.layers(longest, 0).values())
    except AttnvizError:  # no attention that could tell
        ahead = False
    if not ahead:
        return base.runner
    why_not = f"{base.runner.name} sees later tokens: it has no cache, and packed texts need a mask of blocks."
    return replace(base.runner, why_not=dict.fromkeys(("packed", "cached", "chunked"), why_not))


def _copied(runner: Runner, dtype: torch.dtype) -> Runner | None:
    """The same on a copy of the model with other numbers; None if it cannot be copied."""
    try:
        return replace(runner, model=deepcopy(runner.model).to(dtype))
    except Exception:  # of a person's code, or of quantized weights
        return None


def _runner(model: Any, tokenizer: Any) -> tuple[Runner, Any]:
    """The ways to run a model, and what makes ids of its texts.

    Raises:
        InputError: if it is no model, or one that cannot be run in several ways.
    """
    source = api.load(model) if isinstance(model, str) else model
    if isinstance(source, Wrapped):
        if source.writes:
            raise InputError(f"{source.name} reads two texts; same_run compares models of one text.")
        code = source.code
        runner = Runner(code.model, source.name, code.call, running=_in_turn, pad_id=code.pad)
        return runner, tokenizer or code.tokenize
    if isinstance(source, Source) and source.facts and source.provenance in HUGGING_FACE:
        loaded, copy = source.loaded, deepcopy(source.loaded.model)
        if not loaded.keeps_own_attention:  # then it is that of attnviz, which needs a tap
            try:
                copy.set_attn_implementation("sdpa")
            except (ValueError, ImportError):
                copy.set_attn_implementation("eager")
        tokenizer = tokenizer or (lambda text: [token.id for token in source.tokenize([text])[0].tokens])
        return ways.transformers_runner(copy, source.name), tokenizer
    if isinstance(source, Source):
        what = f"'{source.name}' is run by attnviz in one way alone"
        raise InputError(f"{what}. Give a model of transformers, attnviz.wrap(...), or a torch.nn.Module.")
    if not isinstance(source, nn.Module):
        raise InputError(f"{quoted(source)} is no model; give a torch.nn.Module, a source, or a name.")
    name = type(source).__name__
    if hasattr(source, "config") and hasattr(source, "base_model_prefix"):
        return ways.transformers_runner(source, name), tokenizer
    return Runner(source, name, lambda model, ids: model(ids)), tokenizer


@contextmanager
def _in_turn(model: nn.Module) -> Iterator[None]:
    """Meanwhile the model runs here alone, in evaluation, as a source does."""
    with lock_of(model), in_evaluation(model):
        yield


def _documents(texts: Any, tokenize: Any) -> list[list[int]]:
    """Ids of each text.

    Raises:
        InputError: if there is none, or one has no tokens, or there is no tokenizer for a string.
    """
    documents = []
    for text in [texts] if isinstance(texts, str) else texts:
        if isinstance(text, str) and tokenize is None:
            raise InputError(f"{quoted(text)} is a string: give same_run(..., tokenizer=...), or lists of ids.")
        if isinstance(text, str):
            with errors_said():
                text = getattr(tokenize, "encode", tokenize)(text)
        documents.append(ids_of(text)[0])
    if not documents or not all(documents):
        raise InputError("There is no text to run, or one without tokens; give strings or lists of token ids.")
    return documents
