"""What every source promises."""

from typing import Protocol

from attnviz.core.edits import Edits, Site
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence


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

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Cut texts into tokens, padded to one length."""
        ...

    def run(self, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Record:
        """Run the model on a batch with some edits. The model is left as it was."""
        ...
