"""A model of Hugging Face as a source: its own tokens, its attention through the tap, and what it says."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from torch import Tensor

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.record import Prediction, Record
from attnviz.core.tokens import Sentence
from attnviz.sources.huggingface import hub, loading, reading, running
from attnviz.sources.huggingface.loading import Loaded


@dataclass(frozen=True)
class HuggingFace:
    """A model by its Hub name, perhaps with @revision, or by its folder.

    It is loaded when it is first asked for, and kept; two models at once.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded.
    """

    model: str

    provenance = "pretrained"
    card = None

    def __post_init__(self):
        _loaded(self.model)

    @property
    def name(self) -> str:
        return self.loaded.name

    @property
    def loaded(self) -> Loaded:
        return _loaded(self.model)

    @property
    def read_only(self) -> str | None:
        """Why nothing can be changed in this model; None if it can."""
        if not self.loaded.keeps_own_attention:
            return None
        what = f"{type(self.loaded.model).__name__} computes attention in its own code"
        return f"{what}: its weights can be shown, but masks and heads cannot be changed."

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        return self._example.sites

    @cached_property
    def num_heads(self) -> int:
        return max(step.num_heads for step in self._example.steps)

    @property
    def d_model(self) -> int:
        return self._example.output.shape[-1]

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        sentences = reading.sentences(self.loaded.tokenizer, texts)
        longest, length = self.loaded.longest, max(sentence.length for sentence in sentences)
        if longest is not None and length > longest:
            raise InputError(f"A sentence has {length:,} tokens; {self.name} reads up to {longest:,}. Shorten it.")
        return sentences

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        """The words for which the tokenizer has no pieces."""
        unknown = self.loaded.tokenizer.unk_token_id
        if unknown is None:
            return {}
        tokens = (token for one in reading.sentences(self.loaded.tokenizer, texts) for token in one.tokens)
        return dict.fromkeys((token.text for token in tokens if token.id == unknown and not token.special), ())

    def run(self, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Record:
        """Run the model.

        Raises:
            InputError: if something is changed in a model whose attention is its own, or there is too much to keep.
        """
        if self.read_only and edits != Edits():
            raise InputError(self.read_only)
        loaded = self.loaded
        lengths = tuple(sentence.length for sentence in sentences)
        read, targets = running.inputs(sentences, loaded), ()
        if loaded.task == "write":
            ids, counts = running.written(loaded, edits, read, lengths)
            targets = reading.written(loaded.tokenizer, ids.tolist(), counts)
            read["decoder_input_ids"] = ids
        given, steps = running.watched(loaded, edits, read, lengths)
        output = running.hidden(given).float().cpu()
        says = self._says(given, output, sentences, targets)
        own = loaded.keeps_own_attention
        return Record(sentences, self.name, self.provenance, edits, steps, output, targets, read_only=own, **says)

    def _says(
        self, given: Any, output: Tensor, sentences: tuple[Sentence, ...], targets: tuple[Sentence, ...]
    ) -> dict[str, Any]:
        """The prediction, the labels or the vectors of a record, by what the model is for."""
        loaded = self.loaded
        if loaded.task == "vectors":
            return {"vectors": running.means(output, sentences)}
        logits = given.logits.float().cpu()
        if loaded.task == "labels":
            names = loaded.model.config.id2label
            return {"labels": (tuple(str(names.get(i, i)) for i in range(logits.shape[-1])), logits)}
        blanks = None
        if loaded.task == "fill":
            mask = loaded.tokenizer.mask_token_id
            blanks = tuple(tuple(i for i, t in enumerate(one.tokens) if t.id == mask) for one in sentences)
        written = tuple(target.text for target in targets)
        return {"prediction": Prediction(logits, Pieces(loaded.tokenizer), written, blanks)}

    @cached_property
    def _example(self) -> Record:
        """A run on a single word, which knows the sites and the heads of each."""
        return self.run(self.tokenize(["a"]))


@dataclass(frozen=True, eq=False)
class Pieces(Sequence):
    """The pieces of a tokenizer by their ids, as text."""

    tokenizer: Any

    def __len__(self) -> int:
        return len(self.tokenizer)

    def __getitem__(self, id):
        text = self.tokenizer.decode([id])
        return (
            text if text and "\N{REPLACEMENT CHARACTER}" not in text else str(self.tokenizer.convert_ids_to_tokens(id))
        )


@lru_cache(maxsize=2)
def _loaded(name: str) -> Loaded:
    return loading.load(hub.find(name))
