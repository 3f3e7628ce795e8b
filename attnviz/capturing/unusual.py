"""Unusual properties of captured attention: its scale, copies of keys and values, a bias for far keys."""

from collections.abc import Iterable

import torch
from torch import Tensor

from attnviz.core.amounts import counted
from attnviz.core.edits import Edits
from attnviz.core.record import Step

SAMPLE = 4
"""Keys by which heads are compared."""


def notes(steps: Iterable[Step], edits: Edits) -> list[str]:
    """Unusual properties, in one sentence for all calls that are alike."""
    places: dict[str, list[str]] = {}
    for step in steps:
        for note in (_scale, _copies, _far_keys):
            if not step.weights_only and (sentence := note(step, edits)):
                places.setdefault(sentence, []).append(f"{step.site} ({step.name})" if step.name else str(step.site))
    return [
        f"{names[0]}: {sentence}" if len(names) == 1 else f"{counted(len(names), 'call')}, first {names[0]}: {sentence}"
        for sentence, names in places.items()
    ]


def _scale(step: Step, edits: Edits) -> str:
    """Another scale than 1/√d_k."""
    width, scale = step.query.shape[-1], step.scoring.scale
    usual = width**-0.5
    if scale is None or edits.scale is not None or width < 2 or abs(scale / usual - 1) < 0.01:
        return ""
    if abs(scale - 1) < 1e-6:
        return f"no factor of the scores was seen, where 1/√d_k is {usual:.4g}; the queries may be scaled before"
    return f"scores are scaled by {scale:.4g}, where 1/√d_k is {usual:.4g}"


def _copies(step: Step, _: Edits) -> str:
    """Keys that are copied to other heads than values are: `repeat` beside `repeat_interleave`."""
    groups = [_groups(tensor[0, :, :SAMPLE]) for tensor in (step.key, step.value)]
    if not all(groups) or groups[0] == groups[1]:
        return ""
    keys, values = (", ".join("+".join(map(str, group)) for group in side) for side in groups)
    return f"heads {keys} share keys, and heads {values} share values: repeat and repeat_interleave are not the same"


def _groups(tensor: Tensor) -> list[list[int]]:
    """The heads with the same numbers, (H, n, d); none if each has its own, or all have the same."""
    groups: list[list[int]] = []
    for head, numbers in enumerate(tensor):
        same = next((group for group in groups if torch.equal(tensor[group[0]], numbers)), None)
        groups.append([head]) if same is None else same.append(head)
    return groups if 1 < len(groups) < len(tensor) else []


def _far_keys(step: Step, edits: Edits) -> str:
    """A bias that grows with the distance to a key, as ALiBi's with the wrong sign."""
    queries, keys = step.shape[2:]
    biases = [term for term in step.scoring.bias if isinstance(term, Tensor) and term.shape[-1] == keys]
    if step.has_sink or queries != keys or keys < 4 or len(biases) != 1 or edits.bias or step.site.kind == "cross":
        return ""
    bias = biases[0].reshape(*(1,) * (4 - biases[0].dim()), *biases[0].shape)[0, :, -1].float()
    slopes = bias[:, 1:] - bias[:, :-1]
    is_line = (slopes - slopes[:, :1]).abs().amax(-1) < 1e-4 * (1 + bias.abs().amax(-1))
    wrong = (is_line & (slopes[:, 0] < -1e-5)).nonzero().flatten().tolist()
    if not wrong or biases[0].shape[-2] == 1:
        return ""
    slope = float(slopes[wrong[0], 0])
    what = f"the bias of head {wrong[0]} changes by {slope:+.4g} with each key nearer to the query"
    return f"{what}, ALiBi's by {-slope:+.4g}"
