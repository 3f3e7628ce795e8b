"""The interface of all sources, and the capabilities that each declares."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from attnviz.core.edits import Edits, Resolved, Site
from attnviz.core.errors import OF_PICTURES, InputError, TooLong
from attnviz.core.record import Record
from attnviz.core.request import Pictures, Request
from attnviz.core.stream import ModelWeights, Origin
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token
from attnviz.sources import taking
from attnviz.sources.cards import Card
from attnviz.tokenizers.vocabulary import UNK

PROVENANCES = ("trained here", "constructed", "random", "pretrained", "from a folder", "your own")
"""Values of `Source.provenance`; sources are listed in this order."""
HUGGING_FACE = ("pretrained", "from a folder")
"""Provenances of transformers models, which are loaded by name or from a folder."""
TASKS = {
    "next": "predicts the next token",
    "fill": "fills in blanks",
    "labels": "classifies",
    "tokens": "labels each token",
    "write": "writes a text",
    "vectors": "sentence embeddings",
    "states": "gives hidden states",
    "objects": "finds objects in a picture",
}
"""Descriptions of what a model does, by `Facts.task`."""
MOST_WRITTEN = 4096
"""Largest number of tokens that a model writes for one text."""
ANSWER = "answer"
"""Role of a token that a model wrote, outside of a chat."""
CLASSES: dict[str, type["Source"]] = {}
"""Source classes by the names under which `attnviz.load` makes them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """Facts about a model from its configuration and class; attnviz has not measured them.

    Attributes:
        task: key of `TASKS`.
        detail: detail of the task: pooling of the vectors, kind of the labels, or class of a head that is not shown.
        made_of: name of the model's class.
        parameters: number of parameters.
        vocabulary: number of token embeddings.
        longest: largest number of tokens that the model reads; None if the model states no limit.
        dtype, device: dtype and device of the weights.
        commit: commit of the files, if they came from a hub.
        notes: sentences on how the model was loaded that a user should know.
    """

    task: str
    made_of: str
    parameters: int
    vocabulary: int
    longest: int | None
    dtype: torch.dtype
    device: torch.device
    commit: str | None = None
    detail: str = ""
    notes: tuple[str, ...] = ()

    @property
    def does(self) -> str:
        """Description of the task and its detail, in a few words."""
        return TASKS[self.task] + (f" ({self.detail})" if self.detail else "")

    @property
    def words(self) -> int:
        """Number of words in the distribution that is predicted at each token; 0 if the model predicts no words."""
        return self.vocabulary if self.task in ("next", "fill", "write") else 0

    @property
    def squares(self) -> int:
        """Number of (n, n) arrays, such as masks, that a run holds at the same time for each text of n tokens."""
        return 2


