"""A source of transformers by its name: of a language model, of a vision model, or of one that hears."""

from collections.abc import Callable

from attnviz.sources.huggingface.hub import DownloadProgress
from attnviz.sources.huggingface.picture_model import PictureModel
from attnviz.sources.huggingface.sound_model import SoundModel
from attnviz.sources.huggingface.source import HuggingFace, loaded_model


def fetch(
    name: str, report: Callable[[DownloadProgress], bool | None] = lambda progress: None, **settings: object
) -> HuggingFace:
    """A model by its name or folder; while it is fetched, `report` is told how far that is, and False ends it.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded; `hub.Canceled` if `report` gave False.
    """
    loaded = loaded_model(name, report)
    if loaded.hears:
        return SoundModel(name, **settings)
    return (PictureModel if loaded.tokenizer is None else HuggingFace)(name, **settings)
