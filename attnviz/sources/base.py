"""What every source promises."""

from typing import Protocol

from attnviz.core.edits import Edits, Site
from attnviz.core.origin import Origin
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.sources.cards import Card


class Source(Protocol):
    """Turns sentences into tokens and tokens into a record. Frozen and hashable: results can be kept by it."""

    @property
    def name(self) -> str: ...

    @property
    def provenance(self) -> str:
        """Where the weights come from: "random", "constructed", "trained here" or "pretrained"."""
        ...

    @property
    def sites(self) -> tuple[Site, ...]: ...

    @property
    def num_heads(self) -> int: ...

    @property
    def d_model(self) -> int: ...

    @property
    def card(self) -> Card | None:
        """What is known about the model, and how; None if nothing was measured."""
        ...

    @property
    def read_only(self) -> str | None:
        """Why nothing about the attention can be changed; None if it can."""
        ...

    @property
    def unseen(self) -> str | None:
        """What of the model's attention is not shown; None if all of it is."""
        ...

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Cut texts into tokens, padded to one length."""
        ...

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        """The words that are not in the vocabulary, each with those that are and are spelled most like it."""
        ...

    def run(self, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Record:
        """Run the model on a batch with some edits. The model is left as it was."""
        ...

    def origin(self, record: Record, site: Site) -> Origin | None:
        """What the call at a site of one of its records was projected from, by running it again; None if not known."""
        ...
