"""A source of transformers by its name: of a language model or, where it reads pictures alone, of a vision model."""

from collections.abc import Callable

from attnviz.sources.huggingface.hub import DownloadProgress
from attnviz.sources.huggingface.picture_model import PictureModel
from attnviz.sources.huggingface.source import HuggingFace, loaded_model


def fetch(
    name: str, report: Callable[[DownloadProgress], bool | None] = lambda progress: None, **settings: object
) -> HuggingFace:
    """A model by its name or folder; while it is fetched, `report` is told how far that is, and False ends it.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded; `hub.Canceled` if `report` gave False.
    """
    kind = PictureModel if loaded_model(name, report).tokenizer is None else HuggingFace
    return kind(name, **settings)
