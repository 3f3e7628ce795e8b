"""A folder with an adapter of PEFT (LoRA), opened on its base model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import faults, files, folders, hub, loading
from attnviz.sources.huggingface.hub import DownloadProgress, ModelLocation
from attnviz.sources.huggingface.loaded import Loaded

WEIGHTS = "adapter_model.safetensors"


def folder_of(name: str) -> Path | None:
    """The folder of an adapter, where a name means one."""
    folder = Path(name)
    try:
        is_adapter = (folder / folders.ADAPTER).is_file() and not (folder / files.CONFIG).is_file()
    except (OSError, ValueError):
        return None
    return folder if is_adapter and hub.allowed() is None else None


def load(
    folder: Path, report: Callable[[DownloadProgress], bool | None], room: loading.Room = loading.Room()
) -> Loaded:
    """Load the base model, which is here already, and put the adapter into it.

    Raises:
        InputError: if the base is not here, the adapter is pickled, or PEFT is not installed; with the way out.
        AttnvizError: if one of both cannot be loaded.
    """
    base, _ = folders.base_of(folder)
    place = _found(base)
    if place is None or not (folder / WEIGHTS).is_file():
        raise InputError(folders.sentence(str(folder), folder))
    try:
        from peft import PeftModel
    except ImportError:
        raise InputError(f"{folders.sentence(str(folder), folder)} Or install peft, and open it again.") from None
    loaded = loading.load(place, report, room)
    try:
        PeftModel.from_pretrained(loaded.model, folder)
    except Exception as error:  # whatever PEFT makes of files that do not fit
        raise AttnvizError(f"{faults.name(str(folder))} does not fit {base}: {faults.first(error)}") from None
    model = loaded.model.eval().requires_grad_(False)
    return replace(
        loaded,
        name=folder.resolve().name,
        provenance="from a folder",
        parameters=sum(weight.numel() for weight in model.parameters()),
        size=sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers())),
        notes=(*loaded.notes, f"an adapter on {base}"),
    )


def _found(base: str) -> ModelLocation | None:
    """Place of a base model that is on this machine; None if it is not."""
    try:
        place = hub.find(base)
    except AttnvizError:
        return None
    return None if place.kind == "download" else place
