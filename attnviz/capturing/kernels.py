"""Capture functions that compute attention in one call: those of torch and flash-attn."""

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
from attnviz.capturing.call import BLOCKED, split_mask
from attnviz.capturing.call_site import CallPlace, hides_future, text_shapes
from attnviz.capturing.tracker import Tracker
from attnviz.capturing.verify import Sample
from attnviz.core.errors import InputError
from attnviz.core.masks import Documents, Mask, Subsequent, Window
from attnviz.core.scoring import Scoring

ARGUMENTS = "query key value qkv kv is_causal scale softcap dropout_p score_mod block_mask"
OTHER_NAMES = "q=query k=key v=value causal=is_causal window_size=window softmax_scale=scale cu_seqlens=ends "
OTHER_NAMES += "cu_seqlens_q=ends cu_seq_q=ends cu_seqlens_k=key_ends cu_seq_k=key_ends"
UNUSED = "max_seqlen max_seqlen_q max_seqlen_k max_q max_k deterministic return_attn_probs enable_gqa num_splits "
UNUSED += "kernel_options score_mod_other_buffers mask_mod_other_buffers"
OUR_NAMES = {name: name for name in f"{ARGUMENTS} {UNUSED}".split()}
OUR_NAMES |= dict(pair.split("=") for pair in OTHER_NAMES.split())
"""Names used here for the arguments of these functions, by their names in the libraries."""
FLASH = "flash_attn_func flash_attn_qkvpacked_func flash_attn_kvpacked_func flash_attn_varlen_func "
FLASH += "flash_attn_varlen_qkvpacked_func flash_attn_varlen_kvpacked_func flash_attn_with_kvcache"
LIBRARIES = {"flash_attn": FLASH.split(), "xformers.ops": ["memory_efficient_attention"]}
"""Attention functions of other libraries, by the module from which they are imported."""
NAMED_ONLY = ("_flash_attn_forward", "_flash_attention_forward", "memory_efficient_attention")
"""Operators that a model may call directly, and a function of xformers; they are reported, but not captured."""
NAMES = {*NAMED_ONLY, "_varlen_attn", "flex_attention", *FLASH.split()}
"""Functions that `attend` replaces; torch's `varlen_attn` is known by its operator."""


