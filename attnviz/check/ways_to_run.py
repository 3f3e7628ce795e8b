"""Run texts with a model in several ways: alone, packed, padded, with a cache, in chunks, or beside other texts."""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attnviz import api
from attnviz.capturing import Capture, capture
from attnviz.capturing.captured import hidden_states
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.sources.base import HUGGING_FACE, Source
from attnviz.sources.own_code import LOCK, errors_said, in_evaluation
from attnviz.sources.wrapped import Wrapped

NEEDS = {"packed": {"documents"}, "left": {"tokens"}, "right": {"tokens"}, "cached": {"cache"}, "chunked": {"cache"}}
NEEDS |= {"batched": set(), "written": {"tokens", "cache"}}
"""Arguments that the call of a model must take, for each way to run texts."""
RUNS = tuple(NEEDS)
PADDING, OTHER = -1, -2
"""Text numbers for padding, and for a text that only fills the batch."""


class NotTriedError(AttnvizError):
    """A way to run texts that cannot be tried; the message gives the reason."""


@dataclass(frozen=True, eq=False)
class TextRun:
    """Outputs and attention of a batch of rows, each with one or several texts, over all forward passes."""

    text: Tensor  # index of the text in each slot (column) of a row, or `PADDING`, (B, S)
    output: Tensor  # outputs, (B, S, d)
    passes: tuple[tuple[int, Capture], ...]  # first slot and captured attention of each forward pass


def transformers_call(model: nn.Module, ids: Tensor, **arguments: Any) -> Any:
    """Call a model of transformers with the arguments of `call` in `same_run`, under the names of transformers. Return
    the output; if `cache` is given, also the new cache. Packed texts are separated by position_ids only."""
    has_positions = "position_ids" in inspect.signature(model.forward).parameters
    if "documents" in arguments and not has_positions:
        raise NotTriedError(f"{type(model).__name__} takes no position_ids, which would separate packed texts.")
    options = {}
    if "cache" in arguments or hasattr(model.config, "use_cache"):
        options["use_cache"] = "cache" in arguments
    if "tokens" in arguments:
        options["attention_mask"] = arguments["tokens"].long()
    if "positions" in arguments and has_positions:
        options["position_ids"] = arguments["positions"]
    if arguments.get("cache") is not None:
        options["past_key_values"] = arguments["cache"]
    output = model(input_ids=ids, **options)
    if "cache" not in arguments:
        return output
    if getattr(output, "past_key_values", None) is None:
        raise NotTriedError(f"{type(model).__name__} gives no past_key_values.")
    return output, output.past_key_values


def make_runner(model: nn.Module | Source | str, call: Callable[..., Any] | None) -> tuple["Runner", Any]:
    """Make the runner for a model, with its `call`; also return its tokenizer, if it has one."""
    source, tokenize = api.load(model) if isinstance(model, str) else model, None
    name = source.name if isinstance(source, Source) else type(source).__name__
    if isinstance(source, Wrapped) and not source.writes:
        code = source.code
        return Runner(code.model, name, call or code.call, code.pad), code.tokenize
    module = source
    if isinstance(source, Source) and source.facts and source.provenance in HUGGING_FACE:
        module, tokenize = deepcopy(source.loaded.model), partial(_ids_of, source)
        if not source.loaded.trial.is_captured:  # the attention of attnviz needs a tap
            try:
                module.set_attn_implementation("sdpa")
            except (ValueError, ImportError):
                module.set_attn_implementation("eager")
    config = getattr(module, "config", None)
    is_pair = getattr(module, "writes", False) or getattr(config, "is_encoder_decoder", False)
    if isinstance(module, Source) or not isinstance(module, nn.Module) or is_pair:
        problem = "reads two texts" if is_pair else "cannot be run in several ways"
        raise InputError(f"{quoted(name)} {problem}; give a model of transformers, attnviz.wrap(...), or a module.")
    if call is not None or config is None or not hasattr(module, "base_model_prefix"):
        return Runner(module, name, call or _plain_call), tokenize
    pad = getattr(config, "pad_token_id", None)
    return Runner(module, name, transformers_call, pad if isinstance(pad, int) and pad >= 0 else 0), tokenize


def _plain_call(model: nn.Module, ids: Tensor) -> Any:
    """Call a module with nothing but the ids, (B, n)."""
    return model(ids)


def _ids_of(source: Source, text: str) -> list[int]:
    """Cut a text into tokens and return their ids."""
    return [token.id for token in source.tokenize([text])[0].tokens]


