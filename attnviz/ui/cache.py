"""Shared cache of sources, tokens, records and results, for all sessions; its values are immutable.

Its size in bytes is limited. All values that outlive one run of a page are here. A value that several sessions need at
once is computed once.
"""

import sys
import weakref
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from threading import Event
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from attnviz import api
from attnviz.analysis.align import AlignedPair, Side
from attnviz.analysis.heads import head_metrics as head_metrics_of
from attnviz.analysis.relevance import WordLogit
from attnviz.charts.marks import Table
from attnviz.core import progress
from attnviz.core.cache import BoundedCache
from attnviz.core.edits import Site
from attnviz.core.errors import InputError, TooLong
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.stream import Origin
from attnviz.core.tokens import Sentence
from attnviz.figures import Figure
from attnviz.figures.attribution import Traced
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.sources.saved import Saved
from attnviz.ui import budget, cores, readout, runs
from attnviz.ui.readout import CellNumbers

P, R = ParamSpec("P"), TypeVar("R")


def size_of(value: Any) -> int:
    """Bytes of a value: its `nbytes` if it has this attribute, else the sum over its fields or items."""
    if isinstance(value, pd.DataFrame):
        return int(value.memory_usage(deep=True).sum())
    if hasattr(value, "nbytes"):
        return value.nbytes
    if isinstance(value, Source):  # its weights are counted with the models
        return sys.getsizeof(value)
    items: Iterable[Any] = ()
    if isinstance(value, dict):
        items = (*value, *value.values())
    elif is_dataclass(value):
        items = tuple(getattr(value, field.name) for field in fields(value))
    elif isinstance(value, tuple | list | frozenset | set):
        items = value
    return sys.getsizeof(value) + sum(map(size_of, items))


SHARED: BoundedCache = BoundedCache(int(1e9 * budget.USUAL[budget.GIGABYTES]), size_of)
"""The cache of all sessions; its limit in bytes is that of one run."""


