"""The models that were asked for last."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from threading import Lock

from attnviz.sources.huggingface.hub import Progress
from attnviz.sources.huggingface.loading import Loaded

Report = Callable[[Progress], bool | None]


class Kept:
    """Loads models by their names, each once: who asks for one that is being loaded waits for it.

    Args:
        load: is given a name, and what to tell how far a download is.
        most: how many are kept; before another one is loaded, the one that was not asked for the longest is let go.
    """

    def __init__(self, load: Callable[[str, Report], Loaded], most: int):
        self._load, self._most = load, most
        self._models: OrderedDict[str, Loaded] = OrderedDict()
        self._loading: defaultdict[str, Lock] = defaultdict(Lock)
        self._lock = Lock()

    def __call__(self, name: str, report: Report = lambda progress: None) -> Loaded:
        if found := self._found(name):
            return found
        with self._lock:
            alone = self._loading[name]
        with alone:
            if found := self._found(name):
                return found
            with self._lock:
                while len(self._models) >= self._most:
                    self._models.popitem(last=False)
            loaded = self._load(name, report)
            with self._lock:
                self._models[name] = loaded
            return loaded

    def cache_clear(self) -> None:
        """Let go of all."""
        with self._lock:
            self._models.clear()

    def _found(self, name: str) -> Loaded | None:
        with self._lock:
            if name in self._models:
                self._models.move_to_end(name)
            return self._models.get(name)
