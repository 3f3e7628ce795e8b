"""Taps in layers of linear attention, which models of transformers compute in functions of their modeling files.

A model calls such a function by its global name. During a run, the name is bound to a function that calls the original
(or the kernel that replaces it) and passes its arguments to the tap of the run.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from inspect import unwrap
from threading import RLock, get_ident
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnviz.core.edits import Site
from attnviz.core.tap import Tap
from attnviz.linear import LinearMap
from attnviz.sources.huggingface.hooks import in_this_thread

CONVOLUTION = "A short convolution has mixed each token with the few before it"
LIGHTNING = "LightningAttention"
"""End of the names of classes that compute lightning attention in their own forward function."""

_lock = RLock()
"""Lock for the names in modeling files: a process runs linear attention in one run at a time."""


class MixerInputs(NamedTuple):
    """Inputs of a call: scaled queries, keys and values, (B, H, n, d), and the rule that mixes them."""

    query: Tensor
    key: Tensor
    value: Tensor
    linear: LinearMap


def _delta_rule(
    query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, use_qk_l2norm_in_kernel: bool = False, **_: Any
) -> MixerInputs:
    """Read arguments of the gated delta rule, (B, n, H, ...); the decay g has one number per head or per channel."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    query, key = (x.to(dtype).repeat_interleave(value.shape[2] // x.shape[2], 2) for x in (query, key))
    note = f"{CONVOLUTION}."
    if use_qk_l2norm_in_kernel:
        query, key = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (query, key))
        note = f"{CONVOLUTION}; queries and keys are normalized to length 1."
    query = query * query.shape[-1] ** -0.5
    rule = "gated delta rule" if g.dim() == 3 else "gated delta rule with a decay per channel"
    query, key, value, g, beta = (x.transpose(1, 2) for x in (query, key, value, g, beta))  # (B, H, n, ...)
    return MixerInputs(query, key, value, LinearMap(rule, note, g, beta, is_delta=True))


