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

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import OF_PICTURES, InputError
from attnviz.core.origin import Origin
from attnviz.core.record import Record
from attnviz.core.request import Pictures, Request
from attnviz.core.stream import ModelWeights
from attnviz.core.taking import Donor, Resolved
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.sources import taking
from attnviz.sources.cards import Card
from attnviz.tokenizers.vocabulary import UNK

PROVENANCES = ("trained here", "constructed", "random", "pretrained", "from a folder", "your own")
"""Provenance of weights; sources are listed in this order."""

HUGGING_FACE = ("pretrained", "from a folder")
"""Those of models of transformers, which load by their name or their folder."""

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

MOST_WRITTEN = 4096
"""Tokens that a model writes, at most."""

CLASSES: dict[str, type["Source"]] = {}
"""Every class of sources by the names under which it is offered."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """Facts that a model states of itself; nothing of it was measured here.

    Attributes:
        task: "next" token, "fill" in a blank, "labels" of a text or of its "tokens", "write" another text, "vectors" of
            texts, hidden "states" alone, or "objects" in a picture.
        detail: what belongs to the task: how a vector is made, how labels are read, which head is not shown.
        made_of: the name of its class.
        parameters: how many numbers were learned.
        vocabulary: for how many tokens it has vectors.
        longest: how many tokens it reads at most, if it says so.
        limit: why it reads no more, if attnviz says so.
        dtype, device: of the weights.
        commit: of the files, if they came from a hub.
        labels: the names of its classes, if it classifies.
        notes: what else a person should know of how it was loaded.
    """

    task: str
    made_of: str
    parameters: int
    vocabulary: int
    longest: int | None
    limit: str
    dtype: torch.dtype
    device: torch.device
    commit: str | None
    labels: tuple[str, ...] = ()
    detail: str = ""
    notes: tuple[str, ...] = ()

    @property
    def number_type(self) -> str:
        """The type of the weights by its name: "float32"."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def does(self) -> str:
        """Its output, in a few words."""
        return TASKS[self.task] + (f" ({self.detail})" if self.detail else "")

    @property
    def words(self) -> int:
        """Words to which it gives a probability at each token; 0 if it predicts none."""
        return self.vocabulary if self.task in ("next", "fill", "write") else 0

    @property
    def squares(self) -> int:
        """Maps of tokens by tokens that a run holds at once of each text, whatever its length."""
        return 2


ANSWER = "answer"
"""Role of a token that a model wrote, outside of a chat."""


