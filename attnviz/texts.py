"""Heads over many texts: what each of their numbers is on average, and how much it differs from text to text.

table = over_texts(source, shipped(source))
"""

from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from attnviz.core import assets
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, Canceled, InputError
from attnviz.core.record import Record
from attnviz.metrics.heads import METRICS, head_metrics
from attnviz.sources.base import Source

TOKENS = 2048
"""Most tokens in one run, padding counted."""
MOST_TEXTS = 1000
MOST_BYTES = 1_000_000
"""Of a file of texts."""

OnProgress = Callable[[int, int], bool | None]
"""Is told how many texts are done, of how many; if it gives False, that ends it."""


def shipped(source: Source) -> tuple[str, ...]:
    """Fifty texts that ship with attnviz: held-out ones of a model that knows few words, else English sentences."""
    own = assets.path(f"texts/{source.id}.txt")
    return lines((own if own.is_file() and source.card else assets.path("texts/english.txt")).read_bytes())


def lines(data: bytes) -> tuple[str, ...]:
    """The texts of a file, one a line; empty lines are none.

    Raises:
        InputError: if it is too large, no UTF-8, empty, or of too many lines.
    """
    if len(data) > MOST_BYTES:
        raise InputError(f"The file has {len(data):,} bytes; at most {MOST_BYTES:,} are read.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"Byte {error.start:,} of the file is no UTF-8; save it as UTF-8 text.") from None
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not 0 < len(found) <= MOST_TEXTS:
        raise InputError(f"The file has {len(found):,} lines with text; 1 to {MOST_TEXTS:,} are read, a text each.")
    return found


def over_texts(
    source: Source, texts: Sequence[str], report: OnProgress | None = None, edits: Edits = Edits()
) -> pd.DataFrame:
    """Measure every head on every text, many texts in one run.

    Returns:
        One row per head: site, kind, layer, head, texts (how many there were), then for each metric its mean over the
        texts that have it, `<name>_spread`, their standard deviation (missing of a single text), and `<name>_texts`,
        how many these are; rows and left_out are sums. Each text counts the same, however long.

    Raises:
        InputError: names the text that cannot be read; `Canceled` if `report` gave False.
    """
    if not texts:
        raise InputError("There are no texts to measure on.")
    tables: list[pd.DataFrame] = []
    for record in _runs(source, texts, edits):
        tables += [head_metrics(record, sentence) for sentence in range(len(record.sentences))]
        if report is not None and report(len(tables), len(texts)) is False:
            raise Canceled(f"The measuring was ended after {len(tables)} of {len(texts)} texts.")
    return _summary(tables)


def _runs(source: Source, texts: Sequence[str], edits: Edits) -> Iterator[Record]:
    """The texts in batches of about the same length each, so that there is little padding."""
    lengths = [_length(source, text, number) for number, text in enumerate(texts, 1)]
    order = sorted(range(len(texts)), key=lengths.__getitem__)
    most = len(texts)
    while order:
        count = max(1, min(most, next((i for i, at in enumerate(order) if (i + 1) * lengths[at] > TOKENS), len(order))))
        try:
            record = source.run(source.tokenize([texts[at] for at in order[:count]]), edits)
        except AttnvizError:
            if count == 1:
                raise
            most = count // 2  # some models take fewer sentences at once, or one: as one without padding
            continue
        order = order[count:]
        yield record


def _length(source: Source, text: str, number: int) -> int:
    try:
        return len(source.tokenize([text])[0].tokens)
    except AttnvizError as error:
        raise InputError(f"Text {number}: {error}") from None


def _summary(tables: list[pd.DataFrame]) -> pd.DataFrame:
    every = pd.concat(tables).groupby(["site", "kind", "layer", "head"], sort=False)
    numbers = every[[one.name for one in METRICS]].agg(["mean", "std", "count"])
    numbers.columns = [f"{name}{ENDS[how]}" for name, how in numbers.columns]
    table = pd.concat([numbers, every[["rows", "left_out"]].sum()], axis=1).reset_index()
    table.insert(4, "texts", len(tables))
    return table


ENDS = {"mean": "", "std": "_spread", "count": "_texts"}
"""What the names of columns end in."""
