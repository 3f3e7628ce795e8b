"""How a shape meets scores of (B, H, Q, K): what is repeated, what is an error, and what goes wrong without one."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnviz.check.findings import AXES, Finding, future
from attnviz.check.intent import Intent
from attnviz.check.kinds import small
from attnviz.core.errors import InputError, ShapeError, quoted
from attnviz.core.explain import judge
from attnviz.core.masks import Padding
from attnviz.core.masks.published import PADDING

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


def lay(array: Tensor, kind: str, shape: Shape | None) -> tuple[Tensor, tuple[str, ...], list[Finding]]:
    """The array as (B, H, Q, K), the axes it was given with, and findings about its shape.

    Axes are aligned from the right, as broadcasting does, unless the shape of the scores says that others are meant.
    """
    dims = tuple(array.shape)
    axes, findings = AXES[-array.dim() :], []
    if shape is None:
        findings = _unasked(array, kind)
    elif kind == "mask":
        axes, finding = _mask(array, shape)
        findings = [finding]
    elif dims != shape[-len(dims) :] or any(size > 1 for size in shape[: -len(dims)]):
        message = f"The {kind} have shape {dims}, and should have {_named(shape)}."
        findings = [_error(message, "They are never repeated: give all of them.")]
    sizes = dict(zip(axes, dims, strict=True))
    return array.reshape([sizes.get(axis, 1) for axis in AXES]), axes, findings


def is_batch_of_padding(array: Tensor, convention: str | None, meant: Intent | None) -> bool:
    """Whether a mask of two axes is padding, (B, K), as `key_padding_mask` is, where its convention is said.

    Each row is padded at the same end. Rows that see one key more each, or as many, are a causal mask; and as many rows
    as keys are padding only if as (Q, K) they would be no known mask, with or without a mistake. Where padding
    is meant, nothing else is asked.
    """
    is_padding = meant is not None and (meant.kind in PADDING or isinstance(meant.mask, Padding))
    if (
        array.dim() != 2
        or len(array) < 2
        or convention not in ("true-is-masked", "may-attend", "zero-is-masked")
        or not (meant is None or is_padding)
    ):
        return False
    is_open = (array == 0) if convention == "true-is-masked" else (array != 0)
    counts, steps = is_open.sum(1), is_open.int().diff(dim=1)
    if not counts.all() or bool((counts == counts[:1]).all()):
        return False
    right, left = bool((steps <= 0).all()), bool((steps >= 0).all())
    if is_padding or not (right or left):
        return right or left
    more = counts.diff() if right else -counts.diff()
    if len(array) != array.shape[1]:
        return not bool(((more == 0) | (more == 1)).all())
    return not bool((more >= 0).all()) and not judge((is_open,)).explanations


def check_axes(array: Tensor) -> None:
    """Refuse what is no array of attention.

    Raises:
        ShapeError: if it has no axis, no cells or more than four axes.
    """
    dims = tuple(array.shape)
    if not 1 <= array.dim() <= 4:
        more = "Check one layer at a time: array[0]" if array.dim() > 4 else "Give at least the keys of one query"
        raise ShapeError(f"The array has {array.dim()} axes, {dims}; attention has (B, H, Q, K), or fewer. {more}.")
    if not array.numel():
        raise ShapeError(f"The array has shape {dims}, and so no cells to check.")


def _mask(mask: Tensor, shape: Shape) -> tuple[tuple[str, ...], Finding]:
    """The axes that a mask means, and what broadcasting makes of them."""
    dims, (_, _, queries, keys) = tuple(mask.shape), shape
    wrong = _misfits(dims, shape)
    what = f"A mask of {dims} on scores of {_named(shape)}"
    raises = f"{what} raises an error{_grows(dims, shape)}"
    if meant := _other_axes(mask, shape, what, raises):
        return meant
    axes = AXES[-len(dims) :]
    if not wrong:
        return axes, Finding("broadcast", "note", f"{what} {_repeated(dims, shape)}.")
    turned = queries != keys and dims[-2:] == (keys, queries)
    fix = "Hand over mask.mT: rows are queries." if turned else "Each axis must have its full size or 1."
    return axes, _error(f"{raises}: {', '.join(wrong)}.", fix)


def _other_axes(mask: Tensor, shape: Shape, what: str, raises: str) -> tuple[tuple[str, ...], Finding] | None:
    """The axes that were meant, where broadcasting aligns others."""
    dims, (batch, heads, queries, keys) = tuple(mask.shape), shape
    wrong = _misfits(dims, shape)
    match dims:
        case (first, _, last) if last in (1, keys) and first not in (1, heads) and first == batch * heads:
            fix = f"Hand over mask.view({batch}, {heads}, {dims[1]}, {last})."
            if _is_repeated(mask, batch, heads):
                fix = f"Make it with repeat_interleave({heads}, 0)."
                return AXES[1:], _error(f"{what} gives heads the masks of other sentences: it was made by repeat.", fix)
            if heads == 1:
                return AXES[1:], _error(f"{raises}; it is nn.MultiheadAttention's (B * H, Q, K).", fix)
            message = (
                f"{what} fits nn.MultiheadAttention, (B * H, Q, K); F.scaled_dot_product_attention raises an error."
            )
            return AXES[1:], Finding("broadcast", "note", message, f"For that one: {small(fix)}")
        case (first, middle, last) if first == batch > 1 and last in (1, keys) and middle in (1, queries):
            fix = "Hand over mask.unsqueeze(1), (B, 1, Q or 1, K)."
            if wrong:
                message = f"{raises}: broadcasting aligns its first axis, the sentences, with the heads."
                return ("batch", "query", "key"), _error(message, fix)
            if not torch.equal(mask, mask[:1].expand_as(mask)):
                message = (
                    f"{what} silently gives the mask of sentence i to head i of every sentence, since B = H = {batch}."
                )
                return ("batch", "query", "key"), _error(message, fix)
        case (first, last) if first == batch > 1 and last == keys and wrong:
            message = f"{raises}: its rows are aligned with the queries, and they are sentences."
            return ("batch", "key"), _error(message, "Hand over mask[:, None, None, :], (B, 1, 1, K).")
        case (first, last) if first == batch == queries > 1 and last == keys and not _is_triangle(mask):
            message = (
                f"{what} gives row i to query i of every sentence; since B = Q = {batch}, it may be padding, (B, K)."
            )
            fix = "If its rows are sentences, hand over mask[:, None, None, :]."
            return AXES[2:], Finding("broadcast", "warning", message, fix)
    return None


def _is_repeated(mask: Tensor, batch: int, heads: int) -> bool:
    """Whether masks of (B * H, Q, K) are one for each sentence, in the order of heads and not of sentences."""
    by_head, by_sentence = mask.view(heads, batch, *mask.shape[1:]), mask.view(batch, heads, *mask.shape[1:])
    same = torch.equal(by_head, by_head[:1].expand_as(by_head))
    return same and not torch.equal(by_sentence, by_sentence[:, :1].expand_as(by_sentence))


def _misfits(dims: tuple[int, ...], shape: Shape) -> list[str]:
    """In words the axes that are neither 1 nor as long as the scores'."""
    return [f"{axis} is {have} instead of {want}" for axis, have, want in _pairs(dims, shape) if have not in (1, want)]


