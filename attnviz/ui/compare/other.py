"""B: what of it differs from A, chosen by a person.

In a link another sentence is ``sentence-The dog sat.``, another model ``model-story``, another head ``head-c1.2``
(cross layer 1, head 2), another step of the training ``step-100``, and the original model ``untouched``.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import api
from attnviz.analysis.align import Side, written
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.ui import cache, streamlit_internals
from attnviz.ui.compare import words
from attnviz.ui.shared import arrivals, files, look, photos, pretrained, state
from attnviz.ui.shared.arrivals import Arrival
from attnviz.ui.shared.examples import OFFERED
from attnviz.ui.shared.inputs import unknown_words
from attnviz.ui.shared.look import PLACE, Place, ViewContext, place_of, place_text
from attnviz.ui.shared.setting import Setting, State, coded, reader, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import clean, note, quiet

LONGEST = 2_000
"""Characters of a sentence, and of the name of a model."""

SWAPS = (("it", "she"), ("she", "it"), ("he", "it"), ("cat", "dog"), ("dog", "cat"), ("black", "red"), ("red", "black"))
"""One word for another, for a sentence to begin with: what a pronoun is moves more than which noun it stands for."""


PATIENCE = 10.0
"""Seconds within which a hub says whether it has a model."""


class OnItsWay(InputError):
    """The model of B is read from this machine."""

    def __init__(self, arrival: Arrival):
        self.arrival = arrival
        super().__init__(words.READING.format(model=quoted(arrival.name)))


@dataclass(frozen=True)
class Other:
    """The one thing in which B differs from A.

    Attributes:
        what: one of `words.OTHERS`.
        value: a sentence, the name of a model, a head, or the step of a training; "" of the original model.
    """

    what: str
    value: str | int | Place = ""

    def __str__(self) -> str:
        value = place_text(self.value) if isinstance(self.value, tuple) else self.value
        return self.what if self.what == "untouched" else f"{self.what}-{value}"


def _read(text: str) -> Other:
    what, _, value = text.partition("-")
    if (
        what in ("sentence", "model")
        and len(value) <= LONGEST
        and _plain(value) == value
        and (value or what != "model")
    ):
        return Other(what, value)
    return _read_others[what](text) if what in _read_others else _read_others["untouched"](text)


_like = "sentence-The dog sat, head-c1.2, model-story, step-100 or untouched"
_read_others = {
    "head": reader(f"head-{PLACE}", lambda m: Other("head", place_of(m)), _like),
    "step": reader(r"step-(\d{1,9})", lambda m: Other("step", int(m[1])), _like),
    "untouched": reader("untouched", lambda m: Other("untouched"), _like),
}

TEXTLESS = ("picture", "sound")
"""What models read that read no text."""

B: Setting[Other | None] = coded("b", None, str, _read)
LAST_CHOICES: Setting[dict[str, Other]] = session_setting("b kept", {})
"""Last choice, by kind of difference."""


def compare_with(head: Place) -> None:
    """Make another head B."""
    state.put(B, Other("head", head))


def same_words(a: ViewContext, b: ViewContext) -> Side:
    """B; if it is another training step of A's model, with A's words in its decoder: each row is of one word."""
    words_of_a, side = a.record.targets, side_of(b)
    if not words_of_a or side.record.targets == words_of_a or a.source.id != b.source.id or a.source == b.source:
        return side
    return replace(side, record=cache.reading(b.source, side.record, words_of_a))


def side_of(context: ViewContext) -> Side:
    """Head and record that A or B looks at."""
    return Side(context.record, context.site, context.head, context.sentence)


def side(a: ViewContext, place: DeltaGenerator) -> ViewContext | AttnvizError:
    """The controls of B in one row at a place, and B; or why there is none."""
    with place, st.container(horizontal=True, vertical_alignment="center", gap="small"):
        other = _what(a, place)
        wide = "stretch" if other.what == "sentence" else "content"
        row = {"horizontal": True, "vertical_alignment": "center", "gap": "small", "width": wide}
        own = st.container(**row)
    make = {"sentence": _sentence, "head": _head, "model": _model, "untouched": _untouched, "step": _step}[other.what]
    try:
        b = make(a, other, own)
        b.record  # noqa: B018 (what is wrong with its run stands here)
        return b
    except AttnvizError as error:
        return error


def _what(a: ViewContext, place: DeltaGenerator) -> Other:
    """In what B differs. What was chosen before in the same way is there again."""
    missing = _missing(a)
    chosen, options = state.get(B), [what for what in words.OTHERS if what not in missing]
    if chosen and chosen.what == "sentence" and not str(chosen.value).strip():  # an empty field begins anew
        chosen = _begins(a, "sentence")
    if chosen is not None and chosen.what in options:
        state.put(LAST_CHOICES, state.get(LAST_CHOICES) | {chosen.what: chosen})
    else:
        begins = opening(a)
        if chosen is not None:
            reason = words.MISSING[chosen.what].format(model=quoted(a.source.name), other=words.OTHERS[begins.what])
            with place:  # below the row
                note(reason, "notice")
        chosen = begins

    _chosen_from(a, chosen.what, options)
    return chosen


def _chosen_from(a: ViewContext, what: str, options: list[str]) -> None:
    """In what B differs. The original model is offered before a change, too: chosen, it says what it needs."""

    def choose(now: State, what: str) -> State:
        return now.put(B, now[LAST_CHOICES].get(what) or _begins(a, what))

    waits = a.edits == Edits() and not (a.source.read_only or a.source.alone)
    names = words.OTHERS | ({"untouched": words.NOTHING_CHANGED} if waits else {})
    names = names | ({"sentence": words.ANOTHER[a.source.reads]} if a.source.reads in TEXTLESS else {})
    arguments = {"shown": what, "at": "what", "step": choose, "width": 204}
    arguments["format_func"] = lambda what: words.B_WITH.format(other=names[what])
    if waits:
        options = [*options, "untouched"]
    control(st.selectbox, words.COMPARE_WITH, B, options, lead=words.COMPARE_WITH, **arguments)


def _missing(a: ViewContext) -> set[str]:
    """In what B cannot differ here."""
    has_other = not a.source.one_run and (a.source.reads not in TEXTLESS or photos.others(a.source))
    lacks = {"step": len(a.source.steps) <= 1, "sentence": not has_other, "untouched": a.edits == Edits()}
    lacks["model"] = not _models(a)
    return {what for what, is_missing in lacks.items() if is_missing}


def _begins(a: ViewContext, what: str) -> Other:
    if what == "sentence" and a.source.reads in TEXTLESS:
        return Other(what, photos.others(a.source)[0])
    if what == "sentence":
        swapped = _swapped(a)
        return Other(what, swapped if swapped != _text(a) else _another_text(a))
    if what == "head":
        return Other(what, _another_head(a))
    if what == "model":
        return Other(what, _models(a)[0])
    return Other(what, _another_step(a) if what == "step" else "")


def opening(a: ViewContext) -> Other:
    """Default B: after a change the original model, else another training step, a changed word, or another head.

    Two long texts that differ cannot be laid on one grid, so there it is another head; so it is of a pretrained model,
    of which many heads look at places, whatever word stands there.
    """
    if a.edits != Edits():
        return _begins(a, "untouched")
    if len(a.source.steps) > 1:
        return _begins(a, "step")
    short = len(_text(a)) <= LONGEST and not a.source.one_run and a.source.facts is None
    return _begins(a, "sentence" if short and _swapped(a) != _text(a) else "head")


def _another_step(a: ViewContext) -> int:
    """Before the training; of the untrained model, after it."""
    first, *_, last = a.source.steps
    return last if a.source.step == first else first


def _swapped(a: ViewContext) -> str:
    """The sentence with one word changed, for one that the model knows; as it is if there is none."""
    for word, other in SWAPS:
        changed, count = re.subn(rf"\b{word}\b", other, _text(a), count=1)
        if count and len(changed) <= LONGEST and not cache.unknown(a.source, (other,)):
            return changed
    return _text(a)[:LONGEST]


def _another_text(a: ViewContext) -> str:
    """Another example of the model, or the sentence without its last word."""
    others = (text for text in state.get(OFFERED).values() if text != _text(a) and text.isprintable())
    return next(others, _text(a).rpartition(" ")[0])[:LONGEST]


def _text(a: ViewContext) -> str:
    return a.request.texts[a.sentence]


def _ask(own: DeltaGenerator, widget: Callable, title: str, what: str, value: object, *args: object, **options) -> None:
    """The control of what B has in the place of A's, in a place of its own."""
    read: Callable[[Any], object] = options.pop("read", lambda value: value)
    with own:
        control(
            widget,
            title,
            B,
            *args,
            shown=value,
            lead="",
            at=what,
            read=lambda value: Other(what, read(value)),
            **options,
        )


