"""`flex_attention`: its mask function is asked for each cell, and its score function whether it only adds."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.call import apart
from attnviz.capturing.sdpa import captured_output, grouped
from attnviz.capturing.watched import Watched
from attnviz.core.scoring import Scoring


def attend(mode: Watched, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The operator under `torch.nn.attention.flex_attention`; what it gives is the output and more."""
    query, key, value, score_mod, block_mask, scale = args[:6]
    place = mode.place((query, key, value))
    if place is None or not isinstance(block_mask, tuple):
        return func(*args, **kwargs)
    from torch.nn.attention.flex_attention import create_mask

    k, v = grouped(query, key, value, query.shape[1] != key.shape[1])
    with torch.no_grad():
        bias = _added(score_mod, query.detach(), k.detach())
        mask = create_mask(block_mask[-1], *query.shape[:3], k.shape[2], device=query.device.type)
    if bias is None:
        what = "flex_attention with a score_mod that does more than add"
        mode.captured.note(f"{place.name or mode.captured.name} calls {what}, which is not seen")
        return func(*args, **kwargs)
    is_open, bias, _ = apart(bias)
    mask, more = (mask if is_open is None else mask & is_open), []

    def own() -> Tensor:
        output, *rest = func(*args, **kwargs)
        more.extend(rest)
        return output

    masks = None if mask.all() else mask, bias
    scoring, same = Scoring(scale=scale), mode.origins.are_same(query, key)
    output = captured_output(mode, place, own, (query, k, v), masks, scoring, same, has_heads=True)
    return (output, *(more or func(*args, **kwargs)[1:]))


def _added(score_mod: Callable[..., Tensor], query: Tensor, key: Tensor) -> Tensor | None:
    """Bias that a score function adds, (B, H, Q, K); None if it does something else."""
    scores = query.float() @ key.float().mT
    places = [torch.arange(size, device=query.device) for size in scores.shape]
    places = [index.reshape([-1 if axis == n else 1 for axis in range(4)]) for n, index in enumerate(places)]
    try:
        added = score_mod(torch.zeros_like(scores), *places).expand_as(scores)
        scored = score_mod(scores, *places)
    except Exception:  # whatever a function of single cells makes of all of them
        return None
    return added if torch.allclose(scored, scores + added, rtol=1e-5, atol=1e-5) else None
