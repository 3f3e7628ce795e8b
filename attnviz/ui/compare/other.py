"""B: what of it differs from A, chosen by a person."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import streamlit as st

from attnviz import api
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.record import Record
from attnviz.metrics.beside import Side, written
from attnviz.sources.base import Source
from attnviz.ui.compare.link import LONGEST, Other, decode_other, encode_other
from attnviz.ui.shared import arrivals, cache, looking, pretrained, state
from attnviz.ui.shared.notes import clean, label, note, quiet, unknown_words
from attnviz.ui.shared.state import State, control

TITLES = {
    "sentence": "another sentence",
    "head": "another head",
    "model": "another model",
    "untouched": "the untouched model",
    "step": "another training step",
}

B = state.coded("b", None, encode_other, decode_other)
KEPT: state.Setting[dict[str, Other]] = state.kept("b kept", {})
"""What was chosen last of each kind."""

SWAPS = (("cat", "dog"), ("dog", "cat"), ("black", "red"), ("red", "black"), ("boy", "girl"), ("man", "woman"))
"""One word for another, for a sentence to begin with."""

PATIENCE = 30.0
"""Seconds for a pretrained model to be read from this machine."""


@dataclass(frozen=True)
class Chosen:
    """What A is: everything that B shares with it but for one thing."""

    source: Source
    lines: tuple[str, ...]
    sentence: int
    edits: Edits
    site: Site
    head: int | str

    @property
    def record(self) -> Record:
        """From the cache: what a session holds of a page holds no record."""
        return cache.record(self.source, self.lines, self.edits)

    @property
    def side(self) -> Side:
        return Side(self.record, self.site, self.head, self.sentence)

    @property
    def text(self) -> str:
        return self.lines[self.sentence]


def side(a: Chosen) -> Side | AttnvizError:
    """The controls of B, and B; or why there is none."""
    other = _what(a)
    try:
        return {"sentence": _sentence, "head": _head, "model": _model, "untouched": _untouched, "step": _step}[
            other.what
        ](a, other)
    except AttnvizError as error:
        return error


def _what(a: Chosen) -> Other:
    """In what B differs. What was chosen before in the same way is there again."""
    chosen, options = state.get(B), [what for what in TITLES if what != "step" or len(a.source.steps) > 1]
    if chosen is None or chosen.what not in options:
        if chosen is not None:
            note(f"{quoted(a.source.name)} has no other steps of its training, so B is another sentence.", "notice")
        chosen = opening(a)
    else:
        state.put(KEPT, state.get(KEPT) | {chosen.what: chosen})

    def choose(now: State, what: str) -> State:
        return now.put(B, now[KEPT].get(what) or _begins(a, what))

    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("A is what is chosen above. B is")
        shown = {"format_func": TITLES.__getitem__, **control(B, chosen.what, at="what", step=choose)}
        st.pills("B is", options, required=True, wrap=True, label_visibility="collapsed", **shown)
    return chosen


def _begins(a: Chosen, what: str) -> Other:
    if what == "sentence":
        return Other(what, _swapped(a))
    if what == "head":
        return Other(what, _another_head(a))
    if what == "model":
        return Other(what, _models(a)[0])
    return Other(what, a.source.steps[0] if what == "step" else "")


def opening(a: Chosen) -> Other:
    """What a page begins with: one word changed if the model knows another one, else another head."""
    return _begins(a, "sentence" if _swapped(a) != a.text else "head")


def _swapped(a: Chosen) -> str:
    """The sentence with one word changed, for one that the model knows; as it is if there is none."""
    for word, other in SWAPS:
        changed, found = re.subn(rf"\b{word}\b", other, a.text, count=1)
        if found and len(changed) <= LONGEST and not cache.unknown(a.source, (other,)):
            return changed
    return a.text[:LONGEST]


def _value(what: str, value: object, read: Callable[[Any], object] = lambda value: value) -> dict[str, Any]:
    """The control of what B has in the place of A's."""
    return control(B, value, at=what, read=lambda value: Other(what, read(value)))


def _sentence(a: Chosen, other: Other) -> Side:
    options = {"max_chars": LONGEST, "label_visibility": "collapsed", "width": 600}
    st.text_input("The sentence of B", **_value("sentence", other.value, _plain), **options)
    if not str(other.value).strip():
        raise InputError("B has no sentence yet. Type one above.")
    lines = cache.texts(clean(str(other.value)))
    cache.sentences(a.source, lines)
    unknown_words(cache.unknown(a.source, lines), a.source.unknown_token, "B")
    return Side(cache.record(a.source, lines, a.edits), a.site, a.head)


