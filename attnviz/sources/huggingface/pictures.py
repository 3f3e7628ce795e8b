"""Runs of a vision model of transformers: a picture by its own image processor, attention captured in its own code."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing import Capture, capture
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.places import Picture
from attnviz.core.windows import WindowGrid
from attnviz.sources.huggingface import faults, placing
from attnviz.sources.huggingface.eager import differ
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.placing import PixelMap

EXAMPLE = Picture(torch.arange(64, dtype=torch.uint8)[:, None, None].expand(64, 90, 3).contiguous())
"""Picture that a model is tried on."""
BRIGHT, NOISE = 1.0, 1e-3
"""Number added to the pixels of a patch, which are mostly within -3 and 3; part of the largest change that is none."""
SPECIAL = (("cls_token", "[CLS]"), ("class_embedding", "[CLS]"), ("distillation_token", "[DISTILL]"))
"""Parameters of positions before the patches, and names of these, in their order."""
REGISTERS = "register_tokens"
QUERY = "query "
"""Beginning of the name of a position that stands nowhere: a query that a model has learned."""


def tried(loaded: Loaded) -> Loaded:
    """The same with its attention calls and its patches: seen in a run on a small picture, and proven in a second one.

    Raises:
        AttnvizError: if it cannot be run, no attention is seen in it, its first call is not of patches, or it draws at
            random.
    """
    name = f"{faults.name(loaded.name)} ({loaded.made_of})"
    with faults.unforeseen(name):
        read, pixels = inputs(loaded, (EXAMPLE,)), pixel_map(loaded.processor, EXAMPLE.size)
        captured, output = captured_run(loaded, read, Edits())
        step = next((step for step in captured.steps if step.shape[0] == 1), captured.steps[0])
        windows, count = captured.windows.get(step.site), step.shape[2]
        count = count if windows is None else windows.rows * windows.columns
        patching = placing.patching_of(count, pixels, extra_positions(loaded))
    if patching is None or step.shape[0] > 1:  # of pieces of the picture
        what = f"attends to {count} positions that are no rows and columns of patches"
        raise InputError(f"{name} {what}, so attnviz cannot place them.")
    states = _states(captured, output)
    heads = {step.site: step.num_heads for step in captured.steps}
    found = replace(loaded, patching=patching, trial=Trial(heads, states.shape[-1], calls=captured.sites))
    with faults.unforeseen(name):
        _prove(found, read, states, step.site, windows)
    return found


def _prove(loaded: Loaded, read: dict[str, Tensor], states: Tensor, site: Site, windows: WindowGrid | None) -> None:
    """Run a model again on the same picture, and on it with a patch bright, four times.

    Args:
        states: of the first run.
        site: the first attention call.

    Raises:
        InputError: if it draws at random, or a bright patch moves other positions than its own.
    """
    patching, name = loaded.patching, f"{faults.name(loaded.name)} ({loaded.made_of})"
    pixels, before, side = pixel_map(loaded.processor, EXAMPLE.size), len(patching.extra), patching.stride
    tokens = patching.tokens(pixels) if windows is None else patching.in_windows(windows, pixels)
    columns = patching.size(pixels)[1] if windows is None else windows.padded[1]
    placed = [i for i, token in enumerate(tokens) if token.box]
    places = [placed[i] for i in (0, len(placed) // 3, len(placed) // 2, -1)]
    several = {key: torch.cat([value] * (1 + len(places))) for key, value in read.items()}
    for picture, place in zip(several["pixel_values"][1:], places, strict=True):
        top, left = (side * part for part in divmod(place - before, columns))
        picture[..., top : top + side, left : left + side] += BRIGHT
    captured, output = captured_run(loaded, several, Edits())
    if differ(_states(captured, output)[0], states[0]):
        what = f"{name} draws at random: two runs on one picture differ"
        raise InputError(f"{what}, so no map would be that of the next run. attnviz.capture(model) shows one run.")
    queries = [step.query for step in captured.steps if step.site == site]
    # where patches overlap, or a picture is convolved first, the positions beside a bright patch move, too
    for place, query in zip(places, queries[0][1:] if queries else (), strict=False):
        moved = (query - queries[0][0]).float().abs().amax((0, 2))
        if moved.isfinite().all() and moved[place] <= NOISE * moved.max():
            what = f"{name} attends to {len(tokens)} positions, of which a bright patch moves others than its own"
            raise InputError(f"{what}, so attnviz cannot place them.")


def _states(captured: Capture, output: Any) -> Tensor:
    """The last hidden states, or values of the last attention call where there are none, (B, n, d)."""
    states = states_of(output)
    return captured.steps[-1].value.transpose(1, 2).flatten(2) if states is None else states


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


def captured_run(loaded: Loaded, read: dict[str, Tensor], edits: Edits) -> tuple[Capture, Any]:
    """Captured attention of one run, and the output."""
    model = loaded.model
    with loaded.turns.turn(), torch.inference_mode(), capture(model, edits, sites=loaded.trial.calls) as captured:
        output = model(**read, output_hidden_states=True)
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
