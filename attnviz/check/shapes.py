"""How a shape meets scores of (B, H, Q, K): what is repeated, what is an error, and what goes wrong without one."""

from collections.abc import Sequence

from torch import Tensor

from attnviz.check.findings import AXES, Finding
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


def lay(array: Tensor, kind: str, shape: Shape | None) -> tuple[Tensor, tuple[str, ...], list[Finding]]:
    """The array as (B, H, Q, K), the axes it was given with, and what is to be said about its shape.

    Axes are aligned from the right, as broadcasting does, unless the shape of the scores says that others are meant.

    Raises:
        ShapeError: if it has no axis, no cells or more than four axes.
    """
    given = tuple(array.shape)
    if not 1 <= array.dim() <= 4:
        more = "Check one layer at a time: array[0]" if array.dim() > 4 else "Give at least the keys of one query"
        raise ShapeError(f"The array has {array.dim()} axes, {given}; attention has (B, H, Q, K), or fewer. {more}.")
    if not array.numel():
        raise ShapeError(f"The array has shape {given}, and so no cells to check.")
    axes, findings = AXES[-array.dim() :], []
    if shape is None:
        findings = _unasked(array, kind)
    elif kind == "mask":
        axes, found = _mask(given, shape)
        findings = [found]
    elif given != shape[-len(given) :] or any(size > 1 for size in shape[: -len(given)]):
        findings = [_error(f"The {kind} have shape {given}, and the scores have {_named(shape)}.", "Say their shape.")]
    sizes = dict(zip(axes, given, strict=True))
    return array.reshape([sizes.get(axis, 1) for axis in AXES]), axes, findings


def _mask(given: tuple[int, ...], shape: Shape) -> tuple[tuple[str, ...], Finding]:
    """The axes that a mask means, and what broadcasting makes of them."""
    batch, heads, queries, keys = shape
    fits = all(have in (1, want) for have, want in zip(given[::-1], shape[::-1], strict=False))
    told = f"A mask of {given} on scores of {_named(shape)}"
    match given:
        case (rows, _, last) if last in (1, keys) and rows not in (1, heads) and rows == batch * heads:
            says = f"{told} raises an error; it is nn.MultiheadAttention's (B * H, Q, K)."
            return AXES[1:], _error(says, f"Hand over mask.view({batch}, {heads}, {given[1]}, {last}).")
        case (rows, middle, last) if rows == batch > 1 and last in (1, keys) and middle in (1, queries):
            what = (
                f"silently gives the mask of sentence i to head i, since B = H = {batch}" if fits else "raises an error"
            )
            says = f"{told} {what}: broadcasting aligns its first axis with the heads."
            return ("batch", "query", "key"), _error(says, "Hand over mask.unsqueeze(1), (B, 1, Q or 1, K).")
        case (rows, last) if rows == batch > 1 and last == keys and not fits:
            says = f"{told} raises an error: its rows are aligned with the queries, and they are sentences."
            return ("batch", "key"), _error(says, "Hand over mask[:, None, None, :], (B, 1, 1, K).")
        case (rows, last) if rows == batch == queries > 1 and last == keys:
            says = (
                f"{told} gives row i to query i of every sentence; B = Q = {batch}, so padding of (B, K) would fit too."
            )
            fix = "If its rows are sentences, hand over mask[:, None, None, :]."
            return AXES[2:], Finding("broadcast", "warning", says, fix)
    if fits and len(given) <= 4:
        return AXES[-len(given) :], Finding("broadcast", "note", f"{told} {_repeated(given, shape)}.")
    turned = queries != keys and given[-2:] == (keys, queries)
    wrong = [
        f"{axis} is {have} instead of {want}" for axis, have, want in _pairs(given, shape) if have not in (1, want)
    ]
    fix = "Hand over mask.mT: rows are queries." if turned else "Each axis must have its full size or 1."
    return AXES[-len(given) :], _error(f"{told} raises an error: {', '.join(wrong)}.", fix)


def _unasked(array: Tensor, kind: str) -> list[Finding]:
    """What a mask's shape may mean, where the shape of the scores is not known."""
    if kind != "mask":
        return []
    if array.dim() == 3 and array.shape[0] > 1:
        says = f"The first axis of {tuple(array.shape)} is read as heads, as broadcasting to (B, H, Q, K) does."
        return [Finding("broadcast", "note", says, "If it is the batch, hand over mask.unsqueeze(1).")]
    if array.dim() == 2 and array.shape[0] > 1 and array.shape[0] != array.shape[1]:
        says = f"The two axes of {tuple(array.shape)} are read as (Q, K), as broadcasting does."
        return [Finding("broadcast", "note", says, "If they are (B, K), padding, hand over mask[:, None, None, :].")]
    return []


def _pairs(given: tuple[int, ...], shape: Shape) -> list[tuple[str, int, int]]:
    return list(zip("BHQK"[-len(given) :], given, shape[-len(given) :], strict=True))


def _repeated(given: tuple[int, ...], shape: Shape) -> str:
    absent = [(axis, want) for axis, want in zip("BHQK", shape, strict=True)][: 4 - len(given)]
    over = [axis + f" = {want}" for axis, want in absent if want > 1]
    over += [f"{axis} = {want}" for axis, have, want in _pairs(given, shape) if have < want]
    return f"is repeated over {', '.join(over)}" if over else "fits cell by cell"


def _named(shape: Shape) -> str:
    return f"(B, H, Q, K) = {shape}"


def _error(says: str, fix: str) -> Finding:
    return Finding("broadcast", "error", says, fix)
