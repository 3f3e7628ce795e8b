"""Forms of a picture: the options of `attnviz export --form`."""

import argparse
from argparse import Namespace
from typing import TYPE_CHECKING

from attnviz.core.display import visible_text
from attnviz.core.errors import InputError, quoted

if TYPE_CHECKING:  # torch and Altair: not for --help
    from attnviz.core.edits import Site
    from attnviz.core.record import Record
    from attnviz.figures import Figure

BESIDE_HEADS = {
    "heads": {"domain", "view"},
    "overview": {"domain"},
    "mask": set(),
    "change": set(),
    "lens": {"rows"},
    "pushed": {"head", "rows"},
}
"""Forms that are no single head, and what each takes of `OPTIONS`: all heads of a layer, every head, the mask,
how far each token's output moves by what is changed, words through the layers, and words that a head pushes."""

OPTIONS = {
    "head": ("--head", None, {"head"}),
    "cell": ("--cell", None, {"head"}),
    "words": ("--words", False, {"view"}),
    "sentences": ("--sentences", False, {"view"}),
    "parts": ("--parts", 0, {"view"}),
    "special": ("--special", "show", {"view"}),
    "pair": ("--pair", "all", {"view"}),
    "beside": ("--beside", (), {"heads"}),
    "least": ("--least", None, {"least"}),
    "token": ("--token", None, {"pins", "chosen"}),
    "to": ("--to", False, {"pins", "side"}),
    "less": ("--less", "", {"less"}),
    "row_sums": ("--row-sums", False, {"row_sums"}),
    "before": ("--before", False, {"before"}),
    "queries": ("--queries", None, {"rows"}),
    "keys": ("--keys", None, {"columns"}),
    "domain": ("--domain", "adapts", {"domain"}),
}
"""Flag and default of what a form may take, and the fields of its figure of which it must take one."""


EVERY = {"sentence", "dark", "selected", "head", "view"}
"""Fields that every form of a head takes."""


def add(command: argparse.ArgumentParser) -> None:
    """Add the options of a form."""
    form = command.add_argument_group("what it is shown as")
    others = ", ".join(BESIDE_HEADS)
    names = f"of a head, such as map, lines or text; or {others} (map); an unknown one lists all"
    form.add_argument("--form", default="map", metavar="FORM", help=names)
    form.add_argument(
        "--beside", type=_heads, default=(), metavar="HEADS", help="2,3: more heads in one picture, of lines"
    )
    form.add_argument("--least", type=float, metavar="W", help="the weight from which on there are lines (strongest)")
    form.add_argument("--token", type=int, metavar="N", help="the attention from this token alone, counted from 0")
    form.add_argument("--to", action="store_true", help="the attention to the token instead")
    less = "sinks: without patches that always win, and the rest in parts of their sum"
    form.add_argument("--less", choices=("sinks",), default="", help=less)
    form.add_argument("--before", action="store_true", help="mark words that are predicted since the change alone")
    for side, what in (("queries", "rows"), ("keys", "columns")):
        form.add_argument(f"--{side}", type=_span, metavar="A-B", help=f"zoom in: the {what} A to B, counted from 0")


def figure(
    options: Namespace, record: "Record", site: "Site", head: int | str, arguments: dict, before: "Record | None" = None
) -> "Figure":
    """The head as it was asked for.

    Args:
        before: the run without changes, if it was asked for.

    Raises:
        InputError: if an option has no such value.
    """
    from attnviz.figures import FORMS
    from attnviz.figures.text_strip import SIDES

    form, takes = FORMS[options.form], FORMS[options.form].takes
    if options.least is not None and not 0 <= options.least <= 1:
        raise InputError(f"--least is {options.least:g}; a weight is from 0 to 1.")
    part = _zoomed(options, record, site, arguments["sentence"])
    if options.token is not None:
        _check_seen(options, record, site, arguments, part)
    elif options.to and "pins" in takes:
        raise InputError("--to needs a token; give --token, too.")
    values = {
        "domain": options.domain,
        "row_sums": options.row_sums,
        "before": before,
        "least": options.least,
        "pins": frozenset() if options.token is None else frozenset({(("query", "key")[options.to], options.token)}),
        "chosen": options.token,
        "side": SIDES[options.to],
        "less": options.less,
    }
    named = {name: value for name, value in (values | arguments | part).items() if name in takes | EVERY}
    return form.figure(record, site, [head, *options.beside] if "heads" in takes else head, **named)


def check(options: Namespace) -> None:
    """Raises: InputError: if there is no such form, or an option is of another one."""
    from attnviz.figures import FORMS

    takes = {name: form.takes | EVERY for name, form in FORMS.items()} | BESIDE_HEADS
    if options.form not in takes:
        raise InputError(f"There is no form {quoted(options.form)}. There are: {', '.join(takes)}.")
    for name, (flag, default, fields) in OPTIONS.items():
        if getattr(options, name) != default and not takes[options.form] & fields:
            others = ", ".join(other for other in takes if takes[other] & fields)
            raise InputError(f"{flag} is for --form {others}; not for --form {options.form}.")


def _zoomed(options: Namespace, record: "Record", site: "Site", sentence: int) -> dict:
    """The part that is drawn."""
    zoomed, tokens = {}, record.tokens(site, sentence=sentence)
    for name, flag, part in zip(("rows", "columns"), ("queries", "keys"), tokens, strict=True):
        span = getattr(options, flag)
        if span is None:
            continue
        if span.stop > len(part):
            raise InputError(f"--{flag} ends at {span.stop - 1}; there are {len(part):,} {flag}, counted from 0.")
        zoomed[name] = span
    return zoomed


def _check_seen(options: Namespace, record: "Record", site: "Site", arguments: dict, part: dict) -> None:
    """Refuse a token that is not there, or not seen: without it the lines of all tokens would be drawn."""
    from attnviz.analysis import views

    token, sentence = options.token, arguments["sentence"]
    tokens = record.tokens(site, sentence=sentence)[options.to]
    if not 0 <= token < len(tokens):
        raise InputError(f"There is no token {token} to show the attention of; there are {len(tokens)}, from 0.")
    visible = views.see(record, site, sentence=sentence, view=arguments["view"], **part)
    if (visible.keys if options.to else visible.queries).index_of(token) is None:
        raise InputError(f"Token {token}, {visible_text(tokens[token].text)}, is hidden in this view.")


def _span(text: str) -> slice:
    ends = text.split("-")
    if len(ends) != 2 or not all(end.isascii() and end.isdecimal() for end in ends) or int(ends[0]) > int(ends[1]):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no span; give 10-59")
    return slice(int(ends[0]), int(ends[1]) + 1)


def _heads(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{quoted(text)} are no heads; give 2,3")
    return tuple(map(int, parts))
