"""Attention calls as they were captured: convert them to steps, and join the calls that form one map: the heads that a
model computes one by one, and the passes of a generation with a cache."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.capturing.verify import Sample
from attnviz.core.conventions import to_rules
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Mask
from attnviz.core.record import Step
from attnviz.core.scoring import HALVES, Scoring
from attnviz.core.tap import Tap
from attnviz.core.windows import WindowGrid

BLOCKED = -9e3
"""Bias below which a cell counts as masked; models add -10,000, -1e9, the lowest number of the dtype or -inf."""
LOST_BELOW = -1e8
"""Bias below which the scores are lost to rounding, so that a fully masked row has equal weights."""


@dataclass(eq=False)
class Call:
    """Inputs of one attention call; tensors as in `Tap.attend`, detached and copied."""

    site: Site
    name: str  # name of the module that made the call, from `model.named_modules()`
    passed: int  # index of the forward pass
    query: Tensor
    key: Tensor
    value: Tensor | None  # values by which the weights were multiplied; None if no such product was captured
    mask: Tensor | Mask | None = None
    scoring: Scoring = Scoring()
    sinks: Tensor | None = None
    head: int | None = None  # index of the head, if the module computes a single head of the site; else None
    offset: int = 0  # number of queries of earlier passes, whose keys this call has in its cache
    is_edited: bool = False
    weights_only: bool = False  # whether queries and keys are unknown (zero), and the scores are stored as bias
    refused: str = ""  # reason why the call cannot be shown as a map; "" if it can
    no_values: str = ""  # message that says how the weights are used, if not in a product with values
    samples: tuple[Sample, ...] = ()  # rows that the model itself computed, to verify the map
    windows: WindowGrid | None = None  # division of a picture into windows, if the call has windows as its batch
    line: str = ""  # file and line of the user's code that makes the call

    @property
    def why_not(self) -> str:
        """Reason why the call cannot be shown; "" if it can."""
        if self.refused or self.value is not None:
            return self.refused
        name = self.name or "the model"
        return self.no_values or f"weights of {name} are not multiplied by values, or change after the softmax"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the scores, (B, H, Q, K), without a sink."""
        return (*self.query.shape[:3], self.key.shape[2])

    def in_windows(self, edits: Edits) -> Edits:
        """Convert edits for the whole picture to edits for its windows, if the call has windows."""
        return edits if self.windows is None else self.windows.edits(edits, self.shape[0] // self.windows.count)

    def step(self, edits: Edits, lengths: tuple[int, ...] | None = None) -> Step:
        """Convert the call to a step on the CPU, with the edits; a call with windows gives a step with windows.
        `lengths`, the number of keys without padding per sentence, helps to recognize named rules in the mask."""
        tap = Tap(self.in_windows(edits))
        tensors = self.attend_arguments() | {"value": self.value.to(self.query.dtype)}
        arguments = {name: value.cpu() if isinstance(value, Tensor) else value for name, value in tensors.items()}
        arguments["scoring"] = replace(self.scoring, bias=tuple(bias.cpu() for bias in self.scoring.bias))
        if isinstance(arguments["mask"], Tensor):
            arguments["mask"] = to_rules(arguments["mask"], *self.shape[2:], lengths)
        with torch.no_grad():
            tap.attend(**arguments, site=self.site)
        return replace(tap.steps[0], name=self.name, line=self.line, weights_only=self.weights_only)

    def attend_arguments(self) -> dict[str, Any]:
        """Return the arguments of `Tap.attend`, without the value."""
        return {name: getattr(self, name) for name in ("query", "key", "mask", "scoring", "sinks")}


def score_fields(scores: Tensor, mask: Tensor | None, empty_rows: str) -> dict[str, Any]:
    """Make the fields of a `Call` whose queries and keys are unknown: zeros, with the scores, (B, H, Q, K), as bias."""
    batch, heads, queries, keys = scores.shape
    scores = scores.float() if scores.dtype in HALVES or not scores.is_floating_point() else scores
    query, key = scores.new_zeros(batch, heads, queries, 1), scores.new_zeros(batch, heads, keys, 1)
    bias = scores if mask is None else scores.masked_fill(~mask, 0)
    scoring = Scoring(scale=1.0, bias=bias, empty_rows=empty_rows)
    return {"query": query, "key": key, "mask": mask, "scoring": scoring, "sinks": None}


def split_mask(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None, str]:
    """Split a float mask, which is added to the scores, into a boolean mask, a bias and the `empty_rows` policy. If all
    keys of a row are masked by finite numbers, the model gives it equal weights where adding the numbers rounds the
    scores away ("uniform"), and else the weights of its scores."""
    if mask is None or mask.dtype is torch.bool:
        return mask, None, "zero"
    blocked, policy = mask < BLOCKED, "zero"
    is_finite_row = blocked.all(-1, keepdim=True) & (mask > -torch.inf).all(-1, keepdim=True)
    is_lost = (mask < LOST_BELOW) | ~is_finite_row
    if bool(is_finite_row.any()) and bool(is_lost.all()):
        policy = "uniform"
    else:
        blocked = blocked & ~is_finite_row
    bias = mask.masked_fill(blocked, 0)
    return (~blocked if bool(blocked.any()) else None), (bias if bool(bias.any()) else None), policy


class Run:
    """The calls of one run of a model: one forward pass, or all passes of a generation with a cache."""

    def __init__(self, first: dict[Site, Call]):
        # Chains of calls per site: within a chain, each call has the keys of the call before it in its cache.
        self._chains: dict[Site, list[list[Call]]] = {site: [[call]] for site, call in first.items()}

    @property
    def last(self) -> dict[Site, Call]:
        """The last call of each site."""
        return {site: chains[-1][-1] for site, chains in self._chains.items()}

    def add(self, calls: dict[Site, Call]) -> bool:
        """Add the calls of the next pass if it continues this run; return whether it does. It does if its
        self-attention uses cached keys; cross-attention has the same keys also when a text is read again. Without
        self-attention, as in a recurrent decoder, each pass must have one query and the same keys."""
        last = self.last
        pairs = {site: (last[site], call) for site, call in calls.items() if site in last}
        self_sites = [site for site in pairs if site.kind != "cross"]
        shared_keys = {site: keys_in_cache(before, call) for site, (before, call) in pairs.items()}
        if self_sites:
            has_cache = any(shared_keys[site] for site in self_sites)
            is_same_run = has_cache or any(self._is_cut(site, calls[site]) for site in self_sites)
        else:
            is_single = all(before.shape[2] == call.shape[2] == 1 for before, call in pairs.values())
            has_cache = is_same_run = is_single and all(shared_keys.values())
        for site, call in calls.items() if is_same_run else ():
            chains = self._chains.setdefault(site, [])
            if not (has_cache and shared_keys.get(site)):
                chains.append([])
            chains[-1].append(call)
        return is_same_run

    def joined(self) -> tuple[dict[Site, Call], list[str]]:
        """Join the passes to one call per site; return the calls, and a message per site that cannot be joined."""
        calls = {site: _join_passes(chains[-1]) for site, chains in self._chains.items()}
        cut = [site for site, chains in self._chains.items() if len(chains) > 1 and self._is_cut(site, chains[-1][0])]
        reason = "uses keys of earlier passes that were not captured: its cache was cut or its sentences changed places"
        return calls, [f"{site} ({calls[site].name or 'the model'}) {reason}" for site in cut]

    def _is_cut(self, site: Site, call: Call) -> bool:
        """Whether a call has cached keys of earlier passes, although the first call of the run had none."""
        first = self._chains[site][0][0]
        cached_first, cached = (used_keys(part) - part.shape[2] for part in (first, call))
        return cached > max(0, cached_first)


def runs_of(calls: Iterable[Call]) -> list[Run]:
    """Group calls into runs, in order: a pass that does not continue the run before it begins a new run."""
    runs: list[Run] = []
    for after in _split_into_passes(list(calls)):
        if not runs or not runs[-1].add(after):
            runs.append(Run(after))
    return runs


def keys_in_cache(before: Call, after: Call) -> int | None:
    """Count the keys that a call has in its cache from the call before it; None if it does not continue that call."""
    new_keys, old_count, count = after.shape[2], before.shape[3], after.shape[3]
    if before.site.kind == "cross":
        new_keys = 0
    elif old_count == count:  # a cache of fixed size, which is filled step by step
        old_count, count = used_keys(before), used_keys(after)
    old, new = (call.value if call.weights_only else call.key for call in (before, after))
    if old_count + new_keys != count or _join_key(before) != _join_key(after) or old is None or new is None:
        return None
    return old_count if torch.equal(old[:, :, :old_count], new[:, :, :old_count]) else None


def used_keys(call: Call) -> int:
    """Count the keys up to the last key to which any query may attend."""
    if not isinstance(call.mask, Tensor) or call.mask.shape[-1] != call.shape[3]:
        return call.shape[3]
    positions = call.mask.flatten(0, -2).any(0).nonzero()
    return int(positions[-1]) + 1 if len(positions) else call.shape[3]


def _split_into_passes(calls: list[Call]) -> list[dict[Site, Call]]:
    """Split calls into forward passes: a new pass begins where the order of sites starts again."""
    order = {site: index for index, site in enumerate(dict.fromkeys(call.site for call in calls))}
    passes: list[dict[Site, dict[int | None, Call]]] = []  # per pass and site, the calls by their head
    for call in calls:
        heads = passes[-1].get(call.site) if passes else None
        is_next_head = heads is not None and call.head is not None and call.head not in heads
        if not passes or (not is_next_head and order[call.site] <= max(order[site] for site in passes[-1])):
            passes.append({})
        passes[-1].setdefault(call.site, {})[call.head] = call
    joined = [{site: _join_heads(heads) for site, heads in sites.items()} for sites in passes]
    return [{site: call for site, call in sites.items() if call is not None} for sites in joined]


def _join_heads(heads: dict[int | None, Call]) -> Call | None:
    """Join the single-head calls of a site to one call; None if their shapes or scales differ."""
    calls = [call for _, call in sorted(heads.items())]
    if len(calls) == 1:
        return replace(calls[0], head=None)
    if len({(call.shape, _join_key(call)) for call in calls}) > 1:
        for call in calls:
            call.refused = f"the heads of {call.name or 'the model'} differ in shape or scale, so they form no map"
        return None
    samples = ()
    if all(call.samples for call in calls):  # a single call has one sample
        values = torch.cat([call.samples[0].values for call in calls], 1)
        samples = (replace(calls[0].samples[0], values=values),)
    return replace(_concatenate(calls, 1), head=None, samples=samples)


def _join_key(call: Call) -> tuple:
    """Properties in which calls must agree to be joined."""
    return call.shape[1], call.weights_only, call.sinks is None, replace(call.scoring, bias=(), empty_rows="zero")


def _join_passes(calls: list[Call]) -> Call:
    """Join the passes of a site to one call, without the unfilled keys of a cache of fixed size."""
    joined, start, samples = calls[-1], 0, []
    if len(calls) > 1:
        for call in calls:
            samples += [sample.shift(start, call.shape[3], joined.shape[3]) for sample in call.samples]
            start += call.shape[2]
        joined = replace(_concatenate(calls, 2), samples=tuple(samples), offset=calls[0].offset)
    queries, keys = joined.shape[2:]
    if joined.site.kind == "cross" or keys <= queries or used_keys(joined) != queries:  # no unfilled keys
        return joined
    key, value, mask = joined.key[:, :, :queries], joined.value[:, :, :queries], joined.mask[..., :queries]
    scoring = replace(joined.scoring, bias=tuple(bias[..., :queries] for bias in joined.scoring.bias))
    return replace(joined, key=key, value=value, mask=mask, scoring=scoring)


def _concatenate(calls: list[Call], axis: int) -> Call:
    """Concatenate calls along heads (axis 1) or queries (axis 2); keys that earlier passes lack are masked."""
    last = calls[-1]

    def join(tensors: list[Tensor]) -> Tensor:
        """Pad the last axis, expand the first two axes to common sizes, and concatenate."""
        batch, heads = max(tensor.shape[0] for tensor in tensors), max(tensor.shape[1] for tensor in tensors)
        width = tensors[-1].shape[3]
        padded = [pad(tensor, (0, width - tensor.shape[3])) for tensor in tensors]
        return torch.cat([tensor.expand(batch, heads, -1, -1) for tensor in padded], axis)

    names = ("query",) if axis == 2 else ("query", "key", "value")
    fields = {name: [getattr(call, name) for call in calls] for name in names}
    if last.sinks is not None:
        fields["sinks"] = [call.sinks.expand(*call.shape[:3], 1) for call in calls]
    if any(call.mask is not None or call.shape[3] != last.shape[3] for call in calls):
        fields["mask"] = [_cells(call, True if call.mask is None else call.mask) for call in calls]
    biases = [_cells(call, sum(call.scoring.bias, 0.0)) for call in calls]
    bias = (join(biases),) if any(call.scoring.bias for call in calls) else ()
    policies = [call.scoring.empty_rows for call in calls if call.scoring.empty_rows != "zero"]
    scoring = replace(last.scoring, bias=bias, empty_rows=policies[0] if policies else "zero")
    return replace(last, **{name: join(tensors) for name, tensors in fields.items()}, scoring=scoring)


def _cells(call: Call, cells: Tensor | Mask | float) -> Tensor:
    """Expand a mask or bias of a call, or a number for all cells, to (B or 1, H or 1, Q, K)."""
    cells = cells.tensor(*call.shape[2:]) if isinstance(cells, Mask) else cells
    cells = torch.as_tensor(cells, device=call.value.device)
    while cells.dim() < 4:
        cells = cells.unsqueeze(0)
    return cells.expand(*cells.shape[:2], *call.shape[2:])