def _plain(text: str) -> str:
    """A text as a link can hold it: in one line, of characters that can be seen."""
    return "".join(c if c.isprintable() else " " for c in clean(text))[:LONGEST]


def _head(a: Chosen, other: Other) -> Side:
    every = [(step.site, head) for step in a.record.steps for head in range(step.num_heads)]
    chosen = other.value
    if chosen not in every:
        chosen = _another_head(a)
        note(f"There is no {other.value[0]} head {other.value[1]}, so B is {chosen[0]} head {chosen[1]}.", "notice")
    options = {"format_func": lambda one: f"{one[0]} head {one[1]}", "label_visibility": "collapsed", "width": 260}
    st.selectbox("The head of B", every, **_value("head", chosen), **options)
    return replace(a.side, site=chosen[0], head=chosen[1])


def _another_head(a: Chosen) -> tuple[Site, int]:
    """The next head of the layer, or the first of another layer."""
    number = a.head if isinstance(a.head, int) else -1
    heads = a.record.step(a.site).num_heads
    if heads > 1:
        return a.site, (number + 1) % heads
    return next((site for site in a.record.sites if site != a.site), a.site), 0


def _model(a: Chosen, other: Other) -> Side:
    names = _models(a)
    name = other.value
    if name not in names:
        note(f"B cannot be the model {quoted(str(name))} here, so it is {quoted(names[0])}.", "notice")
        name = names[0]
    st.selectbox("The model of B", names, **_value("model", name), label_visibility="collapsed", width=260)
    source = cache.source(name) if name in api.SOURCES else _pretrained(name)
    lines = (a.text,)
    cache.sentences(source, lines)
    unknown_words(cache.unknown(source, lines), source.unknown_token, "B")
    record = cache.record(source, lines, a.edits)
    site = _site_like(a.site, a.record, record)
    head = a.head if isinstance(a.head, str) else min(a.head, record.step(site).num_heads - 1)
    if (site, head) != (a.site, a.head):
        there = a.site in record.sites and (isinstance(a.head, str) or a.head < record.step(a.site).num_heads)
        why = f"reads what it writes at {a.site}" if there else f"has no {a.site} head {a.head}"
        quiet(f"{source.name} {why}: B is its {site} head {head}.")
    return Side(record, site, head)


def _models(a: Chosen) -> list[str]:
    """The models that ship with attnviz, and the pretrained ones that are there, but for A's."""
    listed = pretrained.listed()
    loaded = [*([pretrained.OPENS] if find_spec(pretrained.PACKED) else []), *arrivals.here()]
    hub = [name for name in dict.fromkeys(loaded) if listed is None or name in listed]
    return [name for name in (*api.SOURCES, *hub) if name != a.source.id]


def _pretrained(name: str) -> Source:
    arrival = arrivals.wait_for(name, pretrained.session())
    arrival.settled.wait(PATIENCE)
    if arrival.source is None:
        raise arrival.error or InputError(f"{quoted(name)} is not here yet. Choose it once as the model above.")
    return arrival.source


def _site_like(site: Site, a: Record, b: Record) -> Site:
    """The same call; else the last of the same kind; else the last: of those that stand over the same text as A's."""
    reads = [one for one in b.sites if written(b, one) == written(a, site)] or b.sites
    return site if site in reads else ([one for one in reads if one.kind == site.kind] or reads)[-1]


def _untouched(a: Chosen, other: Other) -> Side:
    if a.edits == Edits():
        quiet("Nothing is changed in A, so both are the same. Switch heads off or set a mask above.")
    return replace(a.side, record=cache.record(a.source, a.lines))


def _step(a: Chosen, other: Other) -> Side:
    steps, chosen = a.source.steps, other.value
    if chosen not in steps:
        note(f"Step {chosen} was not kept; there are {', '.join(map(str, steps))}. B is step {steps[0]}.", "notice")
        chosen = steps[0]
    st.select_slider(f"B · {looking.step_in_words(chosen, steps[-1])}", steps, **_value("step", chosen), width=420)
    return replace(a.side, record=cache.record(cache.source(a.source.id, chosen), a.lines, a.edits))
