"""A person's own model as a source: any PyTorch module, run in its own code and seen by `attnviz.capture`."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.capturing import Capture, capture
from attnviz.capturing.seen import PROVENANCE
from attnviz.core import storage
from attnviz.core.amounts import counted
from attnviz.core.edits import NOT_TAKEN, Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Prediction, Record
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.base import Source
from attnviz.sources.own_code import errors_said, in_evaluation, lock_of, moment_of

TEXT = "The cat sat on the mat"
PAIR = "|||"
"""Between the text that an encoder reads and the one that its decoder reads."""
PADDING = "<pad>"
NAMES_OF_PADDING = re.compile(r"[<\[(_|]*(pad|padding|blank)[>\])_|]*", re.IGNORECASE)
"""Words of a vocabulary that are probably padding, such as "<pad>", "[PAD]" and "<|padding|>"."""

_SPECIAL = re.compile(r"<.*>|\[.*\]")
"""Tokens that are special where they stand in no text."""


def wrap(
    model: nn.Module,
    tokenize: Any,
    text: str | Sequence[str] = TEXT,
    *,
    call: Callable[..., Any] | None = None,
    words: Any = None,
    pad: int | None = None,
    heads: int | None = None,
    name: str | None = None,
) -> "Wrapped":
    """Make a source of any PyTorch model: for the app, every figure, edits, leak tests and studies.

        source = attnviz.wrap(model, lambda text: [vocabulary[word] for word in text.split()], "the cat sat")
        attnviz.show(source)

    The model's code is not changed; it is run now, on the text. Runs are in evaluation mode and without gradients.

    Args:
        tokenize: from a text to its ids: a list or a tensor (n,) or (1, n), or a pair of ids and their strings; or a
            tokenizer with `encode`.
        text: what the app begins with, or several such texts; the first is what the model is run on now.
        call: from the model and ids (B, n) to its output; by default model(ids). With a third argument, ids (B, m) of
            what a decoder reads: of "a text ||| what its decoder reads", or of the text itself.
        words: ids to strings: a list, a dict, or a function of a list of ids; by default what the tokenizer or the
            text says. Logits over these words, or over as many as the model has embeddings, are predictions.
        pad: the id by which the model knows padding, for texts of several lengths in one run; no matter to a model
            that sees no later token.
        heads: see `attnviz.capture`.
        name: what the app calls it; by default the model's class.

    Raises:
        InputError: if the model or the tokenizer cannot be run on the text, with the line that raised.
        AttnvizError: if no attention was seen in it, with what was.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"{quoted(model)} is no model; give a torch.nn.Module.")
    texts = (text,) if isinstance(text, str) else tuple(text)
    writes = call is not None and _takes(call) > 2
    code = Code(model, tokenize, call or (lambda model, ids: model(ids)), words, pad, heads)
    source = Wrapped(name or type(model).__name__, code, texts, writes=writes)
    sentences = source.tokenize([texts[0]])
    captured = source._captured(sentences, Edits(), source._read(sentences))[0]
    record = replace(source, calls=captured.sites).run(sentences)  # without calls over other positions than the tokens
    counts = {step.site: step.num_heads for step in record.steps}
    d_model = max(step.num_heads * step.value.shape[-1] for step in record.steps)
    facts = {"calls": captured.sites, "counts": counts, "d_model": d_model, "unseen": record.unseen}
    return replace(source, moment=moment_of(model), **facts)


@dataclass(frozen=True, eq=False)
class Code:
    """Arguments of `wrap`."""

    model: nn.Module
    tokenize: Any
    call: Callable[..., Any]
    words: Any
    pad: int | None
    heads: int | None


