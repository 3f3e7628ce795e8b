"""The first route: `F.scaled_dot_product_attention`, which says all that attention is computed from."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnviz.capturing.call import Call, apart
from attnviz.capturing.shapes import folded, folded_mask, split
from attnviz.capturing.where import causal
from attnviz.core.masks import Subsequent
from attnviz.core.scoring import Scoring

if TYPE_CHECKING:
    from attnviz.capturing.mode import Mode


def attend(
    mode: "Mode",
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The arguments and the result are PyTorch's; the call is kept, and the edits act in it."""

    def own() -> Tensor:
        rest = {"scale": scale, "enable_gqa": enable_gqa}
        return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **rest)

    place = mode.place((query, key, value))
    if place is None:
        return own()
    if enable_gqa:
        key, value = (one.repeat_interleave(query.shape[-3] // one.shape[-3], -3) for one in (key, value))
    lead = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    sizes = split(tuple(lead), mode.heads, place.said_heads, place.batches)
    mask, bias, empty = apart(attn_mask)
    mask, bias = (None if one is None else folded_mask(one, lead, sizes) for one in (mask, bias))
    scoring = Scoring(scale=scale, bias=bias, empty_rows=empty)
    q, k, v = (folded(one, lead, sizes) for one in (query, key, value))
    site, passed = mode.site(place, causal(attn_mask, is_causal))
    call = Call(site, place.name, "sdpa", passed, q, k, v, Subsequent() if is_causal else mask, scoring)
    mode.keep(call, place)
    if not mode.touches(site):
        return own()
    output = mode.edited(call, lambda: folded(own(), lead, sizes), dropout_p)
    return output.reshape(*lead, *output.shape[-2:])
