"""One short text for many numbers: it is another one as soon as one bit is."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def of(tensors: Mapping[str, Tensor]) -> str:
    """BLAKE2b of 16 bytes, in hex, of every number, with names, types and shapes; in the order of the names."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
