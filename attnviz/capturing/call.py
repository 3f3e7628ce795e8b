"""Captured attention calls: join calls to one map, convert them to steps, and compare each map with the model.

Heads that a model computes one by one, and the passes of a generation with a cache, form one map. Each recomputed map
is compared with rows that the model itself computed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.core import attention
from attnviz.core.amounts import counted
from attnviz.core.conventions import named
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Mask
from attnviz.core.record import Step
from attnviz.core.scoring import ALL, HALVES, Area, Scoring
from attnviz.core.tap import Tap
from attnviz.core.windows import WindowGrid

BLOCKED = -9e3
"""Bias below which a cell counts as masked; models add -10,000, -1e9, the lowest number of the dtype or -inf."""
LOST_BELOW = -1e8
"""Bias below which the scores are lost to rounding, so that a fully masked row has equal weights."""
ROWS = 8
"""Maximum number of rows that are compared per call; they are evenly spaced and include the last row."""
BOUND, BOUND_OF_HALVES = 1e-4, 0.03
"""Largest differences of weights that count as rounding: in general, and for 16-bit dtypes."""
ROUNDING = 512
"""Tolerance of scores in units of the machine epsilon, relative to their size."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows that the model itself computed: weights, (B, H, rows, K), or outputs, (B, H, rows, d_v)."""

    rows: slice
    values: Tensor
    is_output: bool
    dtype: torch.dtype

    @classmethod
    def of(cls, values: Tensor, *dtypes: torch.dtype, is_output: bool = False) -> Self:
        """Copy evenly spaced rows of weights or of an output, (B, H, Q, ...)."""
        queries = values.shape[2]
        stride = -(-queries // ROWS) or 1
        rows = slice((queries - 1) % stride, queries, stride)
        coarsest = max((values.dtype, *dtypes), key=lambda dtype: torch.finfo(dtype).eps)
        return cls(rows, values.detach()[:, :, rows].clone(), is_output, coarsest)

    def shift(self, start: int, keys: int, all_keys: int) -> Self:
        """Shift the rows by `start` queries, and pad weights from `keys` to `all_keys` keys; a sink stays last."""
        values = self.values
        if not self.is_output:
            values = torch.cat([pad(values[..., :keys], (0, all_keys - keys)), values[..., keys:]], -1)
        return replace(self, rows=slice(self.rows.start + start, self.rows.stop + start, self.rows.step), values=values)


@dataclass(eq=False)
class Call:
    """Inputs of one attention call; tensors as in `Tap.attend`, detached and copied.

    Attributes:
        name: name of the module that made the call, from `model.named_modules()`.
        passed: number of the forward pass.
        value: values by which the weights were multiplied; None if no such product was captured.
        head: number of the head, if the module computes a single head of the site; else None.
        offset: number of queries of earlier passes, whose keys this call has in its cache.
        weights_only: whether queries and keys are unknown; then they are zero, and the scores are stored as the bias.
        refused: reason why the call cannot be shown as a map; "" if it can.
        unmet: message on the use of the weights, if it is not a product with values.
        samples: rows that the model itself computed, to verify the map.
        windows: division of a picture into windows, if the call has windows as its batch.
        line: file and line of the user's code that makes the call.
    """

    site: Site
    name: str
    passed: int
    query: Tensor
    key: Tensor
    value: Tensor | None
    mask: Tensor | Mask | None = None
    scoring: Scoring = Scoring()
    sinks: Tensor | None = None
    head: int | None = None
    offset: int = 0
    is_edited: bool = False
    weights_only: bool = False
    refused: str = ""
    unmet: str = ""
    samples: tuple[Sample, ...] = ()
    windows: WindowGrid | None = None
    line: str = ""

    @property
    def why_not(self) -> str:
        """Reason why the call cannot be shown; "" if it can."""
        if self.refused or self.value is not None:
            return self.refused
        return self.unmet or f"weights of {self.name or 'the model'} meet no values, or are changed after the softmax"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the scores, (B, H, Q, K), without a sink."""
        return (*self.query.shape[:3], self.key.shape[2])

    def in_windows(self, edits: Edits) -> Edits:
        """Convert edits for the whole picture to edits for its windows, if the call has windows."""
        return edits if self.windows is None else self.windows.edits(edits, self.shape[0] // self.windows.count)

    def step(self, edits: Edits, lengths: tuple[int, ...] | None = None) -> Step:
        """Convert the call to a step on the CPU, with the edits; a call with windows gives a step with windows.

        `lengths`, the number of keys without padding per sentence, helps to recognize named rules in the mask.
        """
        tap, parts = Tap(self.in_windows(edits)), self.computed_from() | {"value": self.value.to(self.query.dtype)}
        parts = {name: part.cpu() if isinstance(part, Tensor) else part for name, part in parts.items()}
        if isinstance(parts["mask"], Tensor):
            parts["mask"] = named(parts["mask"], *self.shape[2:], lengths)
        parts["scoring"] = replace(self.scoring, bias=tuple(bias.cpu() for bias in self.scoring.bias))
        with torch.no_grad():
            tap.attend(**parts, site=self.site)
        return replace(tap.steps[0], name=self.name, line=self.line, weights_only=self.weights_only)

    def computed_from(self) -> dict[str, Any]:
        """Return the arguments for `Tap.attend`, without the value."""
        return {name: getattr(self, name) for name in ("query", "key", "mask", "scoring", "sinks")}


def score_fields(scores: Tensor, mask: Tensor | None, empty_rows: str) -> dict[str, Any]:
    """Make the fields of a call of which only the scores, (B, H, Q, K), are known: they are the bias, the rest is 0."""
    batch, heads, queries, keys = scores.shape
    scores = scores.float() if scores.dtype in HALVES or not scores.is_floating_point() else scores
    query, key = scores.new_zeros(batch, heads, queries + keys, 1).split((queries, keys), 2)
    bias = scores if mask is None else scores.masked_fill(~mask, 0)
    scoring = Scoring(scale=1.0, bias=bias, empty_rows=empty_rows)
    return {"query": query, "key": key, "mask": mask, "scoring": scoring, "sinks": None}


def split_mask(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None, str]:
    """Split a float mask, which is added to the scores, into a boolean mask, a bias and the `empty_rows` policy.

    A row masked by finite numbers only is not empty for the model: it has equal weights if the scores are lost to
    rounding, and else the weights of its scores.
    """
    if mask is None or mask.dtype is torch.bool:
        return mask, None, "zero"
    blocked, policy = mask < BLOCKED, "zero"
    rows = blocked.all(-1, keepdim=True) & (mask > -torch.inf).all(-1, keepdim=True)
    if bool(rows.any()) and bool((mask < LOST_BELOW).where(rows, True).all()):
        policy = "uniform"
    else:
        blocked = blocked & ~rows
    bias = mask.masked_fill(blocked, 0)
    return (~blocked if bool(blocked.any()) else None), (bias if bool(bias.any()) else None), policy


Pass = dict[Site, Call]
"""The calls of one forward pass, by site."""


class Run:
    """The calls of one run of a model: one forward pass, or all passes of a generation with a cache."""

    def __init__(self, first: Pass):
        # calls per site, in parts: within a part, each call has the keys of the call before it in its cache
        self._parts: dict[Site, list[list[Call]]] = {site: [[call]] for site, call in first.items()}

    @property
    def last(self) -> Pass:
        """The last call of each site."""
        return {site: parts[-1][-1] for site, parts in self._parts.items()}

    def add(self, after: Pass) -> bool:
        """Add the calls of the next pass if it continues this run; return whether it does.

        Self-attention decides, because cross-attention has the same keys when a text is read again. Without
        self-attention, as in a recurrent decoder, each pass must have one query.
        """
        pairs = {site: (self._parts[site][-1][-1], call) for site, call in after.items() if site in self._parts}
        self_sites = [site for site in pairs if site.kind != "cross"]
        shared_keys = {site: keys_in_cache(*pair) for site, pair in pairs.items()}
        is_continued = any(shared_keys[site] for site in self_sites)
        is_same_run = is_continued or any(self._is_cut(site, after[site]) for site in self_sites)
        if not self_sites:
            is_single = all(before.shape[2] == call.shape[2] == 1 for before, call in pairs.values())
            is_continued = is_same_run = is_single and all(shared_keys.values())
        for site, call in after.items() if is_same_run else ():
            parts = self._parts.setdefault(site, [])
            if not (is_continued and shared_keys.get(site)):
                parts.append([])
            parts[-1].append(call)
        return is_same_run

    def whole(self) -> tuple[Pass, list[str]]:
        """Join the passes to one call per site; return the calls, and a message per site that cannot be joined."""
        calls = {site: _join_passes(parts[-1]) for site, parts in self._parts.items()}
        cut = [site for site, parts in self._parts.items() if len(parts) > 1 and self._is_cut(site, parts[-1][0])]
        reason = "uses keys of earlier passes that were not captured: its cache was cut or its sentences changed places"
        return calls, [f"{site} ({calls[site].name or 'the model'}) {reason}" for site in cut]

    def _is_cut(self, site: Site, call: Call) -> bool:
        """Whether a call has cached keys of earlier passes, although the first call of the run had none."""
        before, after = (used_keys(part) - part.shape[2] for part in (self._parts[site][0][0], call))
        return after > max(0, before)


def runs_of(calls: Iterable[Call]) -> list[Run]:
    """Group calls into runs, in order: a pass that does not continue the run before it begins a new run."""
    runs: list[Run] = []
    for after in _split_into_passes(list(calls)):
        if not runs or not runs[-1].add(after):
            runs.append(Run(after))
    return runs


def keys_in_cache(before: Call, after: Call) -> int | None:
    """Count the keys that a call has in its cache from the call before it; None if it does not continue that call."""
    added, used, all_keys = after.shape[2], before.shape[3], after.shape[3]
    if before.site.kind == "cross":
        added = 0
    elif used == all_keys:  # a cache of fixed size, which is filled step by step
        used, all_keys = used_keys(before), used_keys(after)
    old, new = (call.value if call.weights_only else call.key for call in (before, after))
    if used + added != all_keys or _join_key(before) != _join_key(after) or old is None or new is None:
        return None
    return used if torch.equal(old[:, :, :used], new[:, :, :used]) else None


def used_keys(call: Call) -> int:
    """Count the keys up to the last key to which any query may attend."""
    if not isinstance(call.mask, Tensor) or call.mask.shape[-1] != call.shape[3]:
        return call.shape[3]
    positions = call.mask.flatten(0, -2).any(0).nonzero()
    return int(positions[-1]) + 1 if len(positions) else call.shape[3]


def _split_into_passes(calls: list[Call]) -> list[Pass]:
    """Split calls into forward passes: a new pass begins where the order of sites starts again."""
    order = {site: index for index, site in enumerate(dict.fromkeys(call.site for call in calls))}
    passes: list[dict[Site, dict[int | None, Call]]] = []
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
    values = [sample.values for call in calls for sample in call.samples[:1]]
    samples = (replace(calls[0].samples[0], values=torch.cat(values, 1)),) if len(values) == len(calls) else ()
    return replace(_concatenate(calls, 1), head=None, samples=samples)


def _join_key(call: Call) -> tuple:
    """Properties that must agree for calls to be joined."""
    return call.shape[1], call.weights_only, call.sinks is None, replace(call.scoring, bias=(), empty_rows="zero")


def _join_passes(calls: list[Call]) -> Call:
    """Join the passes of a site to one call, without the unfilled keys of a cache of fixed size."""
    call, start, samples = calls[-1], 0, []
    if len(calls) > 1:
        for part in calls:
            samples += [sample.shift(start, part.shape[3], call.shape[3]) for sample in part.samples]
            start += part.shape[2]
        call = replace(_concatenate(calls, 2), samples=tuple(samples), offset=calls[0].offset)
    queries, keys = call.shape[2:]
    if call.site.kind == "cross" or keys <= queries or used_keys(call) != queries:
        return call
    filled = {"key": call.key[:, :, :queries], "value": call.value[:, :, :queries], "mask": call.mask[..., :queries]}
    bias = tuple(numbers[..., :queries] for numbers in call.scoring.bias)
    return replace(call, **filled, scoring=replace(call.scoring, bias=bias))


def _concatenate(calls: list[Call], axis: int) -> Call:
    """Concatenate calls along heads (axis 1) or queries (axis 2); keys that earlier passes lack are masked."""
    last = calls[-1]

    def concatenate(parts: list[Tensor]) -> Tensor:
        batch, heads = (max(sizes) for sizes in zip(*(part.shape[:2] for part in parts), strict=True))
        padded = [pad(part, (0, parts[-1].shape[3] - part.shape[3])) for part in parts]
        return torch.cat([part.expand(batch, heads, -1, -1) for part in padded], axis)

    names = ("query",) if axis == 2 else ("query", "key", "value")
    parts = {name: [getattr(call, name) for call in calls] for name in names}
    if last.sinks is not None:
        parts["sinks"] = [call.sinks.expand(*call.shape[:3], 1) for call in calls]
    if any(call.mask is not None or call.shape[3] != last.shape[3] for call in calls):
        parts["mask"] = [_cells(call, True if call.mask is None else call.mask) for call in calls]
    biases = [_cells(call, sum(call.scoring.bias, 0.0)) for call in calls]
    bias = (concatenate(biases),) if any(call.scoring.bias for call in calls) else ()
    empty_rows = next((call.scoring.empty_rows for call in calls if call.scoring.empty_rows != "zero"), "zero")
    scoring = replace(last.scoring, bias=bias, empty_rows=empty_rows)
    return replace(last, **{name: concatenate(tensors) for name, tensors in parts.items()}, scoring=scoring)


def _cells(call: Call, cells: Tensor | Mask | float) -> Tensor:
    """Expand a mask or bias of a call to (B or 1, H or 1, Q, K)."""
    cells = cells.tensor(*call.shape[2:]) if isinstance(cells, Mask) else cells
    cells = torch.as_tensor(cells, device=call.value.device)
    cells = cells.reshape(*(1,) * (4 - cells.dim()), *cells.shape)
    return cells.expand(*cells.shape[:2], *call.shape[2:])


def difference(step: Step, samples: Iterable[Sample]) -> tuple[float, float]:
    """Compare a step with rows that the model computed. Return the largest difference, first as a multiple of its
    tolerance (above 1, the step is wrong), then relative to the size of the numbers."""
    pairs = [(0.0, 0.0), *(_difference(step, sample) for sample in samples)]
    return tuple(map(max, zip(*pairs, strict=True)))


@torch.no_grad()
def _difference(step: Step, sample: Sample) -> tuple[float, float]:
    """Compute the difference for one sample; rows without an open key follow other policies and are skipped."""
    queries, keys = step.shape[2:]
    scores = step.scoring.scores(step.query, step.key, Area(rows=sample.rows))
    scores = attention.masked(scores, attention.window(step.mask, sample.rows, ALL, queries=queries, keys=keys))
    if not scores.numel():
        return 0.0, 0.0
    logsumexp = step.logsumexp[:, :, sample.rows]
    rows, expected = attention.normalize(scores, logsumexp=logsumexp), sample.values.to(scores.device).double()
    is_nan, scale = expected.isnan(), 1.0
    if sample.is_output:
        rows, scale = rows.to(step.value.dtype) @ step.value, max(_largest(step.value), 1e-30)
    else:  # keys beyond the filled part of a cache have no weight
        width, is_nan = max(rows.shape[-1], expected.shape[-1]), is_nan.any(-1, keepdim=True)
        rows, expected = (pad(part, (0, width - part.shape[-1])) for part in (rows, expected))
    heads = [[not step.is_off(head, sentence=b) for head in range(step.num_heads)] for b in range(step.shape[0])]
    is_on = torch.tensor(heads)[:, :, None, None]
    is_empty = (logsumexp == -torch.inf).unsqueeze(-1)
    is_ignored = (rows.isnan() & is_nan) | is_empty | ~is_on
    error = (rows.double() - expected).abs().masked_fill(is_ignored, 0).nan_to_num(nan=torch.inf)
    bound, eps = (BOUND_OF_HALVES if sample.dtype in HALVES else BOUND), torch.finfo(sample.dtype).eps
    allowed = bound * scale + expected.abs().nan_to_num(0) * min(ROUNDING * eps * (1 + _largest(scores)), 0.5)
    return float((error / allowed).max()), float(error.max()) / scale


def _largest(numbers: Tensor) -> float:
    """Find the largest absolute value of the finite numbers."""
    return float(numbers.abs().nan_to_num(0, 0, 0).max())


def notes(steps: Iterable[Step]) -> list[str]:
    """Report scales other than 1/√d_k: one sentence per scale, for all calls that have it."""
    calls: dict[str, list[str]] = {}
    for step in steps:
        width, scale = step.query.shape[-1], step.scoring.scale
        if not step.weights_only and scale is not None and width > 1 and abs(scale * width**0.5 - 1) >= 0.01:
            problem = "the scores have no factor" if abs(scale - 1) < 1e-6 else f"scores are scaled by {scale:.4g}"
            sentence = f"{problem}, where 1/√d_k is {width**-0.5:.4g}"
            calls.setdefault(sentence, []).append(f"{step.site} ({step.name or 'the model'})")
    return [f"In {counted(len(names), 'call')} {sentence} (first: {names[0]})" for sentence, names in calls.items()]
