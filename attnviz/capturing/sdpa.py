"""The first route: `F.scaled_dot_product_attention`, which says all that attention is computed from."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnviz.capturing.call import apart
from attnviz.capturing.checking import Sample
from attnviz.capturing.layout import Plain
from attnviz.capturing.shapes import axis_of_heads, folded, folded_mask, split
from attnviz.capturing.watched import Watched
from attnviz.capturing.where import CallPlace, causal, positions
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.scoring import Scoring


def attend(
    mode: Watched,
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
        output = own()
        mode.origins.begin(output)
        return output
    mask, bias, empty = apart(attn_mask)
    scoring = Scoring(scale=scale, empty_rows=empty)
    masks = Subsequent() if is_causal else mask, bias
    tensors = query, *grouped(query, key, value, enable_gqa)
    same = mode.origins.are_same(query, key)
    if _is_packed(place, query, key):
        return _unpacked(mode, place, own, tensors, masks, scoring, same, dropout_p)
    return captured_output(mode, place, own, tensors, masks, scoring, same, dropout_p)


def _is_packed(place: CallPlace, query: Tensor, key: Tensor) -> bool:
    """Whether the heads of a group stand where queries do: so transformers hands one new token of grouped-query
    attention over, (B, heads of keys, heads of a group, d)."""
    group = getattr(place.module, "num_key_value_groups", 1)
    is_grouped = query.dim() == 4 and query.shape[2] == group > 1 and query.shape[1] == key.shape[1]
    return is_grouped and any(size == 1 for _, size in positions(place.frame))


def _unpacked(
    mode: Watched,
    place: CallPlace,
    own: Callable[[], Tensor],
    tensors: tuple[Tensor, Tensor, Tensor],
    masks: tuple[Tensor | None, Tensor | None],
    scoring: Scoring,
    same: bool | None,
    dropout_p: float,
) -> Tensor:
    """Output of such a call, which is that of all heads with one query each."""
    query, key, value = tensors
    batch, groups, size, _ = query.shape

    def flat(tensor: Tensor) -> Tensor:
        """(B, heads of keys, heads of a group, n) -> (B, heads, 1, n)."""
        return tensor.reshape(batch, groups * size, 1, -1)

    each = (tensor.repeat_interleave(size, 1) for tensor in (key, value))
    masks = tuple(flat(m) if m is not None and m.dim() == 4 and m.shape[1:3] == (groups, size) else m for m in masks)
    arguments = (flat(query), *each), masks, scoring, same, dropout_p
    output = captured_output(mode, place, lambda: flat(own()), *arguments, has_heads=True)
    return output.reshape(batch, groups, size, -1)


def grouped(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> tuple[Tensor, Tensor]:
    """Keys and values with as many heads as there are of queries."""
    if not enable_gqa:
        return key, value
    return tuple(tensor.repeat_interleave(query.shape[-3] // tensor.shape[-3], -3) for tensor in (key, value))


def _moved(mask: Tensor, lead: tuple[int, ...], axis: int) -> Tensor:
    """A mask or bias with the axis of heads as the last one before (Q, K)."""
    mask = mask.reshape(*(1,) * (len(lead) + 2 - mask.dim()), *mask.shape)
    return mask.movedim(axis, len(lead) - 1)


def captured_output(
    mode: Watched,
    place: CallPlace,
    own: Callable[[], Tensor],
    tensors: tuple[Tensor, Tensor, Tensor],
    masks: tuple[Tensor | Mask | None, Tensor | None],
    scoring: Scoring,
    same: bool | None,
    dropout_p: float = 0.0,
    *,
    has_heads: bool = False,
) -> Tensor:
    """Output of a function of attention: `own()`, or with the edits.

    Args:
        tensors: query, key and value, (*lead, n, d).
        masks: the mask, and what is added to the scores; they broadcast to (*lead, Q, K).
        same: whether queries and keys come from one text; None if not known.
        has_heads: whether the axes before (n, d) are sentences and heads, whatever the module says.
    """
    lead = tuple(torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors)))
    last = len(lead) - 1
    axis = last if has_heads else axis_of_heads(lead, mode.heads_of(place))
    if axis != last:
        masks = tuple(_moved(tensor, lead, axis) if isinstance(tensor, Tensor) else tensor for tensor in masks)
        moved = tuple(tensor.expand(*lead, *tensor.shape[-2:]).movedim(axis, last) for tensor in tensors)
        return captured_output(
            mode, place, lambda: own().movedim(axis, last), moved, masks, scoring, same, dropout_p
        ).movedim(last, axis)
    sizes = lead if has_heads else split(lead, mode.heads, place.said_heads, place.batches)
    mask, bias = (folded_mask(tensor, lead, sizes) if isinstance(tensor, Tensor) else tensor for tensor in masks)
    scoring = replace(scoring, bias=() if bias is None else bias)
    q, k, v = (folded(tensor, lead, sizes) for tensor in tensors)
    is_causal = causal(mask)
    call = mode.call(place, "sdpa", is_causal, same, query=q, key=k, value=v, mask=mask, scoring=scoring)
    layouts = [mode.tracked.get(tensor) for tensor in tensors]
    stored = mode.keep(call, place)
    stored.refuse_heads_first(any(isinstance(layout, Plain) and layout.heads_first for layout in layouts))
    if call.is_edited:
        output = mode.edited(call, lambda: folded(own(), lead, sizes), dropout_p)
        result = output.reshape(*lead, *output.shape[-2:])
    else:
        result = own()
        output = folded(result, lead, sizes)
    if not dropout_p:
        stored.samples = (Sample.of(output, tensors[0].dtype, is_output=True),)
    mode.origins.begin(result)
    return result
