"""Sentences for models that cannot be found, loaded or run."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from attnviz.core.errors import AttnvizError, quoted


def name(value: object) -> str:
    """Quote a name for a message, in at most 120 characters."""
    return quoted(value, 120)


def first(error: BaseException) -> str:
    """Beginning of a library's error message, as one line of about 200 characters that ends with a period."""
    text = f"it lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split()) or type(error).__name__
    return (text if len(text) <= 200 else f"{text[:200]}…").rstrip(".") + "."


@contextmanager
def unforeseen(model: str, what: str = "run") -> Iterator[None]:
    """Context manager that turns an unexpected error into an AttnvizError to report, and logs the traceback.

    Args:
        what: end of "The model cannot be ...".
    """
    try:
        yield
    except AttnvizError:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        logging.getLogger(__name__).error("%s cannot be %s.", name(model), what, exc_info=error)
        if of_memory(error):
            why = "needs more memory than is free here. Shorten the text, or free some memory"
            raise AttnvizError(f"{name(model)} {why}.") from error
        import torch
        import transformers

        from attnviz import __version__

        versions = f"attnviz {__version__}, transformers {transformers.__version__}, torch {torch.__version__}"
        short = f"{type(error).__name__}, {first(error).rstrip('.')}"
        sentence = f"{name(model)} cannot be {what}: {short} ({versions}). Please send us this sentence."
        raise AttnvizError(sentence) from error


def is_failure(error: BaseException) -> bool:
    """Whether an error is a failure, not an interrupt; panics in Rust code of tokenizers do not inherit Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short, on the processor or on a GPU."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)
