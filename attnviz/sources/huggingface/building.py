"""How transformers builds a model here: one at a time, and so that nothing that runs meanwhile can tell.

While transformers builds a model it changes what all threads share: how weights are tied, `torch.linspace`, what it
prints, and torch's default dtype. Two builds at once restore each other's changes, so each waits for the one before.
Runs do not wait: nothing they use is changed, as the default dtype stays what it is.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnviz.core.progress import tell
from attnviz.sources.huggingface import opening

CONVERSIONS = frozenset({"float", "double", "half", "bfloat16"})
"""Methods of a tensor whose names are the types they give."""
RANDOM = frozenset({"normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_"})
"""Methods of a tensor, and functions of `nn.init`, that fill it with random numbers."""

_one_at_a_time, _one_imports = Lock(), Lock()
_quiet: list[tuple[int, bool]] = []
"""What transformers printed before, once for each who has asked for silence."""


@contextmanager
def alone() -> Iterator[None]:
    """No other build goes on meanwhile, and transformers prints nothing."""
    with _one_at_a_time, quiet():
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Transformers prints nothing meanwhile: what matters in it is said as an error."""
    with _one_imports:  # threads that import it first break each other
        from transformers import AutoTokenizer  # noqa: F401
        from transformers.utils import logging

        _quiet.append(_quiet[0] if _quiet else (logging.get_verbosity(), logging.is_progress_bar_enabled()))
        logging.set_verbosity_error()
        logging.disable_progress_bar()
    try:
        yield
    finally:
        with _one_imports:
            verbosity, bars = _quiet.pop()
            if not _quiet:
                logging.set_verbosity(verbosity)
                if bars:
                    logging.enable_progress_bar()


def plan(model: Any, config: Any) -> nn.Module:
    """A model of that class without its numbers, which takes no memory."""
    with torch.device("meta"), Unfilled():
        return model._from_config(deepcopy(config), dtype=torch.get_default_dtype(), attn_implementation="eager")


def build(
    model: Any, folder: Path, config: Any, dtype: torch.dtype, prefix: str = ""
) -> tuple[nn.Module, dict[str, Any]]:
    """A model of that class with the weights of a folder, unpacked if they are packed, and what transformers tells.

    `from_pretrained` asks the class for the context to build in, which would set the default dtype, and for the model.

    Args:
        prefix: left out of the names of the weights.
    """
    from transformers import Mxfp4Config

    def context(cls: Any, dtype: torch.dtype, *rest: Any) -> list[Any]:
        typed = [] if dtype is torch.get_default_dtype() else [Typed(dtype)]
        return [*model.get_init_context(torch.get_default_dtype(), *rest), *typed, Unfilled()]

    def make(cls: Any, *args: Any, **kwargs: Any) -> nn.Module:
        return model(*args, **kwargs)

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
        **({"quantization_config": Mxfp4Config(dequantize=True)} if opening.is_packed(vars(config)) else {}),
        **({"key_mapping": {f"^{re.escape(prefix)}": ""}} if prefix else {}),
    )


class Unfilled(TorchFunctionMode):
    """Tensors that would be filled with random numbers under it, in this thread, are filled with zeros instead."""

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tell(0.0)  # settings may ask for a model that is never done
        if getattr(func, "__name__", "") in RANDOM:
            tensor = args[0] if args else kwargs["tensor"]
            if not tensor.is_meta:  # where zeros would be as slow as all that is planned
                tensor.detach().zero_()
            return tensor
        return func(*args, **kwargs or {})


class Typed(TorchFunctionMode):
    """Tensors made under it, in this thread, have this type where torch would choose its default one.

    That is: where nothing floating is given, and no type is asked for. Tensors that are converted *to* the default
    type and have it already are meant, too: transformers writes that as `table.to(torch.get_default_dtype())`.
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
        chosen = getattr(func, "__name__", "") not in CONVERSIONS and not any(map(_is_typed, values))
        meant = func is Tensor.to and args[1:] == (default,) and args[0].dtype is default
        return result.to(self.dtype) if chosen or meant else result


def _is_typed(value: Any) -> bool:
    """Whether this names a floating type, or has one; tensors of whole numbers say nothing of it."""
    if isinstance(value, list | tuple):
        return any(map(_is_typed, value))
    if isinstance(value, Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, torch.dtype) or hasattr(value, "dtype")
