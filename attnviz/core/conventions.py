"""Convert masks to True = may attend and back, and tensors to named rules; the convention is never guessed."""

import math
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import and_

import torch
from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.masks import Documents, Full, Mask, Padding, Painted, Subsequent, Window
from attnviz.core.record import Step


def from_true_is_masked(mask: Tensor) -> Tensor:
    """Convert from the convention of `nn.MultiheadAttention` (True or 1 = masked) to that of attnviz."""
    return ~_to_boolean(mask, "True = masked")


def to_true_is_masked(mask: Tensor) -> Tensor:
    """Convert from the convention of attnviz to that of `nn.MultiheadAttention`: True = masked."""
    return ~_check_boolean(mask)


def from_zero_is_masked(mask: Tensor) -> Tensor:
    """Convert from 0 = masked, 1 = may attend (Hugging Face, Annotated Transformer) to the convention of attnviz."""
    return _to_boolean(mask, "0 = masked")


def to_zero_is_masked(mask: Tensor) -> Tensor:
    """Convert from the convention of attnviz to 0 = masked, 1 = may attend, int64."""
    return _check_boolean(mask).long()


def from_additive(mask: Tensor) -> Tensor:
    """Convert from floats added to the scores: 0 = may attend, -inf or very negative (below -10,000) = masked.

    Raises:
        MaskError: if the mask has other values; it is then a bias, which changes weights and blocks no keys.
    """
    blocked = mask < -1e4
    if not mask.is_floating_point() or not ((mask == 0) | blocked).all():
        raise MaskError("An additive mask holds floats: 0 = may attend, -inf (or below -10,000) = masked.")
    return ~blocked


def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32, *, fill: float = -math.inf) -> Tensor:
    """Convert from the convention of attnviz to floats added to the scores: 0 = may attend, the number `fill` = masked.

    Hugging Face fills with the lowest number of the dtype, ``torch.finfo(dtype).min``.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~_check_boolean(mask), fill)


def _check_boolean(mask: Tensor) -> Tensor:
    """Return the mask; raise MaskError unless it holds booleans."""
    if mask.dtype is not torch.bool:
        raise MaskError(f"A mask of attnviz holds booleans, True = may attend; this one holds {mask.dtype}.")
    return mask


def _to_boolean(mask: Tensor, convention: str) -> Tensor:
    """Convert a mask of 0 and 1 to booleans; for other numbers, raise MaskError with the name of the convention."""
    if mask.dtype is not torch.bool and not ((mask == 0) | (mask == 1)).all():
        raise MaskError(f"A mask with {convention} holds 0 and 1 only; this one holds {mask.unique()[:4].tolist()}.")
    return mask.bool()


def named(mask: Tensor | None, queries: int, keys: int, lengths: tuple[int, ...] | None) -> Tensor | Mask | None:
    """Convert a mask, which broadcasts to (B, H, queries, keys), to named rules if these give exactly the same cells.

    Otherwise the mask is returned; None for an open mask. `lengths` are the numbers of tokens per sentence, if known.
    """
    if mask is None or mask.all():
        return None
    mask = mask.reshape(*(1,) * (4 - mask.dim()), *mask.shape)  # four axes
    is_padded = lengths is not None and keys == max(lengths) and min(lengths) < keys
    padding = [Padding(lengths)] if is_padded else []
    candidates = [[], [Subsequent()]]
    if queries == keys == mask.shape[-2]:
        candidates.append(_window_rules(mask))
        if documents := _document_rules(mask, queries):
            candidates += [documents, [*documents, Subsequent()]]
    all_rows = mask.expand(*mask.shape[:2], queries, keys)  # LayoutLM gives one row for all queries
    for rules in candidates:
        if rules + padding:
            named_mask = reduce(and_, rules + padding)
            cells = named_mask.tensor(queries, keys).to(mask.device)
            if cells.shape[0] in (1, mask.shape[0]) and torch.equal(cells.expand_as(all_rows), all_rows):
                return named_mask
    return mask


def _window_rules(mask: Tensor) -> list[Mask]:
    """Guess sliding-window rules from how many keys the last and the first query see; empty if one sees no key."""
    sees_key = mask.flatten(0, 1).any(0)  # (Q, K): without padding, if one sentence has none
    before, after = int(sees_key[-1].sum()) - 1, int(sees_key[0].sum()) - 1  # a query also sees itself
    if min(before, after) < 0:
        return []
    return [Window(before, after)] if after else [Subsequent(), Window(before, 0)]


def _document_rules(mask: Tensor, queries: int) -> list[Mask]:
    """Guess the rule of packed documents, if there are several: each begins where a query cannot see the key before."""
    sees_previous = mask[0, 0].diagonal(-1)  # query 1 and key 0, query 2 and key 1, ...
    starts = (~sees_previous).nonzero().flatten() + 1
    lengths = tuple(end - start for start, end in pairwise([0, *starts.tolist(), queries]))
    return [Documents(lengths)] if len(lengths) > 1 else []


@dataclass(frozen=True, eq=False)
class ModelMask(Mask):
    """A built-in mask that is not a rule, as open cells, (Q, K); all positions outside of these cells are open."""

    cells: Tensor
    title: str

    def allows(self, query, key, sentence):
        last_query, last_key = (size - 1 for size in self.cells.shape)
        inside = (query >= 0) & (query <= last_query) & (key <= last_key)
        return ~inside | self.cells[query.clamp(0, last_query), key.clamp(0, last_key)]

    @property
    def text(self) -> str:
        return Painted(tuple(map(tuple, torch.nonzero(~self.cells).tolist()))).text

    def __str__(self) -> str:
        return self.title


def mask_of(step: Step, head: int | str, *, sentence: int = 0) -> Mask:
    """Return the mask of a head as a rule if possible, else as cells; for combined heads, the mask of the first."""
    head = head if isinstance(head, int) else 0
    if isinstance(step.mask, Tensor):
        return ModelMask(step.may_attend(head, sentence=sentence), "the model's mask")
    if step.mask is None and step.weights_only:
        cells = step.weights(head, sentence=sentence) > 0
        return Full() if bool(cells.all()) else ModelMask(cells, "a weight of exactly 0")
    return step.mask or Full()
