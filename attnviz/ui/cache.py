"""Sources, tokens, records and what was computed of them: frozen, so that sessions share them, and bounded by bytes.

Whatever is kept for longer than a run of a page is kept here. What many ask for at once is computed once.
"""

import sys
import weakref
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pandas as pd

from attnviz import api
from attnviz.analysis.align import AlignedPair, Side
from attnviz.analysis.heads import head_metrics as head_metrics_of
from attnviz.analysis.relevance import WordLogit
from attnviz.core.cache import BoundedCache
from attnviz.core.edits import Site
from attnviz.core.errors import InputError, TooLong
from attnviz.core.origin import Origin
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.tokens import Sentence
from attnviz.figures import Figure
from attnviz.figures.attribution import Traced
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.sources.saved import Saved
from attnviz.ui import arrow, budget, cores, runs

P, R = ParamSpec("P"), TypeVar("R")


def size_of(value: Any) -> int:
    """Bytes of a value: records, texts, tensors, arrays and screens know theirs; others have those of their parts."""
    if isinstance(value, pd.DataFrame):
        return int(value.memory_usage(deep=True).sum())
    if hasattr(value, "nbytes"):
        return value.nbytes
    if isinstance(value, Source):  # its weights are kept where models are
        return sys.getsizeof(value)
    if isinstance(value, dict):
        value = (*value, *value.values())
    elif is_dataclass(value):
        value = tuple(getattr(value, field.name) for field in fields(value))
    parts = value if isinstance(value, tuple | list | frozenset | set) else ()
    return sys.getsizeof(value) + sum(map(size_of, parts))


SHARED: BoundedCache = BoundedCache(int(1e9 * budget.USUAL[budget.GIGABYTES]), size_of)
"""The one cache of all sessions: it keeps as many bytes as a run may take."""


def cached(make: Callable[P, R]) -> Callable[P, R]:
    """Cache the results of a function, by its arguments.

    A record in the arguments, gradients of it, or a source that is one, is known by a weak reference, and so not held
    by the key.
    """

    @wraps(make)
    def get(*args: P.args, **kwargs: P.kwargs) -> R:
        return SHARED.get(_key(make, args, kwargs), partial(make, *args, **kwargs))

    return get


def _key(make: Callable, args: tuple, kwargs: dict[str, object]) -> tuple:
    named = ((name, _key_part(value)) for name, value in kwargs.items())
    return (make.__module__, make.__qualname__, *map(_key_part, args), *named)


def _key_part(argument: object) -> object:
    if isinstance(argument, slice):  # not to be hashed before Python 3.12
        return slice, argument.start, argument.stop, argument.step
    if isinstance(argument, tuple | list):
        return tuple(map(_key_part, argument))
    if isinstance(argument, AlignedPair):  # what is measured of two maps follows from them
        return _key_part((argument.a, argument.b, argument.window))
    if isinstance(argument, Side):
        return _key_part((argument.record, argument.site, argument.head, argument.sentence))
    if isinstance(argument, Traced):
        return _key_part((argument.record, argument.layer)), weakref.ref(argument.mixed)
    if isinstance(argument, np.ndarray):
        return argument.shape, argument.tobytes()
    if isinstance(argument, pd.DataFrame):
        return tuple(argument), pd.util.hash_pandas_object(argument).to_numpy().tobytes()
    return weakref.ref(argument) if isinstance(argument, Record | Saved | WordLogit) else argument


def forget_the_dead() -> None:
    """Let go of what nobody can ask for again: it was made of records that are gone."""
    while SHARED.drop(_is_dead):  # a record that is let go of was perhaps the last to hold another
        pass


def _is_dead(key: object) -> bool:
    if isinstance(key, tuple):
        return any(map(_is_dead, key))
    return isinstance(key, weakref.ref) and key() is None


MOST_CHARACTERS = 2_000_000
MOST_SENTENCES = 32


