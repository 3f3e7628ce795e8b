"""Error messages for problems when a model is found, downloaded, loaded or run."""

import logging
import os
import platform
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from attnviz.core.errors import AttnvizError, InputError, quoted


def name(value: object) -> str:
    return quoted(value, 120)


def first(error: BaseException) -> str:
    """Beginning of a library's error message, in one line of at most 200 characters that ends with a period."""
    text = f"it lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split()) or type(error).__name__
    return (text if len(text) <= 200 else f"{text[:200]}…").rstrip(".") + "."


@contextmanager
def unforeseen(model: str, what: str = "run") -> Iterator[None]:
    """Turn unexpected errors of a library into one sentence that a user can report, and log the traceback.

    Raises:
        AttnvizError: for such an error, with the model, the error and the versions. An AttnvizError passes unchanged.
    """
    try:
        yield
    except AttnvizError:
        raise
    except BaseException as error:  # a tokenizer written in Rust panics past Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        logging.getLogger(__name__).error("%s cannot be %s.", name(model), what, exc_info=error)
        sentence = f"{name(model)} needs more memory than is free here. Shorten the text, or free some memory."
        if not of_memory(error):
            short = f"{type(error).__name__}, {first(error).rstrip('.')}"
            sentence = f"{name(model)} cannot be {what}: {short} ({_versions()}). Please send us this sentence."
        raise AttnvizError(sentence) from error


def of_memory(error: BaseException) -> bool:
    """Whether an error reports too little memory."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)


def _versions() -> str:
    from attnviz import __version__

    versions = [f"attnviz {__version__}"]
    for package in ("transformers", "tokenizers", "torch"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*versions, f"Python {platform.python_version()}"])


def hub() -> str:
    """Host and port of HF_ENDPOINT, without a user name or a password in it."""
    url = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        return (url.hostname or "?") + (f":{url.port}" if url.port else "")
    except ValueError:
        return url.hostname or "?"


def need_transformers() -> None:
    """Check that the libraries for models of Hugging Face are installed.

    Raises:
        AttnvizError: if they are not installed.
    """
    if not all(map(find_spec, ("transformers", "huggingface_hub"))):
        what = "Models of Hugging Face and 'shapes' need transformers, which is not installed here"
        raise AttnvizError(f"{what}: pip install 'attnviz[huggingface]'.")


def refusal(word: str, model: str, revision: str | None, detail: object = None) -> AttnvizError:
    """Make the error for a problem with a hub; `word` is the key of its sentence in faults.toml."""
    sentence = _sentences().get(word, _sentences()["other"])
    fields = {"what": name(model), "at": hub(), "revision": name(revision), "host": name(detail)}
    wrong = word in ("gated", "missing", "revision", "file", "no name", "token")
    return (InputError if wrong else AttnvizError)(sentence.format(**fields, detail=detail or word))


@cache
def _sentences() -> dict[str, str]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
