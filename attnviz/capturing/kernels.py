"""Functions that compute attention in one call, known by their arguments: flash-attn, xformers, and those of torch."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import and_
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention

from attnviz.capturing.axes import Lead
from attnviz.capturing.call import BLOCKED, apart
from attnviz.capturing.call_site import CallPlace, causal, positions
from attnviz.capturing.conditions import LIBRARIES
from attnviz.capturing.verify import Sample
from attnviz.capturing.watched import Watched
from attnviz.core.errors import InputError
from attnviz.core.masks import Documents, Mask, Subsequent, Window
from attnviz.core.scoring import Scoring

ARGUMENTS = {
    "query": "query q",
    "key": "key k",
    "value": "value v",
    "qkv": "qkv",
    "kv": "kv",
    "ends": "cu_seqlens cu_seqlens_q cu_seq_q",
    "key_ends": "cu_seqlens_k cu_seq_k",
    "is_causal": "causal is_causal",
    "window": "window_size",
    "scale": "softmax_scale scale",
    "softcap": "softcap",
    "slopes": "alibi_slopes",
    "dropout_p": "dropout_p p",
    "bias": "attn_bias",
    "score_mod": "score_mod",
    "block_mask": "block_mask",
    "unused": "max_seqlen max_seqlen_q max_seqlen_k max_q max_k deterministic return_attn_probs enable_gqa "
    "num_splits op output_dtype kernel_options score_mod_other_buffers mask_mod_other_buffers",
}
"""Arguments of all these functions: our name, and the names in the libraries."""
OUR_NAMES = {name: ours for ours, names in ARGUMENTS.items() for name in names.split()}
OPERATORS = frozenset(
    "_flash_attn_forward _flash_attn_varlen_forward _varlen_attn_out flash_fwd _flash_attention_forward "
    "_efficient_attention_forward efficient_attention_forward_cutlass".split()
)
"""Operators under these functions: where a model calls one itself, only its name is noted."""
NAMES = OPERATORS.union({"_varlen_attn", "flex_attention"}, *LIBRARIES.values())
"""Functions that `attend` replaces; torch's `varlen_attn` is known by its operator."""


def scaled_dot_product(
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
    rest = {"scale": scale, "enable_gqa": enable_gqa}
    own = scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **rest)
    place = mode.place((query, key, value))
    if place is None:
        return own
    mask, bias, empty_rows = apart(attn_mask)
    masks, scoring = (Subsequent() if is_causal else mask, bias), Scoring(scale=scale, empty_rows=empty_rows)
    size = getattr(place.module, "num_key_value_groups", 1)
    is_packed = query.dim() == 4 and query.shape[2] == size > 1 and query.shape[1] == key.shape[1]
    if not is_packed or not any(length == 1 for _, length in positions(place.frame)):
        tensors = query, *grouped(query, key, value, enable_gqa)
        return captured_output(mode, place, own, tensors, masks, scoring, dropout_p)
    # one new token of transformers: the heads of a group stand where queries do, (B, heads of keys, of a group, d)
    shape = (len(query), -1, 1)
    tensors = query.reshape(*shape, query.shape[3]), *(side.repeat_interleave(size, 1) for side in (key, value))
    is_each = [part is not None and part.dim() == 4 and part.shape[1:3] == query.shape[1:3] for part in masks]
    masks = tuple(m.reshape(*shape, m.shape[3]) if is_one else m for m, is_one in zip(masks, is_each, strict=True))
    flat = own.reshape(*shape, own.shape[3])
    return captured_output(mode, place, flat, tensors, masks, scoring, dropout_p, has_heads=True).reshape(own.shape)