def _scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int = 0,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] | None = None,
    **_: Any,
) -> MixerInputs:
    """Read arguments of the scan of Mamba-2: values, (B, n, H, d_v), time steps dt, (B, n, H), and keys B and
    queries C, (B, n, groups, d_k), which the heads of a group share.
    """
    dt = dt if dt_bias is None else dt + dt_bias.to(dt.dtype)
    dt = F.softplus(dt) if dt_softplus else dt
    dt = dt if dt_limit is None else dt.clamp(*dt_limit)
    dt = dt.to(torch.promote_types(dt.dtype, torch.float32)).transpose(1, 2)
    heads, groups = hidden_states.shape[2], B.shape[2]
    query, key = (x.transpose(1, 2) for x in (C, B))
    if groups == 1:
        query, key = query.expand(-1, heads, -1, -1), key.expand(-1, heads, -1, -1)
    else:
        query, key = (x.repeat_interleave(heads // groups, 1) for x in (query, key))
    linear = LinearMap("state space, Mamba-2", f"{CONVOLUTION}.", dt * A.to(dt)[:, None], dt, skip=D)
    return MixerInputs(query, key, hidden_states.transpose(1, 2), linear)


def _scan_one(
    state: Tensor,
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    **_: Any,
) -> MixerInputs:
    """Read arguments of Mamba-2 for one new token, (B, H, ...); the numbers of a head are repeated for its channels."""
    skip, bias = (None if x is None else x[:, 0] for x in (D, dt_bias))
    values, steps, key, query = (x.unsqueeze(1) for x in (hidden_states, dt[..., 0], B, C))
    return _scan(values, steps, A[:, 0, 0], key, query, D=skip, dt_bias=bias, dt_softplus=dt_softplus)


FUNCTIONS: dict[str, Callable[..., MixerInputs]] = {
    "torch_chunk_gated_delta_rule": _delta_rule,
    "torch_recurrent_gated_delta_rule": _delta_rule,
    "chunk_kimi_delta_attention": _delta_rule,
    "recurrent_kimi_delta_attention": _delta_rule,
    "mamba2_chunk_scan": _scan,
    "mamba2_selective_state_update": _scan_one,
}
"""Functions that read the arguments of the functions of transformers with these names."""


@cache
def _functions_of(cls: type[nn.Module]) -> tuple[str, ...]:
    """Names of the functions in `FUNCTIONS` that the forward function of a class calls."""
    code = getattr(unwrap(cls.forward), "__code__", None)
    return tuple(name for name in FUNCTIONS if code and name in code.co_names)


def is_linear(module: nn.Module) -> bool:
    """Whether a module computes linear attention that has an exact map."""
    return type(module).__name__.endswith(LIGHTNING) or bool(_functions_of(type(module)))


@contextmanager
def tapping(model: nn.Module, tap: Tap, site_of: Callable[[nn.Module], Site]) -> Iterator[None]:
    """Context manager in which layers of linear attention, called in this thread, go through a tap.

    Args:
        site_of: function from a module to the site of the attention call that it makes.
    """
    mixers = [module for module in model.modules() if is_linear(module)]
    if not mixers:
        yield
        return
    thread, calling = get_ident(), []  # `calling` holds the module whose forward function runs

    def remember_module(module: nn.Module, arguments: tuple) -> None:
        calling[:] = [module]

    def wrap_function(function: Callable, reader: Callable[..., MixerInputs]) -> Callable:
        """Make the function that calls the original and passes its inputs and output through the tap."""

        def tapped(*arguments: Any, **named: Any) -> Any:
            returned = function(*arguments, **named)
            if get_ident() != thread or not calling:
                return returned
            output, *more = returned if isinstance(returned, tuple) else (returned,)
            by_head = output.unsqueeze(2) if reader is _scan_one else output.transpose(1, 2)  # (B, H, n, d_v)
            mixed = tap.mix(by_head, *reader(*arguments, **named), site=site_of(calling.pop()))
            if mixed is by_head:
                return returned
            mixed = (mixed.squeeze(2) if reader is _scan_one else mixed.transpose(1, 2).contiguous()).to(output)
            return (mixed, *more) if isinstance(returned, tuple) else mixed

        return tapped

    with ExitStack() as stack:
        stack.enter_context(_lock)
        for module in mixers:
            if type(module).__name__.endswith(LIGHTNING):
                _tap_lightning(stack, module, tap, site_of)
                continue
            stack.callback(module.register_forward_pre_hook(in_this_thread(remember_module)).remove)
            names = unwrap(type(module).forward).__globals__
            for name in _functions_of(type(module)):
                if not hasattr(names[name], "is_tapped"):
                    stack.callback(names.__setitem__, name, names[name])
                    names[name] = wrap_function(names[name], FUNCTIONS[name])
                    names[name].is_tapped = True
        yield


def _tap_lightning(stack: ExitStack, module: nn.Module, tap: Tap, site_of: Callable[[nn.Module], Site]) -> None:
    """Add hooks to a module of lightning attention; its norm reads the concatenated outputs of the heads."""
    inputs: dict[str, Tensor | None] = {}

    def store_mask(_: nn.Module, arguments: tuple, named: dict[str, Any]) -> None:
        inputs["mask"] = named.get("attention_mask", arguments[2] if len(arguments) > 2 else None)

    def store_vectors(_: nn.Module, arguments: tuple, output: Tensor) -> None:
        inputs["vectors"] = module.act_fn(output)

    def replace_output(_: nn.Module, arguments: tuple) -> tuple[Tensor] | None:
        heads, names = module.num_attention_heads, unwrap(type(module).forward).__globals__
        vectors = names["apply_mask_to_padding_states"](inputs.pop("vectors"), inputs.pop("mask"))
        query, key, value = vectors.unflatten(-1, (heads, -1)).transpose(1, 2).chunk(3, -1)  # (B, H, n, d)
        decay = -module.slope_rate[None, :, :, 0].expand(query.shape[:3])  # one rate per head
        linear = LinearMap("lightning attention", "", decay, torch.ones_like(decay))
        output = arguments[0].unflatten(-1, (heads, -1)).transpose(1, 2)
        mixed = tap.mix(output, query, key, value, linear, site=site_of(module))
        return None if mixed is output else (mixed.transpose(1, 2).flatten(2).to(output),)

    stack.callback(module.register_forward_pre_hook(in_this_thread(store_mask), with_kwargs=True).remove)
    stack.callback(module.qkv_proj.register_forward_hook(in_this_thread(store_vectors)).remove)
    stack.callback(module.norm.register_forward_pre_hook(in_this_thread(replace_output)).remove)