def source(name: str, step: int | None = None) -> Source:
    """A source by its name, with its card and its words read; one of this process as its weights are now.

    Raises:
        AttnvizError: names the file that is missing or damaged.
    """
    return api.load(name) if name in api.OFFERED else _shipped(name, step)


@cached
def _shipped(name: str, step: int | None) -> Source:
    loaded = api.load(name) if step is None else api.load(name, step=step)
    loaded.card, loaded.unknown(["a"])  # what cannot be read is to be known now
    return loaded


class NoText(InputError):
    """Nothing is typed yet: no mistake, but nothing to look at."""


def texts(typed: str, *, by_line: bool) -> tuple[str, ...]:
    """A text with its line breaks, or one per line; empty lines are no texts.

    Raises:
        InputError: if there is too much or nothing to look at.
    """
    check_characters(typed)
    parts = typed.splitlines() if by_line else [typed]
    lines = tuple(line for line in parts if line.strip())
    if not lines:
        raise NoText("There is no text yet. Type a sentence above, or choose an example.")
    if len(lines) > MOST_SENTENCES:
        raise InputError(
            f"There are {len(lines):,} lines, and each is a text of its own; a page takes up to {MOST_SENTENCES}. Join "
            "some lines."
        )
    return lines


def check_characters(text: str) -> None:
    """Raises: InputError: if a text is longer than is cut into tokens here."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"The text has {len(text):,} characters; a page takes up to {MOST_CHARACTERS:,}. Shorten it, or use "
            "attnviz from Python, where there is no such limit."
        )


def sentences(source: Source, request: Request) -> tuple[Sentence, ...]:
    """The tokens of a request, cut once whatever is changed about the attention.

    Raises:
        OverBudget: if a run on them costs more than this server takes.
    """
    return _sentences(source, replace(request.prompt, answer=request.answer))


@cached
def _sentences(source: Source, request: Request) -> tuple[Sentence, ...]:
    if request.answer:
        cut = (source.continued(_sentences(source, request.prompt)[0], request.answer),)
    else:
        cut = source.sentences(request)
    if not source.one_run:  # who opened a run has looked at its size
        budget.check(source, cut)
    return cut


def targets(source: Source, request: Request) -> tuple[Sentence, ...]:
    """The tokens of what a decoder is to read; empty where it reads what the model writes."""
    return _targets(source, request.targets) if request.targets else ()


@cached
def _targets(source: Source, texts: tuple[str, ...]) -> tuple[Sentence, ...]:
    try:
        return source.tokenize_targets([*texts])
    except TooLong as error:  # no shorter text would help
        raise InputError(f"Target: {error}") from None


_used: weakref.WeakValueDictionary[tuple, Record] = weakref.WeakValueDictionary()
"""Records that the cache has let go of while a page still uses them: until then they need not be run again."""

_makers: weakref.WeakKeyDictionary[Record, object] = weakref.WeakKeyDictionary()
"""The source of each record, as `_key_part` gives it."""


def record(source: Source, request: Request) -> Record:
    """The run of a source on a request.

    Raises:
        Waiting: if it takes longer than a page may wait.
        OverBudget: if it costs more than this server takes.
    """
    key = "record", _key_part(source), request
    cost = budget.check(source, sentences(source, request), request.edits)
    make = partial(SHARED.get, key, partial(_run, key, source))
    if cost.seconds < budget.SILENT or key in SHARED or key in _used:
        return make()
    return runs.get(key, make, runs.About(cost, tuple(map(source.site_name, source.sites))))


def maker(record: Record) -> Source:
    """The source of a record that a page shows, for the code that makes it again.

    Raises:
        LookupError: if no page shows it.
    """
    source = _makers[record]
    return source() if isinstance(source, weakref.ref) else source


def _with_request(source: Source, request: Request | None, record: Record) -> Record:
    """A record that knows its request, and whose source is known."""
    result = replace(record, request=request)
    _makers[result] = _key_part(source)
    return result


def _run(key: tuple, source: Source) -> Record:
    """A record, with room made for it before."""
    request = key[-1]
    if (result := _used.get(key)) is None:
        read, edits = sentences(source, request), request.edits
        cost = budget.cost(source, read, edits)
        budget.check_memory(cost.bytes, _let_go_of_all)
        SHARED.reserve(key, cost.record_bytes)
        with cores.used_by(source):
            result = _with_request(source, request, source.run(read, edits, targets(source, request)))
        _used[key] = result
    return result


def _let_go_of_all() -> None:
    SHARED.let_go(SHARED.bytes)


def with_stream(source: Source, record: Record) -> Record:
    """A record with its residual stream, by another run; see `worked`.

    Raises:
        InputError: why there is none.
    """
    cost = budget.cost(source, record.sentences, record.edits)
    return worked(_with_stream, source, record, cost=cost, names=tuple(map(source.site_name, source.sites)))


def _with_stream(source: Source, record: Record) -> Record:
    with cores.used_by(source):
        return _with_request(source, record.request, source.with_stream(record))


def call_origin(source: Source, record: Record, site: Site) -> Origin | None:
    """Input that a call of a record was projected from: the calls before it are run again; see `worked`."""
    before = source.sites[: source.sites.index(site)]
    run = budget.cost(source, record.sentences, record.edits)
    cost = replace(run, seconds=run.seconds * len(before) / len(source.sites))
    return worked(_call_origin, source, record, site, cost=cost, names=(*map(source.site_name, before), "this call"))


def _call_origin(source: Source, record: Record, site: Site) -> Origin | None:
    with cores.used_by(source):
        return source.origin(record, site)


@cached
def unknown(source: Source, texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The words that the source does not know, each with those it knows that are spelled most like it."""
    return source.unknown([*texts])


