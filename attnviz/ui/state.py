"""What the link holds. Controls keep themselves in it (`bind="query-params"`); here is the rest.

Heads off are written ``e0.1-e0.3``: encoder layer 0 head 1, encoder layer 0 head 3. A selected cell is ``2.1``: query
2, key 1. A site is ``c1``: cross layer 1. A mask is ``subsequent.window-2-0``, or ``none`` where somebody chose that,
and what is added to the scores ``alibi.softcap-5``: see `attnviz.ui.lab.link`. A view is ``words.hide.ab``: pieces
merged, special tokens hidden, of a pair only what text A sees of text B. How a head is shown: `attnviz.ui.forms.link`.
Nothing where nobody chose, because then each page begins with what it is about, and each model with what it is good
for.
"""

import math
import re

import streamlit as st

from attnviz.core.edits import BY_LETTER, Site
from attnviz.core.errors import InputError
from attnviz.ui.compare.link import decode_other, encode_other
from attnviz.ui.forms import link as forms_link
from attnviz.ui.lab import link
from attnviz.ui.steps import link as steps_link
from attnviz.views import SPECIAL, View
from attnviz.walk import KEYS, Knobs

COMBINED = ("mean", "max", "min")
"""How all heads can be shown as one."""

EFFECTS = ("step by step", "next word", "output vectors", "blanks", "one blank", "labels", "similarity")
"""What can stand beside the large picture."""

PAIRS = {"aa": "A to A", "ab": "A to B", "ba": "B to A", "bb": "B to B"}
"""How the link writes which text of a pair looks at which."""

Heads = frozenset[tuple[Site, int]]


def encode_heads(heads: Heads) -> str:
    return "-".join(f"{site.kind[0]}{site.layer}.{head}" for site, head in sorted(heads))


def decode_heads(text: str) -> Heads:
    """Read what `encode_heads` wrote.

    Raises:
        InputError: if it is anything else.
    """
    parts = text.split("-") if text else []
    found = [re.fullmatch(r"([edc])(\d{1,3})\.(\d{1,3})", part, re.ASCII) for part in parts]
    if len(parts) > 2000 or not all(found):
        raise InputError(f"'{text[:40]}' does not name heads; it should look like e0.1-e0.3.")
    return frozenset((Site(BY_LETTER[m[1]], int(m[2])), int(m[3])) for m in found if m)


def encode_cell(cell: tuple[int, int] | None) -> str:
    return "" if cell is None else f"{cell[0]}.{cell[1]}"


def decode_cell(text: str) -> tuple[int, int] | None:
    """Read what `encode_cell` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if not text:
        return None
    if not (m := re.fullmatch(r"(\d{1,6})\.(\d{1,6})", text, re.ASCII)):
        raise InputError(f"'{text[:40]}' does not name a cell; it should look like 2.1.")
    return int(m[1]), int(m[2])


def encode_site(site: Site | None) -> str:
    return "" if site is None else f"{site.kind[0]}{site.layer}"


def decode_site(text: str) -> Site | None:
    """Read what `encode_site` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if not text:
        return None
    if not (m := re.fullmatch(r"([edc])(\d{1,3})", text, re.ASCII)):
        raise InputError(f"'{text[:40]}' does not name a layer; it should look like e0, d1 or c1.")
    return Site(BY_LETTER[m[1]], int(m[2]))


def encode_show(head: int | str | None) -> str:
    return "" if head is None else str(head)


def decode_show(text: str) -> int | str | None:
    """Read what `encode_show` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if not text or text in COMBINED:
        return text or None
    if not re.fullmatch(r"\d{1,3}", text, re.ASCII):
        raise InputError(f"'{text[:40]}' does not name a head; it should be a number or one of {', '.join(COMBINED)}.")
    return int(text)


def encode_step(step: int | None) -> str:
    return "" if step is None else str(step)


def decode_step(text: str) -> int | None:
    """Read what `encode_step` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if text and not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise InputError(f"'{text[:40]}' is no step of a training; it should be a whole number.")
    return int(text) if text else None


def encode_view(view: View) -> str:
    short = {pair: letters for letters, pair in PAIRS.items()}
    parts = ("words" * view.words, view.special if view.special != "show" else "", short.get(view.pair, ""))
    return ".".join(filter(None, parts))


def decode_view(text: str) -> View:
    """Read what `encode_view` wrote.

    Raises:
        InputError: if it is anything else.
    """
    parts = text.split(".") if text else []
    special = [part for part in parts if part in SPECIAL[1:]]
    pair = [PAIRS[part] for part in parts if part in PAIRS]
    view = View("words" in parts, (special or SPECIAL)[0], (pair or ["all"])[0])
    if encode_view(view) != text:
        raise InputError(f"'{text[:40]}' does not name a view; it should look like words.hide.ab.")
    return view


def encode_effect(effect: str | None) -> str:
    return effect or ""


def decode_effect(text: str) -> str | None:
    """Read what `encode_effect` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if text and text not in EFFECTS:
        raise InputError(f"'{text[:40]}' is not one of {', '.join(EFFECTS)}.")
    return text or None


def encode_stage(stage: str | None) -> str:
    return stage or ""


def decode_stage(text: str) -> str | None:
    """Read what `encode_stage` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if text and text not in KEYS:
        raise InputError(f"'{text[:40]}' is no step; there are {', '.join(KEYS)}.")
    return text or None


