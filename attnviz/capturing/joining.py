"""Several calls that are one attention: heads that were computed one by one, and the passes of a generation."""

from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.capturing.call import Call
from attnviz.core.edits import Site
from attnviz.core.masks import Mask


def whole(calls: list[Call]) -> dict[Site, Call]:
    """One call per site: of the last pass, or of all passes where each goes on from the one before."""
    found: dict[Site, Call] = {}
    for _, group in groupby(sorted(calls, key=lambda call: call.passed), key=lambda call: call.passed):
        by_site: dict[Site, list[Call]] = {}
        for call in group:
            by_site.setdefault(call.site, []).append(call)
        for site, parts in by_site.items():
            call = parts[-1] if parts[-1].head is None else _side_by_side(sorted(parts, key=lambda one: one.head))
            found[site] = (_continued(found[site], call) if site in found else None) or call
    order = {call.site: place for place, call in reversed([*enumerate(calls)])}
    return dict(sorted(found.items(), key=lambda one: order[one[0]]))


def _side_by_side(heads: list[Call]) -> Call:
    """The heads of a site as one call."""
    first = heads[0]
    if len(heads) == 1 or len({(one.shape, one.weights is None, one.scoring.scale) for one in heads}) > 1:
        return replace(heads[-1], head=None)

    names = [name for name in ("query", "key", "value", "weights") if getattr(first, name) is not None]
    tensors = {name: torch.cat([getattr(one, name) for one in heads], 1) for name in names}
    mask = first.mask
    if any(isinstance(one.mask, Tensor) for one in heads):
        mask = torch.cat([_of_all(one.mask, one) for one in heads], 1)
    bias = tuple(
        torch.cat([_of_all(part, call) for part, call in zip(parts, heads, strict=True)], 1)
        for parts in zip(*(one.scoring.bias for one in heads), strict=False)
    )
    return replace(first, **tensors, mask=mask, scoring=replace(first.scoring, bias=bias), head=None)


def _of_all(given: Tensor | Mask | None, call: Call) -> Tensor:
    """A mask or bias for each sentence and head of a call."""
    shape = call.shape
    if given is None:
        return torch.ones(shape, dtype=torch.bool, device=call.value.device)
    tensor = given.tensor(*shape[2:]).to(call.value.device) if isinstance(given, Mask) else given
    return tensor.expand(shape)


def _continued(before: Call, after: Call) -> Call | None:
    """Two passes as one, whose keys are those of the second; None if the second does not go on from the first."""
    is_next = before.query is not None and after.query is not None and before.sinks is None and after.sinks is None
    if not is_next or before.shape[:2] != after.shape[:2] or len(before.scoring.bias) != len(after.scoring.bias):
        return None
    (_, _, queries, keys), more, all_keys = before.shape, after.shape[2], after.shape[3]
    is_cross = before.site.kind == "cross" and keys == all_keys
    if not is_cross and (keys + more != all_keys or queries + more > all_keys):
        return None
    if not torch.equal(before.key, after.key[:, :, :keys]) or before.key.shape[-1] != after.key.shape[-1]:
        return None
    wider = (0, all_keys - keys)
    masks = [pad(_masked(before), wider, value=False), _masked(after)]
    bias = tuple(
        torch.cat([pad(_wide(a, before), wider), _wide(b, after)], 2)
        for a, b in zip(before.scoring.bias, after.scoring.bias, strict=True)
    )
    query, mask = torch.cat([before.query, after.query], 2), torch.cat(_alike(masks), 2)
    return replace(after, query=query, mask=mask, scoring=replace(after.scoring, bias=bias))


def _masked(call: Call) -> Tensor:
    """The mask of a call, (B or 1, H or 1, Q, K)."""
    shape = call.shape[2:]
    if call.mask is None:
        return torch.ones(1, 1, *shape, dtype=torch.bool, device=call.key.device)
    return _wide(call.mask.tensor(*shape).to(call.key.device) if isinstance(call.mask, Mask) else call.mask, call)


def _wide(tensor: Tensor, call: Call) -> Tensor:
    tensor = tensor.reshape(*(1,) * (4 - tensor.dim()), *tensor.shape)
    return tensor.expand(*tensor.shape[:2], *call.shape[2:])


def _alike(tensors: list[Tensor]) -> list[Tensor]:
    """Tensors with axes of batch and heads of one size."""
    batch, heads = (max(sizes) for sizes in zip(*(one.shape[:2] for one in tensors), strict=True))
    return [one.expand(batch, heads, *one.shape[2:]) for one in tensors]
