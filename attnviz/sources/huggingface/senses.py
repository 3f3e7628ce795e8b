"""Runs of models of transformers that see or hear, which compute attention in their own code.

A sound is heard through its spectrogram, which is a picture with time on its axis. Both senses have the same positions,
cells of the numbers that the model is given; see `positions`.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing import Capture, capture
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.places import Picture, Sound
from attnviz.core.record import Step
from attnviz.sources.huggingface import faults, positions, running
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.positions import CellMap, Plane
from attnviz.sources.huggingface.trial import differ

EXAMPLE = Picture(torch.arange(64, dtype=torch.uint8)[:, None, None].expand(64, 90, 3).contiguous())
"""Picture for the first run of a model."""
SECONDS = 0.5
"""Length of the tone for the first run of a model."""
BRIGHT, NOISE = 1.0, 1e-3
"""Number added to the pixels of a patch, which are mostly within -3 and 3; largest change of a query that counts as
none, as a share of the largest change of all queries."""
SPECIAL = (("cls_token", "[CLS]"), ("class_embedding", "[CLS]"), ("distillation_token", "[DISTILL]"))
"""Parameters of the positions before the patches, with the names of the positions, in their order."""
REGISTERS = "register_tokens"
HOP, MIDDLE, LOWEST = 0.010, 0.0125, 20
"""Kaldi's frames, which Audio Spectrogram Transformers read: seconds from one frame to the next, seconds to the middle
of the first, and lowest frequency in Hz."""


def example(loaded: Loaded) -> Picture:
    """Picture or tone for the first run of a model."""
    if not loaded.hears:
        return EXAMPLE
    rate = loaded.processor.sampling_rate
    tone = torch.sin(torch.arange(int(SECONDS * rate)) * 2 * math.pi * 440 / rate)
    return Sound(torch.zeros(8, 8, 3, dtype=torch.uint8), SECONDS, samples=tone, rate=rate)


def inputs(loaded: Loaded, pictures: tuple[Picture, ...]) -> dict[str, Tensor]:
    """Inputs of a model for pictures or sounds, made by its own processor at the sampling rate of the processor."""
    if loaded.hears:
        rate, name = loaded.processor.sampling_rate, loaded.model.main_input_name
        arrays = [resample(sound.samples, sound.rate, rate).numpy() for sound in pictures]
        tensors = {name: loaded.processor(arrays, return_tensors="pt", sampling_rate=rate)[name]}
    else:
        processed = loaded.processor([picture.pixels.numpy() for picture in pictures], return_tensors="pt")
        tensors = {name: value for name, value in processed.items() if isinstance(value, Tensor)}
    weights = next(loaded.model.parameters())
    for name, tensor in tensors.items():
        tensors[name] = tensor.to(weights.device, weights.dtype if tensor.is_floating_point() else None)
    return tensors


def resample(samples: Tensor, rate: int, wanted: int) -> Tensor:
    """Resample a sound; frequencies that both rates can represent are unchanged."""
    if rate == wanted:
        return samples
    count = round(len(samples) * wanted / rate)
    spectrum = torch.fft.rfft(samples.double())[: count // 2 + 1]
    return (torch.fft.irfft(spectrum, n=count) * (count / len(samples))).float()


def longest_sound(extractor: Any) -> float:
    """Largest number of seconds that a model hears; 0 if it states no limit."""
    if _is_of_kaldi(extractor):
        return extractor.max_length * HOP
    return getattr(extractor, "n_samples", 0) / extractor.sampling_rate


def _is_of_kaldi(extractor: Any) -> bool:
    """Whether a feature extractor makes Kaldi's frames, the same number for all sounds."""
    return hasattr(extractor, "num_mel_bins") and hasattr(extractor, "max_length")


def plane_of(processor: Any, picture: Picture) -> Plane:
    """Rows and columns of a model's input numbers for a picture or a sound, with their positions in it."""
    from transformers.audio_utils import hertz_to_mel

    if not isinstance(picture, Sound):
        return _measure_picture_plane(processor, picture.size)
    rate, seconds = processor.sampling_rate, picture.seconds
    if _is_of_kaldi(processor):
        # the model's bands lie between `low` and `high`, those of the spectrogram between 0 and `top`, all in mel
        low, high, top = (float(hertz_to_mel(hertz, "htk")) for hertz in (LOWEST, rate / 2, picture.rate / 2))
        step = (high - low) / (processor.num_mel_bins + 1) / top
        bands = picture.size[0]
        stretch = (bands + 1) / bands  # the centers of bands divide `top` into one part more than there are bands
        down = -step * stretch, 1 + 0.5 / bands - (low / top + step / 2) * stretch
        across = HOP / seconds, (MIDDLE - HOP / 2) / seconds
        return Plane(processor.num_mel_bins, processor.max_length, across, down, digits=9)
    if hasattr(processor, "n_samples"):  # Whisper pads a sound, and makes one frame around each hop
        hop, count = processor.hop_length, processor.nb_max_frames
    else:
        hop, count = 1, round(seconds * rate)
    return Plane(1, count, (hop / rate / seconds, -hop / rate / seconds / 2), digits=9)


def pitch(loaded: Loaded, band: float) -> float:
    """Convert a position among the mel bands of a model to Hz; band i spans i to i + 1, with its center at i + 0.5."""
    from transformers.audio_utils import hertz_to_mel, mel_to_hertz

    low, high = (hertz_to_mel(hertz, "htk") for hertz in (LOWEST, loaded.processor.sampling_rate / 2))
    mel = low + (high - low) * (band + 0.5) / (loaded.processor.num_mel_bins + 1)
    return float(mel_to_hertz(mel, "htk"))


