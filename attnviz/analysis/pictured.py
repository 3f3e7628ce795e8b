"""Weights of a query on the patches of pictures, minus the weights of a neutral question, or without attention sinks.

A row is a query, counted from 0 or, if negative, from the end of its text: -1 is the last token, which predicts the
first token of an answer. Patches are the keys with a box in a picture; arrays have them in the order of the keys.
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
    positions = patches(record, site, sentence=sentence)
    length = record.texts(site, sentence=sentence)[0].length
    if not -length <= row < length:
        raise InputError(f"There is no row {row}; there are {length}, counted from 0.")
    row = row % length
    return weights_of(record.step(site), head, slice(row, row + 1), sentence=sentence)[0, positions].double()


def minus_neutral(
    record: Record, neutral: Record, site: Site, head: int | str, row: int = -1, *, sentence: int = 0
) -> Tensor:
    """Subtract, patch by patch, the weights for a neutral question from the weights of a row, float64, (patches,).

    The differences are d_j = w_ij - v_j: w are weights of `record`, and v weights of the last row of `neutral`, a run
    with the same picture and a question such as "Describe the picture."; they need not sum to 0.

    Raises:
        InputError: if the pictures of the records differ, or one record has no such row.
    """
    patches_of_runs = []
    for run in (record, neutral):
        text = run.texts(site, sentence=sentence)[1]
        patches_of_runs.append((text.pictures, [text.tokens[i].box for i in patches(run, site, sentence=sentence)]))
    if patches_of_runs[0] != patches_of_runs[1]:
        raise InputError("The records are of different pictures; ask the neutral question about the same ones.")
    return weights(record, site, head, row, sentence=sentence) - weights(neutral, site, head, sentence=sentence)


def without_sinks(
    record: Record, site: Site, head: int | str, row: int = -1, *, multiple: float = SINK, sentence: int = 0
) -> Tensor:
    """Divide the weights of a row over the patches by their sum without sinks, float64, (patches,); sinks have NaN.

    A patch j is a sink if m_j > multiple · median_k m_k, where m_j is its mean weight over all rows that may attend to
    every patch (patches that no row may attend to do not count): in a decoder the rows from the last patch on.
    """
    positions = patches(record, site, sentence=sentence)
    row_weights = weights(record, site, head, row, sentence=sentence)
    length, step = record.texts(site, sentence=sentence)[0].length, record.step(site)
    open_cells = may_attend(step, head, slice(length), sentence=sentence)[:, positions]  # (rows, patches)
    is_open_patch = open_cells.any(0)
    attends_to_all = open_cells[:, is_open_patch].all(1)
    if not attends_to_all.any():
        raise InputError("No row may attend to every patch, so sinks among the patches are not defined.")
    all_weights = weights_of(step, head, slice(length), sentence=sentence)[:, positions].double()
    means = all_weights[attends_to_all].mean(0)
    is_sink = means > multiple * means.quantile(0.5)
    shares = row_weights.masked_fill(is_sink, 0)
    shares = shares / shares.sum() if shares.sum() > 0 else shares
    return shares.masked_fill(is_sink, torch.nan)