@dataclass(frozen=True)
class Wrapped(Source):
    """A source made by `wrap`. Two are equal if they are of one `wrap`, and the weights were the same.

    Attributes:
        calls: the module that makes the attention call of each site.
        counts: how many heads each site has.
        moment: which weights the model had.
    """

    name: str
    code: Code
    examples: tuple[str, ...] = field(compare=False)
    calls: Mapping[Site, str] = field(default_factory=dict, compare=False)
    counts: Mapping[Site, int] = field(default_factory=dict, compare=False)
    d_model: int = field(default=1, compare=False)
    writes: bool = field(default=False, compare=False)
    unseen: str | None = field(default=None, compare=False)
    moment: int = 0

    provenance = PROVENANCE
    untaken = NOT_TAKEN

    @property
    def title(self) -> str:
        return self.name

    @property
    def does(self) -> str:
        numbers = sum(parameter.numel() for parameter in self.code.model.parameters())
        return f"Your own model, run in its own code: {counted(numbers, 'parameter')}. Nothing of it was measured here."

    @property
    def heads(self) -> Mapping[Site, int]:
        return self.counts

    @property
    def lock(self) -> AbstractContextManager:
        """Held while the model runs, by all sources of one model: hold it while you change the weights."""
        return lock_of(self.code.model)

    @property
    def padding_ids(self) -> frozenset[int]:
        ids = (self.code.pad, *self._named_padding())
        return frozenset(id for id in ids if id is not None)

    @property
    def padding_question(self) -> str:
        if self.code.pad is not None or not (named := self._named_padding()):
            return ""
        id, word = next(iter(named.items()))
        say = f"Say --pad {id} or --pad none; in Python attnviz.wrap(..., pad={id})."
        return f"Is {quoted(word)} (id {id}) padding? {say}"

    def with_padding(self, pad: int | None) -> "Wrapped":
        """The same model, with another id of padding."""
        return replace(self, code=replace(self.code, pad=pad))

    def checksum(self) -> str:
        return storage.checksum(self.code.model.state_dict())

    def current(self) -> "Wrapped":
        return replace(self, moment=moment_of(self.code.model))

    def site_name(self, site: Site) -> str:
        return f"{site} · {self.calls.get(site, '')}".rstrip(" ·")

    def described(self) -> list[tuple[str, str]]:
        calls = [(self.calls[site], f"{site}, {counted(count, 'head')}") for site, count in self.heads.items()]
        numbers = sum(parameter.numel() for parameter in self.code.model.parameters())
        return [("class", type(self.code.model).__name__), ("parameters", f"{numbers:,}"), *calls]

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Cut texts into tokens; of "a text ||| what its decoder reads" the first."""
        return self._padded([self._cut(text.partition(PAIR)[0] if self.writes else text, text) for text in texts])

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model; what a decoder reads may be given as `targets`, else it stands in the text.

        Raises:
            InputError: if the model's code raises, with the line.
            AttnvizError: if an edit reaches nothing, with what there is.
        """
        self.check_targets(targets)
        targets = targets or self._read(sentences)
        captured, output = self._captured(sentences, edits, targets)
        tokens = [sentence.labels for sentence in targets or sentences]
        keys = [sentence.labels for sentence in sentences] if targets else None
        try:
            record = captured.record(tokens, keys, run=-1, name=self.name)
        except InputError as error:
            what = str(error).partition(" Give as many")[0]
            raise InputError(f"{what} Does the model keep a cache between calls? Clear it before each text.") from None
        if captured.runs > 1:
            again = f"The model ran {captured.runs} times; the last run is shown"
            record = replace(record, findings=(*record.findings, again))
        return replace(record, sentences=sentences, targets=targets, **self._predicted(output, record))

    def _read(self, sentences: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
        """Decoder input: the part behind ||| in the text, else the text."""
        if not self.writes:
            return ()
        parts = [sentence.text.partition(PAIR) for sentence in sentences]
        return self._padded([self._cut(text, text) for text in (read.strip() or whole for whole, _, read in parts)])

    def _captured(
        self, sentences: tuple[Sentence, ...], edits: Edits, targets: tuple[Sentence, ...] = ()
    ) -> tuple[Capture, Any]:
        """Captured attention of one run of the model, and its output."""
        model, read = self.code.model, [sentences, *([targets] if self.writes else [])]
        weights = next(model.parameters(), torch.zeros(()))
        ids = [torch.tensor([[token.id for token in sentence.tokens] for sentence in batch]) for batch in read]
        watched = capture(model, edits, heads=self.code.heads, sites=self.calls)
        with self.lock, in_evaluation(model), torch.no_grad(), errors_said(), watched as captured:
            output = self.code.call(model, *(tensor.to(weights.device) for tensor in ids))
        return captured, output

    def _predicted(self, output: Any, record: Record) -> dict[str, Any]:
        """The prediction or the labels of a record, by what the model gave."""
        output = getattr(output, "logits", output)
        if isinstance(output, tuple | list) and output:
            output = output[0]
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return {}
        logits, (batch, length) = output.detach().float().cpu(), (len(record.read), len(record.read[0].tokens))
        if logits.dim() == 2 and len(logits) == batch and length != batch:
            named = getattr(getattr(self.code.model, "config", None), "id2label", None) or {}
            return {"labels": (tuple(str(named.get(i, i)) for i in range(logits.shape[1])), logits)}
        if logits.dim() != 3 or logits.shape[:2] != (batch, length) or logits.shape[2] not in self._vocabularies():
            return {}
        return {"prediction": Prediction(logits, WordIds(self, logits.shape[2]))}

    def _vocabularies(self) -> set[int]:
        """How many words there may be."""
        counts = {module.num_embeddings for module in self.code.model.modules() if isinstance(module, nn.Embedding)}
        return counts | ({len(self.code.words)} if hasattr(self.code.words, "__len__") else set())

    def _words(self, ids: Sequence[int]) -> list[str]:
        """Strings of ids; numbers where nobody says what they are."""
        words = self.code.words
        if words is None:
            words = getattr(self.code.tokenize, "convert_ids_to_tokens", None)
        if words is None:
            return [f"#{id}" for id in ids]
        if isinstance(words, Mapping):
            return [str(words.get(id, f"#{id}")) for id in ids]
        if not callable(words):
            return [str(words[id]) if id < len(words) else f"#{id}" for id in ids]
        with errors_said():
            strings = words(list(ids))
            each = not isinstance(strings, str) and len(strings) == len(ids)
            return [str(string) for string in (strings if each else (words([id]) for id in ids))]

    def _named_padding(self) -> dict[int, str]:
        """Words of the vocabulary that are probably padding, by id; of a tokenizer, the one that it names."""
        words, tokenizer = self.code.words, self.code.tokenize
        if isinstance(id := getattr(tokenizer, "pad_token_id", None), int):
            return {id: str(getattr(tokenizer, "pad_token", PADDING))}
        if words is None or callable(words):
            return {}
        entries = words.items() if isinstance(words, Mapping) else enumerate(words)
        return {id: str(word) for id, word in entries if NAMES_OF_PADDING.fullmatch(str(word))}

    def _cut(self, text: str, whole: str) -> tuple[str, tuple[Token, ...]]:
        """The tokens of a text, and the text that its sentence is to hold."""
        with errors_said():
            ids, strings = ids_of(getattr(self.code.tokenize, "encode", self.code.tokenize)(text))
        if not ids:
            raise InputError(f"The tokenizer of {self.name} makes no tokens of {quoted(text)}.")
        parts = (text.split(), list(text))
        if strings is None and self.code.words is None and not hasattr(self.code.tokenize, "convert_ids_to_tokens"):
            strings = next((part for part in parts if len(part) == len(ids)), None)
        return whole, placed(text, ids, self._words(ids) if strings is None else strings)

    def _padded(self, cut: list[tuple[str, tuple[Token, ...]]]) -> tuple[Sentence, ...]:
        """Sentences of one length.

        Raises:
            InputError: if they differ in length and padding could be seen.
        """
        longest, pad = max((len(tokens) for _, tokens in cut), default=0), self.code.pad
        if pad is None and any(len(tokens) < longest for _, tokens in cut):
            if any(site.kind != "decoder" for site in self.sites):
                what = "Texts of several lengths in one run need padding, and this model could see it"
                raise InputError(f"{what}: say attnviz.wrap(..., pad=ID), the id by which it knows padding.")
            pad = 0
        return tuple(
            Sentence(text, (*tokens, *[Token(PADDING, pad, len(text), len(text), special=True)] * short), len(tokens))
            for text, tokens in cut
            for short in [longest - len(tokens)]
        )


@dataclass(frozen=True, eq=False)
class WordIds(Sequence):
    """The words of a model by their ids."""

    source: Wrapped
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, id: int) -> str:
        if not 0 <= id < self.count:
            raise IndexError(id)
        return self.source._words([id])[0]