@dataclass(frozen=True, eq=False)
class Runner:
    """A model with the function that calls it."""

    model: nn.Module
    name: str
    call: Callable[..., Any]  # see `same_run`
    pad: int | None = None  # id of padding; None if only the argument `tokens` marks padding
    sites: dict[Site, str] | None = None  # sites of the attention calls with the names of their modules, once known
    bound: float = 0.0  # see `SameRun`

    def takes(self, name: str) -> bool:
        """Whether the call takes an argument with this name."""
        parameters = inspect.signature(self.call).parameters.values()
        return any(parameter.name == name or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    def run(
        self, text: Tensor, ids: Tensor, starts: Sequence[int] = (0,), is_cached: bool = False, **arguments: Tensor
    ) -> TextRun:
        """Run the model on ids (B, S), with one forward pass from each of `starts`, and capture its attention. `text`
        is the index of the text at each id, or `PADDING`; `arguments`, (B, S), are cut like the ids. Raise InputError
        if the code of the model raises an error, or its output does not have one vector per token."""
        outputs, passes, device = [], [], next(self.model.parameters(), ids).device
        arguments = {name: tensor.to(device) for name, tensor in arguments.items() if self.takes(name)}
        cache = {"cache": None} if is_cached else {}
        with LOCK, in_evaluation(self.model), torch.no_grad(), errors_said():
            for start, end in pairwise([*starts, ids.shape[1]]):
                pass_arguments = {name: tensor[:, start:end] for name, tensor in arguments.items()}
                if "tokens" in arguments:  # the padding mask also covers the keys in the cache
                    pass_arguments["tokens"] = arguments["tokens"][:, :end]
                with capture(self.model, sites=self.sites) as captured:
                    output = self.call(self.model, ids[:, start:end].to(device), **pass_arguments, **cache)
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
        """Run texts, given as token ids, in one of `RUNS`; see `runs` of `same_run`. "written" reads half of the
        shortest text token by token. Raise NotTriedError if the way cannot be tried on this model or these texts."""
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
            yield self._run_packed(documents)
        elif way in ("left", "right", "written"):
            yield self._run_padded(way, documents)
        else:
            for number, ids in enumerate(documents):
                text, length = torch.full_like(ids, number), len(ids)
                if way == "batched":  # with a text of the same length: a rotated copy
                    texts, batch = torch.stack([text, torch.full_like(ids, OTHER)]), torch.stack([ids, ids.roll(-1)])
                    yield self.run(texts, batch)
                    yield self.run(texts.flip(0), batch.flip(0))
                elif length > 1:
                    half, third = max(1, length // 2), math.ceil(length / 3)
                    starts = range(0, length, third) if way == "chunked" else [0, *range(half, length)]
                    yield self.run(text[None], ids[None], starts, True)

    def _run_packed(self, documents: Sequence[Tensor]) -> TextRun:
        """Run all texts in one row."""
        indices = list(range(len(documents)))
        if len(documents) == 1:  # put its rotated copy before it, so that the text has a document to be separated from
            documents, indices = [documents[0].roll(-1), documents[0]], [1, 0]
        text = torch.cat([torch.full_like(ids, index) for index, ids in zip(indices, documents, strict=True)])[None]
        positions = torch.cat([torch.arange(len(ids)) for ids in documents])[None]
        return self.run(text, torch.cat([*documents])[None], documents=text, positions=positions)

    def _run_padded(self, way: str, documents: Sequence[Tensor]) -> TextRun:
        """Run a batch, padded on the right if the way is "right", else left; "written" reads the end token by token."""
        shortest, longest = min(map(len, documents)), max(documents, key=len)
        if shortest == len(longest):  # add a text with two more tokens, so that there is padding
            documents = [*documents, torch.cat([longest, longest.repeat(2)[:2]])]
        side = {"batch_first": True, "padding_side": "right" if way == "right" else "left"}
        ids = pad_sequence([*documents], padding_value=self.pad or 0, **side)
        tokens = pad_sequence([torch.ones_like(ids) for ids in documents], **side).bool()
        text = torch.arange(len(documents))[:, None].where(tokens, PADDING)
        positions = {} if way == "right" else {"positions": (tokens.cumsum(-1) - 1).clamp(min=0)}
        size, is_written = ids.shape[1], way == "written"
        starts = [0, *range(size - shortest // 2, size)] if is_written else [0]
        return self.run(text, ids, starts, is_written, tokens=tokens, **positions)
