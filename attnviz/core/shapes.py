"""Checks of tensor shapes, with errors that name both shapes."""

from torch import Tensor

from attnviz.core.errors import ShapeError
from attnviz.core.masks import Mask
from attnviz.core.modifiers import Bias


def check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse query, key and value, (B, n, d) or (B, H, n, d), whose shapes or dtypes differ; nothing is broadcast.

    Raises:
        ShapeError: if shapes or dtypes do not fit; the message names all three.
    """

    def shapes() -> str:
        return f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"

    if not (query.dim() in (3, 4) and query.dim() == key.dim() == value.dim()):
        raise ShapeError(f"Query, key and value need the same 3 (B, n, d) or 4 (B, H, n, d) axes; given {shapes()}.")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"Query and key differ in d_k ({query.shape[-1]} and {key.shape[-1]}): {shapes()}.")
    if query.shape[-1] == 0:
        raise ShapeError(f"d_k is 0, so there is no dot product to take: {shapes()}.")
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"Key and value differ in length ({key.shape[-2]} and {value.shape[-2]}): {shapes()}.")
    for axis, name in enumerate(("batch", "heads")[: query.dim() - 2]):
        sizes = [t.shape[axis] for t in (query, key, value)]
        if len(set(sizes)) > 1:
            would = "Broadcasting would have repeated the one of size 1" if 1 in sizes else "They cannot be broadcast"
            differ = ", ".join(map(str, sizes))
            raise ShapeError(f"Query, key and value differ in {name} ({differ}): {shapes()}. {would}.")
    if not query.dtype == key.dtype == value.dtype:
        dtypes = f"{query.dtype}, {key.dtype}, {value.dtype}"
        raise ShapeError(f"Query, key and value must share a dtype; they have {dtypes}.")
    if not query.is_floating_point():
        raise ShapeError(f"Query, key and value must be floating point; they are {query.dtype}.")


def check_broadcast(name: str, tensor: Tensor, shape: tuple[int, int, int, int]) -> None:
    """Accept shapes (Q, K) and (B, H, Q, K) with axes of full size or 1; raise ShapeError for all other shapes."""
    actual, axes = tuple(tensor.shape), "(B, H, Q, K)"
    if len(actual) not in (2, 4):
        expected = f"It must be (Q, K) = {shape[2:]} or {axes} = {shape}, where an axis may have size 1."
        if len(actual) == 3:
            aligned = "an error" if actual[0] not in (1, shape[1]) else f"its first axis ({actual[0]}) read as heads"
            hint = f" Broadcasting would have given {aligned}; say which you mean with {name}.unsqueeze(1), for {axes}."
        else:
            hint = ""
        raise ShapeError(f"The {name} has shape {actual}, {len(actual)} axes. {expected}{hint}")
    for have, want, axis in zip(actual[::-1], shape[::-1], "KQHB", strict=False):
        if have not in (1, want):
            raise ShapeError(
                f"The {name} has shape {actual}, and {have} on axis {axis} where the scores have {want}: "
                f"they are {axes} = {shape}. An axis must have full size or 1."
            )


def with_one_head(value: Tensor | Mask | Bias | None) -> Tensor | Mask | Bias | None:
    """Add a head axis: (B, n, d) -> (B, 1, n, d); named masks and biases, and those of (Q, K), stay unchanged."""
    if not isinstance(value, Tensor) or value.dim() == 2:
        return value
    if value.dim() != 3:
        raise ShapeError(f"The query has 3 axes (B, n, d); the mask or bias has shape {tuple(value.shape)}.")
    return value.unsqueeze(1)
