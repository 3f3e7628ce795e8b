"""`attnviz export LINK`: model, request and options of the picture that a link copied from the app shows."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from urllib.parse import parse_qs, urlsplit

from attnviz import link
from attnviz.cli import parser, values
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, quoted
from attnviz.core.request import Request
from attnviz.files import images, sounds
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui.inputs import named_model
from attnviz.ui.pictures import EXAMPLES, NONE
from attnviz.ui.toolbar import DOMAINS

PAGES = {"": "export", "overview": "export --form overview", "masks": "export --form mask", "compare": "compare"}
"""Commands that draw the pictures of pages, by the path of the page."""
PROBE = "The cat sat on the mat because it was tired"
"""Text of a link without one, of a model without an example."""


def read(address: str, more: Sequence[str], note: Callable[[str], None]) -> tuple[Namespace, Source, Request]:
    """The options of the picture of a link, its model and its request.

    Args:
        address: an address of the app, or its end: "masks?model=story&mask=causal".
        more: options that were given beside the link; they win.
        note: is given what of the link could not be read.

    Raises:
        InputError: if the link is of a page without a picture of its own, or holds what the shell cannot do.
    """
    parts = urlsplit(address)
    page = parts.path.rsplit("/", 1)[-1]
    page = "" if page == "heads" else page
    if page not in PAGES or not (parts.query or parts.netloc):
        pages = ", ".join(page or "heads" for page in PAGES)
        raise InputError(f"{quoted(address)} is no link to a page with one picture; those are: {pages}.")
    choices, complaints = link.read(parse_qs(parts.query, keep_blank_values=True))
    for complaint in complaints:
        note(complaint)
    if choices["gray"]:
        raise InputError("The shell makes no patches gray in a picture: export this picture in the app.")
    if choices["less"] == "neutral":
        raise InputError("The shell asks no neutral question: export this picture in the app.")
    source = _source(choices, is_mask=page == "masks")
    request = _request(choices, source)
    flags = [*_place(choices), *_picture(choices, page, request)]
    if page == "compare" and choices["b"] is not None:
        flags += _other(choices["b"])
    options = parser.read([*PAGES[page].split(), *flags, *more, "--", request.texts[0] or "-"])
    beside = values.edits(options, source)
    changed = {field.name: getattr(beside, field.name) for field in fields(Edits)}
    changed = {name: value for name, value in changed.items() if value != getattr(Edits(), name)}
    return options, source, replace(request, edits=replace(request.edits, **changed))


def _source(choices: Choices, *, is_mask: bool) -> Source:
    """The model of a link; of a mask alone one that begins with <sos>, where it may."""
    name, settings = named_model(choices["model"])
    if choices["step"] is not None:
        settings["step"] = choices["step"]
    if choices["chat"] is not None:
        settings["chat"], settings["system"] = True, choices["chat"]
    source = values.load(name, **settings)
    return values.load(name, **{"sos": True} | settings) if is_mask and "sos" in source.settings() else source


def _request(choices: Choices, source: Source) -> Request:
    """The texts of a link with their target, answer, picture and changes."""
    offered = (source.card.examples if source.card else ()) or source.examples or (PROBE,)
    text = "" if source.reads in ("picture", "sound") else choices["text"] or offered[0]
    several = len(text.strip("\r\n").splitlines()) > 1 if choices["lines"] is None else choices["lines"]
    request = Request(tuple(line for line in text.splitlines() if line.strip()) if several else (text,))
    if choices["target"].strip():
        targets = choices["target"].splitlines() if several else [choices["target"].strip("\r\n")]
        request = replace(request, targets=tuple(line for line in targets if line.strip()))
    if source.reads != "text" and choices["picture"] != NONE:
        shown = _shown(source, choices["picture"])
        request = replace(request, pictures=shown.pictures * len(request.texts))
    edits = Edits()
    if not source.read_only:
        edits = link.edits(choices, of_cross=any(site.kind == "cross" for site in source.sites))
    return replace(request, answer=choices["answer"], edits=edits)


def _shown(source: Source, name: str | None) -> Request:
    """The example that a link names, or the first."""
    ending = ".wav" if source.reads == "sound" else ""
    there = {name: path for name, path in EXAMPLES.items() if (path.suffix == ".wav") == bool(ending)}
    if name is not None and name not in there:
        raise InputError(f"The link shows {quoted(name)}, which it does not hold. Examples are: {', '.join(there)}.")
    path = there[name or next(iter(there))]
    return sounds.sound(path) if ending else images.picture(path)


def _flags(**options: object) -> list[str]:
    """Flags with their values; none for an option that is None."""
    pairs = ((name, value) for name, value in options.items() if value is not None)
    return [part for name, value in pairs for part in (f"--{name.replace('_', '-')}", str(value))]


def _place(choices: Choices) -> list[str]:
    """Model, layer and text."""
    site, (name, settings) = choices["layer"], named_model(choices["model"])
    flags = _flags(model=name, sentence=choices["sentence"], kind=site and site.kind, layer=site and site.layer)
    return flags + [part for key, value in settings.items() for part in ("--set", f"{key}={str(value).lower()}")]


def _picture(choices: Choices, page: str, request: Request) -> list[str]:
    """Head, form and view, as far as the picture of a page has them."""
    flags, cell = [], choices["cell"]
    if page in ("", "compare"):
        flags += _flags(head=choices["head"], cell=cell and f"{cell[0]}.{cell[1]}")
    if page in ("", "overview"):
        flags += _flags(domain=DOMAINS[choices["colors"]])
    if page != "":
        return flags
    view, form = choices["view"], choices["form"] or ("picture" if request.pictures else "map")
    flags += _flags(special=view.special, pair=view.pair, parts=view.parts or None, form=form)
    flags += [flag for flag, is_on in (("--words", view.words), ("--sentences", view.sentences)) if is_on]
    if form == "lines":
        flags += _flags(beside=",".join(map(str, choices["also"])) or None, least=choices["least"])
    if choices["less"] == "sinks":
        flags += _flags(less="sinks")
    axis = "query" if choices["side"] == "from" else "key"
    picked = [position for end, position in sorted(choices["pins"]) if end == axis]
    if form in ("text", "picture") and picked:
        flags += [*_flags(token=picked[0]), *(["--to"] if axis == "key" else [])]
    return flags


def _other(b: Choices) -> list[str]:
    """Flags of what B has in the place of A's; none for the model without changes."""
    if "layer" in b.chosen or "head" in b.chosen:
        if b["layer"] is None:
            raise InputError("The link's b has a head without its layer; write b=layer%3Dd1%26head%3D0.")
        return _flags(with_head=link.head_text((b["layer"], b["head"] or 0)))
    text = str(EXAMPLES[b["picture"]]) if b["picture"] in EXAMPLES else b["text"]
    model = b["model"] if "model" in b.chosen else None
    return _flags(with_text=text, with_model=model, with_step=b["step"])
