"""Checksum of tensors: any changed bit changes it."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def of(tensors: Mapping[str, Tensor]) -> str:
    """Hash tensors with their names, dtypes and shapes, in the order of the names: 16 bytes of BLAKE2b, in hex."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