def cached(make: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its results are cached by its arguments.

    The key has weak references to records, their gradients and saved runs, so that the cache does not keep them alive.
    """

    @wraps(make)
    def get(*args: P.args, **kwargs: P.kwargs) -> R:
        return SHARED.get(_key(make, args, kwargs), partial(make, *args, **kwargs))

    return get


def _key(make: Callable, args: tuple, kwargs: dict[str, object]) -> tuple:
    """Build the key of a call: the function's name and its arguments."""
    named = ((name, _key_part(value)) for name, value in kwargs.items())
    return (make.__module__, make.__qualname__, *map(_key_part, args), *named)


def _key_part(argument: object) -> object:
    """Convert an argument of a call to a hashable value, with weak references to records and other large values.

    An object that is computed from a record, such as an aligned pair of maps, is identified by its inputs.
    """
    if isinstance(argument, slice):  # not hashable before Python 3.12
        return slice, argument.start, argument.stop, argument.step
    if isinstance(argument, tuple | list):
        return tuple(map(_key_part, argument))
    if isinstance(argument, AlignedPair):
        return _key_part((argument.a, argument.b, argument.window))
    if isinstance(argument, Side):
        return _key_part((argument.record, argument.site, argument.head, argument.sentence))
    if isinstance(argument, Traced):
        return _key_part((argument.record, argument.layer)), weakref.ref(argument.mixed, _flag_dead_key)
    if isinstance(argument, np.ndarray):
        return argument.shape, argument.tobytes()
    if isinstance(argument, pd.DataFrame):
        return tuple(argument), pd.util.hash_pandas_object(argument).to_numpy().tobytes()
    is_large = isinstance(argument, Record | Saved | WordLogit)
    return weakref.ref(argument, _flag_dead_key) if is_large else argument


_has_dead_keys = Event()
"""Set if a record to which a key refers was deleted since the last search for such keys, which takes time."""


def _flag_dead_key(reference: weakref.ref, flag: Event = _has_dead_keys) -> None:
    """Note that a referenced value was deleted; the flag is an argument, as at exit the module's globals are gone."""
    flag.set()


def drop_dead_keys() -> None:
    """Drop cached values whose keys refer to deleted records, because they cannot be requested again."""
    while _has_dead_keys.is_set():  # a dropped value may have held the last reference to another record
        _has_dead_keys.clear()
        SHARED.drop(_is_dead)


def _is_dead(key: object) -> bool:
    """Whether a key or a part of it refers to a deleted value."""
    if isinstance(key, tuple):
        return any(map(_is_dead, key))
    return isinstance(key, weakref.ref) and key() is None


MOST_CHARACTERS, MOST_SENTENCES = 2_000_000, 32
"""Maximum number of characters of the typed text, and of texts that it is split into."""


def source(name: str, step: int | None = None) -> Source:
    """Load a source by its name, with its card and vocabulary; a model of this process has its current weights.

    Raises:
        AttnvizError: if a file is missing or damaged; the message names it.
    """
    return api.load(name) if name in api.OFFERED else _load_shipped(name, step)


@cached
def _load_shipped(name: str, step: int | None) -> Source:
    """Load a shipped model, at a training step if given, and read its card and vocabulary now, so that errors show."""
    loaded = api.load(name) if step is None else api.load(name, step=step)
    _ = loaded.card  # read from its file at the first access
    loaded.unknown(["a"])  # reads the vocabulary
    return loaded


def texts(typed: str, *, by_line: bool) -> tuple[str, ...]:
    """Split the typed text into one text per line, skipping empty lines, or return it as one text.

    Raises:
        InputError: if there is no text, or more than a page takes.
    """
    check_characters(typed)
    parts = typed.splitlines() if by_line else [typed]
    lines = tuple(line for line in parts if line.strip())
    if not lines:
        raise InputError("There is no text yet. Type a sentence above, or choose an example.")
    if len(lines) > MOST_SENTENCES:
        raise InputError(
            f"There are {len(lines):,} lines, and each is a text of its own; a page takes up to {MOST_SENTENCES}. "
            "Remove or join lines."
        )
    return lines


def check_characters(text: str) -> None:
    """Raise InputError if a text has more than MOST_CHARACTERS characters."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"The text has {len(text):,} characters; a page takes up to {MOST_CHARACTERS:,}. Shorten it, or use "
            "attnviz from Python, where there is no such limit."
        )


def sentences(source: Source, request: Request) -> tuple[Sentence, ...]:
    """Tokenize the texts of a request, cached; raise OverBudget if a run on them exceeds this server's limits."""
    return _sentences(source, replace(request.prompt, answer=request.answer))


@cached
def _sentences(source: Source, request: Request) -> tuple[Sentence, ...]:
    """Tokenize the texts of a request; an answer is a list of ids, which are appended to the tokens of the text."""
    if request.answer:
        (prompt,) = _sentences(source, request.prompt)
        tokenized = (source.continued(prompt, request.answer),)
    else:
        tokenized = source.sentences(request)
    if not source.one_run:  # the size of a saved run was checked when it was opened
        budget.check(source, tokenized)
    return tokenized


def targets(source: Source, request: Request) -> tuple[Sentence, ...]:
    """Tokens of the targets for the decoder; empty if the decoder reads the model's own output."""
    return _targets(source, request.targets) if request.targets else ()


@cached
def _targets(source: Source, texts: tuple[str, ...]) -> tuple[Sentence, ...]:
    """Tokenize the targets; for a too long one raise InputError: with TooLong, the page would shorten the text."""
    try:
        return source.tokenize_targets([*texts])
    except TooLong as error:
        raise InputError(f"Target: {error}") from None


_used: weakref.WeakValueDictionary[tuple, Record] = weakref.WeakValueDictionary()
"""Records that a page still uses, even after the cache has dropped them, so that they are not computed again."""

_source_of_record: weakref.WeakKeyDictionary[Record, object] = weakref.WeakKeyDictionary()
"""The source of each record, as `_key_part` gives it."""


def record(source: Source, request: Request) -> Record:
    """Run a source on a request and return the record, cached.

    Raises:
        Waiting: if the run takes longer than a page may wait.
        OverBudget: if the run exceeds this server's limits.
    """
    key = "record", _key_part(source), request
    cost = budget.check(source, sentences(source, request), request.edits)
    make = partial(SHARED.get, key, partial(_run, key, source, request))
    is_computed = key in SHARED or key in _used
    if is_computed or cost.seconds < budget.SHORT_RUN:
        return make()
    return runs.wait_for(key, make, runs.About(cost, tuple(map(source.site_name, source.sites))))


def source_of(record: Record) -> Source:
    """Return the source of a record that a page shows, for Python code that reproduces the record.

    Raises:
        LookupError: if no page shows the record.
    """
    source = _source_of_record[record]
    return source() if isinstance(source, weakref.ref) else source


def _with_request(source: Source, request: Request | None, record: Record) -> Record:
    """Copy a record, add its request, and remember its source for `source_of`."""
    result = replace(record, request=request)
    _source_of_record[result] = _key_part(source)
    return result


def _run(key: tuple, source: Source, request: Request) -> Record:
    """Run a source on a request, after freeing memory for the record; a record still in use is not computed again."""
    if (result := _used.get(key)) is None:
        tokenized, edits = sentences(source, request), request.edits
        cost = budget.cost(source, tokenized, edits)
        budget.check_memory(cost.bytes, _drop_all)
        SHARED.reserve(key, cost.record_bytes)
        with cores.used_by(source):
            result = _with_request(source, request, source.run(tokenized, edits, targets(source, request)))
        _used[key] = result
    return result


def _drop_all() -> None:
    """Empty the cache."""
    SHARED.free(SHARED.bytes)


def with_stream(source: Source, record: Record) -> Record:
    """Return the record with its residual stream, which a second run computes.

    Raises:
        InputError: if the model has no residual stream to show.
        Waiting, OverBudget: as in `result_of`.
    """
    cost = budget.cost(source, record.sentences, record.edits)
    names = tuple(map(source.site_name, source.sites))
    return result_of(_with_stream, source, record, cost=cost, runs_model=source, names=names)


def _with_stream(source: Source, record: Record) -> Record:
    return _with_request(source, record.request, source.with_stream(record))


def call_origin(source: Source, record: Record, site: Site) -> Origin | None:
    """Return the input from which an attention call projects Q, K and V; this runs all calls before it again.

    Raises:
        Waiting, OverBudget: as in `result_of`.
    """
    earlier_sites = source.sites[: source.sites.index(site)]
    whole_run = budget.cost(source, record.sentences, record.edits)
    cost = replace(whole_run, seconds=whole_run.seconds * len(earlier_sites) / len(source.sites))
    names = (*map(source.site_name, earlier_sites), "this call")  # shown with the progress
    return result_of(_call_origin, source, record, site, cost=cost, runs_model=source, names=names)


def _call_origin(source: Source, record: Record, site: Site) -> Origin | None:
    return source.origin(record, site)


@cached
def unknown(source: Source, texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Find the words that a source does not know, each with the known words of the most similar spelling."""
    return source.unknown([*texts])


head_metrics = cached(head_metrics_of)
"""Metrics of every head."""


def result_of(
    make: Callable[..., R],
    *args,
    cost: Estimate,
    runs_model: Source | None = None,
    names: tuple[str, ...] = (),
    unit: str = "",
    count: int = 0,
    writes: bool = False,
    **settings,
) -> R:
    """Return the result of a function, cached by its arguments as in `cached`; long work becomes a job with progress.

    Args:
        runs_model: model that the function runs, on all cores if it is large.
        names: names of the attention calls that the function runs, for its progress.
        unit: unit of the progress if the function counts neither attention calls nor maps, such as "heads".
        count: number of these units, for a function that reports its progress to its argument `report`.
        writes: whether the function generates text.

    Raises:
        Waiting: if the work takes longer than a page may wait.
        OverBudget: if the work exceeds this server's limits.
    """

    def compute() -> R:
        with cores.used_by(runs_model):
            if not count:
                return make(*args, **settings)
            with progress.count_items(count) as report:
                return make(*args, **settings, report=report)

    return _compute(_key(make, args, settings), compute, runs.About(cost, names, unit, writes))


def _compute(key: tuple, make: Callable[[], R], about: runs.About) -> R:
    """Return a cached value, or else compute it: here if it is quick or its cost is not known, otherwise in a job."""
    cost = about.cost
    if cost is None or key in SHARED:
        return SHARED.get(key, make)
    if cost.seconds < budget.SHORT_DRAWING and not about.unit:
        budget.check_memory(0, _drop_all)  # 0 bytes: small maps need far less memory than estimated
        return SHARED.get(key, make)
    budget.check_memory(cost.bytes, _drop_all)
    budget.check_work(cost)
    return runs.wait_for(key, partial(SHARED.get, key, make), about, seconds=runs.PICTURE_WAIT)


# Tables in Arrow format, as the browser gets them; Streamlit's own conversion by pandas took a third of a click

CELLS: weakref.WeakValueDictionary[str, CellNumbers] = weakref.WeakValueDictionary()
"""Cell values of cached charts, by the address at which a browser requests them."""


class Screen(NamedTuple):
    """Chart specification with its tables in Arrow, its data table, and the cell values that a browser requests."""

    spec: dict[str, Any]
    data: pa.Table | None
    cells: CellNumbers | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the tables; the rest of the specification is shared by all figures of the same form."""
        tables = self.spec.get("datasets", {}).values()
        return sum(map(len, tables)) + sum(part.nbytes for part in (self.data, self.cells) if part is not None)

    @classmethod
    def of(cls, spec: dict[str, Any], data: Table | None) -> "Screen":
        """Convert the output of `readout.screen` to Arrow, and the `CellNumbers` of a large map to their address."""
        if data is None:
            return cls(spec | {"datasets": {name: _bytes(table) for name, table in spec["datasets"].items()}}, None)
        (cells,) = [cells for cells in data["numbers"] if cells is not None]  # in one line of the table
        address = f"cells/{cells.name}.json"
        cells = CELLS.setdefault(address, cells)
        addresses = [None if numbers is None else address for numbers in data["numbers"]]
        return cls(spec, pa.table(data | {"numbers": addresses}), cells)


def _bytes(table: Table | bytes) -> bytes:
    """Convert the columns of a table to an Arrow stream; bytes are such a stream already."""
    if isinstance(table, bytes):
        return table
    arrow, sink = pa.table(table), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow.schema) as stream:
        stream.write_table(arrow)
    return sink.getvalue().to_pybytes()


def screen(figure: Figure) -> Screen:
    """Return the chart of a figure, cached by the fields of the figure.

    Raises:
        Waiting: if drawing takes longer than a page may wait.
        OverBudget: if drawing exceeds this server's limits.
    """
    key = _figure_key(figure)

    def render() -> Screen:
        rendered = Screen.of(*readout.screen(figure))
        if figure.cost is not None:  # the description also needs the whole map, and is cheap once its tiles are there
            description(figure)
        return rendered

    return _compute(("screen", *key), render, runs.About(figure.cost))


def description(figure: Figure) -> str:
    """Return the description of a figure in words, cached in the same way as its chart."""
    return SHARED.get(("description", *_figure_key(figure)), lambda: figure.description)


def _figure_key(figure: Figure) -> tuple:
    """Build the key of a figure from the function and the arguments that make it, without its estimated cost."""
    args, kwargs = figure.arguments
    return _key(figure.maker, args, {name: value for name, value in kwargs.items() if name != "cost"})
