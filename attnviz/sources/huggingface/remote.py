"""Ask a model hub what it has of a model, and fetch its files, by `huggingface_hub` in a thread beside the caller's.

A caller who has waited long enough, or cancels, goes on at once. The thread ends with its next bytes, or by the timeout
of `huggingface_hub` (HF_HUB_DOWNLOAD_TIMEOUT, 10 seconds).
"""

import errno
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attnviz.core.amounts import size
from attnviz.core.errors import AttnvizError
from attnviz.sources.huggingface import faults

SECONDS = 5.0
"""Seconds that a hub has to say what it has of a model."""
TICK = 0.2
"""Seconds between two signs of life of a download, at most."""
HOSTS = ("huggingface.co", "hf.co")
"""Hosts of the large files of the public hub, beside the one that HF_ENDPOINT names."""
SETTINGS = {"HF_HUB_DISABLE_TELEMETRY": True, "HF_HUB_DISABLE_XET": True, "DOWNLOAD_CHUNK_SIZE": 1 << 16}
"""Settings of `huggingface_hub` during a download: over HTTP alone, where redirects can be watched, in small parts."""


class RedirectError(Exception):
    """A redirect to a host that is no part of the hub."""

    def __init__(self, host: str):
        self.host = host


def probe(name: str, revision: str | None) -> dict[str, Any]:
    """The commit of a model, and its files with their sizes and digests, if this user may have them.

    Raises:
        AttnvizError: says why there is no answer within `SECONDS`.
    """

    def ask(say: Callable[[Any], None]) -> None:
        from huggingface_hub import HfApi, get_hf_file_metadata, get_token, hf_hub_url

        info = HfApi().model_info(name, revision=revision, timeout=SECONDS, files_metadata=True)
        files = [
            {"name": file.rfilename, "size": file.size, "digest": file.lfs.sha256 if file.lfs else file.blob_id}
            for file in info.siblings or []
        ]
        if any(file["name"] == "config.json" for file in files):  # everybody sees the list of a gated model's files
            url = hf_hub_url(name, "config.json", revision=info.sha)
            get_hf_file_metadata(url, token=get_token(), timeout=SECONDS)
        say({"commit": info.sha, "files": files})

    for message in _messages(ask, name, revision, SECONDS):
        if message is not None:
            return message
    raise faults.refusal("slow", name, revision)


def fetch(
    name: str, revision: str | None, commit: str, files: dict[str, int], cache: Path, check: Callable[[], object]
) -> Iterator[int]:
    """Fetch files, with the sizes they must have; gives how many bytes have come, at least five times a second.

    Closing the iterator ends the download, as does what `check` raises, which is called before the first weights come.

    Raises:
        AttnvizError: says why it ended before all was there.
    """
    weights = [file for file in files if file.endswith(".safetensors")]
    total, came = sum(files.values()), 0
    for part in ([file for file in files if file not in weights], weights):

        def take(say: Callable[[Any], None], part: list[str] = part) -> None:
            _download(name, revision, commit, part, cache, say)

        for message in _messages(take, name, revision):
            came += message or 0
            if came > total:
                raise faults.refusal("more", name, revision, size(total))
            yield came
        if part is not weights:
            check()


