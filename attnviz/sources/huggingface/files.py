"""Files of a model: which to fetch, which exist, checksums and headers; and building a model from them.

While transformers builds a model, it changes state that all threads share: how weights are tied, `torch.linspace`, its
logging, and torch's default dtype. Two builds at the same time would restore each other's changes, so each build waits
for the previous one. Runs need not wait: the default dtype is not changed here, and they use no other shared state.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import faults

CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
SMALL = re.compile(r"[^/]+\.(json|txt|model|spm|codes|tokenizer|jinja)|1_Pooling/config\.json")
"""Names of configurations, vocabularies and chat templates, which are fetched beside the weights."""
ADAPTER = "adapter_config.json"
CHECKPOINT = re.compile(r"checkpoint-\d+")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
OF_TRAINER = ("training_args.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
"""Pickles that `Trainer` writes beside weights."""
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
LARGER = 4
"""Maximum ratio of the parameters of a model to the numbers in its files, which lack tied and computed weights."""
CONVERSIONS = frozenset({"float", "double", "half", "bfloat16"})
"""Methods of a tensor that convert it to the dtype in their name."""

_build_lock, _import_lock = Lock(), Lock()
_before_quiet: list[tuple[int, bool]] = []
"""Verbosity and progress bars of transformers before each active `quiet` context; the first entry is restored last."""


@dataclass(frozen=True)
class File:
    """A file of a model on a hub: its name, its size in bytes, and its SHA-256, or the SHA-1 that git computes."""

    name: str
    size: int
    digest: str

    @property
    def is_weights(self) -> bool:
        return self.name.endswith(".safetensors")

    def check(self, folder: Path, model: str) -> None:
        """Raise AttnvizError and delete the fetched file if it differs from the digest of the hub."""
        from huggingface_hub.utils.sha import git_hash, sha_fileobj

        path = folder / self.name
        with path.open("rb") as content:
            digest = sha_fileobj(content).hex() if len(self.digest) == 64 else git_hash(content.read())
        if digest != self.digest:
            for file in {path.resolve(), path}:  # in the cache, the path is a link to the file
                file.unlink(missing_ok=True)
            what = f"The file {self.name} of {faults.name(model)} was damaged on its way: its checksum is not the hub's"
            raise AttnvizError(f"{what}. It has been deleted; try again.")


def read_json(path: Path) -> Any:
    """Read a JSON file; None if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def weights(folder: Path) -> tuple[Path, ...]:
    """Weight files that transformers would load from a folder; empty if there are none, AttnvizError if some lack."""
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    if not (folder / INDEX).is_file():
        return ()
    try:
        names = sorted({*read_json(folder / INDEX)["weight_map"].values()})
        missing = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
    except (KeyError, TypeError, AttributeError):
        raise AttnvizError(f"The list of weights {INDEX} is damaged; fetch it again.") from None
    if missing:
        what = f"The weights {faults.name(missing[0])}, which {INDEX} lists, are not there"
        raise AttnvizError(f"{what}; fetch them again.")
    return tuple(folder / name for name in names)


def headers(folder: Path, model: str) -> tuple[int, torch.dtype]:
    """Number of parameters in the weight files of a folder, and dtype of most of them, read from the headers."""
    counts = Counter()  # numbers of each dtype
    for path in weights(folder):
        try:
            with safe_open(path, "pt") as file:
                for tensor in map(file.get_slice, file.keys()):
                    per_item = 2 if tensor.get_dtype() == "U8" else 1  # two numbers of 4 bits in a byte
                    counts[tensor.get_dtype()] += per_item * prod(tensor.get_shape())
        except (SafetensorError, OSError):
            what = f"The weights {path.name} of {faults.name(model)} are damaged"
            raise AttnvizError(f"{what}: delete the file, and fetch it again.") from None
    readable = [name for name in counts if name in DTYPES]
    if not readable:
        unread = max(counts, key=counts.get, default=None)
        raise InputError(f"{faults.name(model)} has weights of a type that attnviz does not read: {unread}.")
    return counts.total(), DTYPES[max(readable, key=counts.get)]


