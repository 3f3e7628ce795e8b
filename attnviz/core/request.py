"""A request: all inputs of a run of a source, as one value."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from attnviz.core.edits import Edits
from attnviz.core.errors import OF_PICTURES, InputError, quoted
from attnviz.core.places import Picture

Pictures = tuple[tuple[Picture, ...], ...]
"""Pictures or sounds per text of a batch."""


@dataclass(frozen=True)
class Request:
    """Texts of a batch with targets, pictures and edits; hashable, so it is the cache key of the resulting record.

    Attributes:
        texts: sentences of the batch; empty strings for a model that reads only pictures or sounds.
        targets: decoder inputs in place of the generated output, one per text; empty if there are none.
        answer: ids of tokens that follow the text, such as those that a model generated.
        pictures: pictures or sounds per text; empty if there are none.
        edits: changes to the attention.

    Raises:
        InputError: if targets or answer do not fit the texts, or only some texts have pictures.
    """

    texts: tuple[str, ...]
    targets: tuple[str, ...] = ()
    answer: tuple[int, ...] = ()
    pictures: Pictures = ()
    edits: Edits = Edits()

    def __post_init__(self):
        texts, targets = len(self.texts), len(self.targets)
        if targets and targets != texts:
            raise InputError(f"There are {texts} texts and {targets} targets; give one target for each text.")
        if self.answer and texts != 1:
            raise InputError(f"An answer continues one text; there are {texts}. Give one of them.")
        if self.pictures and not all(self.pictures):
            raise InputError("Some texts have pictures and some have none; run them separately.")

    @classmethod
    def of(cls, text: Any) -> Self:
        """Create a request from a text, a result of `attnviz.picture` or `attnviz.sound`, or a list of these.

        Raises:
            InputError: if `text` is anything else, with a hint for pictures.
        """
        if isinstance(text, Request):
            return text
        is_list = isinstance(text, Iterable) and not isinstance(text, str)
        requests = []
        for item in text if is_list else [text]:
            request = cls((item,)) if isinstance(item, str) else item
            if not isinstance(request, Request) or len(request.texts) != 1:
                instead = f"{quoted(item)}."
                if hasattr(text, "size"):  # an array or a picture
                    instead = f"a {type(text).__name__}. {OF_PICTURES}"
                raise InputError(f"Give a text as a string, or several texts as a list of strings; given {instead}")
            requests.append(request)
        pictures = tuple(request.pictures[0] if request.pictures else () for request in requests)
        return cls(tuple(request.texts[0] for request in requests), pictures=pictures if any(pictures) else ())

    @property
    def unchanged(self) -> Self:
        """The request without edits."""
        return replace(self, edits=Edits())

    @property
    def prompt(self) -> Self:
        """The request with texts and pictures only."""
        return type(self)(self.texts, pictures=self.pictures)
