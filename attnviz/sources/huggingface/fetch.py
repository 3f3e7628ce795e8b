"""Ask a model hub in a process of its own, which can be ended at any time: a job in, lines of JSON out.

Run by its path. It imports nothing of attnviz, and no line of it tells what an exception says: that may hold secrets.
"""

import errno
import json
import os
import sys
import threading
from typing import IO, Any
from urllib.parse import urlsplit

SECONDS = 5
CHUNK = 1 << 16
GO = threading.Event()
HOSTS = ("huggingface.co", "hf.co")
"""Hosts of the large files of the public hub, beside the one that HF_ENDPOINT names."""


class Elsewhere(Exception):
    """A redirect to a host that is no part of the hub."""

    def __init__(self, host: str):
        self.host = host


def probe(name: str, revision: str | None) -> dict[str, Any]:
    """The commit and the files of a model with their sizes and digests, and that this user may have them."""
    from huggingface_hub import HfApi, get_hf_file_metadata, get_token, hf_hub_url

    api = HfApi()
    info = api.model_info(name, revision=revision, timeout=SECONDS, files_metadata=True)
    files = [
        {"name": file.rfilename, "size": file.size, "digest": file.lfs.sha256 if file.lfs else file.blob_id}
        for file in info.siblings or []
    ]
    if any(file["name"] == "config.json" for file in files):  # of a gated model everybody sees the list, not the files
        get_hf_file_metadata(hf_hub_url(name, "config.json", revision=info.sha), token=get_token(), timeout=SECONDS)
    return {"commit": info.sha, "files": files}


def fetch(name: str, revision: str | None, commit: str, files: list[str], cache: str, say: Any) -> dict[str, Any]:
    """Fetch files of one commit into the cache, and tell after each 64 kB how many bytes have come.

    Before the first weights it waits for a line that says to go on.
    At last config.json is asked for by its revision, so that the cache knows which commit that stands for.
    """
    from huggingface_hub import constants, hf_hub_download
    from tqdm.auto import tqdm

    constants.DOWNLOAD_CHUNK_SIZE = CHUNK

    class ReportingBar(tqdm):
        def __init__(self, *args: Any, **settings: Any):
            super().__init__(*args, **settings | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            say(came=int(n or 0))

    has_waited = False
    for file in files:
        if file.endswith(".safetensors") and not has_waited:
            has_waited = True
            say(wait=True)
            GO.wait()
        hf_hub_download(name, file, revision=commit, cache_dir=cache, etag_timeout=SECONDS, tqdm_class=ReportingBar)
        say(file=file)
    path = hf_hub_download(name, "config.json", revision=revision, cache_dir=cache, etag_timeout=SECONDS)
    return {"commit": os.path.basename(os.path.dirname(path))}


def stay_at_the_hub() -> None:
    """Let no redirect lead to a host that is not the hub's: neither into this network nor anywhere else."""
    from huggingface_hub import constants, get_session, set_client_factory

    client, hub = get_session(), urlsplit(constants.ENDPOINT)
    hooks, make = client.event_hooks["request"], type(client)

    def guard(request: Any) -> None:
        url = urlsplit(str(request.url))
        ours = (url.scheme, url.hostname, url.port) == (hub.scheme, hub.hostname, hub.port)
        public = url.scheme == "https" and any(f".{url.hostname}".endswith(f".{host}") for host in HOSTS)
        if not (ours or public):
            raise Elsewhere(url.hostname or "")

    events = {"request": [*hooks, guard]}
    set_client_factory(lambda: make(event_hooks=events, follow_redirects=True, timeout=SECONDS))


def fault(error: BaseException) -> dict[str, Any]:
    """Kind of an error, in one word and at most one number or host."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    for raised in chain:
        if isinstance(raised, Elsewhere):
            return {"error": "elsewhere", "host": raised.host}
    message = _named(chain) or next(filter(None, map(_by_signs, chain)), None)
    return message or {"error": "other", "type": type(error).__name__}


def _named(chain: list[BaseException]) -> dict[str, Any] | None:
    """A fault for which the hub's library has a class."""
    from huggingface_hub import errors

    kinds = {  # a gated repository counts as one that is not found: the order matters
        "gated": errors.GatedRepoError,
        "revision": errors.RevisionNotFoundError,
        "missing": errors.RepositoryNotFoundError,
        "disabled": errors.DisabledRepoError,
        "file": errors.RemoteEntryNotFoundError,
        "no name": errors.HFValidationError,
        "offline": errors.OfflineModeIsEnabled,
    }
    for raised in chain:
        for word, kind in kinds.items():
            if isinstance(raised, kind):
                return {"error": word}
    return None


def _by_signs(error: BaseException) -> dict[str, Any] | None:
    """A fault that shows in a status, a number of the system, or a name."""
    from huggingface_hub import get_token

    if status := getattr(getattr(error, "response", None), "status_code", None):
        words = {401: "token" if get_token() else "missing", 403: "gated", 404: "missing", 429: "busy"}
        return {"error": words.get(status, "status"), "status": status}
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
        return {"error": "disk"}
    if type(error).__name__ in ("RemoteProtocolError", "ReadError") or "Consistency check" in str(error):
        return {"error": "broken"}
    return {"error": "unreachable"} if type(error).__module__.startswith("httpx") else None


def main(out: IO[str]) -> None:
    def say(**message: Any) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    job = json.loads(sys.stdin.readline())
    threading.Thread(target=listen, daemon=True).start()
    try:
        stay_at_the_hub()
        say(ready=True)
        say(**(probe(**job) if "files" not in job else fetch(**job, say=say)))
    except Exception as error:
        say(**fault(error))
    os._exit(0)  # whatever still waits for the hub


def listen() -> None:
    """A line says to go on; the end of all lines, that nobody waits for an answer any more."""
    while sys.stdin.readline():
        GO.set()
    os._exit(1)


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr
    main(out)