def _is_triangle(mask: Tensor) -> bool:
    """Whether all of the future is one number and all of the past another."""
    after = future(*mask.shape)
    ahead, behind = mask[after], mask[~after]
    return bool((ahead == ahead[:1]).all() and (behind == behind[:1]).all())


def _unasked(array: Tensor, kind: str) -> list[Finding]:
    """Meanings of a mask's shape, where the shape of the scores is not known."""
    if kind != "mask":
        return []
    if array.dim() == 3 and array.shape[0] > 1:
        message = f"The first axis of {tuple(array.shape)} is read as heads, as broadcasting to (B, H, Q, K) does."
        return [Finding("broadcast", "note", message, "If it is the batch, hand over mask.unsqueeze(1).")]
    if array.dim() == 2 and array.shape[0] > 1 and array.shape[0] != array.shape[1]:
        message = f"The two axes of {tuple(array.shape)} are read as (Q, K), as broadcasting does."
        return [Finding("broadcast", "note", message, "If they are (B, K), padding, hand over mask[:, None, None, :].")]
    return []


def _grows(dims: tuple[int, ...], shape: Shape) -> str:
    """Warning that scores + mask broadcasts to more than the scores; "" if it does not."""
    try:
        grown = tuple(torch.broadcast_shapes(dims, shape))
    except RuntimeError:
        return ""
    return f" in F.scaled_dot_product_attention, and silently makes {grown} of scores + mask"


def _pairs(dims: tuple[int, ...], shape: Shape) -> list[tuple[str, int, int]]:
    return list(zip("BHQK"[-len(dims) :], dims, shape[-len(dims) :], strict=True))


def _repeated(dims: tuple[int, ...], shape: Shape) -> str:
    absent = [(axis, want) for axis, want in zip("BHQK", shape, strict=True)][: 4 - len(dims)]
    over = [axis + f" = {want}" for axis, want in absent if want > 1]
    over += [f"{axis} = {want}" for axis, have, want in _pairs(dims, shape) if have < want]
    return f"is repeated over {', '.join(over)}" if over else "fits cell by cell"


def _named(shape: Shape) -> str:
    return f"(B, H, Q, K) = {shape}"


def _error(message: str, fix: str) -> Finding:
    return Finding("broadcast", "error", message, fix)