ENCODED = {
    "mask": (link.encode_stack, link.decode_stack, None),
    "meant": (link.encode_stack, link.decode_stack, None),
    "added": (link.encode_added, link.decode_added, link.Added()),
    "off": (encode_heads, decode_heads, frozenset()),
    "cell": (encode_cell, decode_cell, None),
    "site": (encode_site, decode_site, None),
    "show": (encode_show, decode_show, None),
    "step": (encode_step, decode_step, None),
    "effect": (encode_effect, decode_effect, None),
    "view": (encode_view, decode_view, View()),
    "tuned": (steps_link.encode_tuned, steps_link.decode_tuned, steps_link.Tuned()),
    "knobs": (steps_link.encode_knobs, steps_link.decode_knobs, Knobs()),
    "changes": (steps_link.encode_changes, steps_link.decode_changes, ()),
    "query": (steps_link.encode_query, steps_link.decode_query, None),
    **forms_link.ENCODED,
    "stage": (encode_stage, decode_stage, None),
    "b": (encode_other, decode_other, None),
}
"""Of each unbound part of the link: how it is written and read, and what it is without a link."""


def read_link(allowed: dict[str, object]) -> None:
    """Once per session: take the unbound part of the link into the session, and note what in it cannot be used.

    Args:
        allowed: for each bound parameter the values it may have, as a container of strings or a range of numbers.
    """
    if "link_problems" in st.session_state:
        return
    problems = []
    for name, (_, decode, default) in ENCODED.items():
        try:
            st.session_state[name] = decode(".".join(st.query_params.get_all(name)))
        except InputError as error:
            st.session_state[name] = default
            problems.append(f"{name}: {error}")
    for name in st.query_params:
        values = [value for value in st.query_params.get_all(name) if value or name != "text"]
        if name in allowed and (bad := [value for value in values if not _fits(value, allowed[name])]):
            problems.append(f"{name}: '{bad[0][:40]}' is not {_in_words(allowed[name])}.")
        elif name not in allowed and name not in ENCODED:
            problems.append(f"{name[:40]}: there is no such setting.")
    st.session_state["link_problems"] = problems
    st.session_state["unbound"] = {
        name for name in st.query_params if any(map(_is_infinite, st.query_params.get_all(name)))
    }


def binding(name: str) -> str | None:
    """How a number keeps itself in the link: not at all if the link holds an infinite one, which stops Streamlit."""
    return None if name in st.session_state["unbound"] else "query-params"


def drop_missing(sites: tuple[Site, ...], num_heads: int, steps: tuple[int, ...]) -> None:
    """Once per session, when the model is known: let go of what the link names and is not there."""
    if st.session_state.get("link checked"):
        return
    st.session_state["link checked"] = True
    place, head, step = (st.session_state[name] for name in ("site", "show", "step"))
    there = f"the model has {', '.join(map(str, sites))} with {num_heads} head(s) each, counted from 0"
    missing = {(site, head) for site, head in st.session_state["off"] if site not in sites or head >= num_heads}
    if missing:
        st.session_state["off"] -= missing
        _problem("off", encode_heads(frozenset(missing))[:40], there)
    if place is not None and place not in sites:
        st.session_state["site"] = None
        _problem("site", encode_site(place), there)
    if isinstance(head, int) and head >= num_heads:
        st.session_state["show"] = None
        _problem("show", str(head), there)
    beyond = tuple(head for head in st.session_state["also"] if head >= num_heads)
    if beyond:
        st.session_state["also"] = tuple(head for head in st.session_state["also"] if head < num_heads)
        _problem("also", forms_link.encode_also(beyond)[:40], there)
    if step is not None and step not in steps:
        st.session_state["step"] = None
        kept = ", ".join(map(str, steps)) or "none"
        _problem("step", str(step), f"of the steps of its training these are kept: {kept}")


def drop_missing_cell(queries: int, keys: int) -> None:
    """Once per session, when the picture is known: let go of what is selected and is not there, and begin again."""
    cell, pins, checked = st.session_state["cell"], st.session_state["pins"], st.session_state.get("cell checked")
    st.session_state["cell checked"] = True
    size = f"the picture has {queries} queries and {keys} keys, counted from 0"
    missing = frozenset((side, at) for side, at in pins if at >= (queries if side == "query" else keys))
    beyond = bool(cell) and not (cell[0] < queries and cell[1] < keys)
    if checked or not (missing or beyond):
        return
    if beyond:
        st.session_state["cell"] = None
        _problem("cell", encode_cell(cell), size)
    if missing:
        st.session_state["pins"] = pins - missing
        _problem("pins", forms_link.encode_pins(missing)[:40], size)
    st.rerun()


def _problem(name: str, said: str, there: str) -> None:
    st.session_state["link_problems"].append(f"{name}: {said} is not there; {there}.")


def write_link() -> None:
    """Put the unbound part of the state into the link; switching pages drops it otherwise."""
    for name, (encode, _, _) in ENCODED.items():
        text = encode(st.session_state[name])
        if text and st.query_params.get(name) != text:
            st.query_params[name] = text
        elif not text and name in st.query_params:
            del st.query_params[name]


def _fits(value: str, allowed: object) -> bool:
    if isinstance(allowed, range):
        return bool(re.fullmatch(r"-?\d{1,12}", value, re.ASCII)) and int(value) in allowed
    return allowed is str or value in allowed


def _is_infinite(value: str) -> bool:
    try:
        return math.isinf(float(value))
    except ValueError:
        return False


def _in_words(allowed: object) -> str:
    if isinstance(allowed, range):
        return f"a whole number from {allowed.start} to {allowed.stop - 1}"
    return f"one of {', '.join(allowed)}"
