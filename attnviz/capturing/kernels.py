"""Kernels of flash-attn and xformers, and torch's `varlen_attn`: what they compute, by the arguments of the call."""

import inspect
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from operator import and_
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.call import apart
from attnviz.capturing.replacing import LIBRARIES
from attnviz.capturing.sdpa import captured_output, grouped
from attnviz.capturing.watched import Watched
from attnviz.core.masks import Documents, Mask, Subsequent, Window
from attnviz.core.scoring import Scoring

NAMES = frozenset({*(name for names in LIBRARIES.values() for name in names), "_varlen_attn"})
"""Functions whose calls are read; the last one is the operator under `torch.nn.attention.varlen.varlen_attn`."""
OPERATORS = frozenset(
    "_flash_attn_forward _flash_attn_varlen_forward _varlen_attn_out flash_fwd _flash_attention_forward "
    "_efficient_attention_forward efficient_attention_forward_cutlass".split()
)
"""Operators of torch under these functions: if one is called by itself, there is only its name to report."""
SAME = {
    "query": "q",
    "key": "k",
    "value": "v",
    "cu_seq_q": "cu_seqlens_q",
    "cu_seq_k": "cu_seqlens_k",
    "is_causal": "causal",
    "scale": "softmax_scale",
    "p": "dropout_p",
}
"""Names of arguments in flash-attn by those of the others."""
READ = frozenset(
    "q k v qkv kv cu_seqlens cu_seqlens_q cu_seqlens_k causal window_size softmax_scale softcap alibi_slopes dropout_p "
    "attn_bias".split()
)
"""Arguments that the weights depend on."""
WITHOUT_EFFECT = frozenset(
    "max_seqlen max_seqlen_q max_seqlen_k max_q max_k deterministic return_attn_probs enable_gqa num_splits op "
    "output_dtype".split()
)
"""Arguments that the weights do not depend on."""


