"""Many texts: read from a file, cut into tokens, and run together with little padding."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from attnviz.core import assets
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, Canceled, InputError
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate, of_texts

TOKENS = 2048
"""Most tokens in one run, padding counted."""
MOST_TEXTS, MOST_BYTES = 1000, 1_000_000
"""Largest file of texts that is read, in lines and bytes."""


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
    texts = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not 0 < len(texts) <= MOST_TEXTS:
        raise InputError(f"The file has {len(texts):,} lines with text; 1 to {MOST_TEXTS:,} are read, a text each.")
    return texts


def of_json(line: str) -> str:
    """The text of a line of JSON lines: a string, or the "text" of an object.

    Raises:
        InputError: if it holds none.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError("This line is not valid JSON.") from None
    value = value.get("text") if isinstance(value, dict) else value
    if not isinstance(value, str):
        raise InputError('This line holds no text: give a string, or an object with a "text".')
    return value


def cost(source: Source, texts: Sequence[str], edits: Edits = Edits()) -> Estimate:
    """Estimated time and memory to run those of the texts that can be read."""
    runs = []
    sentences = sorted(filter(None, cut(source, texts)[0]), key=lambda sentence: sentence.length)
    while sentences:
        count = _fitting(sentences)
        runs.append((count, sentences[count - 1].length))
        sentences = sentences[count:]
    return of_texts(source, runs, edits)


def cut(source: Source, texts: Sequence[str]) -> tuple[list[Sentence | None], dict[int, str]]:
    """The tokens of each text, and why a text has none, by its index: it is too long, or holds nothing to read."""
    try:
        return list(source.tokenize(list(texts))), {}
    except AttnvizError:
        pass
    sentences, wrong = [], {}
    for i, text in enumerate(texts):
        try:
            sentences.append(source.tokenize([text])[0])
        except AttnvizError as error:
            sentences.append(None)
            wrong[i] = str(error)
    try:  # together they are padded, and can be run together
        good = iter(source.tokenize([text for text, sentence in zip(texts, sentences, strict=True) if sentence]))
        return [sentence and next(good) for sentence in sentences], wrong
    except AttnvizError:
        return sentences, wrong


def runs(
    source: Source,
    sentences: Sequence[Sentence | None],
    edits: Edits = Edits(),
    failed: Callable[[int, AttnvizError], None] | None = None,
) -> Iterator[tuple[list[int], Record]]:
    """Runs over texts of about the same length, so that there is little padding: which texts, and the record.

    Args:
        sentences: padded to one length, or those that were not are run with others of their length; None is left out.
        failed: takes the index of a text that the model does not run, even alone, and why; without it that is raised.
    """
    order = sorted((i for i, sentence in enumerate(sentences) if sentence), key=lambda i: sentences[i].length)
    most = len(order)
    while order:
        some = order[: _fitting([sentences[i] for i in order[:most]])]
        longest = sentences[some[-1]].length
        batch = tuple(replace(sentences[i], tokens=sentences[i].tokens[:longest]) for i in some)
        try:
            record = source.run(batch, edits)
        except Canceled:
            raise
        except AttnvizError as error:
            if len(some) > 1:
                most = len(some) // 2  # some models take fewer sentences at once, or one: as one without padding
                continue
            if failed is None:
                raise
            failed(some[0], error)
        else:
            yield some, record
        order = order[len(some) :]


def _fitting(sentences: list[Sentence]) -> int:
    """How many of them, the shortest first, fit into one run: at least one."""
    padded = len(sentences[0].tokens)
    for count, sentence in enumerate(sentences, 1):
        padded = min(padded, len(sentence.tokens))
        if count > 1 and (count * sentence.length > TOKENS or padded < sentence.length):
            return count - 1
    return len(sentences)


def is_typical(value: float, mean: float, spread: float) -> bool:
    """Whether a number is like that of most texts: within two standard deviations of their mean, or 0.0005."""
    return abs(value - mean) <= max(2 * spread, 5e-4)