def whole(folder: Path) -> bool:
    """Whether a folder is complete: it has a configuration, weights, and a tokenizer or a preprocessor."""
    small = {path.name for path in folder.iterdir() if SMALL.fullmatch(path.name)}
    try:
        has_weights = bool(weights(folder))
    except AttnvizError:
        return False
    return has_weights and CONFIG in small and not small <= {CONFIG, INDEX, "generation_config.json"}


@contextmanager
def alone() -> Iterator[None]:
    """Context in which no other build runs, and transformers prints nothing."""
    with _build_lock, quiet():
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Context in which transformers prints nothing; important problems become errors elsewhere."""
    with _import_lock:  # a first import in two threads at the same time fails
        from transformers import AutoTokenizer  # noqa: F401
        from transformers.utils import logging

        _before_quiet.append((logging.get_verbosity(), logging.is_progress_bar_enabled()))
        logging.set_verbosity_error()
        logging.disable_progress_bar()
    try:
        yield
    finally:
        with _import_lock:
            verbosity, has_bars = _before_quiet[0]
            _before_quiet.pop()
            if not _before_quiet:  # no other thread is in this context
                logging.set_verbosity(verbosity)
                if has_bars:
                    logging.enable_progress_bar()


def build(
    model: Any, folder: Path, config: Any, dtype: torch.dtype, numbers: int | None = None, **options: Any
) -> tuple[nn.Module, dict[str, Any]]:
    """Build a model with the weights in a folder; return the model and the loading info of transformers.

    The subclass made here replaces the context in which `from_pretrained` builds, as that would set the default dtype.

    Args:
        model: class of the model.
        numbers: number of parameters in the files; a much larger model is refused before its weights are read.
        options: more options of `from_pretrained`.
    """

    class ThreadSafe(model):
        @classmethod
        def get_init_context(cls, dtype: torch.dtype, *arguments: Any) -> list[Any]:
            """Contexts in which the model is built, with a dtype for this thread instead of the default dtype."""
            default = torch.get_default_dtype()
            typed = [] if dtype is default else [Typed(dtype)]
            return [*model.get_init_context(default, *arguments), *typed]

        def __new__(cls, *args: Any, **kwargs: Any) -> nn.Module:
            """Make the model; refuse it if its configuration needs many more numbers than the files hold."""
            instance = model(*args, **kwargs)
            needed = sum(parameter.numel() for parameter in instance.parameters())
            if numbers is not None and needed > LARGER * numbers:
                what = f"config.json describes a model of {needed:,} numbers, and the files hold {numbers:,}"
                raise InputError(f"{what}. They do not belong together; fetch both again.")
            return instance

    ThreadSafe.__name__ = model.__name__
    return ThreadSafe.from_pretrained(
        folder,
        config=config,
        dtype=dtype,
        local_files_only=True,
        use_safetensors=True,
        attn_implementation="eager",
        ignore_mismatched_sizes=True,  # they are listed in the loading info
        output_loading_info=True,
        **options,
    )


class Typed(TorchFunctionMode):
    """Context in which new tensors of this thread get a dtype in place of torch's default dtype.

    It changes results of torch functions that were given neither a dtype nor a floating tensor, and those of
    `tensor.to(torch.get_default_dtype())`.
    """

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, default = kwargs or {}, torch.get_default_dtype()
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor) or result.dtype is not default:
            return result
        values = (*args, *kwargs.values())
        is_untyped = getattr(func, "__name__", "") not in CONVERSIONS and not any(map(_is_typed, values))
        is_to_default = func is Tensor.to and args[1:] == (default,) and args[0].dtype is default
        return result.to(self.dtype) if is_untyped or is_to_default else result


def _is_typed(value: Any) -> bool:
    """Whether a value sets the dtype of a result: a dtype, or a floating or complex tensor, alone or in a list."""
    if isinstance(value, list | tuple):
        return any(map(_is_typed, value))
    if isinstance(value, Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, torch.dtype) or hasattr(value, "dtype")