def scaled_dot_product(
    mode: Tracker,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Run `F.scaled_dot_product_attention`, with the same arguments and result, keep the call and apply the edits."""
    options = {"scale": scale, "enable_gqa": enable_gqa}
    result = scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **options)
    place = mode.place((query, key, value))
    if place is None:
        return result
    mask, bias, empty_rows = split_mask(attn_mask)
    mask, scoring = Subsequent() if is_causal else mask, Scoring(scale=scale, empty_rows=empty_rows)
    group_size = getattr(place.module, "num_key_value_groups", 1)
    has_groups = query.dim() == 4 and query.shape[2] == group_size > 1 and query.shape[1] == key.shape[1]
    if not has_groups or not any(length == 1 for _, length in text_shapes(place.frame)):
        tensors = query, *repeat_groups(query, key, value, enable_gqa)
        return captured_output(mode, place, result, tensors, (mask, bias), scoring, dropout_p)
    # transformers, one new token: the query heads of a group are on the query axis, (B, key heads, group size, d)

    def one_query(tensor: Tensor | Mask | None) -> Tensor | Mask | None:
        """Reshape (B, key heads, group size, d or K) to one query per head, (B, H, 1, d or K)."""
        is_grouped = isinstance(tensor, Tensor) and tensor.dim() == 4 and tensor.shape[1:3] == query.shape[1:3]
        return tensor.reshape(len(query), -1, 1, tensor.shape[3]) if is_grouped else tensor

    tensors = one_query(query), *(tensor.repeat_interleave(group_size, 1) for tensor in (key, value))
    masks = one_query(mask), one_query(bias)
    flat = result.reshape(len(query), -1, 1, result.shape[3])
    return captured_output(mode, place, flat, tensors, masks, scoring, dropout_p, has_heads=True).reshape(result.shape)


def repeat_groups(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> tuple[Tensor, Tensor]:
    """Repeat key and value heads up to the number of query heads (grouped-query attention)."""
    if not enable_gqa:
        return key, value
    return tuple(tensor.repeat_interleave(query.shape[-3] // tensor.shape[-3], -3) for tensor in (key, value))


def captured_output(
    mode: Tracker,
    place: CallPlace,
    original: Tensor,
    tensors: tuple[Tensor, Tensor, Tensor],
    masks: tuple[Tensor | Mask | None, Tensor | None],
    scoring: Scoring,
    dropout_p: float = 0.0,
    *,
    has_heads: bool = False,
) -> Tensor:
    """Keep an attention call; return its original output, or the output with the edits, (*lead, Q, d_v). `tensors` are
    query, key and value, (*lead, n, d); `masks` are mask and bias, which broadcast to (*lead, Q, K). `lead` holds
    sentences and heads in some form; it is (B, H) if `has_heads`."""
    axes = tuple(torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors)))
    lead = Lead(axes, 1, axes) if has_heads else mode.lead(place, axes)
    mask, bias = (lead.fold_mask(tensor) if isinstance(tensor, Tensor) else tensor for tensor in masks)
    query, key, value = (lead.fold(tensor) for tensor in tensors)
    scoring = replace(scoring, bias=bias)
    call = mode.call(place, hides_future(mask), query=query, key=key, value=value, mask=mask, scoring=scoring)
    stored, output = mode.keep(call, place), lead.fold(original)
    if call.is_edited:
        output = mode.edited_output(call, output, dropout_p)
    if not dropout_p:
        stored.samples = (Sample.of(output, tensors[0].dtype, is_output=True),)
    result = lead.unfold(output).to(original.dtype) if call.is_edited else original
    mode.await_order(stored, result)
    return result


def attend(mode: Tracker, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run an attention function of a library, keep the call, and return the output with the edits."""
    result = func(*args, **kwargs)
    place = mode.place(tuple(value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)))
    if place is None:
        return result
    name = func.__name__.partition(".")[0]
    try:
        if name in NAMED_ONLY:
            raise InputError("with arguments that are not supported")
        arguments = _arguments(func, args, kwargs)
        query, key, value = (_move_heads_first(arguments[part], arguments) for part in ("query", "key", "value"))
        key, value = repeat_groups(query, key, value, query.shape[1] != key.shape[1])
        masks = _mask_and_bias(arguments, query, key)
    except InputError as error:
        mode.captured.notes.append(f"{mode.name(place)} calls {name} {error}, which is not captured")
        return result
    output, *others = result if isinstance(result, tuple) else (result,)
    original, dropout_p = _move_heads_first(output, arguments), arguments.get("dropout_p", 0.0)
    scoring = Scoring(scale=arguments.get("scale"), softcap=max(arguments.get("softcap", 0), 0) or None)
    edited = captured_output(mode, place, original, (query, key, value), masks, scoring, dropout_p, has_heads=True)
    if not mode.captured.calls[-1].is_edited:
        return result
    edited = edited if "score_mod" in arguments else edited.transpose(1, 2)  # back to the axis order of the function
    edited = edited.reshape(output.shape).contiguous()
    return (edited, *others) if others else edited


