"""Axes: what stands before (n, d) becomes batch and heads, as attnviz has them."""

from math import prod

from torch import Tensor

from attnviz.core.errors import ShapeError


def split(
    lead: tuple[int, ...], heads: int | None, module_heads: set[int], batches: set[int] = frozenset()
) -> tuple[int, int]:
    """How many sentences and heads stand in the axes before (n, d).

    Args:
        lead: the sizes of these axes.
        heads: how many heads there are, if the person said so.
        said: how many heads the module says that it has.
        batches: how many sentences its inputs may have.

    Raises:
        ShapeError: if one axis may hold heads or sentences and nothing says which.
    """
    total = prod(lead)
    if heads is not None:
        if total % heads:
            raise ShapeError(f"heads={heads} does not divide the axes {lead} before (n, d) of an attention call.")
        return total // heads, heads
    if len(lead) == 2:
        return lead
    if not lead:
        return 1, 1
    for start in range(len(lead)):
        if len(lead) > 1 and start and prod(lead[start:]) in module_heads:
            return prod(lead[:start]), prod(lead[start:])
    if len(lead) > 2:
        return prod(lead[:-1]), lead[-1]
    fit = {count for count in module_heads if total % count == 0}
    folds = {count for count in fit if any(total == batch * count for batch in batches)}
    if not folds and total in batches:
        return total, 1
    fit = folds or fit
    if len(fit) == 1:
        return total // next(iter(fit)), next(iter(fit))
    if not module_heads:
        return total, 1
    raise ShapeError(
        f"An attention call has one axis of {total} before (n, d), and the module speaks of "
        f"{sorted(module_heads)} heads: say capture(model, heads=...)."
    )


def axis_of_heads(lead: tuple[int, ...], module_heads: set[int]) -> int:
    """Which of the axes before (n, d) is that of heads: the last, unless the module's own number is on another alone.

    Args:
        lead: the sizes of these axes.
        said: how many heads the module says that it has.
    """
    last = len(lead) - 1
    if last < 1 or any(prod(lead[start:]) in module_heads for start in range(1, len(lead))):
        return last
    fit = [axis for axis, size in enumerate(lead) if size in module_heads and size > 1]
    return fit[0] if len(fit) == 1 else last


def folded(tensor: Tensor, lead: tuple[int, ...], sizes: tuple[int, int]) -> Tensor:
    """(*lead, n, d) -> (B, H, n, d)."""
    return tensor.expand(*lead, *tensor.shape[-2:]).reshape(*sizes, *tensor.shape[-2:])


def folded_mask(mask: Tensor, lead: tuple[int, ...], sizes: tuple[int, int]) -> Tensor:
    """A mask or bias that broadcasts to (*lead, Q, K) as one that broadcasts to (B, H, Q, K)."""
    while mask.dim() < 2:
        mask = mask.unsqueeze(0)
    before = mask.shape[:-2]
    if all(size == 1 for size in before):
        return mask.reshape(mask.shape[-2:])
    if lead == sizes:
        return mask.reshape(*(1,) * (2 - len(before)), *mask.shape)
    return mask.expand(*lead, *mask.shape[-2:]).reshape(*sizes, *mask.shape[-2:])