def attend(mode: Watched, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The call of a kernel: it is kept, and the edits act in it; what it gives may be the output and more."""
    arguments = _arguments(func, args, kwargs)
    place = mode.place(tuple(value for value in arguments.values() if isinstance(value, Tensor)))
    if place is None:
        return func(*args, **kwargs)
    is_packed = not arguments.keys().isdisjoint({"cu_seqlens", "cu_seqlens_q"})
    q, k, v = _inputs(arguments)
    try:
        for name in sorted(arguments.keys() - READ - WITHOUT_EFFECT):
            if isinstance(arguments[name], Tensor) or arguments[name]:
                raise _UnreadError(name)
        tensors = query, key, value = [_heads_first(tensor, is_packed) for tensor in (q, k, v)]
        masks = _masks(arguments, query, key)
    except _UnreadError as error:
        name = place.name or mode.captured.name
        mode.captured.note(f"{name} calls {func.__name__} with {error}, which is not seen")
        return func(*args, **kwargs)
    results: list[Any] = []

    def own() -> Tensor:
        result = func(*args, **kwargs)
        results.extend(result if isinstance(result, tuple) else (result,))
        return _heads_first(results[0], is_packed)

    has_heads, softcap = query.dim() > 3, arguments.get("softcap") or 0
    if has_heads:
        tensors = query, *grouped(query, key, value, query.shape[1] != key.shape[1])
    scoring = Scoring(scale=arguments.get("softmax_scale"), softcap=softcap if softcap > 0 else None)
    same = "qkv" in arguments or mode.origins.are_same(q, arguments.get("kv", k))
    options = {"dropout_p": arguments.get("dropout_p") or 0.0, "has_heads": has_heads}
    output = captured_output(mode, place, own, tensors, masks, scoring, same, **options)
    if not mode.captured.calls[-1].is_edited:
        mode.origins.begin(results[0])
        return results[0] if len(results) == 1 else tuple(results)
    if is_packed:
        output = output[0].transpose(0, 1)
    elif has_heads:
        output = output.unflatten(1, q.shape[2:-1]).movedim(-2, 1)
    mode.origins.begin(output)
    if not results:
        own()
    return output if len(results) == 1 else (output, *results[1:])


def pass_by(mode: Watched, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of an operator that no function which is watched has called."""
    place = mode.place(())
    if place is not None:
        what = f"calls {func.__name__.partition('.')[0]}, not through a function of a module"
        mode.captured.note(f"{place.name or mode.captured.name} {what}, so it is not seen")
    return func(*args, **kwargs)


class _UnreadError(Exception):
    """A call whose weights do not follow from the arguments that are read; the message says which it has."""


def _arguments(func: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names in flash-attn."""
    if isinstance(func, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        schema = getattr(func, "default", func)._schema
        arguments = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | kwargs
    else:
        arguments = inspect.signature(func).bind(*args, **kwargs).arguments
    return {SAME.get(name, name): value for name, value in arguments.items()}


def _inputs(arguments: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Queries, keys and values as the kernel has them; None for what has another name."""
    if "qkv" in arguments:
        return arguments["qkv"].unbind(-3)
    k, v = arguments["kv"].unbind(-3) if "kv" in arguments else (arguments.get("k"), arguments.get("v"))
    return arguments.get("q"), k, v


def _heads_first(tensor: Tensor, is_packed: bool) -> Tensor:
    """(B, n, H, d), or of grouped heads (B, n, G, H, d), -> (B, H, n, d); (n, H, d) if packed -> (1, H, n, d).

    What xformers is given as (B, n, d) is that already; heads and sentences share its first axis.
    """
    if is_packed:
        return tensor.transpose(0, 1)[None]
    return tensor if tensor.dim() == 3 else tensor.movedim(1, -2).flatten(1, -3)


def _masks(arguments: dict[str, Any], query: Tensor, key: Tensor) -> tuple[Mask | Tensor | None, Tensor | None]:
    """The mask of a call, and what is added to its scores.

    Args:
        query, key: (..., n, d).
    """
    if arguments.get("attn_bias") is not None:
        return _of_xformers(arguments["attn_bias"], arguments["q"], key.shape[-2])
    queries, keys = query.shape[-2], key.shape[-2]
    rules, slopes = _window(arguments, queries + keys), arguments.get("alibi_slopes")
    ends = arguments.get("cu_seqlens_q", arguments.get("cu_seqlens"))
    if ends is None:
        mask = reduce(and_, rules).shifted(keys - queries) if rules else None
        distances = (torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)).abs()
        return mask, None if slopes is None else -slopes[..., None, None] * distances.to(slopes)
    lengths = _lengths(ends, queries), _lengths(arguments.get("cu_seqlens_k", ends), keys)
    of_query, of_key = (torch.arange(len(each)).repeat_interleave(torch.tensor(each)) for each in lengths)
    from_end = torch.cat([torch.arange(m - n, m) for n, m in zip(*lengths, strict=True)])
    place = torch.cat([torch.arange(m) for m in lengths[1]])
    if lengths[0] == lengths[1]:
        mask = reduce(and_, [Documents(tuple(filter(None, lengths[0]))), *rules])
    else:
        mask = of_query[:, None] == of_key
        for rule in rules:
            mask = mask & rule.allows(from_end[:, None], place, torch.tensor(0))
        mask = mask.to(query.device)
    if slopes is None:
        return mask, None
    each = slopes[..., None, None] if slopes.dim() == 1 else slopes[of_query.to(slopes.device)].mT[..., None]
    return mask, -each * (from_end[:, None] - place).abs().to(slopes)


def _window(arguments: dict[str, Any], widest: int) -> list[Mask]:
    """Rules of a window, where the last query stands at the last key; a negative side is open, as in flash-attn."""
    left, right = arguments.get("window_size") or (-1, -1)
    right = 0 if arguments.get("causal") else right
    rules: list[Mask] = [Subsequent()] if right == 0 else []
    if left >= 0 or right > 0:
        rules.append(Window(left if left >= 0 else widest, right if right >= 0 else widest))
    return rules


def _lengths(ends: Tensor | None, total: int) -> list[int]:
    """Lengths of packed documents, from where each begins and the last one ends, (documents + 1,).

    Raises:
        _UnreadError: if they are not those of all tokens.
    """
    places = [] if ends is None else ends.tolist()
    if not places or (places[0], places[-1]) != (0, total):
        raise _UnreadError("cu_seqlens that leave tokens out")
    return [end - start for start, end in pairwise(places)]


def _of_xformers(bias: Any, query: Tensor, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """The mask in a bias of xformers and the rest of it: a tensor, or an object that makes one.

    Args:
        query: (B, n, d), (B, n, H, d) or (B, n, G, H, d).
    """
    if hasattr(bias, "materialize"):  # some versions make it a kind of tensor besides
        shape = (*(1,) * (query.dim() - 2), query.shape[1], keys)  # it is the same for all, or has their size itself
        try:
            bias = bias.materialize(shape, dtype=torch.float32, device=query.device)
        except Exception as error:  # whatever a bias makes of queries and keys that it is not for
            raise _UnreadError(f"a {type(bias).__name__} that makes no tensor of them") from error
    if bias.dim() == 5:
        groups = query.shape[2:-1] if max(bias.shape[1:3]) > 1 else (1, 1)
        bias = bias.expand(-1, *groups, -1, -1).flatten(1, 2)
    return apart(bias)[:2]
