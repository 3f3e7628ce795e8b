"""The vision model that ships: it reads a picture of two shapes and says how they lie."""

from dataclasses import dataclass
from typing import Any

from attnviz.models.trained import folder
from attnviz.sources import cards
from attnviz.sources.huggingface.sense_models import PictureModel

NAME = "shapes"


@dataclass(frozen=True)
class Shapes(PictureModel):
    """The model `shapes`, trained here, in a folder as transformers writes it."""

    names = (NAME,)
    provenance = "trained here"

    @classmethod
    def named(cls, name: str, **settings: Any) -> "Shapes":
        return cls(str(folder(name)), **settings)

    @property
    def name(self) -> str:
        return NAME

    @property
    def id(self) -> str:
        return NAME

    @property
    def card(self) -> cards.Card:
        return cards.card(NAME)
