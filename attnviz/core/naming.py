"""Names for masks that a model hands over as booleans, so that each blocked cell can say why it is blocked."""

from functools import reduce
from itertools import pairwise
from operator import and_

import torch
from torch import Tensor

from attnviz.core.masks import Documents, Mask, Padding, Subsequent, Window


def named(mask: Tensor | None, queries: int, keys: int, lengths: tuple[int, ...] | None) -> Tensor | Mask | None:
    """The same mask as rules with names, if it is made of those, so that each blocked cell can say why."""
    if mask is None or mask.all():
        return None
    mask = mask.reshape(*(1,) * (4 - mask.dim()), *mask.shape)
    padded = lengths is not None and keys == max(lengths) and min(lengths) < keys
    padding = [Padding(lengths)] if padded else []
    square = queries == keys == mask.shape[-2]
    documents = _documents(mask, queries) if square else []
    packed = [documents, [*documents, Subsequent()]] if documents else []
    for rules in ([], [Subsequent()], _windows(mask) if square else [], *packed):
        if (together := rules + padding) and _is(reduce(and_, together), mask, queries, keys):
            return reduce(and_, together)
    return mask


def _windows(mask: Tensor) -> list[Mask]:
    """The window that the mask has if it has one: how far its first and last queries see."""
    whole = mask.flatten(0, 1).any(0)  # of a sentence without padding, if there is one
    before, after = (int(whole[edge].sum()) - 1 for edge in (-1, 0))
    if min(before, after) < 0:  # a row that sees nothing is in no window
        return []
    return [Window(before, after)] if after else [Subsequent(), Window(before, 0)]


def _documents(mask: Tensor, queries: int) -> list[Mask]:
    """Packed documents if there are several: each begins where a query does not see the one before it."""
    starts = (~mask[0, 0].diagonal(-1)).nonzero().flatten() + 1
    lengths = tuple(end - start for start, end in pairwise([0, *starts.tolist(), queries]))
    return [Documents(lengths)] if len(lengths) > 1 else []


def _is(rules: Mask, mask: Tensor, queries: int, keys: int) -> bool:
    named = rules.tensor(queries, keys).to(mask.device)
    if named.shape[0] not in (1, mask.shape[0]):
        return False
    whole = mask.expand(*mask.shape[:2], queries, keys)  # LayoutLM gives one row for all queries
    return torch.equal(named.expand_as(whole), whole)
