"""What a run may cost on this server, in seconds and bytes, and the refusal of what costs more."""

import math
import os
from dataclasses import replace
from functools import cache

from attnviz.core.amounts import size
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, TooLong, quoted
from attnviz.core.tokens import Sentence
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate, in_time

SECONDS, GIGABYTES = "ATTNVIZ_SECONDS", "ATTNVIZ_GB"
"""Environment variables; `attnviz app --seconds` and `--memory` set them."""

USUAL = {SECONDS: 120.0, GIGABYTES: 2.0}

SILENT = 2.0
"""Seconds below which nothing is said of a run."""


MOST_TOKENS = {"overview": 16_384, "masks": 16_384, "compare": 8_192, "steps": 8_192}
"""Of a sentence, on pages that take half a minute for it beside the run; the others take any text that can be run."""

MOST_WEIGHTS = 3_000_000_000
"""Of all heads together, on the page that pools each of them."""


class TooLongHere(TooLong):
    """A page takes no such text, though the model has run it."""

    def __init__(self, page: str, tokens: int, longest: int):
        self.longest = longest
        takes = f"{page.capitalize()} takes up to {longest:,} with this model"
        InputError.__init__(self, f"The text has {tokens:,} tokens. {takes}; Heads shows all of it.")


class OverBudget(TooLong):
    """A run costs more than this server lets it; the message has the numbers.

    Attributes:
        longest: tokens of each sentence that fit the budget.
    """

    def __init__(self, cost: Estimate, longest: int):
        self.longest = longest
        budget = f"this server takes {in_time(seconds())} and {size(memory())} for a run"
        raised = "start it with more: attnviz app --seconds N --memory GB"
        InputError.__init__(self, f"{cost}; {budget}. Use less of the text, or {raised}.")


def seconds() -> float:
    """That a run may take."""
    return _number(SECONDS)


def memory() -> int:
    """Bytes that a run may take, and all that is kept of runs."""
    return int(1e9 * _number(GIGABYTES))


def cost(source: Source, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Estimate:
    """What a run of a source takes on this machine; no time where it was run before."""
    found = estimate.estimate(source, len(sentences[0].tokens) if sentences else 0, edits, len(sentences))
    return replace(found, seconds=0.0) if source.one_run else found


def check(source: Source, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Estimate:
    """What a run takes.

    Raises:
        OverBudget: if that is more than the budget.
    """
    found = cost(source, sentences, edits)
    if not source.one_run and (found.seconds > seconds() or found.bytes > memory()):
        fits = estimate.longest(source, len(sentences[0].tokens), seconds(), memory(), edits, len(sentences))
        raise OverBudget(found, fits)
    return found


def check_page(page: str, source: Source, sentences: tuple[Sentence, ...]) -> None:
    """Raises: TooLongHere: if a page takes no text of so many tokens."""
    tokens, heads = len(sentences[0].tokens), len(sentences) * source.num_heads * len(source.sites)
    most = MOST_TOKENS.get(page, tokens)
    most = min(most, math.isqrt(MOST_WEIGHTS // max(1, heads))) if page == "overview" else most
    if tokens > most and not source.one_run:
        raise TooLongHere(page, tokens, most)


@cache
def _number(name: str) -> float:
    text = os.environ.get(name) or str(USUAL[name])
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e6:
        raise InputError(f"{name} is {quoted(text)}; it must be a number above 0 such as {USUAL[name]:g}.")
    return number
