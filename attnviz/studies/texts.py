"""Many texts: read from a file, tokenized, and run in batches with little padding."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from attnviz.core import assets
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, Canceled, InputError
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate, of_texts

TOKENS = 2048
"""Maximum number of tokens in one batch, including padding."""
MOST_TEXTS, MOST_BYTES = 1000, 1_000_000
"""Maximum size of a file of texts, in lines and in bytes."""


def shipped(source: Source) -> tuple[str, ...]:
    """Return the fifty texts that attnviz has for a model: texts that it was not trained on, or English sentences."""
    file = assets.path(f"texts/{source.id}.txt")
    has_texts = file.is_file() and source.card
    return lines((file if has_texts else assets.path("texts/english.txt")).read_bytes())


def lines(data: bytes) -> tuple[str, ...]:
    """Split the bytes of a file into texts, one per line.

    Raises:
        InputError: if the file is too large, not UTF-8, empty, or has too many lines.
    """
    if len(data) > MOST_BYTES:
        raise InputError(f"The file has {len(data):,} bytes; at most {MOST_BYTES:,} are read.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"Byte {error.start:,} of the file is not UTF-8; save it as UTF-8 text.") from None
    texts = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not 0 < len(texts) <= MOST_TEXTS:
        raise InputError(f"The file has {len(texts):,} lines with text; 1 to {MOST_TEXTS:,} are read, each as a text.")
    return texts


def of_json(line: str) -> str:
    """Return the text of a line of JSON: a string, or the "text" of an object.

    Raises:
        InputError: if the line has no text.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError("This line is not valid JSON.") from None
    value = value.get("text") if isinstance(value, dict) else value
    if not isinstance(value, str):
        raise InputError('This line has no text: give a string, or an object with a "text".')
    return value


def cost(source: Source, texts: Sequence[str], edits: Edits = Edits()) -> Estimate:
    """Estimate time and memory to run all texts that can be tokenized."""
    batches = []  # (number of texts, length of the longest)
    sentences = sorted(filter(None, tokenize(source, texts)[0]), key=lambda sentence: sentence.length)
    while sentences:
        count = _batch_size(sentences)
        batches.append((count, sentences[count - 1].length))
        sentences = sentences[count:]
    return of_texts(source, batches, edits)


def tokenize(source: Source, texts: Sequence[str]) -> tuple[list[Sentence | None], dict[int, str]]:
    """Tokenize each text, padded to one length if the model can pad.

    Returns:
        The sentences, with None for a text that cannot be tokenized; and the errors of these texts, by index.
    """
    with suppress(AttnvizError):
        return list(source.tokenize(list(texts))), {}
    sentences, errors = [], {}
    for i, text in enumerate(texts):
        try:
            sentences.append(source.tokenize([text])[0])
        except AttnvizError as error:
            sentences.append(None)
            errors[i] = str(error)
    valid = [i for i in range(len(texts)) if i not in errors]
    with suppress(AttnvizError):  # tokenize valid texts as a batch: with the same padding, they can be run together
        for i, sentence in zip(valid, source.tokenize([texts[i] for i in valid]), strict=True):
            sentences[i] = sentence
    return sentences, errors


def runs(
    source: Source,
    sentences: Sequence[Sentence | None],
    edits: Edits = Edits(),
    failed: Callable[[int, AttnvizError], None] | None = None,
) -> Iterator[tuple[list[int], Record]]:
    """Run texts in batches of similar length, which need little padding; yield the indices of a batch and its record.

    Args:
        sentences: result of `tokenize`; None is left out. If they are not padded, a batch has texts of equal length.
        failed: callback with the index of a text that fails even alone, and the error; None to raise the error.
    """
    order = sorted((i for i, sentence in enumerate(sentences) if sentence), key=lambda i: sentences[i].length)
    largest_batch = len(order)
    while order:
        indices = order[: _batch_size([sentences[i] for i in order[:largest_batch]])]
        longest = sentences[indices[-1]].length
        batch = tuple(replace(sentences[i], tokens=sentences[i].tokens[:longest]) for i in indices)
        try:
            record = source.run(batch, edits)
        except Canceled:
            raise
        except AttnvizError as error:
            if len(indices) > 1:
                largest_batch = len(indices) // 2  # some models take fewer sentences at once, or one if they cannot pad
                continue
            if failed is None:
                raise
            failed(indices[0], error)
        else:
            yield indices, record
        order = order[len(indices) :]


def _batch_size(sentences: list[Sentence]) -> int:
    """Count how many of the shortest sentences fit into one batch, at least one; `sentences` are sorted by length."""
    padded_length = len(sentences[0].tokens)
    for count, sentence in enumerate(sentences, 1):
        padded_length = min(padded_length, len(sentence.tokens))
        if count > 1 and (count * sentence.length > TOKENS or padded_length < sentence.length):
            return count - 1
    return len(sentences)