def _differing(a: ViewContext, **changes: Any) -> ViewContext:
    """A with something else in its place, and no run yet."""
    return replace(a, _runs=WeakValueDictionary(), **changes)


def _picture(a: ViewContext, other: Other, own: DeltaGenerator) -> ViewContext:
    """B with another picture, or another sound."""
    names = photos.others(a.source)
    chosen = other.value if other.value in names else names[0]
    _ask(own, st.selectbox, words.PICTURE, "sentence", chosen, names, width=260)
    return _differing(a, request=Request(("",), pictures=((photos.by_name(chosen),),), edits=a.edits), sentence=0)


def _sentence(a: ViewContext, other: Other, own: DeltaGenerator) -> ViewContext:
    if a.source.reads in TEXTLESS:
        return _picture(a, other, own)
    options = {"max_chars": LONGEST, "placeholder": words.SENTENCE, "read": _plain}
    if "\n" in str(other.value):
        _ask(own, st.text_area, words.SENTENCE, "sentence", other.value, height="content", **options)
    else:
        _ask(own, st.text_input, words.SENTENCE, "sentence", other.value, **options)
    request = photos.whole(a.source, cache.texts(clean(str(other.value)), by_line=False))
    cache.sentences(a.source, request)
    unknown_of_a = cache.unknown(a.source, a.request.texts)
    unknown = {word: near for word, near in cache.unknown(a.source, request.texts).items() if word not in unknown_of_a}
    unknown_words(unknown, a.source.unknown_token, "B")
    return _differing(a, request=replace(request, edits=replace(a.edits, taken=())), sentence=0)


