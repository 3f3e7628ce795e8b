"""Models of Hugging Face as sources: their tokens, their attention through the tap, and their predictions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import Tensor

from attnviz.core import storage
from attnviz.core.edits import NOT_TAKEN, Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.places import Sound
from attnviz.core.record import Prediction, Record
from attnviz.core.request import Pictures
from attnviz.core.stream import ModelWeights, Origin
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token
from attnviz.sources import taking
from attnviz.sources.base import ANSWER, MOST_WRITTEN, Continuation, Source, WordList
from attnviz.sources.estimate import estimate
from attnviz.sources.huggingface import faults, loading, mixing, opening, reading, running, streams
from attnviz.sources.huggingface.loaded import Loaded, ModelFacts
from attnviz.sources.huggingface.loading import loaded_model
from attnviz.tokenizers.vocabulary import UNK


@dataclass(frozen=True)
class Pretrained(Source):
    """A model by its Hub name, perhaps with @revision, by its folder, or as a user loaded it.

    Weights are loaded when the source is made, and kept while there is room: models take at most half of the memory,
    and the least recently used model is dropped first. A dropped model is loaded again for its next run.

    Attributes:
        facts: facts that need no weights.
        borrowed: model that a user loaded; None for a name or a folder.
    """

    model: str
    facts: ModelFacts = field(init=False, repr=False, compare=False)
    borrowed: Loaded | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self):
        facts = self.loaded.facts
        vars(self).update(
            facts=facts,
            name=facts.name,
            provenance=facts.provenance,
            writes=facts.task == "write",
            d_model=facts.trial.d_model,
            longest=facts.longest,
            unseen=facts.trial.unseen,
            findings=(*facts.unread, *facts.trial.findings),
        )

    @property
    def id(self) -> str:
        return self.model

    @property
    def loaded(self) -> Loaded:
        """The model with its weights; read this once per run, as the weights may be dropped at any time."""
        return self.borrowed or loaded_model(self.model)

    @property
    def _model_and_class(self) -> str:
        return f"{self.name} ({self.facts.made_of})"

    @property
    def heads(self) -> Mapping[Site, int]:
        return self.facts.trial.heads

    def checksum(self) -> str:
        return storage.checksum(self.loaded.model.state_dict())

    def tokenize_targets(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Tokenize target texts as decoder input: a start token, followed by the tokens of the text."""
        self.check_targets(texts)
        with faults.unforeseen(self.name, "given this target"):
            sentences = reading.targets(self.facts.tokenizer, texts, running.begins_with(self.loaded.model))
        self.check_lengths(sentences, "writes")
        return sentences

    def predicted(
        self,
        output: Any,
        states: Tensor,
        sentences: tuple[Sentence, ...],
        targets: tuple[Sentence, ...],
        cut: tuple[int, ...],
    ) -> dict[str, Any]:
        """Fields of a record for the task of the model: the prediction, the labels or the vectors.

        Args:
            output: output of the model, with its logits.
            states: last hidden states, (B, n, d_model).
            cut: number of tokens after which each text that the model wrote was cut, 0 if it ended by itself.
        """
        facts = self.facts
        if facts.task == "vectors" and not facts.pooling.left_out:
            return {"vectors": facts.pooling(states, sentences), "pooling": str(facts.pooling)}
        logits = getattr(output, "logits", None)
        if facts.task in ("states", "vectors") or not isinstance(logits, Tensor):
            return {}
        logits = logits.float().cpu()
        if facts.task == "labels":
            names = opening.labels(facts.config, logits.shape[-1])
            return {"labels": (names, logits), "label_kind": opening.label_kind(facts.config)}
        if facts.task in ("tokens", "objects"):  # one label for each token, or for each query of a detector
            labeled = sentences if facts.task == "tokens" else targets
            if not labeled or any(len(sentence.tokens) != logits.shape[1] for sentence in labeled):
                return {}
            no_object = ("no object",) if facts.task == "objects" else ()
            names = (*opening.labels(facts.config, logits.shape[-1] - len(no_object)), *no_object)
            positions = tuple(tuple(range(sentence.length)) for sentence in labeled)
            return {"prediction": Prediction(logits, names, blanks=positions, classes=True)}
        blanks = None
        if facts.task == "fill":
            mask = facts.tokenizer.mask_token_id
            blanks = tuple(tuple(i for i, t in enumerate(sentence.tokens) if t.id == mask) for sentence in sentences)
        words = WordList(partial(reading.name_of, facts.tokenizer), logits.shape[-1])
        written, cut = tuple(target.text for target in targets), cut if any(cut) else ()
        special = reading.special_ids(facts.tokenizer)
        return {"prediction": Prediction(logits, words, written, blanks, cut=cut, special=special)}


