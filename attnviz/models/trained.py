"""Shipped weights: one file per saved training step, without pickle."""

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from attnviz.core import assets, storage
from attnviz.core.errors import AttnvizError
from attnviz.models.transformer import Config, EncoderDecoder, LanguageModel

Model = LanguageModel | EncoderDecoder
ENDING = ".safetensors"


def folder(name: str) -> Path:
    """Path of the folder with the files of a shipped model, such as "story"."""
    return assets.path(f"models/{name}")


def checkpoints(name: str) -> tuple[int, ...]:
    """Training steps with saved weights, first to last; the last is the trained model."""
    return tuple(sorted(int(path.stem) for path in folder(name).glob(f"*{ENDING}") if path.stem.isdecimal()))


@lru_cache(maxsize=16)
def load(name: str, step: int | None = None) -> Model:
    """Load a shipped model at a training step, by default the last; raise AttnvizError if there is no such file."""
    steps = checkpoints(name)
    if not steps:
        raise AttnvizError(f"The weights of '{name}' are missing: there is no *{ENDING} in assets/models/{name}.")
    if step is not None and step not in steps:
        available = ", ".join(map(str, steps))
        raise AttnvizError(f"'{name}' has no weights for training step {step}. Available steps: {available}.")
    return read(weights_path(name, steps[-1] if step is None else step))


def weights_path(name: str, step: int) -> Path:
    """Path of the file with a shipped model's weights at a training step."""
    return folder(name) / f"{step:05d}{ENDING}"


@torch.inference_mode(False)  # gradients also flow through its weights
def read(path: Path) -> Model:
    """Read a model from a file, in evaluation mode; raise AttnvizError if the file is missing or damaged."""
    subject = f"The weights {path.parent.name}/{path.name}"
    try:
        with safe_open(path, "pt") as file:
            config = Config(**json.loads(file.metadata()["config"]))
            weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 (not a dict)
        with torch.random.fork_rng(devices=[]):
            model = config.build()
        model.load_state_dict(weights)
    except (AttnvizError, RuntimeError):
        raise AttnvizError(f"{subject} do not fit the sizes that the file states; choose another model.") from None
    except (OSError, SafetensorError, ValueError, TypeError, KeyError):
        raise AttnvizError(f"{subject} are damaged or missing; fetch them again, or choose another model.") from None
    return model.eval().requires_grad_(False)


def write(model: Model, path: Path) -> None:
    """Save the weights of a model as float16: half the bytes, and no measured difference in the outputs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().half().contiguous() for name, tensor in model.state_dict().items()}
    with storage.temporary_file(path) as temporary:
        save_file(weights, temporary, {"config": json.dumps(asdict(model.config))})
        temporary.chmod(0o644)  # safetensors makes files that only their owner can read