def _plain(text: str) -> str:
    """A text as a link can hold it: of characters that can be seen, and line breaks."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in clean(text))[:LONGEST]


def _head(a: ViewContext, other: Other, own: DeltaGenerator) -> ViewContext:
    every = [(step.site, head) for step in a.record.steps for head in range(step.num_heads)]
    chosen = other.value
    if chosen not in every:
        chosen = _another_head(a)
        note(words.NO_HEAD.format(missing=_named(other.value), instead=_named(chosen)), "notice")
    options = {"format_func": _brief, "width": 180}
    _ask(own, st.selectbox, words.HEAD, "head", chosen, every, **options)
    return replace(a, site=chosen[0], head=chosen[1])


def _named(place: Place) -> str:
    return place[0].head(place[1])


def _brief(place: Place) -> str:
    return place[0].brief(place[1])


def _another_head(a: ViewContext) -> tuple[Site, int]:
    """The next head of the layer, or the first of another layer."""
    number = a.head if isinstance(a.head, int) else -1
    heads = a.record.step(a.site).num_heads
    if heads > 1:
        return a.site, (number + 1) % heads
    return next((site for site in a.record.sites if site != a.site), a.site), 0


def _model(a: ViewContext, other: Other, own: DeltaGenerator) -> ViewContext:
    names = _models(a)
    name = other.value
    if _may_be(a, str(name)):
        names = list(dict.fromkeys([name, *names]))
    if name not in names:
        note(words.NO_MODEL.format(missing=quoted(str(name)), instead=quoted(names[0])), "notice")
        name = names[0]
    _ask(own, st.selectbox, words.MODEL, "model", name, names, format_func=pretrained.title, width=230)
    source = _source(name)
    text = a.record.sentences[a.sentence].text if a.request.answer else _text(a)  # another model has other ids
    edits = Edits() if source.read_only else replace(a.edits, taken=())
    request = Request(source.one_run or (text,), edits=edits)
    cache.sentences(source, request)
    unknown_words(cache.unknown(source, request.texts), source.unknown_token, "B")
    record = cache.record(source, request)
    site = _site_like(a.site, a.record, record)
    head = a.head if isinstance(a.head, str) else min(a.head, record.step(site).num_heads - 1)
    if (site, head) != (a.site, a.head):
        there = a.site in record.sites and (isinstance(a.head, str) or a.head < record.step(a.site).num_heads)
        name, instead, lacking = source.name, _named((site, head)), _named((a.site, a.head))
        other_text = words.OTHER_TEXT.format(model=name, site=a.site, instead=instead)
        quiet(other_text if there else words.LACKS_HEAD.format(model=name, head=lacking, instead=instead))
    return _differing(a, source=source, request=request, sentence=0, site=site, head=head)


def _may_be(a: ViewContext, name: str) -> bool:
    """Whether a link may name a model that is not in the list: a file to open, or a model of Hugging Face to read."""
    if files.is_file(name):
        return isinstance(files.source(name), InputError)
    listed = arrivals.listed()
    is_own = name == a.source.id or name in (*api.OFFERED, *api.SOURCES)
    return not is_own and (listed is None or name in listed)


def _models(a: ViewContext) -> list[str]:
    """The models that ship with attnviz, and the pretrained ones that are there, but for A's."""
    own = [name for name in files.names() if files.source(name) is not a.source]
    shipped = [name for name, kind in api.SOURCES.items() if (kind.reads in TEXTLESS) == (a.source.reads in TEXTLESS)]
    return [*own, *(name for name in (*api.OFFERED, *shipped, *pretrained.here()) if name != a.source.id)]


