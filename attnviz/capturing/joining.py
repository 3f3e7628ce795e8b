"""Several calls that are one attention: heads that were computed one by one, and the passes of a generation."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.capturing.call import Call
from attnviz.core.edits import Site
from attnviz.core.masks import Mask


def whole(calls: list[Call]) -> tuple[dict[Site, Call], list[str]]:
    """One call per site: of the last pass, or of all passes where each goes on from the one before.

    Returns:
        The calls, and a sentence for each site whose calls cannot be joined.
    """
    joined: dict[Site, Call] = {}
    sentences = []
    for site in dict.fromkeys(call.site for call in calls):
        parts = _passes([call for call in calls if call.site == site])
        call = parts[0]
        for after in parts[1:]:
            order = None if call.refused or after.refused else goes_on(call, after)
            if order is None and not after.refused and used_keys(after) > after.shape[2] and site.kind != "cross":
                what = "has keys of earlier passes, which cannot be joined to it (a cache was cut or shifted)"
                sentences.append(f"{site} ({after.name or 'the model'}) {what}: the last pass alone is shown")
            call = after if order is None else _continued(call, after, order)
        if call.refused:
            sentences.append(call.refused)
        else:
            joined[site] = _without_unused_keys(call)
    return joined, list(dict.fromkeys(sentences))


def goes_on(before: Call, after: Call) -> Tensor | None:
    """Which sentence of one call each sentence of the next pass goes on from, (B,); None if it does not go on.

    The keys tell: a cache holds those of the passes before it. It may grow, or be a buffer that is filled; a beam
    search puts its sentences in another order.
    """
    (_, heads, _, keys), (_, heads_after, more, all_keys) = before.shape, after.shape
    alike = [
        (call.query is None, call.sinks is None, replace(call.scoring, bias=(), empty_rows="zero"))
        for call in (before, after)
    ]
    if heads != heads_after or alike[0] != alike[1] or keys > all_keys:
        return None
    used = keys
    if before.site.kind == "cross":
        if keys != all_keys:
            return None
    elif keys + more != all_keys:  # else a cache that grows
        used = used_keys(before)
        if keys != all_keys or used + more != used_keys(after):
            return None
    old, new = (call.value if call.key is None else call.key for call in (before, after))
    if old is None or new is None or old.shape[-1] != new.shape[-1]:
        return None
    return _order(old[:, :, :used], new[:, :, :used])


def _order(old: Tensor, new: Tensor) -> Tensor | None:
    """For each sentence of some keys the one with the same keys before, its own place first; None if one has none."""
    if old.shape == new.shape and torch.equal(old, new):
        return torch.arange(len(new))
    places = []
    for place, keys in enumerate(new):
        candidates = sorted(range(len(old)), key=lambda candidate: candidate != place)
        same = next((candidate for candidate in candidates if torch.equal(old[candidate], keys)), None)
        if same is None:
            return None
        places.append(same)
    return torch.tensor(places)


def _passes(calls: list[Call]) -> list[Call]:
    """The calls of a site, one for each pass, in their order."""
    by_pass: dict[int, list[Call]] = {}
    for call in sorted(calls, key=lambda call: call.passed):
        by_pass.setdefault(call.passed, []).append(call)
    return [
        parts[-1] if parts[-1].head is None else _side_by_side(sorted(parts, key=lambda part: part.head))
        for parts in by_pass.values()
    ]


def _side_by_side(heads: list[Call]) -> Call:
    """The heads of a site as one call."""
    first = heads[0]
    if len(heads) == 1:
        return replace(first, head=None)
    alike = {(call.shape, call.weights is None, replace(call.scoring, bias=()), call.sinks is None) for call in heads}
    if len(alike) > 1:
        why = f"the heads of {first.name or 'the model'} differ in shape or scale, so they are no one map"
        return replace(first, head=None, refused=why)
    names = [name for name in ("query", "key", "value", "weights", "sinks") if getattr(first, name) is not None]
    tensors = {name: torch.cat([getattr(call, name) for call in heads], 1) for name in names}
    mask = first.mask
    if any(isinstance(call.mask, Tensor) for call in heads):
        mask = torch.cat([_masked(call).expand(call.shape) for call in heads], 1)
    bias = _biases(heads, lambda parts: torch.cat(parts, 1), every=True)
    parts = [call.samples for call in heads]
    samples = () if not all(parts) else (replace(parts[0][0], own=torch.cat([part[0].own for part in parts], 1)),)
    return replace(first, **tensors, mask=mask, scoring=replace(first.scoring, bias=bias), samples=samples, head=None)


def _biases(calls: list[Call], joined, *, every: bool = False) -> tuple[Tensor, ...]:
    """The biases of some calls as one, for each sentence and head if need be; none if no call has any."""
    if not any(call.scoring.bias for call in calls):
        return ()
    shapes = [call.shape if every else (1, 1, *call.shape[2:]) for call in calls]
    nothing = [torch.zeros(shape, device=call.value.device) for shape, call in zip(shapes, calls, strict=True)]
    added = [sum(call.scoring.bias, zero) for call, zero in zip(calls, nothing, strict=True)]
    return (joined([_wide(bias, call) for bias, call in zip(added, calls, strict=True)]),)


def _continued(before: Call, after: Call, order: Tensor) -> Call:
    """Two passes as one, whose keys are those of the second.

    Args:
        order: which sentence of the first each of the second goes on from.
    """
    before, more = _in_order(before, order), after.shape[3] - before.shape[3]

    def rows(parts: list[Tensor], value: float = 0) -> Tensor:
        first, last = _alike([pad(parts[0], (0, more), value=value), parts[1]])
        return torch.cat([first, last], 2)

    samples = (*before.samples, *(sample.moved(before.shape[2]) for sample in after.samples))
    policies = {call.scoring.empty_rows for call in (before, after)} - {"zero"}
    scoring = replace(
        after.scoring, bias=_biases([before, after], rows), empty_rows=policies.pop() if policies else "zero"
    )
    parts = {"scoring": scoring, "samples": samples, "offset": before.offset}
    if after.weights is not None:
        return replace(after, weights=rows([before.weights, after.weights]), **parts)
    sinks = after.sinks
    if sinks is not None:
        sinks = torch.cat([call.sinks.expand(*call.shape[:3], 1) for call in (before, after)], 2)
    mask = rows([_masked(before), _masked(after)], False)
    return replace(after, query=torch.cat([before.query, after.query], 2), mask=mask, sinks=sinks, **parts)


def _in_order(call: Call, order: Tensor) -> Call:
    """A call with its sentences in another order."""
    batch = call.shape[0]
    if torch.equal(order, torch.arange(batch)):
        return call

    def chosen(tensor: object) -> object:
        is_each = isinstance(tensor, Tensor) and tensor.dim() == 4 and tensor.shape[0] == batch
        return tensor[order.to(tensor.device)] if is_each else tensor

    names = ("query", "key", "value", "weights", "mask", "sinks")
    scoring = replace(call.scoring, bias=tuple(map(chosen, call.scoring.bias)))
    samples = tuple(sample.chosen(order) for sample in call.samples)
    return replace(call, **{name: chosen(getattr(call, name)) for name in names}, scoring=scoring, samples=samples)


def used_keys(call: Call) -> int:
    """How many keys there are up to the last one to which a query may attend."""
    keys = call.shape[3]
    if call.weights is not None:
        is_open = call.weights > 0
    elif isinstance(call.mask, Tensor):
        is_open = call.mask
    else:
        return keys
    places = is_open.flatten(0, -2).any(0).nonzero()
    return int(places[-1]) + 1 if len(places) and is_open.shape[-1] == keys else keys


def _without_unused_keys(call: Call) -> Call:
    """Self-attention without the keys of a buffer that is not full."""
    queries, keys = call.shape[2:]
    if call.site.kind == "cross" or keys <= queries or used_keys(call) != queries:
        return call

    def cut(tensor: object) -> object:
        return tensor[..., :queries] if isinstance(tensor, Tensor) and tensor.shape[-1] == keys else tensor

    scoring = replace(call.scoring, bias=tuple(map(cut, call.scoring.bias)))
    if call.weights is not None:
        return replace(call, weights=cut(call.weights), value=call.value[:, :, :queries], scoring=scoring)
    sides = {"key": call.key[:, :, :queries], "value": call.value[:, :, :queries]}
    return replace(call, **sides, mask=cut(call.mask), scoring=scoring)


def _masked(call: Call) -> Tensor:
    """The mask of a call, (B or 1, H or 1, Q, K)."""
    shape, device = call.shape[2:], (call.value if call.key is None else call.key).device
    if call.mask is None:
        return torch.ones(1, 1, *shape, dtype=torch.bool, device=device)
    return _wide(call.mask.tensor(*shape).to(device) if isinstance(call.mask, Mask) else call.mask, call)


def _wide(tensor: Tensor, call: Call) -> Tensor:
    tensor = tensor.reshape(*(1,) * (4 - tensor.dim()), *tensor.shape)
    return tensor.expand(*tensor.shape[:2], *call.shape[2:])


def _alike(tensors: list[Tensor]) -> list[Tensor]:
    """Tensors with axes of batch and heads of one size."""
    batch, heads = (max(sizes) for sizes in zip(*(tensor.shape[:2] for tensor in tensors), strict=True))
    return [tensor.expand(batch, heads, *tensor.shape[2:]) for tensor in tensors]
