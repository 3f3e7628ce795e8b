"""Sources, tokens and records that were made before. All are frozen, so sessions may share them."""

from functools import lru_cache

import pandas as pd

from attnviz import api, figures
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.figures import Figure
from attnviz.metrics.heads import head_metrics as head_metrics_of
from attnviz.sources.base import Source
from attnviz.sources.scratch import Scratch
from attnviz.ui import cores

MOST_CHARACTERS = 20_000
MOST_TOKENS = 4_096
MOST_SENTENCES = 32
MOST_NUMBERS = 8_000_000
"""Tokens x d_model x sites: a record keeps three times as many float32, 100 MB."""
MOST_WEIGHTS = 200_000_000
"""Of all sentences, sites and heads: a few seconds for the run, and again for its pictures."""
MOST_LOGITS = 2**26
"""Of all tokens and words of a vocabulary: a record keeps them as float32, 256 MB."""


@lru_cache(maxsize=32)
def source(name: str, step: int | None = None) -> Source:
    """A source by its name, with its card and its words read.

    Raises:
        AttnvizError: names the file that is missing or damaged.
    """
    made = api.load(name) if step is None else api.load(name, step=step)
    made.card, made.unknown(["a"])  # what cannot be read is to be known now
    return made


def loadable(name: str) -> tuple[Source, AttnvizError | None]:
    """A source by its name or, if its files cannot be used, the first that can be, and what is wrong with the other."""
    try:
        return source(name), None
    except AttnvizError as error:
        for other in api.SOURCES:
            try:
                return source(other), error
            except AttnvizError:
                continue
        raise


def texts(typed: str) -> tuple[str, ...]:
    """One sentence per line; empty lines are no sentences.

    Raises:
        InputError: if there is too much or nothing to look at.
    """
    if len(typed) > MOST_CHARACTERS:
        raise InputError(
            f"The text has {len(typed):,} characters; this page takes up to {MOST_CHARACTERS:,}. "
            "Shorten it, or use attnviz from Python, where there is no such limit."
        )
    lines = tuple(line for line in typed.splitlines() if line.strip())
    if not lines:
        raise InputError("There is no text yet. Type a sentence above, or choose an example.")
    if len(lines) > MOST_SENTENCES:
        raise InputError(
            f"There are {len(lines)} lines, and each line is a sentence of its own; this page takes up to "
            f"{MOST_SENTENCES}. Join some lines."
        )
    return lines


@lru_cache(maxsize=64)
def sentences(source: Source, lines: tuple[str, ...]) -> tuple[Sentence, ...]:
    """The tokens.

    Raises:
        InputError: if they are too many; <sos> is not counted, so that a text which fits one page fits every page.
    """
    cut = source.tokenize(list(lines))
    length = len(cut[0].tokens) - (isinstance(source, Scratch) and source.sos)
    layers = len(source.sites)
    if (tokens := length * len(cut)) > MOST_TOKENS:
        raise InputError(
            f"The text makes {tokens:,} tokens, padding included; this page takes up to {MOST_TOKENS:,}. Shorten it."
        )
    if tokens > (most := MOST_NUMBERS // (source.d_model * layers)):
        raise InputError(
            f"{tokens:,} tokens with d_model {source.d_model} and {layers} layers need too much memory; "
            f"this page takes up to {most:,} tokens at that size. Shorten the text, or make the model smaller."
        )
    if (weights := tokens * length * source.num_heads * layers) > MOST_WEIGHTS:
        raise InputError(
            f"{tokens:,} tokens with {source.num_heads} heads and {layers} layers make {weights:,} weights; "
            f"this page computes up to {MOST_WEIGHTS:,}. Shorten the text, or make the model smaller."
        )
    if tokens > (most := MOST_LOGITS // max(1, _vocabulary(source))):
        raise InputError(
            f"At each of {tokens:,} tokens the model gives each of {_vocabulary(source):,} words a probability, which "
            f"needs too much memory; this page takes up to {most:,} tokens with this model. Shorten the text."
        )
    return cut


def _vocabulary(source: Source) -> int:
    """To how many words a model of Hugging Face gives a probability at each token; 0 of others, which have few."""
    if source.provenance != "pretrained" or source.loaded.task not in ("next", "fill", "write"):
        return 0
    return source.loaded.vocabulary


@lru_cache(maxsize=8)
def record(source: Source, lines: tuple[str, ...], edits: Edits = Edits()) -> Record:
    """The run of a source on sentences with edits."""
    with cores.used_by(source):
        return api.analyze(lines, source, edits)


@lru_cache(maxsize=64)
def unknown(source: Source, lines: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The words that the source does not know, each with those it knows that are spelled most like it."""
    return source.unknown(list(lines))


@lru_cache(maxsize=8)
def head_metrics(record: Record, sentence: int) -> pd.DataFrame:
    """The numbers of every head."""
    return head_metrics_of(record, sentence)


@lru_cache(maxsize=8)
def overview(record: Record, **drawn) -> Figure:
    """Every head of the model, which a choice elsewhere leaves as it was."""
    return figures.overview.overview(record, **drawn)


@lru_cache(maxsize=8)
def heads(record: Record, site: Site, **drawn) -> Figure:
    """The overview, which a click on a cell leaves as it was."""
    return figures.heads(record, site, **drawn)
