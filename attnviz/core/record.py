"""The result of a run: immutable, with a size linear in the number of tokens.

A step keeps the *inputs* of attention. Scores, weights and outputs of any head, rows and columns are computed from
these inputs on demand, exactly, by the same function as in the run.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Literal

import torch
from torch import Tensor

from attnviz.core import attention
from attnviz.core.amounts import counted
from attnviz.core.display import visible_text
from attnviz.core.edits import Edits, Site, overlay
from attnviz.core.errors import InputError, NotFiniteError, quoted
from attnviz.core.masks import Mask, Reason
from attnviz.core.request import Request
from attnviz.core.scoring import ALL, Area, Scoring
from attnviz.core.stream import Stream
from attnviz.core.tokens import Sentence, Token
from attnviz.linear import LinearMap


@dataclass(frozen=True, eq=False)
class Step:
    """Inputs of one attention call. The methods compute scores, weights or output of a head for a window of cells.

    Attributes:
        query, key, value: (B, H, n, d). If `has_sink`, the last key is not a token; see `Tap.attend`.
        logsumexp: log-sum-exp of each row of masked scores, (B, H, Q); for linear attention 0, or -inf for empty rows.
        heads_off, off_alone: heads whose output is zeroed, in all sentences and per sentence.
        name: name of the calling module, if known.
        line: file and line of the user's code that made the call; not saved to files.
        weights_only: whether query and key are unknown, and the bias holds the logarithms of the weights.
        taken: outputs, (B, H, Q, d_v), that replace weights @ value; NaN where nothing is replaced.
        entered: input of the whole layer, (B, n, d_model), if requested; not saved to files.
        linear: map of linear attention, which has no scores, and whose weights may be negative and sum to anything.
    """

    site: Site
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | Mask | None
    logsumexp: Tensor
    scoring: Scoring
    heads_off: frozenset[int] = frozenset()
    has_sink: bool = False
    off_alone: tuple[frozenset[int], ...] = ()
    name: str = ""
    line: str = ""
    weights_only: bool = False
    taken: Tensor | None = None
    entered: Tensor | None = None
    linear: LinearMap | None = None

    @property
    def mixing(self) -> Literal["softmax", "linear"]:
        """How the weights are made from queries and keys."""
        return "linear" if self.linear else "softmax"

    @property
    def weight_name(self) -> str:
        """Word for a weight in tables and figures; the weights of linear attention do not sum to 1."""
        return "mixing weight" if self.linear else "weight"

    @property
    def num_heads(self) -> int:
        return self.query.shape[1]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the scores, (B, H, Q, K)."""
        return (*self.query.shape[:3], self.key.shape[2])

    def scores(self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
        """Scores of one head before the mask, (rows, columns); raise InputError for linear attention without scores."""
        if self.linear:
            raise InputError(f"{self.site} is linear attention ({self.linear.rule}): it has weights, and no scores.")
        return self.scoring.scores(self.query, self.key, self._area(head, sentence, rows, columns))[0, 0]

    def may_attend(self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
        """The mask of one head, boolean, (rows, columns)."""
        area = self._area(head, sentence)
        queries, keys = self.shape[2:]
        shape = len(range(queries)[rows]), len(range(keys)[columns])
        mask = attention.window(self.mask, rows, columns, queries=queries, keys=keys)
        if mask is None:
            return torch.ones(shape, dtype=torch.bool)
        return area.of(mask).expand(1, 1, *shape)[0, 0]

    def masked_scores(self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
        """The scores with blocked cells replaced by -inf, (rows, columns)."""
        scores = self.scores(head, rows, columns, sentence=sentence)
        return attention.mask_scores(scores, self.may_attend(head, rows, columns, sentence=sentence))

    def weights(self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
        """The weights of one head, (rows, columns); empty rows follow the `empty_rows` policy."""
        if self.linear:
            weights = self.linear.weights(self.query, self.key, self._area(head, sentence, rows, columns))[0, 0]
            return weights.masked_fill(~self.may_attend(head, rows, columns, sentence=sentence), 0)
        scores = self.masked_scores(head, rows, columns, sentence=sentence)
        logsumexp = self.logsumexp[sentence, head, rows]
        weights = attention.normalize(scores, logsumexp=logsumexp)
        empty = (logsumexp == -math.inf).unsqueeze(-1)
        return attention.fill_empty(weights, empty, self.scoring.empty_rows, keys=self.shape[3])

    def output(self, head: int, rows: slice = ALL, *, sentence: int = 0) -> Tensor:
        """Output of one head before W^O, (rows, d_v): weights @ value, or as in `taken`; zeros if the head is off."""
        self._area(head, sentence)  # raises InputError if there is no such head or sentence
        if self.is_off(head, sentence=sentence):
            return self.value.new_zeros(len(range(self.shape[2])[rows]), self.value.shape[-1])
        weights = self.weights(head, rows, sentence=sentence)
        output = weights.to(self.value.dtype) @ self.value[sentence, head]
        return overlay(output, None if self.taken is None else self.taken[sentence, head, rows])

    def outputs(self) -> Tensor:
        """The concatenated outputs of all heads, the input of W^O, (B, Q, H · d_v), float32."""
        heads = range(self.num_heads)
        per_sentence = [torch.cat([self.output(h, sentence=b) for h in heads], -1) for b in range(self.shape[0])]
        return torch.stack(per_sentence).float()

    def is_off(self, head: int, *, sentence: int = 0) -> bool:
        """Whether the output of a head is zeroed."""
        return head in self.heads_off or bool(self.off_alone and head in self.off_alone[sentence])

    def empty_queries(self, head: int, *, sentence: int = 0) -> Tensor:
        """Mark the queries that have no key left, boolean, (Q,)."""
        self._area(head, sentence)  # raises InputError if there is no such head or sentence
        return self.logsumexp[sentence, head] == -math.inf

    def reasons(
        self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0
    ) -> tuple[tuple[Reason, ...], Tensor]:
        """Reasons why cells of one head are blocked, and the index of the reason per cell; see `Mask.reasons`."""
        self._area(head, sentence)  # raises InputError if there is no such head or sentence
        if isinstance(self.mask, Mask):
            return self.mask.reasons(*self.shape[2:], sentence=sentence, rows=rows, columns=columns)
        reasons = () if self.mask is None else (Reason.of({0: "the model's mask"}),)
        return reasons, (~self.may_attend(head, rows, columns, sentence=sentence)).long()

    def _area(self, head: int, sentence: int, rows: slice = ALL, columns: slice = ALL) -> Area:
        """The block of scores of one head, (1, 1, rows, columns); raise InputError if there is no such head."""
        for noun, index, count in (("sentence", sentence, self.shape[0]), ("head", head, self.num_heads)):
            if not 0 <= index < count:
                raise InputError(f"There is no {noun} {index}; there are {count}, counted from 0.")
        return Area(slice(sentence, sentence + 1), slice(head, head + 1), rows, columns)


LabelKind = Literal["one", "several", "number"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Prediction of a model: logits of the vocabulary after each position.

    Attributes:
        logits: (B, n, vocabulary).
        vocabulary: words in the order of their ids.
        written: output or given target of an encoder-decoder, one text per sentence; empty for other models.
        cut: number of tokens after which each written text was cut off, 0 if the model ended the text; empty if no text
            was cut off.
        blanks: positions of the masked tokens per sentence, for a masked language model, whose logits are for the
            token at a position, not after it; None for a model that predicts the next token.
        others: number of words that the last entry sums up, if a file keeps only the most probable words.
        classes: whether the words are labels of tokens, one label per position of `blanks`.
        special: ids of special tokens, such as <eos>; empty if unknown.
    """

    logits: Tensor
    vocabulary: Sequence[str]
    written: tuple[str, ...] = ()
    blanks: tuple[tuple[int, ...], ...] | None = None
    others: int = 0
    classes: bool = False
    cut: tuple[int, ...] = ()
    special: frozenset[int] = frozenset()

    def probabilities(self, position: int, *, sentence: int = 0) -> Tensor:
        """The probability of each word after a position, float64, (vocabulary,)."""
        return self.logits[sentence, position].double().softmax(-1)

    def most_probable(self, position: int, count: int = 5, *, sentence: int = 0) -> list[tuple[str, float]]:
        """The `count` most probable words after a position with their probabilities, in descending order."""
        words = self.probabilities(position, sentence=sentence)[: self._num_words]
        top = words.topk(min(count, len(words)))
        return [(self.vocabulary[i], p) for i, p in zip(top.indices.tolist(), top.values.tolist(), strict=True)]

    def words(self, *, sentence: int = 0) -> tuple[str, ...]:
        """The most probable word after each position, (n,); with `blanks`, the word at each blank and "" elsewhere."""
        best_ids = self.logits[sentence, :, : self._num_words].argmax(-1).tolist()
        best_words = [self.vocabulary[id] for id in best_ids]
        if self.blanks is None:
            return tuple(best_words)
        return tuple(word if position in self.blanks[sentence] else "" for position, word in enumerate(best_words))

    @property
    def _num_words(self) -> int:
        """Number of words in the logits, without the last entry if it sums up all other words."""
        return self.logits.shape[-1] - bool(self.others)


@dataclass(frozen=True, eq=False)
class Record:
    """Run of a source on a batch of sentences.

    Attributes:
        sentences: the batch, padded to one length.
        source: name of the source.
        provenance: origin of the weights, such as "random", "constructed", "trained here" or "pretrained".
        edits: changes to the attention.
        steps: one step per attention call, in the order of the calls.
        output: the last hidden states, (B, n, d_model), of the decoder if there is one.
        targets: input of the decoder of an encoder-decoder, from <sos> on; empty for other models.
        prediction: prediction of words, for a model that makes one.
        labels: names of the classes and logits per sentence, (B, classes), for a classifier.
        label_kind: meaning of these logits: "one" class applies (softmax, or the logistic function for a single class),
            "several" classes can apply (the logistic function of each), or "number" (regression).
        vectors: one vector per sentence, (B, d), pooled from the last hidden states; for a model without other outputs.
        pooling: method by which the vectors are pooled, such as "mean of tokens".
        read_only: whether only the attention weights are known, without queries, keys and scores.
        unseen: description of attention in the model that is not among the steps; None if there is none.
        precision: dtype to which a file rounded queries, keys and values; empty if they are as computed.
        findings: problems that a check of the imported arrays reported, one sentence each.
        own_texts: sentences at the queries and at the keys, for sites that have other positions than usual for their
            kind, such as patches of another size.
        stream: contributions to the residual stream, if requested (`Source.with_stream`); not saved to files.
        request: request of the user that this run answers, if any; not saved to files.
    """

    sentences: tuple[Sentence, ...]
    source: str
    provenance: str
    edits: Edits
    steps: tuple[Step, ...]
    output: Tensor
    targets: tuple[Sentence, ...] = ()
    prediction: Prediction | None = None
    labels: tuple[tuple[str, ...], Tensor] | None = None
    label_kind: LabelKind = "one"
    vectors: Tensor | None = None
    pooling: str = ""
    read_only: bool = False
    unseen: str | None = None
    precision: str = ""
    findings: tuple[str, ...] = ()
    own_texts: Mapping[Site, tuple[tuple[Sentence, ...], tuple[Sentence, ...]]] = field(default_factory=dict)
    stream: Stream | None = None
    request: Request | None = None

    def __repr__(self) -> str:
        texts = ", ".join(quoted(sentence.text) for sentence in self.sentences[:2])
        texts += ", ..." if len(self.sentences) > 2 else ""
        changed = "; ".join(self.edits.in_words()) or "nothing changed"
        return f"<Record of {self.source} on {texts}: {counted(len(self.steps), 'attention call')}, {changed}>"

    @property
    def nbytes(self) -> int:
        """Size of all tensors and texts in bytes; memory that several tensors share counts once, in full."""
        storages = [tensor.untyped_storage() for tensor in _tensors(self)]
        sizes_by_address = {storage.data_ptr(): storage.nbytes() for storage in storages}
        return sum(sizes_by_address.values()) + sum(text.nbytes for text in (*self.sentences, *self.targets))

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(step.site for step in self.steps)

    @property
    def read(self) -> tuple[Sentence, ...]:
        """Sentences whose tokens give `output` and `prediction`: the decoder input, if there is one, else the input."""
        return self.targets or self.sentences

    def tokens(self, site: Site, *, sentence: int = 0) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens at the query positions and at the key positions of a site.

        A position without a token, such as a cached key, gets a token with the position as text; a sink, "sink".
        """
        step = self.step(site)
        queries, keys = step.shape[2], step.shape[3] - step.has_sink
        sink = (Token("sink", 0, 0, 0, special=True),) if step.has_sink else ()
        query_text, key_text = self.texts(site, sentence=sentence)
        return _pad_with_numbers(query_text.tokens, queries), (*_pad_with_numbers(key_text.tokens, keys), *sink)

    def has_scores(self, site: Site) -> bool:
        """Whether the scores before the softmax of a site are known: linear attention has none."""
        return not self.read_only and self.step(site).mixing == "softmax"

    def texts(self, site: Site, *, sentence: int = 0) -> tuple[Sentence, Sentence]:
        """The sentence at the queries and the sentence at the keys of a site; they differ in cross-attention."""
        queries, keys = self.own_texts.get(site) or self.usual_texts(site)
        return queries[sentence], keys[sentence]

    def usual_texts(self, site: Site) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
        """The sentences at the queries and at the keys that the kind of a site implies; `own_texts` is ignored."""
        queries = self.sentences if site.kind == "encoder" else self.read
        keys = self.read if site.kind == "decoder" else self.sentences
        return queries, keys

    def predicted(self, site: Site, *, sentence: int = 0) -> tuple[str, ...] | None:
        """The most probable word after each query of a site; None if the model predicts nothing there."""
        is_input_of_decoder = site.kind == "encoder" and bool(self.targets)  # the words are predicted by the decoder
        if self.prediction is None or is_input_of_decoder:
            return None
        return self.prediction.words(sentence=sentence)

    def step(self, site: Site) -> Step:
        """The step at a site; raise InputError, which lists all sites of the record, if there is none."""
        for step in self.steps:
            if step.site == site:
                return step
        raise InputError(f"'{self.source}' has no {site}. It has: {', '.join(map(str, self.sites))}.")


def _tensors(value: object) -> Iterator[Tensor]:
    """Yield all tensors in a value: in tuples, lists, mappings and dataclasses, recursively."""
    if isinstance(value, Tensor):
        yield value
        return
    items: Iterable[object] = ()
    if isinstance(value, tuple | list) and value and not isinstance(value[0], str):  # a vocabulary has many words
        items = value
    elif isinstance(value, Mapping):
        items = value.values()
    elif is_dataclass(value) and not isinstance(value, Sentence | Token | Request):
        items = vars(value).values()
    for item in items:
        yield from _tensors(item)


def _pad_with_numbers(tokens: tuple[Token, ...], length: int) -> tuple[Token, ...]:
    """Cut tokens to a length, or append tokens whose text is their position, such as "7"."""
    return tokens[:length] + tuple(Token(str(position), 0, 0, 0) for position in range(len(tokens), length))


NAN_MASK = "0 * -inf is NaN, so make it with torch.where or masked_fill"
BEFORE = "look at what comes before it: an empty row of an earlier layer, or numbers too large for their type"
AFTER = "look at what comes after it, such as a division by 0 or numbers too large for their type"
"""Hints in messages about NaN and infinite numbers."""


def not_finite_rows(output: Tensor) -> Tensor:
    """Mark rows of an output (n, d) with NaN, +inf or only -inf, boolean (n,). A few -inf are valid: excluded words."""
    return (output.isnan() | (output == torch.inf)).any(-1) | (output == -torch.inf).all(-1)


def check_finite(record: Record, output: Tensor, length: int, labels: list[str]) -> None:
    """Refuse a run whose outputs, (n, d), are NaN or infinite at one of the first `length` positions (not padding).

    Raises:
        NotFiniteError: with the first such position and its entry of `labels`, and with the likely cause.
    """
    problem, cause = _describe_not_finite(record, output, length, labels)
    if problem:
        raise NotFiniteError(f"{problem}, so nothing can be compared: {cause}.")


def not_finite(record: Record) -> str:
    """Describe the first NaN or infinite output of a run, and its cause.

    Returns "" if all outputs are finite, or if the edits ask for NaN in empty rows.
    """
    if record.edits.empty_rows == "nan" or bool(record.output.isfinite().all()):
        return ""
    for sentence, output in zip(record.read, record.output, strict=True):
        problem, cause = _describe_not_finite(record, output, sentence.length, sentence.labels)
        if problem:
            return f"{problem}: {cause}."
    return ""


def _describe_not_finite(record: Record, output: Tensor, length: int, labels: Sequence[str]) -> tuple[str, str]:
    """Describe the first NaN or infinite position of an output (n, d), and the cause; "" and "" if all are finite."""
    positions = not_finite_rows(output)[:length].nonzero().flatten().tolist()
    if not positions:
        return "", ""
    first = positions[0]
    kind = "NaN" if output[first].isnan().any() else "infinite"
    others = f" and at {counted(len(positions) - 1, 'other position')}" if len(positions) > 1 else ""
    causes = [cause for cause in map(_find_cause, record.steps) if cause]
    cause = causes[0] if causes else f"all attention is finite, so {AFTER}"
    return f"The output is {kind} at position {first} “{visible_text(labels[first])}”{others}", cause


def _find_cause(step: Step) -> str:
    """Describe the first tensor of a step that is not finite, with its place and a remedy; empty if all are finite."""
    for bias in step.scoring.bias:
        if isinstance(bias, Tensor) and not bias.isfinite().all():
            *_, query, key = (~bias.isfinite()).nonzero()[0].tolist()
            kind = "NaN" if bias.isnan().any() else "an infinite number"
            return f"the mask of {step.site} holds {kind}, first at query {query} key {key} ({NAN_MASK})"
    for name in ("query", "key", "value"):
        tensor = getattr(step, name)
        if not tensor.isfinite().all():
            _, head, position, _ = (~tensor.isfinite()).nonzero()[0].tolist()
            return f"the {name} of {step.site}, head {head}, position {position}, is the first; {BEFORE}"
    is_empty_row = step.logsumexp == -torch.inf
    if is_empty_row.any():
        _, head, query = is_empty_row.nonzero()[0].tolist()
        return f"query {query} has no key left in {step.site}, head {head}, and softmax makes NaN of such a row"
    if not step.logsumexp.isfinite().all():
        _, head, query = (~step.logsumexp.isfinite()).nonzero()[0].tolist()
        return f"scores of {step.site}, head {head}, query {query}, are too large for their type"
    return ""