class Source(ABC):
    """Turns a request into a record. Frozen and hashable: results can be kept by it.

    What a source can do it says here, and nobody asks of which class it is. A class with `names` in a module of
    `attnviz.sources` is offered under them in the app, the shell and notebooks.

    Attributes:
        names: under which `attnviz.load` makes it; see `named`. A class that derives from it does not take them.
        provenance: where the weights come from, of `PROVENANCES`.
        title, does: of a source without a card: a name for people, and one sentence.
        card: what was measured of the model; None if nothing was.
        facts: what a model says of itself instead; None if it says nothing.
        steps: the training steps whose weights were kept, the last that of the trained model; see `step`.
        step: the training step; None for the last.
        reads: "text"; "picture" or "sound"; or "both", which is a text with pictures or without.
        writes: whether it writes another text, so that `run` takes `targets`.
        generates: whether it predicts the next token of any text, so that it can continue one; see `continuation`.
        can_chat: whether it has a chat template, so that its setting `chat` makes a text a user's turn.
        ends: ids with which it ends a text.
        longest: how many tokens it reads at most; None if there is no bound.
        read_only: why nothing about the attention can be changed; None if it can.
        alone: how far a change reaches where the rest of the model is not there; "" if it reaches the whole model.
        untaken: why nothing of another text's run can be taken into one of it; "" if that can be.
        unseen: what of the model's attention is not shown; None if all of it is.
        findings: what a check of its arrays found wrong with them, a sentence each.
        one_run: the texts of the one run that it is; empty if it reads any.
        unknown_token: as what a word is read that is not in the vocabulary.
        mask_token: what is written in the place of a word to be filled in; None if nothing can be filled in.
        padding_ids: ids that stand for padding, or may; no word is changed into one of them.
        padding_question: what to answer about padding before it can be tested; "" if nothing.
        examples: texts to begin with, of a source without a card.
        lock: held while the model runs, where its weights may change meanwhile.
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
    padding_question: str = ""
    examples: tuple[str, ...] = ()
    lock: AbstractContextManager = nullcontext()

    def __init_subclass__(cls) -> None:
        CLASSES.update(dict.fromkeys(vars(cls).get("names", ()), cls))

    @classmethod
    def named(cls, name: str, **settings: Any) -> Self:
        """The source under one of its `names`."""
        return cls(**settings)

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """Names of the settings that can be chosen when it is made.

        These have a meaning everywhere: "sos" (a sentence may begin with <sos>), "changes" (numbers set by hand).
        A field made by `core.parameters.parameter` also has a control in the app.
        """
        made_of = fields(cls) if is_dataclass(cls) else ()
        return tuple(field.name for field in made_of if field.init and field.name != "model")

    @property
    def id(self) -> str:
        """The name by which `attnviz.load` makes it."""
        return self.name

    @property
    def heads(self) -> Mapping[Site, int]:
        """How many heads each site has; a source has these, or `sites` and `num_heads`."""
        return dict.fromkeys(self.sites, self.num_heads)

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of its attention calls, in their order."""
        return tuple(self.heads)

    @property
    def num_heads(self) -> int:
        """The heads of a site; of the one that has most, where they differ."""
        return max(self.heads.values())

    def current(self) -> Self:
        """The source with its weights as they are now: equal to another one only if a run gives the same."""
        return self

    def analyze(self, request: Request) -> Record:
        """Run the model on a request.

        Raises:
            InputError: if the model does not read what was asked, such as a picture or a target.
        """
        targets = self.tokenize_targets([*request.targets]) if request.targets else ()
        return replace(self.run(self.sentences(request), request.edits, targets), request=request)

    def sentences(self, request: Request) -> tuple[Sentence, ...]:
        """Tokens of a request: its texts with their pictures, and the answer behind them."""
        self.check_pictures(request.pictures)
        sentences = self.tokenize([*request.texts], *([request.pictures] if request.pictures else []))
        return (self.continued(sentences[0], request.answer),) if request.answer else sentences

    @abstractmethod
    def tokenize(self, texts: list[str], pictures: Pictures = ()) -> tuple[Sentence, ...]:
        """Cut texts into tokens, padded to one length.

        Args:
            pictures: pictures of each text. A source that reads text alone is never given any and leaves it out.
        """

    @abstractmethod
    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model on a batch with some edits. The model is left as it was.

        Args:
            targets: what its decoder reads, of a model that writes; by default what the model writes.
        """

    def resolved(
        self, sentences: tuple[Sentence, ...], edits: Edits, targets: tuple[Sentence, ...] = ()
    ) -> tuple[Edits, tuple[Sentence, ...]]:
        """Edits with the numbers that they take from other texts, by a run of each, and what a decoder reads in both.

        The decoder of a model that writes is given its targets in both runs; without any, what it writes while nothing
        is taken.

        Raises:
            InputError: if nothing can be taken in this model, or the texts do not fit, with their lengths.
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
        return Resolved(**vars(edits), donors=self.donors(sentences, edits, targets)), targets

    def donors(
        self, sentences: tuple[Sentence, ...], edits: Edits, targets: tuple[Sentence, ...] = ()
    ) -> tuple[Donor, ...]:
        """The numbers of each thing that edits take, from a run of its text with all else that they change."""
        own, records = vars(replace(edits, taken=())), {}
        for text in dict.fromkeys(take.text for take in edits.taken):
            entered = frozenset(take.site for take in edits.taken if take.part == "stream" and take.text == text)
            others = self.tokenize([text]) * max(1, len(targets))
            records[text] = self.run(others, Resolved(**own, entered=entered), targets)
        return taking.donors(edits.taken, records, sentences, targets)

    def edits_of(self, record: Record) -> Edits:
        """The edits of one of its records, to run it again."""
        return self.resolved(record.sentences, record.edits, record.targets)[0]

    def continuation(self, sentence: Sentence, edits: Edits = Edits(), room: int = MOST_WRITTEN) -> "Continuation":
        """A text of which the model gives the next token's logits, of a source that `generates`.

        Args:
            room: how many tokens it may get at most.
        """
        return Continuation(self, sentence, edits, room)

    def writing_rules(self, prompt: int, longest: int) -> Callable[[Tensor, Tensor], Tensor]:
        """Rules by which the model's own settings force or forbid words after a prompt, up to a length: a function of
        the ids so far, (1, n), and of the next token's logits, (1, vocabulary), that gives these anew."""
        return lambda ids, logits: logits

    def extended(self, sentence: Sentence, id: int) -> Sentence:
        """A sentence with one more token at its end, of a source that `generates`."""
        raise InputError(f"'{self.name}' predicts no next token of a text, so it cannot continue one.")

    def continued(self, sentence: Sentence, ids: Sequence[int]) -> Sentence:
        """A sentence with the tokens of an answer at its end, of a source that `generates`."""
        answer = Continuation(self, sentence)
        for id in ids:
            answer.append(id)
        return answer.sentence

    def checksum(self) -> str | None:
        """A checksum of its weights; None where the settings alone make the source again."""
        return None

    def site_name(self, site: Site) -> str:
        """Name of a site in the choice of a layer."""
        return str(site)

    def described(self) -> list[tuple[str, str]]:
        """Its sizes, and its facts if it has some, in pairs of what and how much."""
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
            *([("why no longer", facts.limit)] if facts.limit else []),
            ("kept as", f"{facts.number_type} on {facts.device}"),
            ("from", f"commit {facts.commit}" if facts.commit else "files on this machine"),
            *(("note", note) for note in facts.notes),
        ]

    def tokenize_targets(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Decoder input for texts that a person gives as targets, for `run`.

        Raises:
            InputError: if it writes no other text, or takes none of a person.
        """
        if not self.writes:
            raise InputError(f"'{self.name}' writes no other text, so it takes no target.")
        raise InputError(f"'{self.name}' takes a target as tokens alone: give `run` its sentences.")

    def check_targets(self, targets: tuple[Sentence, ...]) -> None:
        """Raises: InputError: if there are `targets` for a model that writes no other text."""
        if targets and not self.writes:
            raise InputError(f"'{self.name}' writes no other text, so there is none to give to its decoder.")

    def check_pictures(self, pictures: Pictures) -> None:
        """Raises: InputError: if there are pictures of texts and the model reads none."""
        if self.reads == "text" and pictures:
            raise InputError(f"'{self.name}' reads text alone, and this is a picture. {OF_PICTURES}")

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        """The words that are not in the vocabulary, each with those that are and are spelled most like it."""
        return {}

    def origin(self, record: Record, site: Site) -> Origin | None:
        """Input that the call at a site of one of its records was projected from, by another run; None if not known."""
        return None

    def model_weights(self) -> ModelWeights:
        """The projections, norms and embeddings of the model, proven on a run of it.

        Raises:
            InputError: why they are not known.
        """
        raise InputError(f"The projections of '{self.name}' are not known here, so its circuits are not.")

    def with_stream(self, record: Record) -> Record:
        """One of its records with `Record.stream`, by another run.

        Raises:
            InputError: why the parts of its residual stream are not known, or that they do not sum to the whole.
        """
        why = "predicts no words" if record.prediction is None else "does not show the parts of its residual stream"
        raise InputError(f"'{self.name}' {why}, so there is no logit to take apart.")

    def graph(self, record: Record, tap: Tap, vectors: tuple[Tensor, ...] = ()) -> tuple[tuple[Tensor, ...], Tensor]:
        """Run one of its records again within autograd's graph; no parameter gets a gradient.

        Args:
            tap: computes the attention, with the edits of the record.
            vectors: (B, n, d_model) of each text that the model reads, in place of the embeddings of its tokens.

        Returns:
            The vectors, leaves of the graph, and the logits, (B, n, vocabulary).

        Raises:
            InputError: why there is none.
        """
        why = "predicts no words" if record.prediction is None else "is not a model that attnviz can differentiate"
        raise InputError(f"'{self.name}' {why}, so there are no gradients of a logit.")


class Continuation:
    """A text that a source continues, token by token: the whole model is run for each.

    Attributes:
        sentence: the text so far.
    """

    def __init__(self, source: Source, sentence: Sentence, edits: Edits = Edits(), room: int = MOST_WRITTEN):
        self.source, self.sentence, self.edits = source, sentence, edits
        self.prompt, self.room = len(sentence.tokens), room

    @cached_property
    def rules(self) -> Callable[[Tensor, Tensor], Tensor]:
        return self.source.writing_rules(self.prompt, self.prompt + self.room)

    def logits(self) -> Tensor:
        """Logits of the next token by the rules of the model's settings, (vocabulary,)."""
        ids = torch.tensor([[token.id for token in self.sentence.tokens]])
        return self.rules(ids, self.plain_logits()[None])[0]

    def plain_logits(self) -> Tensor:
        """Logits of the next token as the model gives them, (vocabulary,)."""
        return self.source.run((self.sentence,), self.edits).prediction.logits[0, -1]

    def append(self, id: int) -> None:
        """Take a token as the next one."""
        sentence = self.source.extended(self.sentence, id)
        token = sentence.tokens[-1]
        written = replace(token, role=token.role or ANSWER)
        self.sentence = replace(sentence, tokens=(*sentence.tokens[:-1], written))