def _source(name: str) -> Source:
    if files.is_file(name):
        if isinstance(source := files.source(name), InputError):
            raise source
        return source
    return cache.source(name) if name in (*api.OFFERED, *api.SOURCES) else _pretrained(name)


def _pretrained(name: str) -> Source:
    """A model of Hugging Face that is on this machine; none is downloaded for B alone.

    Raises:
        OnItsWay: while it is read.
    """
    arrival, begun = arrivals.wait_for(name, streamlit_internals.session_id()), time.monotonic()
    while arrival.stage == "finding" and time.monotonic() - begun < PATIENCE:
        arrival.settled.wait(0.05)
    arrival.settled.wait(pretrained.AT_ONCE)
    if arrival.source is not None:
        return arrival.source
    if arrival.stage == "loading":
        raise OnItsWay(arrival)
    raise arrival.error or InputError(words.NOT_LOADED.format(model=quoted(name)))


def _site_like(site: Site, a: Record, b: Record) -> Site:
    """The same call; else the last of the same kind; else the last: of those that stand over the same text as A's."""
    reads = [candidate for candidate in b.sites if written(b, candidate) == written(a, site)] or b.sites
    return site if site in reads else ([candidate for candidate in reads if candidate.kind == site.kind] or reads)[-1]


def _untouched(a: ViewContext, other: Other, own: DeltaGenerator) -> ViewContext:
    return _differing(a, request=a.request.unchanged)


def _step(a: ViewContext, other: Other, own: DeltaGenerator) -> ViewContext:
    steps, chosen = a.source.steps, other.value
    if chosen not in steps:
        available = ", ".join(map(str, steps))
        note(words.NO_STEP.format(missing=chosen, kept=available, instead=steps[0]), "notice")
        chosen = steps[0]
    names = {step: look.step_in_words(step, steps[-1]) for step in steps}
    options = {"format_func": names.__getitem__, "width": 140}
    _ask(own, st.selectbox, words.STEP, "step", chosen, steps, **options)
    return _differing(a, source=cache.source(a.source.id, chosen))
