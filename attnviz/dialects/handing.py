"""A mask of one dialect in the hands of a reader of another: what comes out, by running it, and in plain words."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.amounts import plural
from attnviz.core.errors import MaskError
from attnviz.core.explain import Judgement, judge
from attnviz.core.masks import Mask
from attnviz.dialects.dialect import Dialect, dialect
from attnviz.dialects.readers import READERS

BLOCKED = -1e4
"""Floats below this block a key when they are added to its score."""


@dataclass(frozen=True)
class Note:
    """Mistake in a row, or in all rows where `query` is None."""

    query: int | None
    words: str


@dataclass(frozen=True, eq=False)
class Handed:
    """Result of reading a mask.

    Attributes:
        meant, read_as: the dialect that the mask is written in, and the one in which it was read.
        meant_grid: boolean, (B, Q, K), True = may attend, as it was meant.
        error: what PyTorch says if it takes no such mask; then the following are None and empty.
        seen: boolean, (B, Q, K), True where the reader leaves a key open.
        added: (B, Q, K) floats that the mask came to in the scores.
        weights: (B, H, Q, K), as they come out.
        notes: per row of the first sentence and for all, in plain words.
        judgement: what the reader saw of the first sentence, if nothing is known but that.
    """

    meant: Dialect
    read_as: Dialect
    meant_grid: Tensor
    error: str = ""
    seen: Tensor | None = None
    added: Tensor | None = None
    weights: Tensor | None = None
    notes: tuple[Note, ...] = ()
    judgement: Judgement = Judgement()


def handed_to(
    mask: Mask,
    queries: int,
    keys: int,
    *,
    meant: str,
    read_as: str,
    dtype: torch.dtype | None = None,
    query: Tensor | None = None,
    key: Tensor | None = None,
) -> Handed:
    """Write a mask in one dialect, hand it as it is to a reader of another, and see.

    The numbers stay as they are; only their axes are put where the reader looks for them.

    Args:
        meant, read_as: names of `DIALECTS`.
        dtype: what the numbers are cast to on the way, as by ``mask.float()``; None leaves them.
        query, key: (B, H, Q, d_k) and (B, H, K, d_k); seeded normal numbers if they are not given.

    Raises:
        MaskError: if the mask cannot be said in `meant`, or one of the two hands over no mask at all (`is_causal`).
    """
    writer, reader = dialect(meant), dialect(read_as)
    for each in (writer, reader):
        if each.name not in READERS:
            raise MaskError(f"{each.name} is a flag: there is no mask to hand over.")
    if why := writer.refuses(mask, queries, keys):
        raise MaskError(why)
    if query is None or key is None:
        query, key = _random_inputs(mask.batch_size or 1, queries, keys)
    tensor = _in_place(writer, reader, mask, queries, keys)
    tensor = tensor if dtype is None else tensor.to(dtype)
    grid = mask.tensor(queries, keys)[:, 0].expand(len(query), -1, -1)
    try:
        weights, added = READERS[read_as](tensor, query, key)
    except (RuntimeError, AssertionError, ValueError, IndexError) as error:
        message = str(error).partition("\n")[0].strip()
        return Handed(writer, reader, grid, f"PyTorch refuses it: {message}", notes=(Note(None, message),))
    added = added[:, 0]
    may_attend = added > BLOCKED
    notes = _notes(grid[0], may_attend[0], added[0], weights[0])
    return Handed(writer, reader, grid, "", may_attend, added, weights, notes, judge([may_attend[0]]))


def _in_place(writer: Dialect, reader: Dialect, mask: Mask, queries: int, keys: int) -> Tensor:
    """The numbers of the writer: (B, K) from and to those who speak of padding, else with four axes."""
    tensor = writer.tensor(mask, queries, keys)
    if writer.name == "key_padding_mask" or (writer.name == "huggingface" and tensor.dim() == 2):
        return tensor if reader.name in ("key_padding_mask", "huggingface") else tensor[:, None, None]
    if tensor.dim() == 3:
        return tensor[:, None]
    return tensor if tensor.dim() == 4 else tensor[None, None]


def _random_inputs(batch: int, queries: int, keys: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(batch, 1, n, 8, generator=generator) for n in (queries, keys))
    return query, key


def _notes(meant: Tensor, may_attend: Tensor, added: Tensor, weights: Tensor) -> tuple[Note, ...]:
    """(Q, K) each, but the weights, (H, Q, K)."""
    moved = added[may_attend].unique()
    if (moved != 0).any():
        numbers = " and ".join(f"{number:g}" for number in moved.tolist()[:4])
        blocked = "Nothing is blocked" if may_attend.all() else "What is open is not left as it is"
        heavier = float((moved.max() - moved.min()).exp())
        much = f", which makes one key up to {heavier:.2f} times as heavy as another" if heavier > 1 else ""
        return (Note(None, f"{blocked}: the floats {numbers} were added to the scores{much}."),)
    notes = []
    if may_attend.equal(meant):
        notes = [Note(None, "It is read as it was meant.")]
    elif may_attend.equal(~meant):
        notes = [Note(None, "Every cell is read as the opposite of what was meant.")]
    worth_saying = (may_attend != meant).any(-1) | ~may_attend.any(-1)
    return (*notes, *(_row(i, meant[i], may_attend[i], weights[:, i]) for i in worth_saying.nonzero()[:, 0].tolist()))


def _row(query: int, meant: Tensor, may_attend: Tensor, weights: Tensor) -> Note:
    """One row in words, (K,) each, but the weights, (H, K)."""
    if not may_attend.any():
        return Note(query, f"Row {query} has no key left: {_outcome(weights)}.")
    what = f"only the future: {_keys(may_attend)}," if not may_attend[: query + 1].any() else _keys(may_attend)
    return Note(query, f"Row {query} sees {what} instead of {_keys(meant)}.")


def _outcome(weights: Tensor) -> str:
    """Weights of a row that has no key left, (H, K), in words."""
    if weights.isnan().all():
        return "its weights are NaN"
    if not weights.any():
        return "its weights are zeros"
    if (weights - 1 / weights.shape[-1]).abs().max() < 1e-3:
        return f"each of the {weights.shape[-1]} keys gets the same weight, though all are masked"
    return "it attends as if nothing were masked"


def _keys(may_attend: Tensor) -> str:
    """Which keys are open, as runs: "keys 0 to 3, 5"; (K,)."""
    places = may_attend.nonzero()[:, 0].tolist()
    if not places:
        return "no key"
    runs = [[places[0], places[0]]]
    for place in places[1:]:
        if place == runs[-1][1] + 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    words = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs)
    return f"{plural('key', len(places))} {words}"