@lru_cache(maxsize=32)
def _measure_picture_plane(processor: Any, size: tuple[int, int]) -> Plane:
    def process(pixels: Tensor) -> Tensor:
        return processor([pixels.numpy()], return_tensors="pt")["pixel_values"].float()

    return positions.planes(process, size)[0]


def extra_positions(loaded: Loaded) -> tuple[str, ...]:
    """Names of the positions before the patches."""
    parameters = {name.rsplit(".", 1)[-1]: value for name, value in loaded.model.named_parameters()}
    names = [name for parameter, name in SPECIAL if parameter in parameters]
    registers = parameters[REGISTERS].shape[-2] if REGISTERS in parameters else 0
    return (*names, *(f"[REG {i}]" for i in range(registers)))


def captured_run(loaded: Loaded, model_inputs: dict[str, Tensor], edits: Edits) -> tuple[Capture, Any, list[CellMap]]:
    """Run a model once; return its captured attention, its output, and the maps of cells before each call."""
    model, no_cache = loaded.model, {"use_cache": False} if loaded.task == "write" else {}
    with (
        loaded.turns.turn(),
        torch.inference_mode(),
        capture(model, edits, sites=loaded.trial.calls) as captured,
        positions.cell_maps(model, captured) as maps,
    ):
        output = model(**model_inputs, output_hidden_states=True, **no_cache)
    return captured, output, maps


def states(steps: tuple[Step, ...], output: Any) -> Tensor:
    """Last hidden states, (B, n, d); the last outputs of the heads if the model has hidden states of another shape."""
    last = running.hidden(output)
    return last if isinstance(last, Tensor) and last.dim() == 3 else steps[-1].outputs()


def tried(loaded: Loaded) -> Loaded:
    """Add the attention calls and the positions of a model, found in a run on a small picture or a tone.

    For pictures, a second run checks the order of the patches, and that the model draws no random numbers.
    """
    name = f"{faults.name(loaded.name)} ({loaded.made_of})"
    with faults.unforeseen(name):
        picture = example(loaded)
        model_inputs, plane = inputs(loaded, (picture,)), plane_of(loaded.processor, picture)
        if loaded.task == "write":
            model_inputs["decoder_input_ids"] = torch.tensor([[running.begins_with(loaded.model)] * 2])
        captured, output, maps = captured_run(loaded, model_inputs, Edits())
        steps = captured.steps
        step = next((step for step in steps if step.shape[0] == 1), steps[0])
        windows = captured.windows.get(step.site)
        count = step.shape[2] if windows is None else windows.rows * windows.columns
        extra, call = extra_positions(loaded), [call.site for call in captured.calls].index(step.site)
        patching = positions.patching(maps, count, call, extra)
        if patching is None or patching.count(plane) != count:
            patching = None if loaded.hears else positions.square_patching(count, plane, extra)
    if patching is None or step.shape[0] > 1:  # all calls attend within pieces of the picture
        kind = "stretches of time by its convolutions" if loaded.hears else "rows and columns of patches"
        what = f"attends to {count} positions that are no {kind}"
        raise InputError(f"{name} {what}, so attnviz cannot place them.")
    hidden = states(steps, output)
    trial = Trial({step.site: step.num_heads for step in steps}, hidden.shape[-1], calls=captured.sites)
    loaded = replace(loaded, patching=patching, trial=trial)
    if not loaded.hears:
        with faults.unforeseen(name):
            _check_patches(loaded, name, model_inputs, hidden, step)
    return loaded


def _check_patches(loaded: Loaded, name: str, model_inputs: dict[str, Tensor], hidden: Tensor, step: Step) -> None:
    """Check the order of patches by a second run on the picture, and on four copies with one bright patch each.

    A bright patch must change the query of its position, and the picture itself must give the states of the first run.

    Args:
        hidden: states of the first run, (1, n, d).
        step: first attention call of the first run.
    """
    rows, columns = loaded.patching.cells(plane_of(loaded.processor, EXAMPLE))
    last = rows.count * columns.count - 1
    cells = [divmod(i, columns.count) for i in (0, last // 3, last // 2, last)]  # row and column
    batch = {key: torch.cat([value] * (1 + len(cells))) for key, value in model_inputs.items()}
    for pixels, (row, column) in zip(batch["pixel_values"][1:], cells, strict=True):
        (top, bottom), (left, right) = rows.edges(row), columns.edges(column)
        pixels[..., max(0, round(top)) : round(bottom), max(0, round(left)) : round(right)] += BRIGHT
    captured, output, _ = captured_run(loaded, batch, Edits())
    if differ(states(captured.steps, output)[0], hidden[0]):
        what = f"{name} draws at random: two runs on one picture differ"
        raise InputError(f"{what}, so no map would be that of the next run. attnviz.capture(model) shows one run.")
    windows = captured.windows.get(step.site)
    first, width = len(loaded.patching.extra), columns.count if windows is None else windows.padded[1]
    query = next((other.query for other in captured.steps if other.site == step.site), None)
    # queries beside a bright patch also change if patches overlap, or a convolution comes before them
    for number, (row, column) in enumerate(cells if query is not None else (), 1):
        changes = (query[number] - query[0]).float().abs().amax((0, 2))  # of the query of each position
        if changes.isfinite().all() and changes[first + row * width + column] <= NOISE * changes.max():
            what = f"{name} attends to {step.shape[2]} positions, and a bright patch changes others than its own"
            raise InputError(f"{what}, so attnviz cannot place them.")
