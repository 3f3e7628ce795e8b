"""Let a model continue a text token by token; the record is one forward pass over prompt and answer.

generated = attnviz.generate("The cat", "story", max_new_tokens=8)
generated.answer, generated.alternatives(3)
attnviz.figures.head(generated.record, attnviz.Site("decoder", 0), 1)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest

import torch
from torch import Tensor

from attnviz import api
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.base import MOST_WRITTEN, Source

SMALLEST_GAP = 1e-2
"""Smallest difference of logits that is reported; smaller differences are rounding of a cache in half precision."""


@dataclass(frozen=True, eq=False)
class Generated:
    """A prompt with the answer that a model wrote.

    Attributes:
        sentence: tokens of prompt and answer.
        prompt: number of tokens in the prompt, which is the position of the first token of the answer.
        begins: index of the first character of the answer in the text.
        ended: whether the model ended the answer itself.
        run: function that makes the record of prompt and answer.
    """

    sentence: Sentence
    prompt: int
    begins: int
    ended: bool
    run: Callable[[], Record]

    @cached_property
    def record(self) -> Record:
        """Record of one forward pass over prompt and answer, made when needed; position p predicts token p + 1."""
        return self.run()

    @property
    def tokens(self) -> tuple[Token, ...]:
        """Tokens of the answer."""
        return self.sentence.tokens[self.prompt :]

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the answer."""
        return tuple(token.id for token in self.tokens)

    @property
    def answer(self) -> str:
        """Text of the answer."""
        return self.sentence.text[self.begins :]

    def alternatives(self, position: int, count: int = 5) -> list[tuple[int, str, float]]:
        """List the most probable tokens at a position of the answer: id, text and probability, before sampling."""
        if not self.prompt <= position < len(self.sentence.tokens):
            where = f"its positions are {self.prompt} to {len(self.sentence.tokens) - 1}"
            raise InputError(f"No token of the answer stands at position {quoted(position)}; {where}.")
        prediction = self.record.prediction
        top = prediction.probabilities(position - 1).topk(min(count, prediction.logits.shape[-1]))
        pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        return [(id, prediction.vocabulary[id], share) for id, share in pairs]

    def first_difference(self, other: "Generated") -> int | None:
        """Find the position of the first token that differs from another answer; None if both are equal."""
        ids, other_ids = ([token.id for token in answer.sentence.tokens] for answer in (self, other))
        pairs = enumerate(zip_longest(ids, other_ids))
        return next((position for position, (id, other_id) in pairs if id != other_id), None)


def generate(
    text: str | Request | Sentence,
    source: Source | str = api.DEFAULT,
    max_new_tokens: int = 64,
    edits: Edits = Edits(),
    *,
    begin: Sequence[int] = (),
    sampling_temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    report: Callable[[str, int], bool | None] = lambda answer, count: None,
) -> Generated:
    """Let a model continue a text, by default with the most probable token at each step.

    Args:
        text: prompt, or its tokens from `source.tokenize`.
        max_new_tokens: maximum number of new tokens; the answer also ends at the maximum length of the model.
        edits: changes to the attention, for the prompt and for each new token.
        begin: ids of the first tokens of the answer, to continue from other tokens than those that the model chose.
        sampling_temperature: divisor of the logits before a token is sampled; 0 takes the most probable token.
        top_p: total probability of the most probable tokens from which a token is sampled.
        seed: seed of the sampling; the same seed gives the same answer.
        report: function that is called after each token with the answer so far and its number of tokens; False ends it.

    Raises:
        InputError: if the source predicts no next token, or a number is out of its range.
    """
    edits = text.edits if isinstance(text, Request) and edits == Edits() else edits
    source = api.load(source) if isinstance(source, str) else source
    if not source.generates:
        raise InputError(f"'{source.name}' predicts no next token of a text, so it cannot continue one.")
    for name, value, least, most in (
        ("max_new_tokens", max_new_tokens, 1, MOST_WRITTEN),
        ("sampling_temperature", sampling_temperature, 0, 100),
        ("top_p", top_p, 0.0, 1),
    ):
        if not least <= value <= most or (name == "top_p" and not value):
            raise InputError(f"{name} is {quoted(value)}; give a number from {least} to {most}.")
    (sentence,) = (text,) if isinstance(text, Sentence) else source.sentences(Request.of(text))
    prompt, longest = len(sentence.tokens), source.longest
    room = max_new_tokens if longest is None else min(max_new_tokens, longest - prompt)
    if room < 1:
        raise InputError(f"The prompt has {prompt:,} tokens, and '{source.name}' reads up to {longest:,}. Shorten it.")
    continuation, generator = source.continuation(sentence, edits, room), torch.Generator().manual_seed(seed)
    ended = False
    for count in range(room):
        if count < len(begin):
            id = begin[count]
        else:
            id = _next_id(continuation.logits(), sampling_temperature, top_p, generator)
            ended = id in source.ends
        if ended:
            break
        continuation.append(id)
        answer = continuation.sentence.text[len(sentence.text) :]
        if report(answer, count + 1) is False:
            break
    whole = continuation.sentence

    def run() -> Record:
        """Run prompt and answer in one forward pass, and report written tokens that are not the most probable ones."""
        record = source.run((whole,), edits)
        notes = [] if sampling_temperature else _improbable_tokens(record, prompt + len(begin))
        return replace(record, findings=(*record.findings, *notes))

    return Generated(whole, prompt, len(sentence.text), ended, run)


def _improbable_tokens(record: Record, first: int) -> list[str]:
    """Count the tokens from `first` on that are not the most probable ones of the record: one sentence, or none."""
    ids = torch.tensor([token.id for token in record.sentences[0].tokens[first:]], dtype=torch.long)
    logits = record.prediction.logits[0, first - 1 : first - 1 + len(ids)].float()
    count = int((logits.amax(-1) - logits.gather(-1, ids[:, None])[:, 0] > SMALLEST_GAP).sum())
    what = f"{count} of {len(ids)} written tokens are not the most probable ones of this run"
    return [f"{what}: the model's generation settings chose them, or its cache gives other numbers"] if count else []


def _next_id(logits: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> int:
    """Choose the id of the next token from its logits, (vocabulary,): the most probable id, or a sample."""
    if not temperature:
        return int(logits.argmax())
    shares, ids = (logits.double() / temperature).softmax(-1).sort(descending=True)
    total_before = shares.cumsum(-1) - shares  # of the more probable tokens
    return int(ids[torch.multinomial(shares * (total_before < top_p), 1, generator=generator)])