@dataclass(frozen=True)
class HuggingFace(Pretrained):
    """A model that reads text, alone or with pictures.

    Attributes:
        chat: whether each text is written into the chat template of the model, as a user's turn.
        system: the system's turn, before the user's; "" for none.
    """

    chat: bool = False
    system: str = ""

    def __post_init__(self):
        super().__post_init__()
        facts, tokenizer = self.facts, self.facts.tokenizer
        vars(self).update(
            reads="text" if mixing.why_none(facts) else "both",
            untaken=NOT_TAKEN if facts.trial.is_captured else "",
            generates=facts.task == "next" and all(site.kind == "decoder" for site in self.sites),
            can_chat=bool(tokenizer.chat_template),
            unknown_token=tokenizer.unk_token or UNK,
            mask_token=tokenizer.mask_token,
        )

    @property
    def ends(self) -> frozenset[int]:
        return running.ends(self.loaded)

    def check_pictures(self, pictures: Pictures) -> None:
        if any(isinstance(picture, Sound) for row in pictures for picture in row):
            raise InputError(f"{self.name} hears nothing; give it a text, or a model that hears the sound.")
        if pictures and (why := mixing.why_none(self.facts)):
            raise InputError(f"{self.name}: {why}. Give the text without the picture.")

    def tokenize(self, texts: list[str], pictures: Pictures = ()) -> tuple[Sentence, ...]:
        """Cut texts into tokens; raise InputError if a text is too long, or a token has no embedding."""
        with faults.unforeseen(self.name, "given this text"):
            if pictures:
                sentences = mixing.sentences(self.facts, texts, pictures, self.system)
            elif self.chat:
                sentences = reading.chats(self.facts.tokenizer, texts, self.system, self.name)
            else:
                sentences = self._cut(texts)
        self.check_lengths(sentences)
        for sentence in sentences:
            for token in sentence.tokens[: sentence.length]:
                if token.id >= self.facts.vocabulary and token.box is None:  # with a box, it is a part of a picture
                    has = f"{self.name} has vectors for {self.facts.vocabulary:,} tokens"
                    what = f"The token {quoted(token.text)} has the number {token.id:,}"
                    raise InputError(f"{what}; {has}. Leave it out.")
        return sentences

    def writing_rules(self, prompt: int, longest: int) -> Callable[[Tensor, Tensor], Tensor]:
        return running.rules(self.loaded, prompt, longest)

    def continuation(self, sentence: Sentence, edits: Edits = Edits(), room: int = MOST_WRITTEN) -> Continuation:
        """Start to continue a text, with a cache of keys and values if `running.cache_for` gives one."""
        loaded = self.loaded
        cache = running.cache_for(loaded, sentence, edits)
        if cache is None:
            return super().continuation(sentence, edits, room)
        return running.CachedContinuation(self, loaded, cache, sentence, edits, room)

    def extended(self, sentence: Sentence, id: int) -> Sentence:
        if not 0 <= id < self.facts.vocabulary:
            raise InputError(f"There is no token with the id {id}; {self.name} has {self.facts.vocabulary:,} of them.")
        longer = reading.extended(self.facts.tokenizer, sentence, id)
        *earlier, new = longer.tokens
        if sentence.pictures and not new.role:  # the processor must not count it as a token of the prompt
            return replace(longer, tokens=(*earlier, replace(new, role=ANSWER)))
        return longer

    def origin(self, record: Record, site: Site) -> Origin | None:
        record.step(site)  # raises InputError if there is no such site
        with faults.unforeseen(self._model_and_class):
            return streams.origin_of(self.loaded, replace(record, edits=self.edits_of(record)), site)

    def model_weights(self) -> ModelWeights:
        with faults.unforeseen(self._model_and_class):
            return streams.modules_of(self.loaded, all_projections=True).weights

    def with_stream(self, record: Record) -> Record:
        taking.check_stream(record)
        rerun = replace(record, edits=self.edits_of(record))
        with faults.unforeseen(self._model_and_class):
            return replace(record, stream=streams.stream_of(self.loaded, rerun))

    def graph(self, record: Record, tap: Tap, vectors: tuple[Tensor, ...] = ()) -> tuple[tuple[Tensor, ...], Tensor]:
        loaded = self.loaded
        if loaded.trial.is_captured:
            why = "computes attention in its own code, so there are no gradients with respect to its weights"
            raise InputError(f"{self.name} {why}.")
        if record.prediction is None or any(sentence.pictures for sentence in record.sentences):
            why = "predicts no words" if record.prediction is None else "has read a picture"
            raise InputError(f"{self.name} {why}, so there are no gradients of a logit.")
        with faults.unforeseen(self._model_and_class):
            return running.graph(loaded, record, tap, vectors)

    def _cut(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Tokenize plain texts, each with the prompt of the pooling in front."""
        prompted = [f"{self.facts.pooling.prompt}{text}" for text in texts]
        return reading.sentences(self.facts.tokenizer, prompted, pairs=not self.generates)

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        """Words that the tokenizer replaces by its unknown token; no similar words are suggested."""
        unknown_id = self.facts.tokenizer.unk_token_id
        if unknown_id is None:
            return {}
        tokens = (token for sentence in self._cut(texts) for token in sentence.tokens)
        return dict.fromkeys((token.text for token in tokens if token.id == unknown_id and not token.special), ())

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model; a decoder reads the `targets`, by default the text that the model writes itself."""
        self.check_targets(targets)
        loaded = self.loaded
        self._check_room(sentences)
        resolved, targets = self.resolved(sentences, edits, targets)
        with faults.unforeseen(self._model_and_class):
            return replace(self._record(loaded, sentences, resolved, targets), edits=edits)

    def _record(
        self, loaded: Loaded, sentences: tuple[Sentence, ...], edits: Edits, targets: tuple[Sentence, ...]
    ) -> Record:
        """Run the model with resolved edits, and make the record."""
        model_inputs, cut = running.inputs(sentences, loaded), ()
        lengths = tuple(sentence.length for sentence in sentences)
        if loaded.task == "write":
            if not targets:
                ids, counts, cut = running.written(loaded, edits, model_inputs, lengths)
                targets = reading.written(loaded.tokenizer, ids.tolist(), counts)
            model_inputs["decoder_input_ids"] = running.inputs(targets, loaded)["input_ids"]
        elif loaded.task == "labels" and loaded.config.is_encoder_decoder:
            start_id = running.begins_with(loaded.model)
            start = Token(str(loaded.tokenizer.convert_ids_to_tokens(start_id)), start_id, 0, 0, special=True)
            targets = tuple(replace(sentence, tokens=(start, *sentence.tokens[:-1])) for sentence in sentences)
        output, steps = running.run_model(loaded, edits, model_inputs, lengths)
        states = running.hidden(output).float().cpu()
        fields, findings = self.predicted(output, states, sentences, targets, cut), self.findings
        if any(sentence.pictures and not sentence.has_places for sentence in sentences):
            findings += (f"The tokens of the picture have no places: {self.name} makes them in its own way",)
        limits = {"unseen": self.unseen, "findings": findings}
        return Record(sentences, self.name, self.provenance, edits, steps, states, targets, **limits, **fields)

    def _check_room(self, sentences: tuple[Sentence, ...]) -> None:
        """Raise InputError if a batch needs padding that the model lacks, or more memory than is free."""
        facts, batch, length = self.facts, len(sentences), len(sentences[0].tokens)
        pad = getattr(facts.config.get_text_config(), "pad_token_id", None)
        reads_last_token = facts.task == "labels" and "decoder" in {site.kind for site in self.sites}
        if reads_last_token and batch > 1 and pad is None:
            what = f"{self.name} has no token for padding, by which it finds the end of each sentence"
            raise InputError(f"{what}: it reads one sentence at a time, and there are {batch}. Leave one of them.")
        needs = estimate(self, length, sentences=batch).bytes
        loading.make_room(needs, facts.device, f"{batch * length:,} tokens need", "Shorten it", facts.size)