def _download(
    name: str, revision: str | None, commit: str, files: list[str], cache: Path, say: Callable[[int], None]
) -> None:
    """Fetch files of one commit into the cache, and say with each part how many bytes have come.

    At last config.json is asked for by its revision, so that the cache knows which commit that stands for.
    """
    from huggingface_hub import hf_hub_download
    from tqdm.auto import tqdm

    class ReportingBar(tqdm):
        def __init__(self, *args: Any, **settings: Any):
            super().__init__(*args, **settings | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            say(int(n or 0))

    for file in files:
        hf_hub_download(name, file, revision=commit, cache_dir=cache, etag_timeout=SECONDS, tqdm_class=ReportingBar)
    path = hf_hub_download(name, "config.json", revision=revision, cache_dir=cache, etag_timeout=SECONDS)
    if Path(path).parent.name != commit:
        raise faults.refusal("moved", name, revision)


class _Left(Exception):
    """Nobody waits for the thread any more."""


def _messages(
    work: Callable[[Callable[[Any], None]], None], name: str, revision: str | None, seconds: float = float("inf")
) -> Iterator[Any]:
    """Run work in a thread of its own; gives what it says until it ends or the seconds are over, and None while silent.

    Raises:
        AttnvizError: what `work` raises, as a sentence.
    """
    said: queue.Queue[tuple[bool, Any]] = queue.Queue()
    is_left = threading.Event()

    def say(message: Any) -> None:
        if is_left.is_set():
            raise _Left
        said.put((False, message))

    def run() -> None:
        try:
            with _at_the_hub():
                work(say)
            said.put((True, None))
        except Exception as error:
            said.put((True, error))

    threading.Thread(target=run, name="attnviz-hub", daemon=True).start()
    ends = time.monotonic() + seconds
    try:
        while time.monotonic() < ends:
            try:
                is_last, message = said.get(timeout=min(TICK, seconds))
            except queue.Empty:
                yield None
                continue
            if isinstance(message, AttnvizError):
                raise message
            if isinstance(message, Exception):
                raise faults.refusal(*_fault(message, name, revision)) from None  # the cause may hold secrets
            if is_last:
                return
            yield message
    finally:
        is_left.set()


@contextmanager
def _at_the_hub() -> Iterator[None]:
    """Let no redirect of this thread lead to a host that is not the hub's: neither into this network nor elsewhere."""
    from huggingface_hub import constants, get_session

    hub, thread = urlsplit(constants.ENDPOINT), threading.get_ident()

    def guard(request: Any) -> None:
        url = urlsplit(str(request.url))
        is_ours = (url.scheme, url.hostname, url.port) == (hub.scheme, hub.hostname, hub.port)
        is_public = url.scheme == "https" and any(f".{url.hostname}".endswith(f".{host}") for host in HOSTS)
        if threading.get_ident() == thread and not (is_ours or is_public):
            raise RedirectError(url.hostname or "")

    hooks = get_session().event_hooks["request"]
    with _LOCK:
        hooks.append(guard)
        if not _guards:
            _before.update({name: getattr(constants, name) for name in SETTINGS})
        _guards.append(guard)
        vars(constants).update(SETTINGS)
    try:
        yield
    finally:
        with _LOCK:
            hooks.remove(guard)
            _guards.remove(guard)
            if not _guards:
                vars(constants).update(_before)


_LOCK = threading.Lock()
_guards: list[Callable[[Any], None]] = []
"""Guards of the threads that ask now."""
_before: dict[str, Any] = {}
"""Settings of `huggingface_hub` before the first of them asked."""


def _fault(error: BaseException, name: str, revision: str | None) -> tuple[str, str, str | None, Any]:
    """Arguments of `faults.refusal` for an error: a word, and at most one number or host."""
    from huggingface_hub import errors, get_token

    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    kinds = {  # a gated repository counts as one that is not found: the order matters
        "elsewhere": RedirectError,
        "gated": errors.GatedRepoError,
        "revision": errors.RevisionNotFoundError,
        "missing": errors.RepositoryNotFoundError,
        "disabled": errors.DisabledRepoError,
        "file": errors.RemoteEntryNotFoundError,
        "no name": errors.HFValidationError,
        "offline": errors.OfflineModeIsEnabled,
    }
    for word, kind in kinds.items():
        if raised := next((raised for raised in chain if isinstance(raised, kind)), None):
            return word, name, revision, getattr(raised, "host", None)
    for raised in chain:
        kind = type(raised)
        if status := getattr(getattr(raised, "response", None), "status_code", None):
            words = {401: "token" if get_token() else "missing", 403: "gated", 404: "missing", 429: "busy"}
            return words.get(status, "status"), name, revision, status
        if isinstance(raised, OSError) and raised.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            return "disk", name, revision, None
        if kind.__name__ in ("RemoteProtocolError", "ReadError") or "Consistency check" in str(raised):
            return "broken", name, revision, None
        if kind.__module__.startswith("httpx"):
            return "slow" if kind.__name__ == "ReadTimeout" else "unreachable", name, revision, None
    return "other", name, revision, type(error).__name__
