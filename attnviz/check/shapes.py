"""How a shape meets scores of (B, H, Q, K): what is repeated, what is an error, and what goes wrong without one."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnviz.check.findings import AXES, Finding, future
from attnviz.core.errors import InputError, ShapeError, quoted

Shape = tuple[int, int, int, int]


def scores_shape(shape: Sequence[int] | None) -> Shape | None:
    """(B, H, Q, K), or None.

    Raises:
        InputError: if these are not four whole numbers above 0.
    """
    if shape is None:
        return None
    sizes = tuple(shape)
    if len(sizes) != 4 or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise InputError(f"The shape of the scores is four whole numbers above 0, B,H,Q,K; given {quoted(sizes)}.")
    return sizes


def check_axes(array: Tensor) -> None:
    """Refuse an array, by a `ShapeError`, that has no axis, no cells or more than four axes."""
    dims = tuple(array.shape)
    if not 1 <= len(dims) <= 4:
        more = "Check one layer at a time: array[0]" if dims else "Give at least the keys of one query"
        raise ShapeError(f"The array has {len(dims)} axes, {dims}; attention has (B, H, Q, K), or fewer. {more}.")
    if not array.numel():
        raise ShapeError(f"The array has shape {dims}, and so no cells to check.")


def lay(array: Tensor, kind: str, shape: Shape | None) -> tuple[Tensor, tuple[str, ...], list[Finding]]:
    """The array as (B, H, Q, K), the axes it was given with, and findings about its shape.

    Axes are aligned from the right, as broadcasting does, unless the shape of the scores says that others are meant.
    """
    dims, axes, findings = tuple(array.shape), AXES[-array.dim() :], []
    if kind == "mask":
        axes, findings = _unasked(array) if shape is None else _of_mask(array, shape)
    elif shape is not None and (dims != shape[-len(dims) :] or any(size > 1 for size in shape[: -len(dims)])):
        message = f"The {kind} have shape {dims}, and should have (B, H, Q, K) = {shape}."
        findings = [Finding("broadcast", "error", message, "They are never repeated: give all of them.")]
    sizes = dict(zip(axes, dims, strict=True))
    return array.reshape([sizes.get(axis, 1) for axis in AXES]), axes, findings


def is_batch_of_padding(array: Tensor, convention: str | None, *, two_way: bool) -> bool:
    """Whether a mask of two axes is padding, (B, K), as `key_padding_mask` is, where its convention is said.

    Each row is padded at the same end, and there are more or fewer rows than keys. Rows that see one key more each, or
    as many, are a causal mask, unless a two-way mask is meant.
    """
    if array.dim() != 2 or len(array) in (1, array.shape[1]) or convention in (None, "additive"):
        return False
    is_open = (array == 0) if convention == "true-is-masked" else (array != 0)
    counts, steps = is_open.sum(1), is_open.int().diff(dim=1)
    right, left = bool((steps <= 0).all()), bool((steps >= 0).all())
    if not counts.all() or bool((counts == counts[:1]).all()) or not (right or left):
        return False
    more = counts.diff() if right else -counts.diff()
    return two_way or not bool(((more == 0) | (more == 1)).all())


def _unasked(array: Tensor) -> tuple[tuple[str, ...], list[Finding]]:
    """The axes of a mask, and what they are taken for where the shape of the scores is not known."""
    axes, rows, remedy = AXES[-array.dim() :], array.shape[0], ""
    if array.dim() == 3 and rows > 1:
        message = f"The first axis of {tuple(array.shape)} is read as heads, as broadcasting to (B, H, Q, K) does."
        remedy = "If it is the batch, hand over mask.unsqueeze(1)."
    elif array.dim() == 2 and rows > 1 and rows != array.shape[1]:
        message = f"The two axes of {tuple(array.shape)} are read as (Q, K), as broadcasting does."
        remedy = "If they are (B, K), padding, hand over mask[:, None, None, :]."
    return axes, [Finding("broadcast", "note", message, remedy)] if remedy else []


def _of_mask(mask: Tensor, shape: Shape) -> tuple[tuple[str, ...], list[Finding]]:
    """The axes that a mask means, and what broadcasting makes of them."""
    dims, (batch, heads, queries, keys), axes = tuple(mask.shape), shape, AXES[-mask.dim() :]
    pairs = list(zip("BHQK"[-len(dims) :], dims, shape[-len(dims) :], strict=True))
    wrong = [f"{axis} is {have} instead of {want}" for axis, have, want in pairs if have not in (1, want)]
    what = f"A mask of {dims} on scores of (B, H, Q, K) = {shape}"
    raises, severity = f"{what} raises an error{_grows(dims, shape)}", "error"
    match dims:
        case (first, _, last) if last in (1, keys) and first not in (1, heads) and first == batch * heads:
            axes, fix = AXES[1:], f"Hand over mask.view({batch}, {heads}, {dims[1]}, {last})."
            if _is_repeated(mask, batch, heads):
                message = f"{what} gives heads the masks of other sentences: it was made by repeat."
                fix = f"Make it with repeat_interleave({heads}, 0)."
            elif heads == 1:
                message = f"{raises}; it is nn.MultiheadAttention's (B * H, Q, K)."
            else:
                severity, fix = "note", f"For that one: h{fix[1:]}"
                message = f"{what} fits nn.MultiheadAttention, (B * H, Q, K); F.scaled_dot_product_attention raises "
                message += "an error."
        case (first, middle, last) if (
            (wrong or not torch.equal(mask, mask[:1].expand_as(mask)))
            and first == batch > 1
            and last in (1, keys)
            and middle in (1, queries)
        ):
            axes, fix = ("batch", "query", "key"), "Hand over mask.unsqueeze(1), (B, 1, Q or 1, K)."
            message = f"{what} silently gives the mask of sentence i to head i of all, since B = H = {batch}."
            if wrong:
                message = f"{raises}: broadcasting aligns its first axis, the sentences, with the heads."
        case (first, last) if first == batch > 1 and last == keys and wrong:
            axes, fix = ("batch", "key"), "Hand over mask[:, None, None, :], (B, 1, 1, K)."
            message = f"{raises}: its rows are aligned with the queries, and they are sentences."
        case (first, last) if first == batch == queries > 1 and last == keys and not _is_triangle(mask):
            message = f"{what} gives row i to query i of every sentence; since B = Q = {batch}, it may be padding, "
            message += "(B, K)."
            severity, fix = "warning", "If its rows are sentences, hand over mask[:, None, None, :]."
        case _ if wrong:
            turned = queries != keys and dims[-2:] == (keys, queries)
            message = f"{raises}: {', '.join(wrong)}."
            fix = "Hand over mask.mT: rows are queries." if turned else "Each axis must have its full size or 1."
        case _:
            absent = list(zip("BHQK", shape, strict=True))[: 4 - len(dims)]
            over = [f"{axis} = {want}" for axis, want in absent if want > 1]
            over += [f"{axis} = {want}" for axis, have, want in pairs if have < want]
            fits = f"is repeated over {', '.join(over)}" if over else "fits cell by cell"
            message = f"{what} {fits}."
            severity, fix = "note", ""
    return axes, [Finding("broadcast", severity, message, fix)]


def _grows(dims: tuple[int, ...], shape: Shape) -> str:
    """Warning that scores + mask broadcasts to more than the scores; "" if it does not."""
    try:
        grown = tuple(torch.broadcast_shapes(dims, shape))
    except RuntimeError:
        return ""
    return f" in F.scaled_dot_product_attention, and silently makes {grown} of scores + mask"


def _is_repeated(mask: Tensor, batch: int, heads: int) -> bool:
    """Whether masks of (B * H, Q, K) are one for each sentence, in the order of heads and not of sentences."""
    by_head, by_sentence = mask.view(heads, batch, *mask.shape[1:]), mask.view(batch, heads, *mask.shape[1:])
    same = torch.equal(by_head, by_head[:1].expand_as(by_head))
    return same and not torch.equal(by_sentence, by_sentence[:, :1].expand_as(by_sentence))


def _is_triangle(mask: Tensor) -> bool:
    """Whether all of the future is one number and all of the past another."""
    after = future(*mask.shape)
    ahead, behind = mask[after], mask[~after]
    return bool((ahead == ahead[:1]).all() and (behind == behind[:1]).all())
