"""A user's own model as a source: any PyTorch module, run in its own code and captured by `attnviz.capture`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.capturing import capture
from attnviz.capturing.captured import PROVENANCE
from attnviz.core import storage
from attnviz.core.edits import NOT_TAKEN, Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Prediction, Record
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.base import Source, WordList, lengths_of, pad_sentences, token_ids
from attnviz.sources.huggingface.reading import PAIR, places
from attnviz.sources.own_code import LOCK, errors_said, in_evaluation, moment_of, required_arguments

TEXT = "The cat sat on the mat"
PADDING = "<pad>"


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

    The model's code is not changed; it is run on the text at once. Runs are in evaluation mode and without gradients.

    Args:
        tokenize: function from a text to its ids, a list or a tensor (n,) or (1, n); or a tokenizer with `encode`.
        text: text that the app begins with, or several such texts; the model is run on the first one at once.
        call: function from the model and ids (B, n) to its output; by default model(ids). A third argument
            gets the decoder's ids (B, m), which are those of the part after "|||" in the text, or of the text itself.
        words: strings of ids: a list, a dict, or a function of a list of ids; by default those of the tokenizer. Logits
            over these words, or over as many as the model has embeddings, are predictions.
        pad: id of padding, for texts of several lengths in one run; a causal model needs none.
        heads: see `attnviz.capture`.
        name: name in the app; by default the model's class.

    Raises:
        InputError: if the model or the tokenizer cannot be run on the text, with the line that raised.
        AttnvizError: if no attention was captured in the model, with the reason.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"{quoted(model)} is no model; give a torch.nn.Module.")
    texts = (text,) if isinstance(text, str) else tuple(text)
    writes = call is not None and required_arguments(call) > 2
    words = getattr(tokenize, "convert_ids_to_tokens", {}) if words is None else words
    words = words if callable(words) or isinstance(words, Mapping) else dict(enumerate(words))
    code = Code(model, tokenize, call or (lambda model, ids: model(ids)), words, pad, heads)
    source = Wrapped(name or type(model).__name__, code, texts, writes=writes)
    record = source.run(source.tokenize([texts[0]]))
    facts = {
        "calls": {step.site: step.name for step in record.steps},
        "counts": {step.site: step.num_heads for step in record.steps},
        "d_model": max(step.num_heads * step.value.shape[-1] for step in record.steps),
        "unseen": record.unseen,
    }
    return replace(source, moment=moment_of(model), **facts)


@dataclass(frozen=True, eq=False)
class Code:
    """Arguments of `wrap`."""

    model: nn.Module
    tokenize: Any
    call: Callable[..., Any]
    words: Mapping[int, Any] | Callable[[list[int]], Any]
    pad: int | None
    heads: int | None

    def word(self, id: int) -> str:
        """Return the string of an id; "#" and the id if it has none."""
        if callable(self.words):
            with errors_said():
                string = self.words([id])
                return string if isinstance(string, str) else str(string[0])
        return str(self.words.get(id, f"#{id}"))


@dataclass(frozen=True)
class Wrapped(Source):
    """A source made by `wrap`. Two sources are equal if they come from one call of `wrap` and have the same weights.

    Attributes:
        calls: name of the module that makes the attention call of each site.
        counts: number of heads of each site.
        moment: hash of the weights of the model; see `moment_of`.
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
    does = "Your own model, run in its own code. Nothing of it was measured here."
    untaken = NOT_TAKEN
    lock = LOCK

    @property
    def heads(self) -> Mapping[Site, int]:
        return self.counts

    @property
    def padding_ids(self) -> frozenset[int]:
        ids = (self.code.pad, getattr(self.code.tokenize, "pad_token_id", None))
        return frozenset(id for id in ids if id is not None)

    def with_padding(self, pad: int | None) -> "Wrapped":
        """Copy of the source with another padding id."""
        return replace(self, code=replace(self.code, pad=pad))

    def checksum(self) -> str:
        return storage.checksum(self.code.model.state_dict())

    def current(self) -> "Wrapped":
        return replace(self, moment=moment_of(self.code.model))

    def site_name(self, site: Site) -> str:
        return f"{site} · {self.calls.get(site, '')}".rstrip(" ·")

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Tokenize texts; if a decoder reads the part after "|||", tokenize only the part before, for the encoder."""
        return self._pad([self._cut(text.partition(PAIR)[0] if self.writes else text, text) for text in texts])

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model; a decoder reads `targets`, by default the part of the text after "|||", or the text itself."""
        self.check_targets(targets)
        if self.writes and not targets:
            halves = [sentence.text.partition(PAIR) for sentence in sentences]
            texts = [second.strip() or first for first, _, second in halves]
            targets = self._pad([self._cut(text, text) for text in texts])
        model, weights = self.code.model, next(self.code.model.parameters(), torch.zeros(()))
        ids = [token_ids(batch).to(weights.device) for batch in (sentences, targets) if batch]
        capturing = capture(model, edits, heads=self.code.heads, sites=self.calls)
        with self.lock, in_evaluation(model), torch.no_grad(), errors_said(), capturing as captured:
            output = self.code.call(model, *ids)
        tokens = [sentence.labels for sentence in targets or sentences]
        keys = [sentence.labels for sentence in sentences] if targets else None
        record = captured.record(tokens, keys, run=-1, name=self.name)
        if captured.runs > 1:
            again = f"The model ran {captured.runs} times; the last run is shown"
            record = replace(record, findings=(*record.findings, again))
        return replace(record, sentences=sentences, targets=targets, **self._predictions(output, targets or sentences))

    def _predictions(self, output: Any, sentences: tuple[Sentence, ...]) -> dict[str, Any]:
        """Fields of the record for predictions, if the output is (B, n, words), or for labels, if it is (B, labels).

        The size of the last axis of predictions must be the number of `words`, or of embeddings of the model.
        """
        output, words = getattr(output, "logits", output), self.code.words
        if isinstance(output, tuple | list) and output:
            output = output[0]
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return {}
        logits, batch, length = output.detach().float().cpu(), len(sentences), len(sentences[0].tokens)
        if logits.dim() == 2 and len(logits) == batch != length:
            names = getattr(getattr(self.code.model, "config", None), "id2label", None) or {}
            return {"labels": (tuple(str(names.get(i, i)) for i in range(logits.shape[1])), logits)}
        vocabularies = {part.num_embeddings for part in self.code.model.modules() if isinstance(part, nn.Embedding)}
        vocabularies |= {len(words)} if isinstance(words, Mapping) else set()
        if logits.dim() != 3 or logits.shape[:2] != (batch, length) or logits.shape[2] not in vocabularies:
            return {}
        return {"prediction": Prediction(logits, WordList(self.code.word, logits.shape[2]))}

    def _cut(self, text: str, shown: str) -> Sentence:
        """Cut a text into tokens, and make a sentence of them with the text `shown`."""
        with errors_said():
            ids = ids_of(getattr(self.code.tokenize, "encode", self.code.tokenize)(text))
        if not ids:
            raise InputError(f"The tokenizer of {self.name} makes no tokens of {quoted(text)}.")
        tokens, strings = [], [self.code.word(id) for id in ids]
        for id, string, (start, end, joined) in zip(ids, strings, places(text, strings), strict=True):
            special = start == end and string.startswith(("<", "["))
            tokens.append(Token(string, id, start, end, special=special, joined=joined))
        return Sentence(shown, tuple(tokens), len(tokens))

    def _pad(self, sentences: list[Sentence]) -> tuple[Sentence, ...]:
        """Pad sentences to one length; raise InputError if the model could see padding and its id is not known."""
        sees_padding = any(site.kind != "decoder" for site in self.sites)  # a decoder sees no later token
        if self.code.pad is None and sees_padding and len({*lengths_of(sentences)}) > 1:
            what = "Texts of several lengths in one run need padding, and this model could see it"
            raise InputError(f"{what}: say attnviz.wrap(..., pad=ID), the id by which it knows padding.")
        return pad_sentences(sentences, PADDING, self.code.pad or 0)


def ids_of(encoding: Any) -> list[int]:
    """Ids in the result of a tokenizer; raise InputError if they are not whole numbers."""
    ids = torch.as_tensor(getattr(encoding, "ids", encoding)).reshape(-1).tolist()
    if any(type(id) is not int for id in ids):
        raise InputError(f"A tokenizer gives whole numbers; given {quoted(encoding)}.")
    return ids