head_metrics = cached(head_metrics_of)
"""The numbers of every head."""


def worked(
    make: Callable[..., R],
    *args,
    cost: Estimate,
    names: tuple[str, ...] = (),
    unit: str = "",
    writes: bool = False,
    **settings,
) -> R:
    """Result of a function, cached by its arguments as `cached` does; a long one shows its progress.

    Args:
        names: of the attention calls that it runs, if it goes through no maps.
        unit: what it counts as `core.progress.counted`, if neither is what takes long.
        writes: whether it writes a text.

    Raises:
        Waiting: if it takes longer than a page may wait.
        OverBudget: if it costs more than this server takes.
    """
    about = runs.About(cost, names, unit, writes)
    return _worked(_key(make, args, settings), partial(make, *args, **settings), about)


def _worked(key: tuple, make: Callable[[], R], about: runs.About) -> R:
    cost = about.cost
    if cost is None or key in SHARED:
        return SHARED.get(key, make)
    if cost.seconds < budget.DIRECT and not about.unit:
        budget.check_memory(0, _let_go_of_all)  # small maps take far less than is estimated
        return SHARED.get(key, make)
    budget.check_memory(cost.bytes, _let_go_of_all)
    budget.check_work(cost)
    return runs.get(key, partial(SHARED.get, key, make), about, within=runs.ANEW)


def screen(figure: Figure) -> arrow.Screen:
    """A figure's picture on the screen, kept by what it shows: of records by weak references.

    Raises:
        Waiting: if it takes longer than a page may wait.
        OverBudget: if it costs more than this server takes.
    """
    key = _figure_key(figure)

    def make() -> arrow.Screen:
        rendered = arrow.Screen.of(*figure.screen)
        if figure.cost is not None:  # the description is of the whole map, too, and known once its tiles are
            description(figure)
        return rendered

    return _worked(("screen", *key), make, runs.About(figure.cost))


def description(figure: Figure) -> str:
    """A figure in words, kept as its picture is."""
    return SHARED.get(("description", *_figure_key(figure)), lambda: figure.description)


def _figure_key(figure: Figure) -> tuple:
    values = ((field.name, getattr(figure, field.name)) for field in fields(figure) if field.name != "cost")
    return (type(figure), *(_key_part(value) for _, value in values))
