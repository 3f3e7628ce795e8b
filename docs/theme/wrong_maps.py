"""Maps of the bug museum, for its page: the right ones by the one attention, the wrong ones as the code did it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnviz import api
from attnviz.check import ArrayReport, Finding, check
from attnviz.core.attention import attention_weights
from attnviz.core.edits import Site
from attnviz.core.masks import Padding, Subsequent
from attnviz.core.record import Record
from attnviz.files import from_arrays
from attnviz.lessons import peeking

RIGHT, WRONG = "as it should be", "with the bug"

STORY, SHORTER = "The cat sat on the mat because it was tired", "The dog ran home"
ENGLISH, SHORT_ENGLISH = "the black cat sleeps on the red chair", "the dog eats"

CAUSAL = {"kind": "mask", "convention": "may-attend", "intent": "causal"}
"""Arguments of the check of a mask that is meant to hide the future."""

DROPOUT = 0.2
"""Probability with which a weight is zeroed."""


@dataclass(frozen=True, eq=False)
class Maps:
    """The weights of one head, right and wrong, and the array in which a check finds the mistake.

    Attributes:
        right, wrong: records with one step, of one sentence.
        head: the one that is shown.
        where: of which model, layer and head, in words.
        checked: what a check is given, right and wrong.
        options: further arguments of the check.
    """

    right: Record
    wrong: Record
    head: int
    where: str
    checked: tuple[Tensor, Tensor] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """Right and wrong, (Q, K)."""
        return tuple(record.steps[0].weights(self.head) for record in (self.right, self.wrong))

    @property
    def reports(self) -> tuple[ArrayReport, ArrayReport]:
        """Reports of the check on the right array, and on the wrong one."""
        right, wrong = self.checked or self.weights
        options = self.options or {"kind": "weights"}
        return check(right, **options), check(wrong, **options)

    def finding(self, rule: str) -> Finding | None:
        """First finding of a rule in the wrong array; None if there is none."""
        findings = (finding for finding in self.reports[1].findings if finding.severity != "note")
        return next((finding for finding in findings if finding.rule == rule), None)


@dataclass(frozen=True, eq=False)
class TrainedPair:
    """The training of two small models, right and wrong."""

    right: peeking.PeekingRun
    wrong: peeking.PeekingRun
    where: str = "two small models, trained here"


class _Call:
    """The attention call of a model on some texts, of which one sentence and one head are shown."""

    def __init__(self, model: str, texts: tuple[str, ...], site: Site, *, sentence: int = 0, head: int = 0):
        self.record = api.analyze(texts, model)
        self.step = self.record.step(site)
        self.sentence, self.head = sentence, head
        self.query, self.key = self.step.query, self.step.key
        self.scores = self.step.scoring.scores(self.query, self.key)
        lengths = torch.tensor([[text.length] for text in self.record.sentences])
        self.real = torch.arange(self.key.shape[2]) < lengths
        """Whether a token is not padding, (B, K)."""
        self.causal = Subsequent().grid(*self.step.shape[2:])

    def weights(self, mask: Tensor | None, query: Tensor | None = None, **scoring: Any) -> Tensor:
        """Weights of the attention, (B, H, Q, K)."""
        settings = replace(self.step.scoring, **scoring)
        return attention_weights(self.query if query is None else query, self.key, mask, settings)[0]

    def maps(self, right: Tensor | None, wrong: Tensor | None, weights: Tensor, **more: Any) -> Maps:
        """Both maps.

        Args:
            right, wrong: the masks, which are hatched.
            weights: the wrong ones, (B, H, Q, K).
        """
        both = self._record(RIGHT, self.weights(right), right), self._record(WRONG, weights, wrong)
        where = f"{self.record.source} ({self.record.provenance}), {self.step.site.head(self.head)}"
        return Maps(*both, self.head, where, **more)

    def _record(self, name: str, weights: Tensor, mask: Tensor | None) -> Record:
        if mask is not None:  # a row that is NaN is so in its hidden cells, too
            mask = (mask.expand(weights.shape) | weights.isnan())[self.sentence]
        record = from_arrays(weights[self.sentence], mask=mask, kind=self.step.site.kind, name=name)
        # where no key is left the sum stays as it is, 0
        step = replace(record.steps[0], site=self.step.site, logsumexp=torch.zeros_like(record.steps[0].logsumexp))
        sentences = (self.record.sentences[self.sentence],)
        return replace(record, steps=(step,), sentences=sentences, provenance=self.record.provenance, findings=())


def _story(*texts: str, **focus: int) -> _Call:
    return _Call("story", texts or (STORY,), Site("decoder", 1), **focus)


def _encoder(*texts: str, **focus: int) -> _Call:
    return _Call("translator", texts, Site("encoder", 1), **focus)


def _inverted() -> Maps:
    call, wrong = _story(), ~_story().causal
    return call.maps(call.causal, wrong, call.weights(wrong), checked=(call.causal, wrong), options=CAUSAL)


def _empty() -> Maps:
    call = _story(STORY, SHORTER, sentence=1)
    right = (call.causal & call.real[:, None, :])[:, None]
    wrong = right & call.real[:, None, :, None]
    return call.maps(right, wrong, call.weights(wrong, empty_rows="nan"))


def _after() -> Maps:
    call = _story()
    return call.maps(call.causal, call.causal, call.weights(None) * call.causal)


def _axis() -> Maps:
    call = _story()
    columns = call.scores.masked_fill(~call.causal, -math.inf).softmax(-2)
    return call.maps(call.causal, call.causal, columns)


def _diagonal() -> Maps:
    call = _story()
    wrong = call.causal.tril(-1)
    weights = call.weights(wrong, empty_rows="nan")
    return call.maps(call.causal, wrong, weights, checked=(call.causal, wrong), options=CAUSAL)


def _padding() -> Maps:
    call = _encoder(ENGLISH, SHORT_ENGLISH, sentence=1)
    options = {"kind": "weights", "intent": Padding((call.record.sentences[1].length,))}
    return call.maps(call.real[:, None, None, :], None, call.weights(None), options=options)


def _half() -> Maps:
    call = _story()
    fill = torch.tensor(-1e9).half()
    bias = (1 - call.causal.half()) * fill
    weights = (call.scores.half() + bias).softmax(-1)
    filled = torch.zeros_like(bias).masked_fill(~call.causal, -math.inf)
    return call.maps(call.causal, call.causal, weights, checked=(filled, bias), options={"kind": "mask"})


def _dropout() -> Maps:
    call = _story()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        weights = F.dropout(call.weights(call.causal), DROPOUT)
    return call.maps(call.causal, call.causal, weights)


def _scale() -> Maps:
    call = _story()
    return call.maps(call.causal, call.causal, call.weights(call.causal, scale=1.0))


def _broadcast() -> Maps:
    call = _story(STORY, SHORTER, head=1)
    right, wrong = call.causal & call.real[:, None, None, :], call.causal & call.real[:, None, :]
    checked = call.real[:, None, None, :], call.real[:, None, :]
    options = {"kind": "mask", "convention": "may-attend", "shape": call.step.shape}
    weights = call.weights(wrong[None])  # as broadcasting reads it
    return call.maps(right, wrong, weights, checked=checked, options=options)


def _unshifted() -> TrainedPair:
    return TrainedPair(peeking.learn(Subsequent()), peeking.learn(Subsequent(), shift=0))


def _cloned() -> Maps:
    call = _encoder(ENGLISH, head=2)
    return call.maps(None, None, call.weights(None, query=call.key))


BUILDERS: dict[str, Callable[[], Maps | TrainedPair]] = {
    "inverted": _inverted,
    "empty": _empty,
    "after": _after,
    "axis": _axis,
    "diagonal": _diagonal,
    "padding": _padding,
    "half": _half,
    "dropout": _dropout,
    "scale": _scale,
    "broadcast": _broadcast,
    "unshifted": _unshifted,
    "cloned": _cloned,
}
"""How each is made, by its name."""


def made(name: str) -> Maps | TrainedPair:
    """The right and the wrong maps of a bug, or both trainings."""
    return BUILDERS[name]()