def _arguments(func: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by their names in `OUR_NAMES`, with packed queries, keys and values split; raise
    InputError if an argument that has no name there is used. Messages follow "calls f"."""
    if hasattr(func, "default"):  # an operator
        names = (argument.name for argument in func.default._schema.arguments)
        arguments = dict(zip(names, args, strict=False)) | kwargs
    else:
        arguments = inspect.signature(func).bind(*args, **kwargs).arguments
    for name in sorted(arguments.keys() - OUR_NAMES.keys()):
        if isinstance(arguments[name], Tensor) or arguments[name]:
            raise InputError(f"with {name}")
    arguments = {OUR_NAMES[name]: value for name, value in arguments.items() if name in OUR_NAMES and value is not None}
    for packed, names in {"qkv": ("query", "key", "value"), "kv": ("key", "value")}.items():
        if packed in arguments:
            arguments |= zip(names, arguments[packed].unbind(-3), strict=True)
    return arguments


def _move_heads_first(tensor: Tensor, arguments: dict[str, Any]) -> Tensor:
    """Transpose (B, n, H, d), or (n, H, d) if documents are packed, to (B, H, n, d), as flex_attention has it."""
    tensor = tensor[None] if "ends" in arguments else tensor
    return tensor if "score_mod" in arguments else tensor.transpose(1, 2)


def _mask_and_bias(arguments: dict[str, Any], query: Tensor, key: Tensor) -> tuple[Mask | Tensor | None, Tensor | None]:
    """Convert the arguments of a call to a mask and a bias; query and key are (..., n, d)."""
    if "score_mod" in arguments:
        return split_mask(_flex_bias(arguments["score_mod"], arguments["block_mask"][-1], query, key))[:2]
    queries, keys, ends = query.shape[-2], key.shape[-2], arguments.get("ends")
    before, after = arguments.get("window") or (-1, -1)  # -1 means no limit
    after = 0 if arguments.get("is_causal") else after
    rules: list[Mask] = [Subsequent()] if after == 0 else []
    if before >= 0 or after > 0:
        unlimited = queries + keys
        rules.append(Window(before if before >= 0 else unlimited, after if after >= 0 else unlimited))
    if ends is None:  # the last query has the position of the last key
        return reduce(and_, rules).shifted(keys - queries) if rules else None, None
    edges = ends.tolist()  # 0, then the end of each packed document
    if edges != arguments.get("key_ends", ends).tolist():
        raise InputError("with documents that have other lengths of queries than of keys")
    if not edges or (edges[0], edges[-1]) != (0, queries):
        raise InputError("with cu_seqlens that leave tokens out")
    return reduce(and_, rules, Documents(tuple(end - start for start, end in pairwise(edges) if end > start))), None


def _flex_bias(score_mod: Callable[..., Tensor], mask_mod: Callable[..., Tensor], query: Tensor, key: Tensor) -> Tensor:
    """Compute the bias that `score_mod` adds, -inf where `mask_mod` is False; raise InputError if it does more."""
    from torch.nn.attention.flex_attention import create_mask

    with torch.no_grad():
        scores = query.float() @ key.float().mT
        cells = torch.meshgrid(*(torch.arange(size, device=query.device) for size in scores.shape), indexing="ij")
        try:
            bias = score_mod(torch.zeros_like(scores), *cells)
            torch.testing.assert_close(score_mod(scores, *cells), scores + bias, rtol=1e-5, atol=1e-5)
        except Exception as error:  # a function of single cells may fail on whole tensors
            raise InputError("with a score_mod that does more than add") from error
        return bias.masked_fill(~create_mask(mask_mod, *scores.shape, device=query.device), -torch.inf)


def _return_false(*_: object) -> bool:
    return False


_MULTI_HEAD = FunctionType(
    multi_head_attention_forward.__code__,
    multi_head_attention_forward.__globals__ | {"has_torch_function": _return_false},
    argdefs=multi_head_attention_forward.__defaults__,
)
"""PyTorch's function without its check for function modes, so that its inner calls are intercepted one by one."""


def multi_head(mode: Tracker, query: Tensor, *args: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
    """Run `F.multi_head_attention_forward` (`nn.MultiheadAttention`, `nn.Transformer`), with its calls intercepted."""
    mask, place = options.get("attn_mask"), mode.place((query,))
    uses_hint = options.get("is_causal") and not options.get("need_weights", True)
    if place is not None and mask is not None and uses_hint and options.get("key_padding_mask") is None:
        is_open = mask == 0 if mask.dtype is torch.bool else mask > BLOCKED
        if not torch.equal(is_open, torch.ones_like(is_open).tril()):
            problem = "is given is_causal=True with another mask: PyTorch uses the hint and ignores the mask"
            mode.captured.findings.append(f"{mode.name(place)} {problem}")
    with mode:  # PyTorch disables a mode while the mode handles a function
        return _MULTI_HEAD(query, *args, **options)
