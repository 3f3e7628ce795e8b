"""Attention that a model computes in its own code: the weights that it returns, as steps, where they are whole maps."""

from typing import Any

import torch
from torch import Tensor

from attnviz.core.conventions import named
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Step
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap
from attnviz.sources.huggingface import faults
from attnviz.sources.huggingface.loaded import Loaded

SCORES = {"squeezebert": ("encoder", "decoder"), "prophetnet": ("encoder", "cross")}
"""Kinds of attention for which a family, by its model_type, returns the scores before the softmax, masks added."""
ROUNDING = 0.01
"""Largest difference of one weight computed in two ways, in 16 bits, too."""
BLOCKED = -1e30
"""Score below which a cell is masked: families add about the lowest float32."""
BOUNDS = {torch.float64: 0.01, torch.float32: 0.01}
"""Relative difference of the same hidden states computed in two ways: rounding is far below, another formula above."""
BOUND = 0.1
"""The same in 16 bits."""


def maps(output: Any, alone: str) -> dict[Site, Tensor]:
    """Attention weights that a model returns, by site, in the order of the calls.

    Args:
        alone: kind of the attention of a model that has only one.
    """
    names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    if not hasattr(output, "decoder_attentions"):
        names = {alone: "attentions"}
    by_site = {
        Site(kind, layer): weights
        for kind, name in names.items()
        for layer, weights in enumerate(getattr(output, name, None) or ())
        if isinstance(weights, Tensor)
    }
    return dict(
        sorted(by_site.items(), key=lambda item: (item[0].kind != "encoder", item[0].layer, item[0].kind == "cross"))
    )


def sizes(read: dict[str, Tensor]) -> dict[str, tuple[int, int]]:
    """Numbers of queries and keys of a whole map of each kind."""
    n = read["input_ids"].shape[1]
    m = read.get("decoder_input_ids", read["input_ids"]).shape[1]
    return {"encoder": (n, n), "decoder": (m, m), "cross": (m, n)}


def whole(model: Any, output: Any, read: dict[str, Tensor]) -> dict[Site, int]:
    """Sites at which a model returned whole maps, with their numbers of heads.

    The only attention of a model is a decoder's if no query looks at a later key.
    """
    weights = [w for w in getattr(output, "attentions", None) or () if isinstance(w, Tensor) and w.dim() == 4]
    causal = not any(w.triu(1).any() for w in weights)
    if not weights or weights[0].shape[-1] < 2:  # one token tells nothing
        causal = model.can_generate()
    expected, family = sizes(read), model.config.model_type
    return {
        site: weights.shape[1]
        for site, weights in maps(output, "decoder" if causal else "encoder").items()
        if is_map(family, site, weights, *expected[site.kind])
    }


def is_map(family: str, site: Site, weights: Tensor, queries: int, keys: int) -> bool:
    """Whether something is (B, H, Q, K) weights of all queries over all keys: distributions, or scores of a family."""
    if weights.dim() != 4 or weights.shape[2:] != (queries, keys):
        return False
    if site.kind in SCORES.get(family, ()):
        return True
    off = (weights.float().sum(-1) - 1).abs()
    return not bool((weights < 0).any() or (off > 0.02).any())  # NaN is a weight of a model that is broken


def are_weights(step: Step, model_weights: Tensor, family: str, lengths: tuple[int, ...]) -> bool:
    """Whether the maps that a model returned at a site are the weights of a step, padding aside."""
    if step.site.kind in SCORES.get(family, ()):
        model_weights = model_weights.softmax(-1)
    return all(
        torch.allclose(
            step.weights(head, slice(length), sentence=sentence).float(),
            model_weights[sentence, head, :length].float().cpu(),
            rtol=0,
            atol=ROUNDING,
        )
        for sentence, length in enumerate(lengths)
        for head in range(step.num_heads)
    )


def steps(loaded: Loaded, output: Any, read: dict[str, Tensor], lengths: tuple[int, ...]) -> tuple[Step, ...]:
    """Steps of attention that a model computed itself, n x n, at the sites that are shown.

    Queries and keys are not known: the logarithm of a weight stands as the bias of a score that is zero, so that the
    softmax gives the weight back.

    Raises:
        InputError: if the model cuts a text of this length into pieces.
    """
    expected, family = sizes(read), loaded.config.model_type
    by_site, tap = maps(output, next(iter(loaded.trial.heads)).kind), Tap()
    for site in loaded.trial.heads:
        weights = by_site[site].float().cpu()
        if weights.dim() != 4 or weights.shape[2:] != expected[site.kind]:
            cut = f"{faults.name(loaded.name)} cuts a text of {read['input_ids'].shape[1]:,} tokens into pieces"
            raise InputError(f"{cut}, of which there is no map of all queries and keys. Shorten the text.")
        scored = site.kind in SCORES.get(family, ())
        blocked = weights.amax(1, keepdim=True) <= (BLOCKED if scored else 0)
        bias = weights.masked_fill(blocked, 0) if scored else weights.log()
        nothing = weights.new_zeros(*weights.shape[:2], sum(weights.shape[2:]), 1)
        query, key = nothing.split(weights.shape[2:], 2)
        mask = named(~blocked, *weights.shape[2:], lengths)
        tap.attend(query, key, key, site=site, scoring=Scoring(bias=bias, scale=1.0), mask=mask)
    return tuple(tap.steps)


def is_whole(step: Step, sizes: dict[str, tuple[int, int]]) -> bool:
    """Whether a step is one map of all queries and keys."""
    return (step.shape[2], step.shape[3] - step.has_sink) == sizes[step.site.kind]


def differ(hidden: Tensor, expected: Tensor, length: int | None = None) -> bool:
    """Whether hidden states of one sentence differ, without padding; NaN does not: a broken model is shown as it is."""
    off, own = (hidden - expected)[:length].double().norm(), expected[:length].double().norm()
    return bool(off > BOUNDS.get(hidden.dtype, BOUND) * own)
