"""Attention that models of transformers return, as one array of weights per layer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnviz.core.errors import InputError

NAMES = {
    "encoder": ("encoder_attentions", "attentions"),
    "decoder": ("decoder_attentions", "attentions"),
    "cross": ("cross_attentions",),
}
"""Attributes of an output of transformers that hold the attention of a kind."""
NOTHING = (
    "There is no attention in these weights: the default attention of transformers gives none. Load the model with "
    'attn_implementation="eager" and call it with output_attentions=True.'
)


def layers_of(weights: Any, kind: str) -> tuple[Any, str, bool]:
    """Weights, their kind, and whether they were joined from the steps of a generation.

    Args:
        weights: arrays, the output of a model, or what `generate` returns; with beams the whole of its output, as its
            `beam_indices` say which beam each token was of.

    Raises:
        InputError: if a model gave no attention, or its steps do not follow each other.
    """
    beams = None
    if any(hasattr(weights, name) for names in NAMES.values() for name in names):
        beams = getattr(weights, "beam_indices", None)
        attentions = next((attentions for name in NAMES[kind] if (attentions := getattr(weights, name, None))), None)
        if not attentions and kind == "encoder":  # what a decoder alone generated
            attentions = getattr(weights, "decoder_attentions", None)
        weights = attentions or ()
    if not isinstance(weights, list | tuple):
        return weights, kind, False
    if not weights or all(step is None or (isinstance(step, list | tuple) and not len(step)) for step in weights):
        raise InputError(NOTHING)
    if not all(isinstance(step, list | tuple) and all(map(_is_map, step)) for step in weights):
        return weights, kind, False
    kind = "decoder" if kind == "encoder" else kind
    counts = {len(step) for step in weights}
    if len(counts) > 1:
        numbers = " and ".join(map(str, sorted(counts)))
        raise InputError(f"The steps of the generation have {numbers} layers; give those of one generation.")
    return [_joined(list(layer), kind, beams) for layer in zip(*weights, strict=True)], kind, True


def _is_map(array: Any) -> bool:
    return getattr(array, "ndim", 0) == 4


def _joined(steps: Sequence[Any], kind: str, beams: Any) -> Tensor:
    """One map, (B, H, Q, K), of all steps of a layer, (B, H, q, k) each."""
    maps = [torch.as_tensor(step).detach().cpu().float() for step in steps]
    if beams is not None:
        maps = [_of_beams(weights, torch.as_tensor(beams).cpu(), step) for step, weights in enumerate(maps)]
    if len({weights.shape[:2] for weights in maps}) > 1:
        shapes = ", ".join(str(tuple(weights.shape)) for weights in maps[:3])
        raise InputError(
            f"The steps of the generation have the shapes {shapes} ...; batch and heads must stay the same."
        )
    if kind == "cross":
        if len({weights.shape[3] for weights in maps}) > 1:
            raise InputError(
                "The steps of the generation look at encoders of different lengths; give those of one text."
            )
        return torch.cat(maps, 2)
    first, total = maps[0], sum(weights.shape[2] for weights in maps)
    cached = first.shape[3] - first.shape[2]
    cached = cached if cached > 0 and bool(first[..., first.shape[2] :].any()) else 0  # else room for what comes
    whole = first.new_zeros(*first.shape[:2], total, cached + total)
    row = 0
    for weights in maps:
        queries, keys = weights.shape[2:]
        end = cached + row + queries
        begin = max(0, end - keys)  # a window keeps the last keys alone
        whole[:, :, row : row + queries, begin:end] = weights[..., : end - begin]
        row += queries
    return whole


def _of_beams(weights: Tensor, beams: Tensor, step: int) -> Tensor:
    """The rows of the sentences that were returned, of a step of all beams; zeros where one had ended."""
    indices = beams[:, step] if step < beams.shape[1] else beams.new_full((len(beams),), -1)
    chosen = weights[indices.clamp(min=0)]
    chosen[indices < 0] = 0
    return chosen
