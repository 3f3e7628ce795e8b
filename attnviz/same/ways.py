"""Ways to run a model on texts: alone, packed, padded, with a cache, and beside others; each with its attention."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.capturing import Capture, capture
from attnviz.capturing.seen import hidden
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.own_code import errors_said

Documents = Sequence[Sequence[int]]
PADDING = -1
"""Number of the text in a slot of padding."""


class NotTriedError(AttnvizError):
    """Reason why a way cannot be tried, as a sentence."""


@dataclass(frozen=True, eq=False)
class Ran:
    """Outputs and attention of one way, over all its calls of the model.

    Attributes:
        text: (B, S): the text that each slot of a row holds, or `PADDING`.
        place: (B, S): the position of its token in that text.
        output: (B, S, d).
        passes: for each call of the model, its first slot and its attention.
    """

    text: Tensor
    place: Tensor
    output: Tensor
    passes: tuple[tuple[int, Capture], ...]

    def rows(self, text: int) -> Iterator[tuple[int, Tensor]]:
        """Rows that hold a text, each with the slots of its tokens in their order."""
        for row, texts in enumerate(self.text):
            slots = (texts == text).nonzero().flatten()
            if len(slots):
                yield row, slots[self.place[row, slots].argsort()]

    def order(self, row: int, text: int) -> int:
        """Number of a text in a row, counted from 1."""
        return list(dict.fromkeys(self.text[row].tolist())).index(text) + 1


@dataclass(frozen=True, eq=False)
class Runner:
    """A model, and how it is called.

    Attributes:
        call: from the model and ids (B, n) to its output.
        pack, pad, step: see `attnviz.same_run`; None where that way cannot be tried.
        why_not: for each way that cannot be tried, why, as a sentence.
        is_transformers: whether it is called as models of transformers are.
        running: a context in which a model is run.
        pad_id: the id by which the model knows padding, where there is no `pad`.
        sites: the sites of its attention calls and their modules, once they are known.
    """

    model: nn.Module
    name: str
    call: Callable[[nn.Module, Tensor], Any]
    pack: Callable[[Documents], Any] | None = None
    pad: Callable[[Documents, str], Any] | None = None
    step: Callable[[nn.Module, Tensor, Any], tuple[Any, Any]] | None = None
    why_not: Mapping[str, str] = field(default_factory=dict)
    is_transformers: bool = False
    running: Callable[[nn.Module], AbstractContextManager] = nullcontext
    pad_id: int | None = None
    sites: Mapping[Site, str] | None = None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters(), torch.zeros(())).device

    def ran(self, text: Tensor, place: Tensor, calls: Sequence[tuple[int, Callable[[], Any]]]) -> Ran:
        """Call the model once or several times, and watch its attention.

        Args:
            calls: the first slot of each call, and a function that makes it.

        Raises:
            InputError: if the model's code raises, or gives no output for each token.
        """
        outputs, passes, edges = [], [], [start for start, _ in calls[1:]] + [text.shape[1]]
        with self.running(self.model), torch.no_grad(), errors_said():
            for (start, function), end in zip(calls, edges, strict=True):
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
            shape = None if states is None else tuple(states.shape)
            what = f"{self.name} gives {shape or type(output).__name__} for {batch} x {length} tokens"
            raise InputError(f"{what}; same_run needs an output (B, n, d) for each token.")
        return states[:, :length].detach().cpu()

    def with_arguments(self, arguments: Any) -> Any:
        """Call the model with a tensor, a tuple of arguments, or a dict of named ones."""
        named = arguments if isinstance(arguments, Mapping) else {}
        placed = () if named else (arguments,)
        if isinstance(arguments, tuple | list):
            placed = arguments

        def moved(value: Any) -> Any:
            return value.to(self.device) if isinstance(value, Tensor) else value

        return self.model(*map(moved, placed), **{name: moved(value) for name, value in named.items()})


def alone(runner: Runner, ids: Sequence[int], text: int = 0) -> Ran:
    """Run one text by itself."""
    tensor = torch.tensor([list(ids)])
    return runner.ran(
        torch.full_like(tensor, text),
        torch.arange(len(ids)).unsqueeze(0),
        [(0, lambda: runner.call(runner.model, tensor.to(runner.device)))],
    )


def packed(runner: Runner, documents: Documents, pack: Callable[[Documents], Any] | None = None) -> list[Ran]:
    """Run all texts in one row; a single one behind the same words in another order."""
    pack = pack or runner.pack
    numbers = list(range(len(documents)))
    if len(documents) == 1:
        documents, numbers = [rotated(documents[0]), documents[0]], [1, 0]
    text = torch.cat([torch.full((len(ids),), number) for ids, number in zip(documents, numbers, strict=True)])
    place = torch.cat([torch.arange(len(ids)) for ids in documents])
    return [
        runner.ran(
            text[None], place[None], [(0, lambda: runner.with_arguments(pack([list(ids) for ids in documents])))]
        )
    ]


def padded(
    runner: Runner, documents: Documents, side: str, pad: Callable[[Documents, str], Any] | None = None
) -> list[Ran]:
    """Run all texts as one batch with padding; texts of one length beside one that is longer by two tokens."""
    pad = pad or runner.pad
    documents = [list(ids) for ids in documents]
    longest = max(documents, key=len)
    if min(map(len, documents)) == len(longest):
        documents = [*documents, [*longest, *(longest * 2)[:2]]]
    length = max(map(len, documents))
    text, place = torch.full((len(documents), length), PADDING), torch.zeros(len(documents), length, dtype=torch.long)
    for row, ids in enumerate(documents):
        slots = slice(length - len(ids), length) if side == "left" else slice(0, len(ids))
        text[row, slots], place[row, slots] = row, torch.arange(len(ids))
    if pad is None:
        ids = with_padding(documents, side, runner.pad_id)["input_ids"].to(runner.device)
        return [runner.ran(text, place, [(0, lambda: runner.call(runner.model, ids))])]
    return [runner.ran(text, place, [(0, lambda: runner.with_arguments(pad(documents, side)))])]


def stepped(runner: Runner, documents: Documents, cuts: Callable[[int], list[int]]) -> list[Ran]:
    """Run each text in several calls with a cache; `cuts` gives the first token of each call of a text of n tokens.

    Raises:
        NotTriedError: if all texts have one token.
    """
    runs = []
    for number, ids in enumerate(documents):
        if len(ids) > 1:
            tensor, starts = torch.tensor([list(ids)]), cuts(len(ids))
            calls = _calls(runner, tensor.to(runner.device), starts)
            runs.append(runner.ran(torch.full_like(tensor, number), torch.arange(len(ids))[None], calls))
    if not runs:
        raise NotTriedError("Each text has one token, so there is nothing to cache.")
    return runs


def _calls(runner: Runner, ids: Tensor, starts: list[int]) -> list[tuple[int, Callable[[], Any]]]:
    """Calls of a model on parts of a text, (1, n), each with the cache of the one before."""
    cache: list[Any] = [None]

    def call(start: int, end: int) -> Any:
        output, cache[0] = runner.step(runner.model, ids[:, start:end], cache[0])
        return output

    ends = [*starts[1:], ids.shape[1]]
    return [(start, partial(call, start, end)) for start, end in zip(starts, ends, strict=True)]


def cached(runner: Runner, documents: Documents) -> list[Ran]:
    """Run the first half of each text, then one token after the other."""
    return stepped(runner, documents, lambda length: [0, *range(max(1, length // 2), length)])


def chunked(runner: Runner, documents: Documents) -> list[Ran]:
    """Run each text in about three chunks."""
    return stepped(runner, documents, lambda length: [*range(0, length, max(1, -(-length // 3)))])


def batched(runner: Runner, documents: Documents) -> list[Ran]:
    """Run each text between two others of its length: its own words in other orders."""
    runs = []
    for number, ids in enumerate(documents):
        tensor = torch.tensor([rotated(ids), list(ids), list(ids)[::-1]])
        text = torch.tensor([[-2], [number], [-3]]).expand_as(tensor)
        place = torch.arange(len(ids)).expand_as(tensor)
        call = [(0, lambda tensor=tensor: runner.call(runner.model, tensor.to(runner.device)))]
        runs.append(runner.ran(text, place, call))
    return runs


def rotated(ids: Sequence[int]) -> list[int]:
    """The same words, each one place further on."""
    return [*ids[1:], ids[0]]


def transformers_runner(model: Any, name: str) -> Runner:
    """The ways in which transformers runs its models.

    Raises:
        InputError: if the model reads two texts.
    """
    config, parameters = model.config, inspect.signature(model.forward).parameters
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{name} reads two texts; same_run compares models of one text.")
    uncached = {"use_cache": False} if hasattr(config, "use_cache") else {}
    why_not = {}
    if "position_ids" not in parameters:
        why_not["packed"] = f"{type(model).__name__} takes no position_ids, by which packed texts are told apart."
    pad_id = getattr(config, "pad_token_id", None)
    pad_id = pad_id if isinstance(pad_id, int) and pad_id >= 0 else 0

    def pack(documents: Documents) -> dict[str, Any]:
        ids = torch.tensor([[id for document in documents for id in document]])
        positions = torch.cat([torch.arange(len(document)) for document in documents]).unsqueeze(0)
        return {"input_ids": ids, "position_ids": positions, **uncached}

    def pad(documents: Documents, side: str) -> dict[str, Any]:
        return {**with_padding(documents, side, pad_id), **uncached}

    def step(model: nn.Module, ids: Tensor, cache: Any) -> tuple[Any, Any]:
        given = {} if cache is None else {"past_key_values": cache}
        output = model(input_ids=ids, use_cache=True, **given)
        if getattr(output, "past_key_values", None) is None:
            raise NotTriedError(f"{type(model).__name__} gives no past_key_values.")
        return output, output.past_key_values

    return Runner(
        model,
        name,
        lambda model, ids: model(input_ids=ids, **uncached),
        pack,
        pad,
        step,
        why_not,
        is_transformers=True,
    )


def with_padding(documents: Documents, side: str, pad_id: int) -> dict[str, Tensor]:
    """Ids of a padded batch and its attention mask, 1 = token, (B, n)."""
    length = max(map(len, documents))
    rows = [([pad_id] * (length - len(ids)), list(ids)) for ids in documents]
    left = side == "left"
    ids = [padding + tokens if left else tokens + padding for padding, tokens in rows]
    mask = [[0] * len(p) + [1] * len(t) if left else [1] * len(t) + [0] * len(p) for p, t in rows]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def with_positions(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a padded batch with the positions that `generate` gives it."""
    positions = (arguments["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    return {**arguments, "position_ids": positions}


def with_block_mask(arguments: Mapping[str, Any], documents: Documents, dtype: torch.dtype) -> dict[str, Any]:
    """Arguments of a packed row with a causal mask for each document, added to the scores, (1, 1, S, S)."""
    blocks = torch.block_diag(*(torch.ones(len(ids), len(ids)).tril() for ids in documents)).bool()
    mask = torch.zeros(blocks.shape, dtype=dtype).masked_fill(~blocks, torch.finfo(dtype).min)
    return {**arguments, "attention_mask": mask[None, None]}
