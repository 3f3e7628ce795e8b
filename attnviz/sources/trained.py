"""Models that were trained here and ship with attnviz: a translator, and models that predict the next word."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attnviz import tokenizers
from attnviz.core import storage
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError, TooLong, quoted
from attnviz.core.record import Prediction, Record
from attnviz.core.stream import Embedded, ModelWeights, Origin
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.models import streams, trained
from attnviz.models.multihead import Watching
from attnviz.models.transformer import Embedding, EncoderDecoder
from attnviz.sources import cards, taking
from attnviz.sources.base import Source
from attnviz.tokenizers import EOS, PAD, SOS, SPECIAL, vocabulary
from attnviz.tokenizers.vocabulary import Vocabulary

MANY_WORDS = 10_000
"""Number of words above which a text is refused before it is tokenized: each word is at least one token."""


@dataclass(frozen=True)
class Trained(Source):
    """A shipped model by its name, with the weights after one step of its training; by default after the last step.

    Raises:
        AttnvizError: if the file of the weights or the vocabulary is missing or damaged, with its name.
        InputError: if the weights after that step were not kept.
    """

    model: str = "translator"
    step: int | None = None

    names = ("translator", "story", "induction")
    provenance = "trained here"

    def __post_init__(self):
        if self.step is not None and type(self.step) is not int:
            raise InputError(f"step is {quoted(self.step)}; it must be a whole number.")
        config, file = trained.load(self.model, self.step).config, f"{self.model}/vocabulary.json"
        words = {"reads": (len(self._input_words), config.vocabulary)}
        if config.written:
            words["writes"] = (len(self._output_words), config.written)
        for does, (listed, expected) in words.items():
            if listed != expected:
                what = f"lists {listed} words that the model {does}, and its weights are for {expected}"
                raise AttnvizError(f"The vocabulary {file} {what}; fetch both files again.")

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
    def writes(self) -> bool:
        return isinstance(self._model, EncoderDecoder)

    @property
    def generates(self) -> bool:
        return not self.writes

    @property
    def ends(self) -> frozenset[int]:
        return frozenset({SPECIAL[EOS]})

    @property
    def longest(self) -> int:
        return self._model.config.longest

    @property
    def card(self) -> cards.Card:
        return cards.card(self.model)

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._model.config.sites

    @property
    def num_heads(self) -> int:
        return self._model.config.num_heads

    @property
    def d_model(self) -> int:
        return self._model.config.d_model

    def checksum(self) -> str:
        return storage.checksum(self._model.state_dict())

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Tokenize texts: the words and <eos> for an encoder, <sos> and the words for a decoder-only model."""
        longest, words = self._model.config.longest, [len(text.split()) for text in texts]
        reads = f"'{self.model}' reads up to {longest}. Shorten it, or split its lines."
        if max(words, default=0) > MANY_WORDS:
            raise TooLong(words, longest, reads, at_least=True)
        sentences = tokenizers.batch(self._input_words, texts, sos=not self.writes, eos=self.writes)
        lengths = [sentence.length for sentence in sentences]
        if max(lengths, default=0) > longest:
            raise TooLong(lengths, longest, reads)
        return sentences

    def tokenize_targets(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Tokenize translations as input of the translator's decoder: <sos> and the words."""
        if not self.writes:
            return super().tokenize_targets(texts)
        sentences = tokenizers.batch(self._output_words, texts, sos=True)
        longest, lengths = self._model.config.longest, [sentence.length for sentence in sentences]
        if max(lengths) > longest:
            raise TooLong(lengths, longest, f"'{self.model}' writes up to {longest}. Shorten it.")
        return sentences

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        """Words outside the vocabulary, each with the most similarly spelled words in the vocabulary."""
        words = dict.fromkeys(word for text in texts for word in self._input_words.unknown(text))
        return {word: self._input_words.nearest(word) for word in words}

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model. The translator's decoder reads `targets`, or without any, the translation that it writes.

        Raises:
            InputError: if there is no token, or if there are `targets` but the model is not the translator.
        """
        self.check_targets(targets)
        acting, targets = self.resolved(sentences, edits, targets)
        tap, written, cut = Tap(acting), (), ()
        with torch.inference_mode():
            if not self.writes:
                hidden, logits = self._model(self._checked_ids(sentences), _lengths(sentences), tap=tap)
                words = self._input_words.names
            else:
                memory = self._model.encode(self._checked_ids(sentences), _lengths(sentences), tap=tap)
                if not targets:
                    targets, cut = _decode_greedily(self._model, memory, _lengths(sentences), self._output_words, edits)
                hidden, logits = self._decode(targets, memory, sentences, tap)
                logits = _without_special(logits)
                words, written = self._output_words.names, tuple(target.text for target in targets)
        special = frozenset(range(len(SPECIAL) + 1))  # <unk> comes after <pad>, <sos> and <eos>
        prediction = Prediction(logits, words, written, cut=cut if any(cut) else (), special=special)
        steps = tuple(tap.steps)
        provenance = "random" if self.step == 0 else self.provenance
        return Record(sentences, self.name, provenance, edits, steps, hidden, targets, prediction)

    def extended(self, sentence: Sentence, id: int) -> Sentence:
        return self._input_words.extended(sentence, id) if self.generates else super().extended(sentence, id)

    def origin(self, record: Record, site: Site) -> Origin:
        """Input of the attention call at a site, from another run of the record."""
        record.step(site)
        model, tap, ids = self._model, Watching(self.edits_of(record)), self._checked_ids(record.sentences)
        with torch.inference_mode():
            read = _embed(model.embedding, ids)
            if not self.writes:
                model(ids, _lengths(record.sentences), tap=tap)
                return tap.origin(site, read, read)
            memory = model.encode(ids, _lengths(record.sentences), tap=tap)
            self._decode(record.targets, memory, record.sentences, tap)
            written = _embed(model.written, _token_ids(record.targets))
        query_input, key_input = (
            (read if site.kind == "encoder" else written),
            (written if site.kind == "decoder" else read),
        )
        return tap.origin(site, query_input, key_input)

    def model_weights(self) -> ModelWeights:
        return streams.model_weights(self._model)

    def with_stream(self, record: Record) -> Record:
        taking.check_stream(record)
        with torch.inference_mode():
            embedding = self._model.written if self.writes else self._model.embedding
            embedded = _embed(embedding, _token_ids(record.read))
        return replace(record, stream=streams.stream_of(self._model, record, embedded))

    def graph(self, record: Record, tap: Tap, vectors: tuple[Tensor, ...] = ()) -> tuple[tuple[Tensor, ...], Tensor]:
        model, lengths, ids = self._model, _lengths(record.sentences), self._checked_ids(record.sentences)
        with torch.inference_mode(False), torch.enable_grad():
            if not self.writes:
                (read,) = vectors = vectors or (model.embedding.words(ids).detach().requires_grad_(),)
                return vectors, model(read, lengths, tap=tap)[1]
            if not vectors:
                pairs = (model.embedding, ids), (model.written, _token_ids(record.targets))
                vectors = tuple(embedding.words(batch).detach().requires_grad_() for embedding, batch in pairs)
            read, written = vectors
            memory = model.encode(read, lengths, tap=tap)
            _, logits = model.decode(written, memory, _lengths(record.targets), lengths, tap=tap)
            return vectors, _without_special(logits)

    def _decode(
        self, targets: tuple[Sentence, ...], memory: Tensor, sentences: tuple[Sentence, ...], tap: Tap
    ) -> tuple[Tensor, Tensor]:
        return self._model.decode(_token_ids(targets), memory, _lengths(targets), _lengths(sentences), tap=tap)

    def _checked_ids(self, sentences: tuple[Sentence, ...]) -> Tensor:
        """Token ids of a batch, (B, n); raise InputError if the model cannot read them."""
        if not (sentences and sentences[0].tokens):
            raise InputError("There is no token to look at; type a sentence.")
        ids = _token_ids(sentences)
        if ids.max() >= len(self._input_words) or ids.shape[1] > self._model.config.longest:
            raise InputError(f"These tokens are not for '{self.model}'; cut the text with its own tokenize.")
        return ids

    @property
    def _model(self) -> trained.Model:
        return trained.load(self.model, self.step)

    @property
    def _input_words(self) -> Vocabulary:
        return next(iter(_vocabularies(self.model).values()))

    @property
    def _output_words(self) -> Vocabulary:
        return list(_vocabularies(self.model).values())[-1]


def _lengths(sentences: tuple[Sentence, ...]) -> tuple[int, ...]:
    return tuple(sentence.length for sentence in sentences)


def _token_ids(sentences: tuple[Sentence, ...]) -> Tensor:
    """Token ids of a batch, (B, n)."""
    return torch.tensor([[token.id for token in sentence.tokens] for sentence in sentences])


def _embed(embedding: Embedding, ids: Tensor) -> Embedded:
    return Embedded(embedding.words(ids), embedding.positions.weight[: ids.shape[1]])


@lru_cache(maxsize=8)
def _vocabularies(name: str) -> dict[str, Vocabulary]:
    return vocabulary.read(trained.folder(name) / "vocabulary.json")


def _decode_greedily(
    model: EncoderDecoder, memory: Tensor, lengths: tuple[int, ...], words: Vocabulary, edits: Edits
) -> tuple[tuple[Sentence, ...], tuple[int, ...]]:
    """Decode greedily: from <sos> on, append the most probable word, until <eos> or the last position.

    The sentences do not contain <eos>. Also return, for each sentence, the number of words after which it was cut at
    the last position, 0 if it ended with <eos>.
    """
    read = torch.full((len(memory), 1), SPECIAL[SOS])
    ended = torch.zeros(len(memory), dtype=torch.bool)
    while read.shape[1] < model.config.longest:
        _, logits = model.decode(read, memory, None, lengths, tap=Tap(edits, keep=False))
        chosen = _without_special(logits[:, -1]).argmax(-1)
        ended |= chosen == SPECIAL[EOS]
        if ended.all():
            break
        read = torch.cat([read, chosen.masked_fill(ended, SPECIAL[PAD]).unsqueeze(1)], 1)
    sentences = tuple(_sentence(row, words) for row in read.tolist())
    return sentences, tuple(
        0 if end else sentence.length - 1 for end, sentence in zip(ended.tolist(), sentences, strict=True)
    )


def _without_special(logits: Tensor) -> Tensor:
    """Set the logits (..., words) of <pad> and <sos>, which the decoder must not write, to -inf."""
    return logits.index_fill(-1, torch.tensor([SPECIAL[PAD], SPECIAL[SOS]]), -torch.inf)


def _sentence(ids: list[int], words: Vocabulary) -> Sentence:
    """Sentence with these ids, from <sos> on; its length does not count the padding at its end."""
    length = next((i for i, id in enumerate(ids) if i and id == SPECIAL[PAD]), len(ids))
    return words.sentence(ids, length)
