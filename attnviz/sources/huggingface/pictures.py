"""Runs of a vision model of transformers: a picture by its own image processor, attention captured in its own code."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing import Capture, capture
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.places import Picture
from attnviz.sources.huggingface import faults, placing
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.placing import PixelMap

TRIED = (64, 90)
"""Height and width in pixels of the picture that a model is tried on."""
SPECIAL = (("cls_token", "[CLS]"), ("class_embedding", "[CLS]"), ("distillation_token", "[DISTILL]"))
"""Parameters of positions before the patches, and names of these, in their order."""
REGISTERS = "register_tokens"
QUERY = "query "
"""Beginning of the name of a position that stands nowhere: a query that a model has learned."""


def tried(loaded: Loaded) -> Loaded:
    """The same with its attention calls and its patches: seen in a run on a small picture.

    Raises:
        AttnvizError: if it cannot be run, no attention is seen in it, or its first call is not of patches.
    """
    high, wide = TRIED
    picture = Picture(torch.arange(high, dtype=torch.uint8)[:, None, None].expand(high, wide, 3).contiguous())
    with faults.unforeseen(f"{faults.name(loaded.name)} ({loaded.made_of})"):
        captured, output = captured_run(loaded, (picture,), Edits())
        steps = captured.steps
        windows, count = captured.windows.get(steps[0].site), steps[0].shape[2]
        count = count if windows is None else windows.rows * windows.columns
        patching = placing.patching_of(count, pixel_map(loaded.processor, TRIED), extra_positions(loaded))
    if patching is None:
        what = f"attends to {count} positions that are no rows and columns of patches"
        raise InputError(f"{faults.name(loaded.name)} ({loaded.made_of}) {what}, so attnviz cannot place them.")
    states = states_of(output)
    d_model = steps[-1].num_heads * steps[-1].value.shape[-1] if states is None else states.shape[-1]
    heads = {step.site: step.num_heads for step in steps}
    return replace(loaded, patching=patching, trial=Trial(heads, d_model, calls=captured.sites))


def inputs(loaded: Loaded, pictures: tuple[Picture, ...]) -> dict[str, Tensor]:
    """Inputs of a model for pictures, by its image processor."""
    read = loaded.processor([picture.pixels.numpy() for picture in pictures], return_tensors="pt")
    weights = next(loaded.model.parameters())
    return {
        name: value.to(weights.device, weights.dtype if value.is_floating_point() else None)
        for name, value in read.items()
        if isinstance(value, Tensor)
    }


def extra_positions(loaded: Loaded) -> tuple[str, ...]:
    """Names of the positions before the patches."""
    parameters = {name.rsplit(".", 1)[-1]: value for name, value in loaded.model.named_parameters()}
    names = [name for parameter, name in SPECIAL if parameter in parameters]
    registers = parameters[REGISTERS].shape[-2] if REGISTERS in parameters else 0
    return (*names, *(f"[REG {i}]" for i in range(registers)))


def captured_run(loaded: Loaded, pictures: tuple[Picture, ...], edits: Edits) -> tuple[Capture, Any]:
    """Captured attention of one run, and the output."""
    model = loaded.model
    with loaded.turns.turn(), torch.inference_mode(), capture(model, edits, sites=loaded.trial.calls) as captured:
        output = model(**inputs(loaded, pictures), output_hidden_states=True)
    return captured, output


def states_of(output: Any) -> Tensor | None:
    """The last hidden states, (B, n, d); None of a model that has them in another shape."""
    states = getattr(output, "decoder_hidden_states", None) or getattr(output, "hidden_states", None)
    last = states[-1] if states else getattr(output, "last_hidden_state", None)
    return last if isinstance(last, Tensor) and last.dim() == 3 else None


@lru_cache(maxsize=32)
def pixel_map(processor: Any, size: tuple[int, int]) -> PixelMap:
    """Places of the pixels that a model is given of a picture of that size."""

    def process(pixels: Tensor) -> Tensor:
        return processor([pixels.numpy()], return_tensors="pt")["pixel_values"].float()

    return placing.pixel_maps(process, size)[0]
