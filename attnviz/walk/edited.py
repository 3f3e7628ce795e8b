"""Numbers of an attention call edited in a table."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnviz.core.edits import Site
from attnviz.core.errors import InputError, ShapeError, quoted
from attnviz.core.origin import MATRICES, VECTORS, Change
from attnviz.core.record import Record

MOST_CELLS = 4096
"""Most numbers of a table that can be edited."""


def editable(record: Record, source: Any, site: Site, head: int, matrix: str, *, sentence: int = 0) -> Tensor:
    """The numbers of a matrix that can be edited, (rows, columns), of one sentence and head.

    Args:
        matrix: "query", "key", "value", or "w_q", "w_k", "w_v", "w_o" of the head, written as the paper does: x W.

    Raises:
        InputError: if the source takes no such edits, there is no such matrix, or it is too large.
    """
    if "changes" not in source.settings():
        raise InputError(f"The numbers of '{source.name}' cannot be edited; those of 'scratch' can.")
    if matrix not in MATRICES:
        raise InputError(f"There is no matrix {quoted(matrix)} to edit; there are {', '.join(MATRICES)}.")
    step = record.step(site)
    step.empty_queries(head, sentence=sentence)  # refuses a head or sentence that is not there
    if matrix in VECTORS:
        table = getattr(step, matrix)[sentence, head]
    else:
        table = source.origin(record, site).head_weight(matrix, head, step.num_heads)
    if table.numel() > MOST_CELLS:
        size = f"{table.shape[0]} x {table.shape[1]}"
        raise InputError(f"{matrix} is {size}, too large to edit by hand: at most {MOST_CELLS:,} numbers.")
    return table


def with_edited(
    record: Record, source: Any, site: Site, head: int, matrix: str, table: Tensor, *, sentence: int = 0
) -> Any:
    """The source with a matrix as it is in an edited table; only numbers that differ become changes.

    It is run like any source, through the one attention; what it was before stays as it is.

    Raises:
        InputError: as `editable`; or if a number is not finite.
        ShapeError: if the table has another shape.
    """
    present = editable(record, source, site, head, matrix, sentence=sentence)
    if tuple(table.shape) != tuple(present.shape):
        raise ShapeError(f"The table of {matrix} is {tuple(table.shape)}; it must be {tuple(present.shape)}.")
    table = torch.as_tensor(table).to(present.dtype)
    where = sentence if matrix in VECTORS else 0
    changed = (
        Change(site, head, matrix, row, column, float(table[row, column]), where)
        for row, column in (table != present).nonzero().tolist()
    )
    changes = {change.place: change for change in (*source.changes, *changed)}
    return replace(source, changes=tuple(changes.values()))
