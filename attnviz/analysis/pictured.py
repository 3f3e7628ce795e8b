"""Weights of a row over the patches of pictures, minus those of a neutral question, or without attention sinks.

A row is a query, counted from 0 or, if negative, from the end of its text: -1 is the last token, which predicts the
first token of an answer. Patches are the keys with a box, in order; `patches` gives their positions.
"""

import torch
from torch import Tensor

from attnviz.analysis.blocks import may_attend, weights_of
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record

SINK = 10.0
"""Multiple of the median of all patches' mean weights above which a patch is a sink."""


def patches(record: Record, site: Site, *, sentence: int = 0) -> list[int]:
    """Find the positions of the keys of a site that are patches of pictures; raise InputError if there are none."""
    positions = [i for i, token in enumerate(record.tokens(site, sentence=sentence)[1]) if token.box is not None]
    if not positions:
        raise InputError(f"{site.kind.capitalize()} layer {site.layer} attends to no picture; give a text with one.")
    return positions


def weights(record: Record, site: Site, head: int | str, row: int = -1, *, sentence: int = 0) -> Tensor:
    """Return the weights w_ij of a row i over the patches j, float64, (patches,)."""
    positions, length = patches(record, site, sentence=sentence), record.texts(site, sentence=sentence)[0].length
    if not -length <= row < length:
        raise InputError(f"There is no row {row}; there are {length}, counted from 0.")
    start = row % length
    return weights_of(record.step(site), head, slice(start, start + 1), sentence=sentence)[0, positions].double()


def minus_neutral(
    record: Record, neutral: Record, site: Site, head: int | str, row: int = -1, *, sentence: int = 0
) -> Tensor:
    """Subtract the weights that the last row of a neutral question, such as "Describe the picture.", has over patches.

    d_j = w_ij - v_ij, with weights w of `record` and v of `neutral`: 0 for a patch that has the same weight for both
    questions. Float64, (patches,); their sum is 0 only if both rows give the pictures the same total weight.

    Raises:
        InputError: if the pictures of the records differ, or one record has no such row.
    """
    pictures = []
    for run in (record, neutral):
        text = run.texts(site, sentence=sentence)[1]
        pictures.append((text.pictures, [text.tokens[i].box for i in patches(run, site, sentence=sentence)]))
    if pictures[0] != pictures[1]:
        raise InputError("The records are of other pictures; ask the neutral question about the same ones.")
    return weights(record, site, head, row, sentence=sentence) - weights(neutral, site, head, sentence=sentence)


def without_sinks(
    record: Record, site: Site, head: int | str, row: int = -1, *, multiple: float = SINK, sentence: int = 0
) -> Tensor:
    """Divide the weights of a row over the patches without sinks by their sum, float64, (patches,); NaN at sinks.

    A patch j is a sink if m_j > multiple · median_k m_k, where m_j is its mean weight over all rows that may attend to
    all open patches: in a decoder the rows from the last patch on. Each other patch has w_ij / Σ_k w_ik, summed over
    all k that are not sinks.
    """
    positions = patches(record, site, sentence=sentence)
    row_weights = weights(record, site, head, row, sentence=sentence)
    length, step = record.texts(site, sentence=sentence)[0].length, record.step(site)
    open_cells = may_attend(step, head, slice(length), sentence=sentence)[:, positions]
    sees_all = open_cells[:, open_cells.any(0)].all(1)  # rows that may attend to all open patches
    if not sees_all.any():
        raise InputError("No row may attend to every patch, so sinks among the patches are not defined.")
    means = weights_of(step, head, slice(length), sentence=sentence)[:, positions].double()[sees_all].mean(0)
    is_sink = means > multiple * means.quantile(0.5)
    rest = row_weights.masked_fill(is_sink, 0)
    shares = rest / rest.sum() if rest.sum() > 0 else rest
    return shares.masked_fill(is_sink, torch.nan)