class Source(ABC):
    """A model, or one saved run of a model, that turns a request into a record. Hashable, so it can be a cache key.

    The attributes state what a source can do; other code reads them and never checks the class. A class with `names`
    in a module of `attnviz.sources` is offered under these names in the app, the shell and notebooks.

    Attributes:
        names: names under which `attnviz.load` makes the source; see `named`. Subclasses do not inherit them.
        provenance: origin of the weights, one of `PROVENANCES`.
        title, does: display name and a description in one sentence, for a source without a card.
        card: measured facts about the model; None if nothing was measured.
        facts: facts from the configuration and class of the model, for a source without a card; None if there are none.
        steps: training steps whose weights were kept; the last one is the trained model. See `step`.
        step: training step of the weights; None for the last.
        reads: kind of input: "text", "picture", "sound", or "both" for texts that may have pictures.
        writes: whether the model writes a second text with a decoder, so that `run` takes `targets`.
        generates: whether the model predicts the next token of any text, so that it can continue a text.
        can_chat: whether the model has a chat template, so that the setting `chat` turns a text into a user's turn.
        ends: ids of the tokens that end a text.
        longest: largest number of tokens that the model reads; None if there is no limit.
        read_only: reason why the attention cannot be changed; None if it can.
        alone: sentence on the effects of a change if the rest of the model is missing; "" if the model is complete.
        untaken: reason why edits cannot take numbers from the run of another text; "" if they can.
        unseen: attention of the model that is not shown; None if all of it is.
        findings: differences and errors that a check found, a sentence each.
        one_run: texts of the only run that the source holds; empty if the source can run any text.
        unknown_token: token for words outside the vocabulary.
        mask_token: token in place of a word to fill in; None if the model fills in no words.
        padding_ids: ids of padding tokens; tests do not replace a word by such an id.
        examples: example texts of a source without a card.
        lock: lock to hold during a run, if the weights can change at the same time.
    """

    names: ClassVar[tuple[str, ...]] = ()
    name: str
    provenance: str
    d_model: int
    title: ClassVar[str] = ""
    does: ClassVar[str] = ""
    card: Card | None = None
    facts: Facts | None = None
    steps: tuple[int, ...] = ()
    step: int | None = None
    reads: Literal["text", "picture", "both", "sound"] = "text"
    writes: bool = False
    generates: bool = False
    can_chat: bool = False
    ends: frozenset[int] = frozenset()
    longest: int | None = None
    read_only: str | None = None
    alone: str = ""
    untaken: str = ""
    unseen: str | None = None
    findings: tuple[str, ...] = ()
    one_run: tuple[str, ...] = ()
    unknown_token: str = UNK
    mask_token: str | None = None
    padding_ids: frozenset[int] = frozenset()
    examples: tuple[str, ...] = ()
    lock: AbstractContextManager = nullcontext()

    def __init_subclass__(cls) -> None:
        CLASSES.update(dict.fromkeys(vars(cls).get("names", ()), cls))

    @classmethod
    def named(cls, name: str, **settings: Any) -> Self:
        """Make the source for one of its `names`."""
        return cls(**settings)

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """Names of the arguments with which the source is made, except `model`.

        An argument named "sos" lets sentences begin with <sos>. An argument whose field was made by
        `core.parameters.parameter` has a control in the app.
        """
        arguments = fields(cls) if is_dataclass(cls) else ()
        return tuple(field.name for field in arguments if field.init and field.name != "model")

    @property
    def id(self) -> str:
        """Name under which `attnviz.load` makes the source."""
        return self.name

    @property
    def heads(self) -> Mapping[Site, int]:
        """Number of heads of each site; a source defines `heads`, or `sites` and `num_heads`."""
        return dict.fromkeys(self.sites, self.num_heads)

    @property
    def sites(self) -> tuple[Site, ...]:
        """Sites of the attention calls, in their order."""
        return tuple(self.heads)

    @property
    def num_heads(self) -> int:
        """Number of heads of a site; the largest number if sites differ."""
        return max(self.heads.values())

    def current(self) -> Self:
        """The source with its current weights; two such sources are equal only if their runs give the same numbers."""
        return self

    def analyze(self, request: Request) -> Record:
        """Run the model on a request; raise InputError if it cannot read a picture or a target of the request."""
        targets = self.tokenize_targets([*request.targets]) if request.targets else ()
        record = self.run(self.sentences(request), request.edits, targets)
        return replace(record, request=request)

    def sentences(self, request: Request) -> tuple[Sentence, ...]:
        """Tokenize the texts of a request with their pictures, followed by its answer if it has one."""
        self.check_pictures(request.pictures)
        pictures = {"pictures": request.pictures} if request.pictures else {}
        sentences = self.tokenize([*request.texts], **pictures)
        return (self.continued(sentences[0], request.answer),) if request.answer else sentences

    @abstractmethod
    def tokenize(self, texts: list[str], pictures: Pictures = ()) -> tuple[Sentence, ...]:
        """Cut texts into tokens, padded to one length.

        Args:
            pictures: pictures of each text. Sources that read text only do not have this argument.
        """

    @abstractmethod
    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model on a batch with edits. The model itself is not changed.

        Args:
            targets: decoder input, if the model `writes`; by default the text that the model writes itself.
        """

    def resolved(
        self, sentences: tuple[Sentence, ...], edits: Edits, targets: tuple[Sentence, ...] = ()
    ) -> tuple[Edits, tuple[Sentence, ...]]:
        """Run the texts that edits take numbers from (`Edits.taken`), and add these numbers to the edits.

        Also returns the decoder input of all runs: `targets`, or the text that the model writes with all other edits.

        Raises:
            InputError: if edits cannot take numbers in this model, or the lengths of the texts do not fit.
        """
        targets = targets if self.writes else ()
        if not edits.taken or isinstance(edits, Resolved):
            return edits, targets
        if why := self.read_only or self.untaken:
            raise InputError(why)
        if any(sentence.pictures for sentence in sentences):
            raise InputError("A text with a picture takes nothing from another text; give it without the picture.")
        if self.writes and not targets:
            targets = self.run(sentences, replace(edits, taken=())).targets
        edits_without_patching = vars(replace(edits, taken=()))

        def run(text: str, entered: frozenset[Site]) -> Record:
            """Run another text, without patching it; keep what enters the layers of the sites in `entered`."""
            batch = self.tokenize([text]) * max(1, len(targets))
            return self.run(batch, Resolved(**edits_without_patching, entered=entered), targets)

        return Resolved(**vars(edits), donors=taking.donors(edits.taken, run, sentences, targets)), targets

    def edits_of(self, record: Record) -> Edits:
        """Edits of a record of this source, with the numbers from other texts that a new run of the record needs."""
        return self.resolved(record.sentences, record.edits, record.targets)[0]

    def continuation(self, sentence: Sentence, edits: Edits = Edits(), room: int = MOST_WRITTEN) -> "Continuation":
        """Start to continue a text token by token, by at most `room` tokens, if the source `generates`."""
        return Continuation(self, sentence, edits, room)

    def writing_rules(self, prompt: int, longest: int) -> Callable[[Tensor, Tensor], Tensor]:
        """Make a function that forces or forbids words, by the model's generation settings. Lengths are in tokens.

        It maps the ids so far, (1, n), and the logits of the next token, (1, vocabulary), to new logits.
        """
        return lambda ids, logits: logits

    def extended(self, sentence: Sentence, id: int) -> Sentence:
        """Append a token to a sentence, if the source `generates`."""
        raise InputError(f"'{self.name}' predicts no next token of a text, so it cannot continue one.")

    def continued(self, sentence: Sentence, ids: Sequence[int]) -> Sentence:
        """Append the tokens of an answer to a sentence, if the source `generates`."""
        answer = Continuation(self, sentence)
        for id in ids:
            answer.append(id)
        return answer.sentence

    def checksum(self) -> str | None:
        """Checksum of the weights; None if the source can be made again from its settings alone."""
        return None

    def site_name(self, site: Site) -> str:
        """Name of a site in the menu of layers."""
        return str(site)

    def described(self) -> list[tuple[str, str]]:
        """Sizes of the model, and its `facts` if there are any, as pairs of a label and a value."""
        facts = self.facts
        layers = Counter(site.kind for site in self.sites)
        heads = "heads per layer" if len(set(self.heads.values())) == 1 else "heads of a layer, at most"
        sizes = [
            *((f"{kind} layers", f"{count:,}") for kind, count in layers.items()),
            (heads, f"{self.num_heads:,}"),
            ("numbers for each token (d_model)", f"{self.d_model:,}"),
        ]
        if facts is None:
            return sizes
        return [
            ("class", facts.made_of),
            ("what it does", facts.does),
            *sizes,
            ("parameters", f"{facts.parameters:,}"),
            ("tokens it knows", f"{facts.vocabulary:,}"),
            ("longest text", f"{facts.longest:,} tokens" if facts.longest else "it names no limit"),
            ("kept as", f"{str(facts.dtype).removeprefix('torch.')} on {facts.device}"),
            ("from", f"commit {facts.commit}" if facts.commit else "files on this machine"),
            *(("note", note) for note in facts.notes),
        ]

    def tokenize_targets(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Tokenize target texts of a user as decoder input for `run`; raise InputError if the source cannot do this."""
        self.check_targets(texts)
        raise InputError(f"'{self.name}' takes a target as tokens alone: give `run` its sentences.")

    def check_targets(self, targets: Sequence[str | Sentence]) -> None:
        """Raise InputError if there are `targets` but the model does not write a second text."""
        if targets and not self.writes:
            raise InputError(f"'{self.name}' writes no other text, so it takes no target.")

    def check_pictures(self, pictures: Pictures) -> None:
        """Raise InputError if there are pictures but the model reads text only."""
        if self.reads == "text" and pictures:
            raise InputError(f"'{self.name}' reads text alone, and this is a picture. {OF_PICTURES}")

    def check_lengths(self, sentences: Sequence[Sentence], verb: str = "reads") -> None:
        """Raise TooLong if a sentence has more tokens than the model reads, or writes, with both numbers."""
        lengths = lengths_of(sentences)
        if self.longest is not None and max(lengths, default=0) > self.longest:
            raise TooLong(lengths, self.longest, f"{self.name} {verb} up to {self.longest:,}. Shorten it.")

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        """Words outside the vocabulary, each with the most similarly spelled words in the vocabulary."""
        return {}

    def origin(self, record: Record, site: Site) -> Origin | None:
        """Input of the attention call at a site, from another run of the record; None if it is not known."""
        return None

    def model_weights(self) -> ModelWeights:
        """Projections, norms and embeddings of the model, verified by a run.

        Raises:
            InputError: if the projections are not known, with the reason.
        """
        raise InputError(f"The projections of '{self.name}' are not known here, so its circuits are not.")

    def with_stream(self, record: Record) -> Record:
        """Add `Record.stream` to a record of this source, by another run.

        Raises:
            InputError: if the parts of the residual stream are not known, or do not sum to the whole.
        """
        why = "predicts no words" if record.prediction is None else "does not show the parts of its residual stream"
        raise InputError(f"'{self.name}' {why}, so there is no logit to take apart.")

    def graph(self, record: Record, tap: Tap, vectors: tuple[Tensor, ...] = ()) -> tuple[tuple[Tensor, ...], Tensor]:
        """Run a record of this source again and record autograd's graph; no parameter gets a gradient.

        Args:
            tap: tap that computes the attention, with the edits of the record.
            vectors: token embeddings to use instead of the model's, (B, n, d_model) for each text that the model reads.

        Returns:
            The token embeddings, as leaves of the graph, and the logits, (B, n, vocabulary).

        Raises:
            InputError: if the model cannot be differentiated, with the reason.
        """
        why = "predicts no words" if record.prediction is None else "is not a model that attnviz can differentiate"
        raise InputError(f"'{self.name}' {why}, so there are no gradients of a logit.")


