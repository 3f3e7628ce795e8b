"""Positions of tokens, as vectors."""

import math

import torch
from torch import Tensor


def sinusoidal(length: int, d_model: int) -> Tensor:
    """Sines and cosines of geometrically growing wavelengths, (length, d_model); section 3.5 of Vaswani et al. 2017.

    Even columns hold sines, odd columns cosines; an odd d_model ends with a sine.
    """
    position = torch.arange(length).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000) / d_model))
    table = torch.zeros(length, d_model)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency[: d_model // 2])
    return table
