"""Models that were trained here and ship with attnviz: a translator, models that predict the next word, and shapes."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attnviz import tokenizers
from attnviz.core import storage
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, TooLong, quoted
from attnviz.core.record import Prediction, Record
from attnviz.core.stream import Embedded, ModelWeights, Origin
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.models import streams, trained
from attnviz.models.multihead import InputTap
from attnviz.models.transformer import Embedding, EncoderDecoder
from attnviz.sources import cards, taking
from attnviz.sources.base import Source, lengths_of, token_ids
from attnviz.sources.huggingface.sense_models import SenseModel
from attnviz.tokenizers import EOS, PAD, SOS, SPECIAL, vocabulary
from attnviz.tokenizers.vocabulary import Vocabulary

MANY_WORDS = 10_000
"""Number of words above which a text is refused before it is tokenized: each word is at least one token."""


@dataclass(frozen=True)
class Trained(Source):
    """A shipped model by its name, with the weights after one step of its training; by default after the last step."""

    model: str = "translator"
    step: int | None = None

    names = ("translator", "story", "induction")
    provenance = "trained here"
    ends = frozenset({SPECIAL[EOS]})

    def __post_init__(self):
        if self.step is not None and type(self.step) is not int:
            raise InputError(f"step is {quoted(self.step)}; it must be a whole number.")
        model = trained.load(self.model, self.step)
        sizes, writes = model.config, isinstance(model, EncoderDecoder)
        vars(self).update(writes=writes, generates=not writes, longest=sizes.longest, d_model=sizes.d_model)

    @classmethod
    def named(cls, name: str, **settings: Any) -> "Trained":
        return cls(name, **settings)

    @property
    def name(self) -> str:
        return self.model if self.step is None else f"{self.model} after step {self.step}"

    @property
    def id(self) -> str:
        return self.model

    @property
    def steps(self) -> tuple[int, ...]:
        """Training steps whose weights were kept; the last one is the trained model."""
        return trained.checkpoints(self.model)

    @property
    def card(self) -> cards.Card:
        return cards.card(self.model)

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._model.config.sites

    @property
    def num_heads(self) -> int:
        return self._model.config.num_heads

    def checksum(self) -> str:
        return storage.checksum(self._model.state_dict())

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Tokenize texts: the words and <eos> for an encoder, <sos> and the words for a decoder-only model."""
        word_counts = [len(text.split()) for text in texts]
        if max(word_counts, default=0) > MANY_WORDS:
            advice = f"{self.name} reads up to {self.longest}. Shorten it."
            raise TooLong(word_counts, self.longest, advice, at_least=True)
        sentences = tokenizers.batch(self._input_words, texts, sos=not self.writes, eos=self.writes)
        self.check_lengths(sentences)
        return sentences

    def tokenize_targets(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Tokenize translations as input of the translator's decoder: <sos> and the words."""
        self.check_targets(texts)
        sentences = tokenizers.batch(self._output_words, texts, sos=True)
        self.check_lengths(sentences, "writes")
        return sentences

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        """Words outside the vocabulary, each with the most similarly spelled words in the vocabulary."""
        words = dict.fromkeys(word for text in texts for word in self._input_words.unknown(text))
        return {word: self._input_words.nearest(word) for word in words}

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model; the translator's decoder reads `targets`, by default the translation that the model writes."""
        self.check_targets(targets)
        resolved, targets = self.resolved(sentences, edits, targets)
        tap = Tap(resolved)
        words, written, cut = self._input_words.names, (), ()
        with torch.inference_mode():
            if self.writes:
                if not targets:
                    targets, cut = self._decode_greedily(sentences, resolved)
                words, written = self._output_words.names, tuple(target.text for target in targets)
            hidden, logits = self._run(sentences, targets, tap)
        special = frozenset(range(len(SPECIAL) + 1))  # <unk> comes after <pad>, <sos> and <eos>
        prediction = Prediction(logits, words, written, cut=cut if any(cut) else (), special=special)
        provenance = "random" if self.step == 0 else self.provenance
        return Record(sentences, self.name, provenance, edits, tuple(tap.steps), hidden, targets, prediction)

    def _run(
        self, sentences: tuple[Sentence, ...], targets: tuple[Sentence, ...], tap: Tap, vectors: tuple[Tensor, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """Run the model on token ids, or on `vectors` if given; return its output, (B, n, d_model), and the logits."""
        lengths, inputs = lengths_of(sentences), vectors or self._ids(sentences, targets)
        if not self.writes:
            return self._model(inputs[0], lengths, tap=tap)
        memory = self._model.encode(inputs[0], lengths, tap=tap)
        hidden, logits = self._model.decode(inputs[1], memory, lengths_of(targets), lengths, tap=tap)
        return hidden, _block_special(logits)

    def _ids(self, sentences: tuple[Sentence, ...], targets: tuple[Sentence, ...]) -> tuple[Tensor, ...]:
        """Token ids of the sentences and of the targets, (B, n); raise InputError if the model cannot read them."""
        if not (sentences and sentences[0].tokens):
            raise InputError("There is no token to look at; type a sentence.")
        ids = token_ids(sentences)
        if ids.max() >= len(self._input_words) or ids.shape[1] > self.longest:
            raise InputError(f"These tokens are not for '{self.model}'; cut the text with its own tokenize.")
        return (ids, token_ids(targets)) if targets else (ids,)

    def _decode_greedily(
        self, sentences: tuple[Sentence, ...], edits: Edits
    ) -> tuple[tuple[Sentence, ...], tuple[int, ...]]:
        """Decode greedily: from <sos> on, append the most probable word, until <eos> or the last position.

        The sentences do not contain <eos>. Also return, for each sentence, its number of words if it was cut at the
        last position, or 0 if it ended with <eos>.
        """
        model, lengths, (ids,) = self._model, lengths_of(sentences), self._ids(sentences, ())
        memory = model.encode(ids, lengths, tap=Tap(edits, keep=False))
        decoder_ids = torch.full((len(memory), 1), SPECIAL[SOS])
        ended = torch.zeros(len(memory), dtype=torch.bool)
        while decoder_ids.shape[1] < self.longest:
            _, logits = model.decode(decoder_ids, memory, None, lengths, tap=Tap(edits, keep=False))
            next_ids = _block_special(logits[:, -1]).argmax(-1)
            ended |= next_ids == SPECIAL[EOS]
            if ended.all():
                break
            decoder_ids = torch.cat([decoder_ids, next_ids.masked_fill(ended, SPECIAL[PAD]).unsqueeze(1)], 1)
        counts = decoder_ids.ne(SPECIAL[PAD]).sum(1).tolist()  # the model itself never writes <pad>
        written = tuple(map(self._output_words.sentence, decoder_ids.tolist(), counts))
        cut = [0 if has_ended else count - 1 for has_ended, count in zip(ended.tolist(), counts, strict=True)]
        return written, tuple(cut)

    def extended(self, sentence: Sentence, id: int) -> Sentence:
        return self._input_words.extended(sentence, id) if self.generates else super().extended(sentence, id)

    def origin(self, record: Record, site: Site) -> Origin:
        """Input of the attention call at a site, from another run of the record."""
        record.step(site)
        tap, ids = InputTap(self.edits_of(record)), self._ids(record.sentences, record.targets)
        with torch.inference_mode():
            self._run(record.sentences, record.targets, tap)
            vectors = {"input": _embed(self._model.embedding, ids[0])}
            if self.writes:
                vectors["target"] = _embed(self._model.written, ids[1])
        query = vectors["target" if self.writes and site.kind != "encoder" else "input"]
        key = vectors["target" if self.writes and site.kind == "decoder" else "input"]
        return tap.origin(site, query, key)

    def model_weights(self) -> ModelWeights:
        return streams.model_weights(self._model)

    def with_stream(self, record: Record) -> Record:
        taking.check_stream(record)
        with torch.inference_mode():
            embedding = self._model.written if self.writes else self._model.embedding
            embedded = _embed(embedding, token_ids(record.read))
        return replace(record, stream=streams.stream_of(self._model, record, embedded))

    def graph(self, record: Record, tap: Tap, vectors: tuple[Tensor, ...] = ()) -> tuple[tuple[Tensor, ...], Tensor]:
        embeddings = [self._model.embedding, *([self._model.written] if self.writes else [])]
        with torch.inference_mode(False), torch.enable_grad():
            if not vectors:
                pairs = zip(embeddings, self._ids(record.sentences, record.targets), strict=True)
                vectors = tuple(embedding.words(ids).detach().requires_grad_() for embedding, ids in pairs)
            _, logits = self._run(record.sentences, record.targets, tap, vectors)
        return vectors, logits

    @property
    def _model(self) -> trained.Model:
        return trained.load(self.model, self.step)

    @property
    def _input_words(self) -> Vocabulary:
        return next(iter(_vocabularies(self.model).values()))

    @property
    def _output_words(self) -> Vocabulary:
        return list(_vocabularies(self.model).values())[-1]


@dataclass(frozen=True)
class Shapes(SenseModel):
    """The shipped vision model: it reads a picture of two shapes and classifies their relative position."""

    names = ("shapes",)
    id = "shapes"
    provenance = "trained here"
    reads = "picture"

    def __post_init__(self):
        super().__post_init__()
        vars(self).update(name=self.id, provenance=Shapes.provenance)

    @classmethod
    def named(cls, name: str, **settings: Any) -> "Shapes":
        return cls(str(trained.folder(name)), **settings)

    @property
    def card(self) -> cards.Card:
        return cards.card(self.name)


def _embed(embedding: Embedding, ids: Tensor) -> Embedded:
    """Embed token ids, (B, n), and their positions."""
    return Embedded(embedding.words(ids), embedding.positions.weight[: ids.shape[1]])


@lru_cache(maxsize=8)
def _vocabularies(name: str) -> dict[str, Vocabulary]:
    """Vocabularies of a shipped model by language; those of its input come first."""
    return vocabulary.read(trained.folder(name) / "vocabulary.json")


def _block_special(logits: Tensor) -> Tensor:
    """Set the logits (..., words) of <pad> and <sos>, which the decoder must not write, to -inf."""
    return logits.index_fill(-1, torch.tensor([SPECIAL[PAD], SPECIAL[SOS]]), -torch.inf)