def _takes(call: Callable[..., Any]) -> int:
    """How many arguments a function takes without names and defaults."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return 2
    return sum(parameter.kind in kinds and parameter.default is parameter.empty for parameter in parameters)


def ids_of(encoding: Any) -> tuple[list[int], list[str] | None]:
    """The ids that a tokenizer gave, and their strings if it gave them."""
    strings = getattr(encoding, "tokens", None) if hasattr(encoding, "ids") else None
    encoding = getattr(encoding, "ids", encoding)
    if isinstance(encoding, Mapping):
        encoding = encoding["input_ids"]
    if isinstance(encoding, tuple) and len(encoding) == 2 and not isinstance(encoding[0], int):
        encoding, strings = encoding
    ids = torch.as_tensor(encoding).reshape(-1).tolist()
    if any(type(id) is not int for id in ids) or (strings is not None and len(strings) != len(ids)):
        raise InputError(f"A tokenizer gives whole numbers, with a string for each if any; given {quoted(encoding)}.")
    return ids, None if strings is None else [str(string) for string in strings]


def placed(text: str, ids: list[int], strings: list[str]) -> tuple[Token, ...]:
    """Tokens with their places in the text, where they stand there."""
    tokens, offset, low = [], 0, text.lower() if len(text.lower()) == len(text) else text
    for id, string in zip(ids, strings, strict=True):
        plain = string.lstrip("Ġ▁").removeprefix("##").lower()
        start = low.find(plain, offset) if plain else -1
        if start < 0:
            tokens.append(Token(string, id, offset, offset, special=bool(_SPECIAL.fullmatch(string))))
            continue
        joined = 0 < start == offset and (low[start - 1] + plain[0]).isalnum()
        offset = start + len(plain)
        tokens.append(Token(string, id, start, offset, joined=joined))
    return tuple(tokens)
