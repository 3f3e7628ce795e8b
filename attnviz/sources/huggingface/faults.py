"""Words for what goes wrong between a name and a model."""

import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from urllib.parse import urlsplit

from attnviz.core.errors import AttnvizError, InputError, quoted

INSTALL = "pip install 'transformers>=5.23,<6'"


def name(value: object) -> str:
    return quoted(value, 120)


def first(error: BaseException) -> str:
    """The beginning of what a library says, in one line, as the end of a sentence."""
    text = f"it lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split()) or type(error).__name__
    return (text if len(text) <= 200 else f"{text[:200]}…").rstrip(".") + "."


@contextmanager
def unforeseen(model: str, what: str = "run") -> Iterator[None]:
    """Whatever a library raises in here becomes one sentence, which says what to send us.

    Raises:
        AttnvizError: names the model, what went wrong and the versions; one of ours passes as it is.
    """
    try:
        yield
    except AttnvizError:
        raise
    except BaseException as error:  # a tokenizer written in Rust panics past Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise fault(model, what, error) from error


def fault(model: str, what: str, error: BaseException) -> AttnvizError:
    """One sentence for an error that nobody foresaw; the log gets its traceback."""
    logging.getLogger(__name__).error("%s cannot be %s.", name(model), what, exc_info=error)
    if isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error):
        return AttnvizError(
            f"{name(model)} needs more memory than is free here. Shorten the text, or free some memory."
        )
    short = f"{type(error).__name__}, {first(error).rstrip('.')}"
    return AttnvizError(f"{name(model)} cannot be {what}: {short} ({_versions()}). Please send us this sentence.")


def _versions() -> str:
    from attnviz import __version__

    found = [f"attnviz {__version__}"]
    for package in ("transformers", "tokenizers", "torch"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*found, f"Python {platform.python_version()}"])


def hub() -> str:
    """The host that HF_ENDPOINT names, without what a person may have written before it."""
    url = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        return (url.hostname or "?") + (f":{url.port}" if url.port else "")
    except ValueError:
        return url.hostname or "?"


def need_transformers() -> None:
    """Hugging Face models need libraries that attnviz does not.

    Raises:
        AttnvizError: if they are not installed.
    """
    if not all(map(find_spec, ("transformers", "huggingface_hub"))):
        raise AttnvizError(f"Models of Hugging Face need transformers, which is not installed here: {INSTALL}")


def refusal(word: str, model: str, revision: str | None, detail: object = None) -> AttnvizError:
    """One sentence for each word of `fetch.fault`, and for a hub that is too slow."""
    what, at = name(model), hub()
    sentences = {
        "gated": f"{what} is gated: its owners let in only people they know. Ask for access on its page at {at}, then "
        "set HF_TOKEN to your token.",
        "missing": f"There is no model {what} at {at}, or it is private. Check its spelling; for a private one set "
        "HF_TOKEN to your token.",
        "revision": f"{what} has no revision {name(revision)}. Leave it out, or take a branch, tag or commit that "
        "its page lists.",
        "disabled": f"{what} has been disabled at {at}; choose another model.",
        "file": f"{what} has no config.json at {at}: it is not a model of transformers. Choose another.",
        "no name": f"{what} is no name of a model; names look like 'gpt2' or 'google-bert/bert-base-uncased'.",
        "token": f"{at} does not give {what} for the token in HF_TOKEN; set a valid one, or none for public models.",
        "busy": f"{at} gets too many requests from here to answer about {what}; try again in some minutes.",
        "offline": f"{what} is not on this machine, and HF_HUB_OFFLINE forbids to ask {at}. Unset it or give a folder.",
        "unreachable": f"{what} is not on this machine, and {at} cannot be reached. Connect, or give a folder.",
        "slow": f"{at} does not answer: no word about {what} in {detail} seconds. Try again later, or give a folder.",
        "stalled": f"{at} sent less than 64 kB of {what} in {detail} seconds. Try again later; files that are whole "
        "are kept.",
        "late": f"{at} is too slow: of {what} only {detail} came in the time for all of it. Try again; files that are "
        "whole are kept.",
        "status": f"{at} answers with error {detail} when asked for {what}. Try again later.",
        "elsewhere": f"{at} sends us to another host, {name(detail)}, for {what}; that is not followed. "
        "Check HF_ENDPOINT.",
        "disk": f"The files of {what} cannot be written to the cache: the disk is full or not ours. Free some, or set "
        "HF_HOME to another folder.",
        "broken": f"{at} broke off in the middle of {what}. Try again; files that are whole are kept.",
        "more": f"{at} sends more of {what} than it announced, {detail}; this is not a model to trust.",
        "moved": f"{what} changed at {at} while it was fetched. Try again.",
        "ended": f"The process that asks {at} for {what} ended without a word. Try again.",
    }
    sentence = sentences.get(word, f"{what} could not be fetched from {at} ({detail or word}). Try again later.")
    wrong = word in ("gated", "missing", "revision", "disabled", "file", "no name", "token")
    return (InputError if wrong else AttnvizError)(sentence)
