"""Runs of a model that hears: a sound by its own feature extractor, attention captured in its own code.

Its encoder has a position for each stretch of time; convolutions before it say how long a stretch is.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing import Capture, capture
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.places import Box, Sound
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.huggingface import faults, running
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.pictures import states_of

TRIED = 0.5
"""Seconds of the sound that a model is tried on."""
PROMPT = 8
"""Tokens before the first written one, at most: start, language, task, no timestamps."""


@dataclass(frozen=True)
class Hearing:
    """How a model cuts a sound into positions.

    Attributes:
        rate: of the samples that it hears, in Hz.
        convolutions: kernel and stride of each that makes positions of samples; none where `positions` says how many.
        positions: how many there are always, of a sound that is padded to `longest`; 0 if there are as many as fit.
        longest: seconds that it hears at most, or 0.
    """

    rate: int
    convolutions: tuple[tuple[int, int], ...] = ()
    positions: int = 0
    longest: float = 0.0

    @property
    def step(self) -> float:
        """Seconds from one position to the next."""
        if self.positions:
            return self.longest / self.positions
        return math.prod(stride for _, stride in self.convolutions) / self.rate

    @property
    def begin(self) -> float:
        """Seconds to the middle of what the first position hears."""
        reach, stride = 0, 1
        for kernel, step in self.convolutions:
            reach, stride = reach + (kernel - 1) * stride, stride * step
        return reach / 2 / self.rate

    def sentence(self, sound: Sound) -> Sentence:
        """Positions of a sound, each a stretch of its spectrogram around its middle; those after its end have none."""
        count, half = self.positions or self.count(round(sound.seconds * self.rate)), self.step / 2
        tokens = []
        for i in range(count):
            middle = self.begin + i * self.step
            left, right = (min(max(middle + side, 0.0), sound.seconds) / sound.seconds for side in (-half, half))
            box = Box(left, 0.0, right, 1.0) if right - left > 1e-9 else None
            tokens.append(Token(f"{middle:.2f} s", i, 0, 0, special=box is None, box=box))
        return Sentence(f"a sound of {sound.seconds:.2f} s", tuple(tokens), count, (sound,))

    def count(self, samples: int) -> int:
        """Positions of so many samples."""
        for kernel, stride in self.convolutions:
            samples = (samples - kernel) // stride + 1
        return max(0, samples)


def hearing_of(loaded: Loaded) -> Hearing | None:
    """How a model cuts a sound, by its settings; None if they do not say it."""
    config, extractor = loaded.config, loaded.processor
    rate = extractor.sampling_rate
    if config.model_type == "whisper":
        return Hearing(rate, positions=config.max_source_positions, longest=extractor.n_samples / rate)
    kernels, strides = (getattr(config, name, None) for name in ("conv_kernel", "conv_stride"))
    if not (isinstance(kernels, list | tuple) and isinstance(strides, list | tuple)):
        return None
    return Hearing(rate, tuple(zip(kernels, strides, strict=True)))


def tried(loaded: Loaded) -> Loaded:
    """The same with its attention calls, seen in a run on a short tone.

    Raises:
        AttnvizError: if it cannot be run, no attention is seen in it, or its positions are no stretches of time.
    """
    hearing = hearing_of(loaded)
    name = f"{faults.name(loaded.name)} ({loaded.made_of})"
    if hearing is None:
        raise InputError(f"{name} does not say which time its positions stand for, so attnviz cannot place them.")
    with faults.unforeseen(name):
        captured, output = captured_run(loaded, example(loaded, hearing), Edits())
        steps = captured.steps
    count, expected = steps[0].shape[2], len(hearing.sentence(_tone(hearing.rate)).tokens)
    if count != expected:
        what = f"attends to {count} positions of {TRIED} s, where its convolutions give {expected}"
        raise InputError(f"{name} {what}, so attnviz cannot place them.")
    states = states_of(output)
    d_model = steps[-1].num_heads * steps[-1].value.shape[-1] if states is None else states.shape[-1]
    heads = {step.site: step.num_heads for step in steps}
    return replace(loaded, trial=Trial(heads, d_model, calls=captured.sites))


def example(loaded: Loaded, hearing: Hearing) -> dict[str, Tensor]:
    """Inputs of a model for the short tone that it is tried on."""
    read = inputs(loaded, hearing, (_tone(hearing.rate),))
    if loaded.task == "write":
        read["decoder_input_ids"] = torch.tensor([[running.begins_with(loaded.model)] * 2])
    return read


def _tone(rate: int) -> Sound:
    tone = torch.sin(torch.arange(int(TRIED * rate)) * 2 * math.pi * 440 / rate)
    return Sound(torch.zeros(8, 8, 3, dtype=torch.uint8), TRIED, samples=tone, rate=rate)


def inputs(loaded: Loaded, hearing: Hearing, sounds: tuple[Sound, ...]) -> dict[str, Tensor]:
    """Inputs of a model for sounds, by its feature extractor, at its own rate."""
    samples = [resampled(sound.samples, sound.rate, hearing.rate).numpy() for sound in sounds]
    read = loaded.processor(samples, sampling_rate=hearing.rate, return_tensors="pt")
    name, weights = loaded.model.main_input_name, next(loaded.model.parameters())
    return {name: read[name].to(weights.device, weights.dtype)}


def resampled(samples: Tensor, rate: int, wanted: int) -> Tensor:
    """Samples at another rate: frequencies that both rates hold are kept, others left out."""
    if rate == wanted:
        return samples
    count = round(len(samples) * wanted / rate)
    spectrum = torch.fft.rfft(samples.double())[: count // 2 + 1]
    return (torch.fft.irfft(spectrum, n=count) * (count / len(samples))).float()


def captured_run(loaded: Loaded, read: dict[str, Tensor], edits: Edits) -> tuple[Capture, Any]:
    """Captured attention of one run, and the output."""
    model = loaded.model
    cache = {"use_cache": False} if loaded.task == "write" else {}
    with loaded.turns.turn(), torch.inference_mode(), capture(model, edits, sites=loaded.trial.calls) as captured:
        output = model(**read, output_hidden_states=True, **cache)
    return captured, output


def written(loaded: Loaded, read: dict[str, Tensor], edits: Edits) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """Words that a model writes of sounds by its own `generate`, each time the most probable token, and its prompt.

    Returns:
        As `running.written`: (B, n) ids, how many of each count, and after how many each was cut, 0 where it ended.
    """
    from transformers import LogitsProcessorList

    model, settings = loaded.model, deepcopy(loaded.model.generation_config)
    most = min(running.LONGEST_ANSWER, loaded.config.max_target_positions - PROMPT)
    settings.update(do_sample=False, num_beams=1, max_length=None, max_new_tokens=most, return_dict_in_generate=True)
    is_edited, rules = edits != Edits(), LogitsProcessorList()
    watching = capture(model, edits, sites=loaded.trial.calls) if is_edited else nullcontext()
    with loaded.turns.turn(), torch.inference_mode(), watching as captured:
        if is_edited:  # of each word it would keep all that cross-attention reads
            rules.append(_Forgetting(captured))
        with _quiet():
            ids = model.generate(**read, generation_config=settings, logits_processor=rules)["sequences"].cpu()
    ends = settings.eos_token_id if isinstance(settings.eos_token_id, list) else [settings.eos_token_id]
    ended = torch.isin(ids, torch.tensor([end for end in ends if end is not None], dtype=torch.long))
    ended[:, 0] = False
    counts = tuple(ids.shape[1] if not row.any() else int(row.nonzero()[0]) for row in ended)
    cut = tuple(0 if row.any() else count - 1 for row, count in zip(ended, counts, strict=True))
    longest = max(counts)
    return ids[:, :longest], counts, cut


@contextmanager
def _quiet() -> Iterator[None]:
    """Whisper warns of settings that its own `generate` makes."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


class _Forgetting:
    """A rule for logits that changes none: it keeps the last attention call of each site alone."""

    def __init__(self, captured: Capture):
        self.captured = captured

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.captured.calls[:] = {call.site: call for call in self.captured.calls}.values()
        return scores
