"""The zeros that `nn.TransformerEncoder` gives at padding in evaluation, where PyTorch leaves padding out.

Its fast path is not taken while a model is watched; what it would have given there is filled in.
"""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

_SIGNATURE = inspect.signature(nn.TransformerEncoder.forward)


def fill(encoder: nn.TransformerEncoder, args: tuple, kwargs: dict[str, Any], output: Tensor) -> Tensor:
    """The output of an encoder as it is without a capture; a forward hook with arguments by name."""
    arguments = _SIGNATURE.bind(encoder, *args, **kwargs).arguments
    source, padding = arguments["src"], arguments.get("src_key_padding_mask")
    if padding is None or arguments.get("mask") is not None or not _leaves_out(encoder, source):
        return output
    is_padding = padding if padding.dtype is torch.bool else padding < 0
    is_aligned = not bool((is_padding[:, :-1] & ~is_padding[:, 1:]).any())
    if getattr(encoder, "mask_check", True) and not is_aligned:
        return output
    nothing = output.new_zeros(output.shape[-1])
    return output.where(~is_padding.unsqueeze(-1), nothing if encoder.norm is None else encoder.norm(nothing))


def _leaves_out(encoder: nn.TransformerEncoder, source: Tensor) -> bool:
    """Whether PyTorch computes an encoder without its padding, in nested tensors."""
    layer = encoder.layers[0]
    if type(encoder).forward is not nn.TransformerEncoder.forward or not getattr(encoder, "use_nested_tensor", False):
        return False
    if layer.training or source.dim() != 3 or source.is_nested or not torch.backends.mha.get_fastpath_enabled():
        return False
    learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (source, *layer.parameters()))
    return layer.self_attn.batch_first and not torch.is_autocast_enabled() and not learns
