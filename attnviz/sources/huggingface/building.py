"""Build models with transformers, one at a time, without effects on other threads.

While transformers builds a model, it changes state that all threads share: how weights are tied, `torch.linspace`, its
logging, and torch's default dtype. Two builds at the same time would restore each other's changes, so each build waits
for the previous one. Runs need not wait, as the default dtype is not changed here, and they use nothing else of it.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnviz.core.progress import tell

CONVERSIONS = frozenset({"float", "double", "half", "bfloat16"})
"""Methods of a tensor that convert it to the dtype in their name."""
RANDOM = frozenset({"normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_"})
"""Methods of a tensor and functions of `nn.init` that fill a tensor with random numbers."""

_build_lock, _import_lock = Lock(), Lock()
_state: list[tuple[int, bool]] = []
"""Original verbosity and progress bars of transformers, one entry for each active `quiet` context."""


@contextmanager
def alone() -> Iterator[None]:
    """Context in which no other build runs, and transformers prints nothing."""
    with _build_lock, quiet():
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Context in which transformers prints nothing; important problems become errors elsewhere."""
    with _import_lock:  # a first import in two threads at the same time fails
        from transformers import AutoTokenizer  # noqa: F401
        from transformers.utils import logging

        _state.append(_state[0] if _state else (logging.get_verbosity(), logging.is_progress_bar_enabled()))
        logging.set_verbosity_error()
        logging.disable_progress_bar()
    try:
        yield
    finally:
        with _import_lock:
            verbosity, bars = _state.pop()
            if not _state:
                logging.set_verbosity(verbosity)
                if bars:
                    logging.enable_progress_bar()


def build(
    model: Any,
    folder: Path,
    config: Any,
    dtype: torch.dtype,
    *,
    prefix: str = "",
    check: Callable[[nn.Module], None] = lambda model: None,
    packed: bool = False,
) -> tuple[nn.Module, dict[str, Any]]:
    """Build a model of a class with the weights of a folder, and return its loading info, too.

    The subclass here replaces the context in which `from_pretrained` builds, as that would set the default dtype.

    Args:
        prefix: prefix to remove from the names of the weights.
        check: function that gets the model before its weights are read, on the device "meta"; its errors end the build.
        packed: whether the weights are packed to 4 bits, and have to be unpacked.
    """
    from transformers import Mxfp4Config

    def context(cls: Any, dtype: torch.dtype, *rest: Any) -> list[Any]:
        typed = [] if dtype is torch.get_default_dtype() else [Typed(dtype)]
        return [*model.get_init_context(torch.get_default_dtype(), *rest), *typed, Unfilled()]

    def make(cls: Any, *args: Any, **kwargs: Any) -> nn.Module:
        instance = model(*args, **kwargs)
        check(instance)
        return instance

    sparing_others = type(model.__name__, (model,), {"get_init_context": classmethod(context), "__new__": make})
    return sparing_others.from_pretrained(
        folder,
        config=config,
        dtype=dtype,
        local_files_only=True,
        use_safetensors=True,
        attn_implementation="eager",
        ignore_mismatched_sizes=True,  # the loading info names them
        output_loading_info=True,
        **({"quantization_config": Mxfp4Config(dequantize=True)} if packed else {}),
        **({"key_mapping": {f"^{re.escape(prefix)}": ""}} if prefix else {}),
    )


class Unfilled(TorchFunctionMode):
    """Context that fills tensors of this thread with zeros where they would be filled with random numbers."""

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tell(0.0)  # a very large model must be cancelable while it is built
        if getattr(func, "__name__", "") in RANDOM:
            tensor = args[0] if args else kwargs["tensor"]
            if not tensor.is_meta:  # filling a tensor on "meta" would only cost time
                tensor.detach().zero_()
            return tensor
        return func(*args, **kwargs or {})


class Typed(TorchFunctionMode):
    """Context in which new tensors of this thread get a dtype in place of torch's default dtype.

    It applies if a call has no floating input and no dtype. It also applies to a tensor of the default dtype that is
    converted *to* the default dtype, which transformers writes as `table.to(torch.get_default_dtype())`.
    """

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, default = kwargs or {}, torch.get_default_dtype()
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor) or result.dtype is not default:
            return result
        values = (*args, *kwargs.values())
        is_untyped = getattr(func, "__name__", "") not in CONVERSIONS and not any(map(_is_typed, values))
        is_to_default = func is Tensor.to and args[1:] == (default,) and args[0].dtype is default
        return result.to(self.dtype) if is_untyped or is_to_default else result


def _is_typed(value: Any) -> bool:
    """Whether a value sets the dtype of a result: a dtype, or a floating or complex tensor, alone or in a list."""
    if isinstance(value, list | tuple):
        return any(map(_is_typed, value))
    if isinstance(value, Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, torch.dtype) or hasattr(value, "dtype")