def token_ids(sentences: Sequence[Sentence]) -> Tensor:
    """Token ids of a batch, (B, n)."""
    return torch.tensor([[token.id for token in sentence.tokens] for sentence in sentences])


def lengths_of(sentences: Sequence[Sentence]) -> tuple[int, ...]:
    """Numbers of tokens of sentences without padding."""
    return tuple(sentence.length for sentence in sentences)


def pad_sentences(sentences: Sequence[Sentence], name: str, id: int) -> tuple[Sentence, ...]:
    """Pad sentences at the end to one length, with a padding token of this name and id."""
    longest, padded = max(lengths_of(sentences), default=0), []
    for sentence in sentences:
        end = len(sentence.text)
        padding = (Token(name, id, end, end, special=True),) * (longest - sentence.length)
        padded.append(replace(sentence, tokens=sentence.tokens + padding))
    return tuple(padded)


@dataclass(frozen=True)
class WordList(Sequence):
    """Words of a model by their ids, looked up when they are needed.

    Attributes:
        word: function from an id to its word.
        count: number of words.
    """

    word: Callable[[int], str]
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, id: int) -> str:
        if not 0 <= id < self.count:
            raise IndexError(id)
        return self.word(id)


class Continuation:
    """A text that a source continues token by token, with a complete forward pass for each token.

    Attributes:
        sentence: text so far.
    """

    def __init__(self, source: Source, sentence: Sentence, edits: Edits = Edits(), room: int = MOST_WRITTEN):
        self.source, self.sentence, self.edits = source, sentence, edits
        self.prompt, self.room = len(sentence.tokens), room

    @cached_property
    def rules(self) -> Callable[[Tensor, Tensor], Tensor]:
        """Function that applies the model's generation settings to logits; see `Source.writing_rules`."""
        return self.source.writing_rules(self.prompt, self.prompt + self.room)

    def logits(self) -> Tensor:
        """Logits of the next token, (vocabulary,), after the rules of the model's generation settings."""
        return self.rules(token_ids([self.sentence]), self.plain_logits()[None])[0]

    def plain_logits(self) -> Tensor:
        """Logits of the next token, (vocabulary,), before the rules of the model's generation settings."""
        return self.source.run((self.sentence,), self.edits).prediction.logits[0, -1]

    def append(self, id: int) -> None:
        """Append a token to the text, marked as written by the model."""
        longer = self.source.extended(self.sentence, id)
        *earlier, new = longer.tokens
        self.sentence = replace(longer, tokens=(*earlier, replace(new, role=new.role or ANSWER)))
