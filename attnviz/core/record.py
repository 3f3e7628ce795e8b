"""The result of a run: frozen, and linear in the number of tokens.

A step keeps what attention was computed *from*. Scores, weights and outputs of any head, any rows and any columns are
computed from it on demand, exactly, by the same function as in the run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from attnviz.core import attention
from attnviz.core.amounts import counted
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask, Reason
from attnviz.core.request import Request
from attnviz.core.scoring import ALL, Area, Scoring
from attnviz.core.stream import Stream
from attnviz.core.taking import overlaid
from attnviz.core.tokens import Sentence, Token


@dataclass(frozen=True, eq=False)
class Step:
    """One attention call. `query`, `key` and `value` are (B, H, n, d); `logsumexp` is (B, H, Q).

    With a sink, the last key stands for no token: see `Tap.attend`. `name` is that of the module which called it, if it
    is known, and `line` the file and line of a person's code that did, which is in no file. Where `weights_only`, query
    and key are not known: the bias holds the logarithms of the weights. `taken` are outputs, (B, H, Q, d_v), in the
    place of weights @ value, NaN where none are. `entered` is what entered the whole layer, (B, n, d_model), where a
    run was asked for it; it is in no file.

    The methods take a head, a slice of query rows, a slice of key columns and a sentence of the batch, and compute that
    window alone.
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

    @property
    def num_heads(self) -> int:
        return self.query.shape[1]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q, K)."""
        return (*self.query.shape[:3], self.key.shape[2])

    def scores(self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
        """Scaled, biased, tempered dot products before the mask, (rows, columns)."""
        b, h = _index_slice(sentence, self.shape[0], "sentence"), _index_slice(head, self.num_heads, "head")
        return self.scoring.scores(self.query, self.key, Area(b, h, rows, columns))[0, 0]

    def may_attend(self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
        """The mask of one head, boolean, (rows, columns)."""
        b, h = _index_slice(sentence, self.shape[0], "sentence"), _index_slice(head, self.num_heads, "head")
        queries, keys = self.shape[2:]
        shape = len(range(*rows.indices(queries))), len(range(*columns.indices(keys)))
        mask = attention.window(self.mask, rows, columns, queries=queries, keys=keys)
        if mask is None:
            return torch.ones(shape, dtype=torch.bool)
        return Area(b, h).of(mask).expand(1, 1, *shape)[0, 0]

    def masked_scores(self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
        """The scores with blocked cells replaced by -inf, (rows, columns)."""
        scores = self.scores(head, rows, columns, sentence=sentence)
        return attention.masked(scores, self.may_attend(head, rows, columns, sentence=sentence))

    def weights(self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
        """The weights, (rows, columns); an empty row shows its policy."""
        scores = self.masked_scores(head, rows, columns, sentence=sentence)
        logsumexp = self.logsumexp[sentence, head, rows]
        weights = attention.normalize(scores, logsumexp=logsumexp)
        empty = (logsumexp == -math.inf).unsqueeze(-1)
        return attention.fill_empty(weights, empty, self.scoring.empty_rows, keys=self.shape[3])

    def output(self, head: int, rows: slice = ALL, *, sentence: int = 0) -> Tensor:
        """Output of the head, the input of W^O, (rows, d_v): weights @ value, or what was taken; zeros if it is off."""
        _index_slice(sentence, self.shape[0], "sentence"), _index_slice(head, self.num_heads, "head")
        if self.is_off(head, sentence=sentence):
            return self.value.new_zeros(len(range(*rows.indices(self.shape[2]))), self.value.shape[-1])
        weights = self.weights(head, rows, sentence=sentence)
        output = weights.to(self.value.dtype) @ self.value[sentence, head]
        return overlaid(output, None if self.taken is None else self.taken[sentence, head, rows])

    def outputs(self) -> Tensor:
        """The outputs of all heads side by side, the input of W^O, (B, Q, H · d_v), float32."""
        heads = range(self.num_heads)
        each = [torch.cat([self.output(h, sentence=b) for h in heads], -1) for b in range(self.shape[0])]
        return torch.stack(each).float()

    def is_off(self, head: int, *, sentence: int = 0) -> bool:
        """Whether the output of a head is zeroed."""
        return head in self.heads_off or bool(self.off_alone and head in self.off_alone[sentence])

    def empty_queries(self, head: int, *, sentence: int = 0) -> Tensor:
        """Which queries have no key left, boolean, (Q,)."""
        b, h = _index_slice(sentence, self.shape[0], "sentence"), _index_slice(head, self.num_heads, "head")
        return self.logsumexp[b, h][0, 0] == -math.inf

    def reasons(
        self, head: int, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0
    ) -> tuple[tuple[Reason, ...], Tensor]:
        """Why cells of one head are blocked; see `Mask.reasons`. A plain tensor has one reason, "the model's mask"."""
        _index_slice(sentence, self.shape[0], "sentence"), _index_slice(head, self.num_heads, "head")
        if isinstance(self.mask, Mask):
            return self.mask.reasons(*self.shape[2:], sentence=sentence, rows=rows, columns=columns)
        blocked = (~self.may_attend(head, rows, columns, sentence=sentence)).long()
        return () if self.mask is None else (Reason.of({0: "the model's mask"}),), blocked


LabelKind = Literal["one", "several", "number"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Prediction of a model: after each position, how probable each word of its vocabulary is.

    Attributes:
        logits: (B, n, vocabulary).
        vocabulary: the words by their ids.
        written: what an encoder-decoder wrote, or was given as its target, one text per sentence; else empty.
        cut: of each written text the number of tokens after which it was cut, 0 where the model itself ended it; empty
            where none was cut.
        blanks: of a model that fills in what is hidden, the positions of the blanks of each sentence: there the logits
            are of what stands at a position, not after it. None for a model that predicts what comes next.
        others: for how many words the last one stands, in a file that kept the most probable ones alone.
        classes: the words are labels, and each position of `blanks` has its own: of a model that labels tokens.
        special: ids of special tokens, as <eos>; empty where they are not known.
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
        """The words that are most probable after a position, with their probabilities, the most probable first."""
        words = self.probabilities(position, sentence=sentence)[: self._words]
        top = words.topk(min(count, len(words)))
        return [(self.vocabulary[i], p) for i, p in zip(top.indices.tolist(), top.values.tolist(), strict=True)]

    def words(self, *, sentence: int = 0) -> tuple[str, ...]:
        """The most probable word after each position, (n,); of a model that fills in, at each blank, and else ""."""
        most = self.logits[sentence, :, : self._words].argmax(-1).tolist()
        positions = range(len(most)) if self.blanks is None else self.blanks[sentence]
        return tuple(self.vocabulary[id] if i in positions else "" for i, id in enumerate(most))

    @property
    def _words(self) -> int:
        return self.logits.shape[-1] - bool(self.others)


@dataclass(frozen=True, eq=False)
class Record:
    """Run of a source on a batch of sentences.

    Attributes:
        sentences: the batch, padded to one length.
        source: the name of what ran.
        provenance: where its weights come from: "random", "constructed", "trained here", "pretrained" ...
        edits: what was changed.
        steps: one per attention call, in the order of the calls.
        output: the last hidden states, (B, n, d_model); of the decoder where there is one.
        targets: what the decoder of an encoder-decoder read, from <sos> on; empty for other models.
        prediction: what the model says, word by word, if it does.
        labels: what a model that classifies says of each sentence: the names of the classes and logits, (B, classes).
        label_kind: how the logits of labels are read: "one" of the classes (softmax; of a single class the logistic
            function), "several" at once (the logistic function of each), or "number" (as they are: regression).
        vectors: one vector per sentence, (B, d), from its tokens' last hidden states; of a model that gives no more.
        pooling: how those vectors are made, such as "mean of tokens".
        read_only: the model's attention is its own: its weights are known, but not the queries, keys and scores.
        unseen: what of the model's attention is not among the steps, in words; None if all of it is.
        precision: the number type that a file rounded queries, keys and values to; empty where they are as computed.
        findings: what a check of the arrays that it was made of found wrong with them, a sentence each.
        own_texts: of sites whose queries or keys are other positions than the usual ones of their kind, such as patches
            of another size: the sentences of both.
        stream: what was written into the residual stream, where it was asked for (`Source.with_stream`); in no file.
        request: what a person asked, if the run is the answer to a request; in no file.
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
        texts = ", ".join(quoted(sentence.text) for sentence in self.sentences[:2]) + (
            ", ..." if len(self.sentences) > 2 else ""
        )
        changed = "; ".join(self.edits.in_words()) or "nothing changed"
        return f"<Record of {self.source} on {texts}: {counted(len(self.steps), 'attention call')}, {changed}>"

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(step.site for step in self.steps)

    @property
    def read(self) -> tuple[Sentence, ...]:
        """The sentences at whose positions `output` and `prediction` stand: the decoder's where there is one."""
        return self.targets or self.sentences

    def tokens(self, site: Site, *, sentence: int = 0) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens of the query and of the key positions of a site.

        A position without a token, such as a cached key, is called by its number; a sink is called sink.
        """
        step = self.step(site)
        queries, keys = step.shape[2], step.shape[3] - step.has_sink
        sink = (Token("sink", 0, 0, 0, special=True),) if step.has_sink else ()
        query_text, key_text = self.texts(site, sentence=sentence)
        return _fit(query_text.tokens, queries), (*_fit(key_text.tokens, keys), *sink)

    def texts(self, site: Site, *, sentence: int = 0) -> tuple[Sentence, Sentence]:
        """The sentences whose tokens are the queries and the keys of a site; cross-attention has two."""
        queries, keys = self.own_texts.get(site) or self.usual_texts(site)
        return queries[sentence], keys[sentence]

    def usual_texts(self, site: Site) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
        """The sentences at the queries and the keys of a site of that kind."""
        queries = self.sentences if site.kind == "encoder" else self.read
        return queries, self.read if site.kind == "decoder" else self.sentences

    def predicted(self, site: Site, *, sentence: int = 0) -> tuple[str, ...] | None:
        """The word that the model holds most probable after each query of a site; None if it predicts nothing there."""
        encodes = site.kind == "encoder" and bool(self.targets)
        return None if self.prediction is None or encodes else self.prediction.words(sentence=sentence)

    def step(self, site: Site) -> Step:
        """The step at a site.

        Raises:
            InputError: names the sites that there are.
        """
        for step in self.steps:
            if step.site == site:
                return step
        raise InputError(f"'{self.source}' has no {site}. It has: {', '.join(map(str, self.sites))}.")


def _fit(tokens: tuple[Token, ...], length: int) -> tuple[Token, ...]:
    return tokens[:length] + tuple(Token(str(i), 0, 0, 0) for i in range(len(tokens), length))


def _index_slice(index: int, size: int, what: str) -> slice:
    """A slice that keeps the axis, so that a window is computed by the same code as the whole."""
    if not 0 <= index < size:
        raise InputError(f"There is no {what} {index}; there are {size}, counted from 0.")
    return slice(index, index + 1)
