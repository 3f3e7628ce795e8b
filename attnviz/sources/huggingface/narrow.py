"""A narrow copy of a model for its trial: the same class, layers, heads and settings with small widths, random numbers.

What a trial shows depends on a model's class and configuration, and not on its weights. So it is run on a copy that
costs next to nothing. All widths are divided by one number, so they still fit each other; windows are so short that
they act in the texts of the trial. There is no copy of a model that is narrow itself, or of which a width has a
remainder: that model itself is tried.
"""

import re
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from attnviz.sources.huggingface import building
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.turns import Turns

WIDTH = re.compile(
    r"(.*_)?((hidden|intermediate|embedding|inner|head)_size|dims?|d_(model|kv|ff|inner|head)|n_(embd|inner)|rank|width)"
    r"|hidden_size_per_.*|mrope_section"
)
"""Names of settings that are widths."""
WINDOW = re.compile(r"sliding_window|window_size|local_attention")
TOKEN = re.compile(r".*_token_(id|ids|index)")
FACTORS = (64, 32, 16, 8, 4, 2)
HEAD = 8
"""Least width of a head of a copy: partly rotated ones still have pairs to rotate."""
MOST_WORDS, LONGEST_WINDOW = 512, 4


def config(model_config: Any) -> tuple[Any, int]:
    """A configuration with all widths divided and without its folder, and by which number; 1 if they cannot be."""
    text = model_config.get_text_config()
    sizes = [getattr(text, name, None) for name in ("head_dim", "hidden_size", "num_attention_heads")]
    if not all(isinstance(size, int) and size > 0 for size in sizes[1:]):
        return model_config, 1
    head = sizes[0] if isinstance(sizes[0], int) and sizes[0] > 0 else sizes[1] // sizes[2]
    for factor in FACTORS:
        narrow = deepcopy(model_config)
        narrow.name_or_path = ""
        if head >= HEAD * factor and _divide(narrow, factor):
            return narrow, factor
    return model_config, 1


def _divide(settings: Any, factor: int) -> bool:
    """Divide the widths in a configuration, in place; False if one has a remainder."""
    values = settings if isinstance(settings, dict) else vars(settings)
    for name, value in values.items():
        if isinstance(value, dict) or hasattr(value, "get_text_config"):
            if not _divide(value, factor):
                return False
            continue
        numbers = value if isinstance(value, list | tuple) else [value]
        if not numbers or not all(type(number) in (int, float) for number in numbers):
            continue
        if WIDTH.fullmatch(name):
            if any(number % factor for number in numbers):
                return False
            numbers = [number // factor for number in numbers]
        elif name in ("short_factor", "long_factor"):  # of each pair of a rotated head
            numbers = numbers[::factor]
        elif "vocab_size" in name:
            numbers = [min(number, MOST_WORDS) for number in numbers]
        elif WINDOW.fullmatch(name):
            numbers = [min(number, LONGEST_WINDOW) for number in numbers]
        elif TOKEN.fullmatch(name):
            numbers = [number % MOST_WORDS for number in numbers]
        values[name] = type(value)(numbers) if isinstance(value, list | tuple) else numbers[0]
    return True


def copy(loaded: Loaded, narrow: Any) -> Loaded:
    """A model with a narrow configuration in the place of another.

    Its weights are as large as trained ones: attention is far from even, so a wrong formula changes what it gives.
    """
    with building.alone():
        model = building.unfilled(type(loaded.model), narrow)
    chance = torch.Generator().manual_seed(0)
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    model.eval().requires_grad_(False)
    for weight in model.parameters():
        if weight.is_floating_point():
            spread = 0.1 if weight.dim() < 2 else weight.shape[-1] ** -0.5
            spread = 1.0 if id(weight) in tables else spread
            weight.add_(torch.randn(weight.shape, generator=chance), alpha=spread)
    model.generation_config = getattr(loaded.model, "generation_config", None)
    vocabulary = model.get_input_embeddings().weight.shape[0]
    return replace(
        loaded, model=model.to(loaded.device), turns=Turns(model), config=model.config, vocabulary=vocabulary
    )
