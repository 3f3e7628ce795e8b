"""Arrays of NumPy, PyTorch or nested lists as tensors of booleans or real numbers."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.core.errors import InputError


def real_tensor(array: Any, name: str = "array") -> Tensor:
    """An array as a dense tensor on the CPU, with its own precision where PyTorch has it.

    Args:
        name: of the array, in an error.

    Raises:
        InputError: if it holds anything but booleans and real numbers, such as complex numbers, texts or dates.
    """
    if not isinstance(array, Tensor):
        try:
            plain = np.asarray(array)
        except (TypeError, ValueError):
            raise InputError(f"The {name} must be numbers, without rows of different lengths.") from None
        if plain.dtype.kind not in "biuf":
            raise _refused(name, f"{type(array).__name__} of objects" if plain.dtype == object else plain.dtype)
        wide = (plain.dtype.kind == "u" and plain.dtype.itemsize > 1) or plain.dtype.itemsize > 8
        dtype = np.dtype(np.float64) if wide else plain.dtype.newbyteorder("=")  # what PyTorch lacks
        array = torch.from_numpy(np.require(plain.astype(dtype, copy=False), None, ["C", "W"]))
    packed = "float4" in str(array.dtype)  # two numbers in a byte, which PyTorch stores and does not read
    if array.is_complex() or array.is_sparse or array.is_quantized or packed:
        raise _refused(name, array.dtype)
    return array.detach().cpu()


def _refused(name: str, dtype: object) -> InputError:
    remedy = " Give the real part, or the absolute values." if "complex" in str(dtype) else ""
    return InputError(f"The {name} must hold booleans or real numbers, and be dense; given {dtype}.{remedy}")
