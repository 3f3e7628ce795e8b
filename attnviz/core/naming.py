"""Recognize named rules in boolean masks of a model, so that each blocked cell has a reason."""

from functools import reduce
from itertools import pairwise
from operator import and_

import torch
from torch import Tensor

from attnviz.core.masks import Documents, Mask, Padding, Subsequent, Window


def named(mask: Tensor | None, queries: int, keys: int, lengths: tuple[int, ...] | None) -> Tensor | Mask | None:
    """Convert a boolean mask to named rules if they reproduce it exactly; else the tensor. None for an open mask."""
    if mask is None or mask.all():
        return None
    mask = mask.reshape(*(1,) * (4 - mask.dim()), *mask.shape)
    padded = lengths is not None and keys == max(lengths) and min(lengths) < keys
    padding = [Padding(lengths)] if padded else []
    square = queries == keys == mask.shape[-2]
    documents = _document_rules(mask, queries) if square else []
    packed = [documents, [*documents, Subsequent()]] if documents else []
    for rules in ([], [Subsequent()], _window_rules(mask) if square else [], *packed):
        if (together := rules + padding) and _equals_tensor(reduce(and_, together), mask, queries, keys):
            return reduce(and_, together)
    return mask


def _window_rules(mask: Tensor) -> list[Mask]:
    """Sliding-window rules with the reach of the first and the last query; an empty list if a query has no key."""
    whole = mask.flatten(0, 1).any(0)  # the mask of a sentence without padding, if there is one
    before, after = (int(whole[edge].sum()) - 1 for edge in (-1, 0))
    if min(before, after) < 0:  # no window leaves a row without a key
        return []
    return [Window(before, after)] if after else [Subsequent(), Window(before, 0)]


def _document_rules(mask: Tensor, queries: int) -> list[Mask]:
    """Rule of packed documents, if several: one begins where a query cannot attend to the position before it."""
    starts = (~mask[0, 0].diagonal(-1)).nonzero().flatten() + 1
    lengths = tuple(end - start for start, end in pairwise([0, *starts.tolist(), queries]))
    return [Documents(lengths)] if len(lengths) > 1 else []


def _equals_tensor(rules: Mask, mask: Tensor, queries: int, keys: int) -> bool:
    named = rules.tensor(queries, keys).to(mask.device)
    if named.shape[0] not in (1, mask.shape[0]):
        return False
    whole = mask.expand(*mask.shape[:2], queries, keys)  # LayoutLM gives one row for all queries
    return torch.equal(named.expand_as(whole), whole)