def grouped(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> tuple[Tensor, Tensor]:
    """Keys and values with as many heads as there are of queries."""
    if not enable_gqa:
        return key, value
    return tuple(tensor.repeat_interleave(query.shape[-3] // tensor.shape[-3], -3) for tensor in (key, value))


def captured_output(
    mode: Watched,
    place: CallPlace,
    own: Tensor,
    tensors: tuple[Tensor, Tensor, Tensor],
    masks: tuple[Tensor | Mask | None, Tensor | None],
    scoring: Scoring,
    dropout_p: float = 0.0,
    *,
    has_heads: bool = False,
) -> Tensor:
    """Keep the call of a function of attention; gives its own output, or that with the edits, (*lead, Q, d_v).

    Args:
        tensors: query, key and value, (*lead, n, d).
        masks: the mask, and what is added to the scores; they broadcast to (*lead, Q, K).
        has_heads: whether the axes before (n, d) are sentences and heads, whatever the module says.
    """
    axes = tuple(torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors)))
    lead = Lead(axes, 1, axes) if has_heads else mode.lead(place, axes)
    mask, bias = (lead.fold_mask(tensor) if isinstance(tensor, Tensor) else tensor for tensor in masks)
    parts = dict(zip(("query", "key", "value"), map(lead.fold, tensors), strict=True))
    call = mode.call(place, causal(mask), **parts, mask=mask, scoring=replace(scoring, bias=bias))
    stored = mode.keep(call, place)
    output = mode.edited(call, lead.fold(own), dropout_p) if call.is_edited else lead.fold(own)
    if not dropout_p:
        stored.samples = (Sample.of(output, tensors[0].dtype, is_output=True),)
    result = lead.unfold(output).to(own.dtype) if call.is_edited else own
    mode.await_order(stored, result)
    return result


def attend(mode: Watched, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a function of attention and keep its call; where edits act, its output is the edited one."""
    result = func(*args, **kwargs)
    place = mode.place(tuple(value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)))
    if place is None:
        return result
    name = func.__name__.partition(".")[0]
    try:
        if name in OPERATORS:
            raise InputError("out of a function of its own")
        arguments = _arguments(func, args, kwargs)
        query, key, value = (_heads_first(arguments[part], arguments) for part in ("query", "key", "value"))
        has_heads = query.dim() > 3
        key, value = grouped(query, key, value, has_heads and query.shape[1] != key.shape[1])
        masks = _masks(arguments, query, key)
    except InputError as error:
        mode.captured.note(f"{mode.name(place)} calls {name} {error}, which is not seen")
        return result
    output, *more = result if isinstance(result, tuple) else (result,)
    own, dropout_p = _heads_first(output, arguments), arguments.get("dropout_p", 0.0)
    scoring = Scoring(scale=arguments.get("scale"), softcap=max(arguments.get("softcap", 0), 0) or None)
    new = captured_output(mode, place, own, (query, key, value), masks, scoring, dropout_p, has_heads=has_heads)
    if not mode.captured.calls[-1].is_edited:
        return result
    is_moved = has_heads and "score_mod" not in arguments
    output = (new.transpose(1, 2) if is_moved else new).reshape(output.shape).contiguous()
    return (output, *more) if more else output


def _arguments(func: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call by our names, with query, key and value also where they are one tensor."""
    if hasattr(func, "default"):  # of operators
        names = (argument.name for argument in func.default._schema.arguments)
        arguments = dict(zip(names, args, strict=False)) | kwargs
    else:
        arguments = inspect.signature(func).bind(*args, **kwargs).arguments
    for name in sorted(arguments.keys() - OUR_NAMES.keys()):
        if isinstance(arguments[name], Tensor) or arguments[name]:
            raise InputError(f"with {name}")
    arguments = {OUR_NAMES[name]: value for name, value in arguments.items() if name in OUR_NAMES and value is not None}
    for joined, parts in {"qkv": ("query", "key", "value"), "kv": ("key", "value")}.items():
        if joined in arguments:
            arguments |= zip(parts, arguments[joined].unbind(-3), strict=True)
    return arguments


def _heads_first(tensor: Tensor, arguments: dict[str, Any]) -> Tensor:
    """(B, n, *heads, d), or (n, H, d) if packed -> (B, H, n, d), as flex_attention has it; (B, n, d) stays."""
    tensor = tensor[None] if "ends" in arguments else tensor
    return tensor if "score_mod" in arguments or tensor.dim() == 3 else tensor.movedim(1, -2).flatten(1, -3)


def _masks(arguments: dict[str, Any], query: Tensor, key: Tensor) -> tuple[Mask | Tensor | None, Tensor | None]:
    """Mask of a call, and the bias added to its scores; query and key are (..., n, d)."""
    if "score_mod" in arguments:
        return apart(_flex_bias(arguments["score_mod"], arguments["block_mask"][-1], query, key))[:2]
    if "bias" in arguments:
        return apart(_xformers_bias(arguments["bias"], arguments["query"], key.shape[-2]))[:2]
    queries, keys, ends, slopes = query.shape[-2], key.shape[-2], arguments.get("ends"), arguments.get("slopes")
    before, after = arguments.get("window") or (-1, -1)
    after = 0 if arguments.get("is_causal") else after
    rules: list[Mask] = [Subsequent()] if after == 0 else []
    if before >= 0 or after > 0:
        rules.append(Window(*(side if side >= 0 else queries + keys for side in (before, after))))
    lengths, key_lengths = _lengths(ends, queries), _lengths(arguments.get("key_ends", ends), keys)
    document, key_document = (torch.arange(len(n)).repeat_interleave(torch.tensor(n)) for n in (lengths, key_lengths))
    position = torch.cat([torch.arange(m - n, m) for n, m in zip(lengths, key_lengths, strict=True)])[:, None]
    key_position = torch.cat([torch.arange(m) for m in key_lengths])  # the last query stands at the last key
    if ends is None:
        mask = reduce(and_, rules).shifted(keys - queries) if rules else None
    elif lengths == key_lengths:
        mask = reduce(and_, rules, Documents(tuple(filter(None, lengths))))
    else:
        cells = [rule.allows(position, key_position, torch.tensor(0)) for rule in rules]
        mask = reduce(and_, cells, document[:, None] == key_document).to(query.device)
    if slopes is None:
        return mask, None
    is_each = ends is not None and slopes.dim() == 2  # (documents, H), else (H) or (B, H)
    slopes = slopes[document.to(slopes.device)].mT[..., None] if is_each else slopes[..., None, None]
    return mask, -slopes * (position - key_position).abs().to(slopes)


def _lengths(ends: Tensor | None, total: int) -> list[int]:
    """Lengths of packed documents, from 0 and the places where they end; all is one if nothing is packed."""
    places = [0, total] if ends is None else ends.tolist()
    if [*places[:1], *places[-1:]] != [0, total]:
        raise InputError("with cu_seqlens that leave tokens out")
    return [end - start for start, end in pairwise(places)]


def _xformers_bias(bias: Any, query: Tensor, keys: int) -> Tensor:
    """Bias in a tensor, or in an object of xformers that makes one, for the query as xformers has it."""
    if hasattr(bias, "materialize"):  # some versions make it a kind of tensor besides
        shape = (*(1,) * (query.dim() - 2), query.shape[1], keys)  # it is the same for all, or has their size itself
        try:
            bias = bias.materialize(shape, dtype=torch.float32, device=query.device)
        except Exception as error:  # whatever a bias does with queries and keys that do not fit it
            raise InputError(f"with a {type(bias).__name__} that makes no tensor of them") from error
    return bias.expand(-1, *query.shape[2:4], -1, -1).flatten(1, 2) if bias.dim() == 5 else bias


def _flex_bias(score_mod: Callable[..., Tensor], mask_mod: Callable[..., Tensor], query: Tensor, key: Tensor) -> Tensor:
    """Bias that a score function adds in each cell, and -inf where the mask function is False."""
    from torch.nn.attention.flex_attention import create_mask

    with torch.no_grad():
        scores = query.float() @ key.float().mT
        cells = torch.meshgrid(*(torch.arange(size, device=query.device) for size in scores.shape), indexing="ij")
        try:
            bias = score_mod(torch.zeros_like(scores), *cells)
            torch.testing.assert_close(score_mod(scores, *cells), scores + bias, rtol=1e-5, atol=1e-5)
        except Exception as error:  # also whatever a function of single cells does with all of them
            raise InputError("with a score_mod that does more than add") from error
        return bias.masked_fill(~create_mask(mask_mod, *scores.shape, device=query.device), -torch.inf)


def _unwatched(*_: object) -> bool:
    return False


_MULTI_HEAD = FunctionType(
    multi_head_attention_forward.__code__,
    multi_head_attention_forward.__globals__ | {"has_torch_function": _unwatched},
    argdefs=multi_head_attention_forward.__defaults__,
)
"""PyTorch's function, which runs as if no mode watched it: its own question for one is answered by no."""


def multi_head(mode: Watched, query: Tensor, *args: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
    """Run `F.multi_head_attention_forward`, under `nn.MultiheadAttention` and `nn.Transformer`, in view of the mode."""
    mask, place = options.get("attn_mask"), mode.place((query,))
    is_hint = options.get("is_causal") and not options.get("need_weights", True)
    if place is not None and mask is not None and is_hint and options.get("key_padding_mask") is None:
        is_blocked = mask if mask.dtype is torch.bool else mask < BLOCKED
        if not torch.equal(is_blocked, torch.ones_like(is_blocked).triu(1)):
            what = "is given is_causal=True beside another mask: PyTorch uses the hint and ignores the mask"
            mode.captured.findings.append(f"{mode.name(place)} {what}")
    with mode:
        return _MULTI_HEAD(query, *args, **options)
