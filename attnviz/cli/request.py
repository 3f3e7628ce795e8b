"""Convert the arguments of a command to a request: a text or a link, and flags for model, edits and figure."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from attnviz import api, cases, files, link
from attnviz.cli import terminal
from attnviz.cli.parser import FILE, LINK
from attnviz.core.display import as_sentence, visible_text
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import PICTURES, AttnvizError, InputError, did_you_mean, quoted
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.files import media
from attnviz.link import Choices
from attnviz.sources import estimate, own_code
from attnviz.sources.base import Source

PAGES = {"": "", "heads": "", "overview": "overview", "masks": "mask", "compare": "difference"}
"""Form of the picture for each page, by the path in a link; for the page Heads, the link itself names the form."""
PARTS = {"All heads": "overview", "Contributions": "contributions", "Logit lens": "lens"}
"""Form of the picture for each part of the page Overview."""
PROBE = "The cat sat on the mat because it was tired"
"""Text that is used for a link without a text, if the model has no example."""
SILENT = 2.0
"""Estimated seconds of a run above which its cost is printed."""
FLAGS = ("step", "target", "temperature", "head", "sentence", "form", "word", "minus", "model")
"""Flags with the same name and syntax as in a link."""


@dataclass(frozen=True)
class Inputs:
    """Model, request, layer and head that the arguments of a command name.

    Attributes:
        choices: values of the link and the flags.
        form: form of the picture.
    """

    source: Source
    request: Request
    choices: Choices
    site: Site
    head: int | str
    form: str

    def record(self, *, stream: bool = False) -> Record:
        """Run the model with the edits."""
        record = api.analyze(self.request, self.source, stream=stream)
        for finding in record.findings:
            if finding not in self.source.findings:  # printed already when the model was loaded
                terminal.note(finding)
        return record

    def before(self) -> Record | None:
        """Run the model without the edits; None if there are none."""
        return None if self.request.edits == Edits() else api.analyze(self.request.unchanged, self.source)

    def sentence(self, record: Record) -> int:
        """Return the index of the sentence to draw, from 0; raise InputError if there is no such sentence."""
        number, count = self.choices["sentence"], len(record.sentences)
        if number > count:
            raise InputError(f"There is no sentence {number}; there are {count}, counted from 1.")
        return number - 1


def read(options: Namespace) -> Inputs:
    """Convert a text or a link, and flags, which override the link; print unknown words and the cost to stderr."""
    name, paths = options.text, options.picture
    is_link = LINK.fullmatch(name) is not None
    form, choices = _link(name) if is_link else ("", Choices())
    flags = _flags(options)
    choices = choices.put(**flags)
    if options.command == "export" and "b" in flags:
        form = "difference"
    form = flags.get("form") or form
    if not (is_link or paths) and name.lower().endswith((*PICTURES, media.SOUND_ENDING)) and os.path.isfile(name):
        name, paths = "", [name]
    if not (is_link or paths or options.model) and Path(name[:200]).suffix and os.path.isfile(name):
        source = load(name, **({} if choices["step"] is None else {"step": choices["step"]}))
        request = Request(source.one_run)
    else:
        source = source_of(choices)
        if not (is_link or (paths and not name)):
            choices = choices.put(text="\n".join(texts(name, by_line=options.lines)), lines=options.lines)
        request = request_of(choices, source, paths, is_link=is_link)
    site = _site(options, choices, source, is_mask=form == "mask")
    request = replace(request, answer=choices["answer"], edits=_edits(options, choices, source, site))
    opens, head = opening(source)
    head = head if site == opens else 0
    head = choices["head"] if "head" in choices.chosen else head
    form = form or ("picture" if is_link and request.pictures else "map")
    for note in _notes(source, request):
        terminal.note(note)
    return Inputs(source, request, choices, site, head, form)


def edits(options: Namespace, source: Source) -> Edits:
    """Make the edits from the flags only, for a check of a model."""
    choices = Choices(_flags(options))
    return _edits(options, choices, source, _site(options, choices, source))


def _link(address: str) -> tuple[str, Choices]:
    """Read the form and choices of a link; print invalid parts to stderr."""
    parts = urlsplit(address)
    page = parts.path.rsplit("/", 1)[-1]
    if page not in PAGES or not (parts.query or parts.netloc):
        raise InputError(f"{quoted(address)} does not open a page with one picture: heads, overview, masks or compare.")
    choices, complaints = link.read(parse_qs(parts.query, keep_blank_values=True))
    for complaint in complaints:
        terminal.note(complaint)
    if choices["gray"] or choices["less"] == "neutral":
        what = "make patches gray" if choices["gray"] else "subtract a neutral question"
        raise InputError(f"The command line cannot {what}: export this picture in the app.")
    part = choices["part"] or "All heads"
    if page == "overview" and part not in PARTS:
        raise InputError(f"The command line cannot draw {quoted(part)}: export this picture in the app.")
    return PARTS[part] if page == "overview" else PAGES[page] or choices["form"] or "", choices


def _flags(options: Namespace) -> dict[str, Any]:
    """Read the values of the flags, by their names in a link."""
    typed = {name: getattr(options, name, None) for name in FLAGS}
    typed["take"] = "\n".join(options.take) or None
    masks = [f"({mask})" for mask in options.mask] if len(options.mask) > 1 else options.mask
    typed["mask"] = " & ".join(masks) or None  # several --mask must all allow a cell
    if getattr(options, "chat", False) or getattr(options, "system", None):
        typed["chat"] = options.system or "-"
    values = {name: _value(name, str(text), f"--{name}") for name, text in typed.items() if text is not None}
    if (other := getattr(options, "compare", None)) is not None:
        values["b"] = _value("b", other, "--compare")
    for setting in options.set:
        name, sign, text = setting.partition("=")
        if not sign:
            raise InputError(f"{quoted(setting)} is not a setting; give NAME=VALUE, such as cell=7.2.")
        if name not in link.NAMES:
            raise InputError(f"A link has no {quoted(name)}.{did_you_mean(name, link.NAMES)}")
        values[name] = _value(name, text, f"--set {name}")
    return values


def _value(name: str, text: str, flag: str) -> Any:
    """Read a value as the link does; error messages begin with the flag."""
    try:
        return link.NAMES[name].codec.read(text)
    except AttnvizError as error:
        raise InputError(f"{flag}: {error}") from None


def source_of(choices: Choices) -> Source:
    """Load the model that the choices name."""
    name, settings = api.named_model(choices["model"])
    step = {} if choices["step"] is None else {"step": choices["step"]}
    chat = {} if choices["chat"] is None else {"chat": True, "system": choices["chat"]}
    return load(name, **settings, **step, **chat)


def load(name: str, **settings: object) -> Source:
    """Load a model by name, a saved run, or FILE.py:FUNCTION; print to stderr if it is downloaded or code is run."""
    file = FILE.fullmatch(name)
    if not file and not name.lower().endswith(files.READ) and not os.path.isfile(name):
        return fetch(name, **settings)
    if settings:
        what = "A model from a file" if file else "A saved run"
        raise InputError(f"{what} has no setting {quoted(next(iter(settings)))}.")
    return run_user_file(*file.groups(), of=own_code.build) if file else cases.source(name)


def fetch(name: str, **settings: object) -> Source:
    """Load a model by name, without opening a file or running user code; print its findings to stderr."""
    with terminal.download(name) as report:
        source = api.load(name, report=report, **settings)
    for finding in source.findings:
        terminal.note(as_sentence(finding))
    return source


def run_user_file(file: str, name: str, of: Callable[[str, str], Any] = own_code.value_of) -> Any:
    """Run a user's file and return the result of its function: any value, or a source with `own_code.build`."""
    terminal.note(f"the code of {visible_text(file)} is run, then {visible_text(name)}.")
    return of(file, name)


def texts(typed: str, *, by_line: bool = False) -> list[str]:
    """Return one text with its line breaks, or one text per line; the final line break of stdin is removed."""
    try:
        text = sys.stdin.read().removesuffix("\n") if typed == "-" else typed
    except UnicodeDecodeError:
        raise InputError("The text on stdin is not UTF-8.") from None
    lines = [line for line in (text.splitlines() if by_line else [text]) if line.strip()]
    if not lines:
        raise InputError("There is no text; give a sentence, or - to read it from stdin.")
    return lines


def request_of(choices: Choices, source: Source, paths: Sequence[str] = (), *, is_link: bool = True) -> Request:
    """Make the request with texts, targets and pictures from the choices.

    Args:
        paths: files with pictures or one sound, instead of the picture in the choices.
        is_link: whether a missing text or picture is replaced by the first example of the model.
    """
    offered = (source.card.examples if source.card else ()) or source.examples or (PROBE,)
    text = "" if source.reads in ("picture", "sound") and (is_link or paths) else choices["text"] or offered[0]
    several = len(text.strip("\r\n").splitlines()) > 1 if choices["lines"] is None else choices["lines"]
    lines = tuple(line for line in text.splitlines() if line.strip()) if several else (text,)
    target = choices["target"]
    targets = target.splitlines() if several else [target.strip("\r\n")]
    request = Request(lines, targets=tuple(line for line in targets if line.strip()))
    name = choices["picture"]
    if is_link and not paths and source.reads != "text" and name != "none":
        is_sound = source.reads == "sound"
        there = {key: path for key, path in api.EXAMPLES.items() if (path.suffix == media.SOUND_ENDING) == is_sound}
        if name is not None and name not in there:
            examples = f"Examples are: {', '.join(there)}."
            raise InputError(f"The link refers to the file {quoted(name)}; give the file. {examples}")
        paths = [there[name or next(iter(there))]]
    if paths:
        picture = media.sound(paths[0]) if str(paths[0]).lower().endswith(media.SOUND_ENDING) else media.picture(paths)
        request = replace(request, pictures=picture.pictures * len(lines))
    source.check_pictures(request.pictures)
    return request


def opening(source: Source) -> tuple[Site, int]:
    """Return the layer and head that are shown first for a model."""
    return source.card.opens if source.card else (source.sites[0], 0)


def _site(options: Namespace, choices: Choices, source: Source, *, is_mask: bool = False) -> Site:
    """Return the layer to show: --layer, that of the link, or the model's usual one (of the decoder for a mask)."""
    opens, _ = opening(source)
    kind = "decoder" if is_mask and any(site.kind == "decoder" for site in source.sites) else opens.kind
    if options.layer is None:
        return choices["layer"] or Site(kind, opens.layer)
    return _value("layer", f"{kind[0]}{options.layer}" if options.layer.isdecimal() else options.layer, "--layer")


def _edits(options: Namespace, choices: Choices, source: Source, site: Site) -> Edits:
    """Make the edits of the choices and of --off, whose heads are "2,3" in the layer `site`, or "0.2" in another."""
    off = set(choices["heads_off"])
    for head in (part.strip() for text in options.off for part in text.split(",")):
        layer = f"{site.layer}." if head.isdecimal() else ""
        off |= _value("heads_off", f"{site.kind[0]}{layer}{head}" if head[:1].isdecimal() else head, "--off")
    choices = choices.put(heads_off=frozenset(off))
    return link.edits(choices, of_cross=any(other.kind == "cross" for other in source.sites))


def _notes(source: Source, request: Request) -> Iterable[str]:
    """Yield notes about unknown words, with similar known words, and about the cost of a slow run."""
    unknown = {} if request.pictures else source.unknown([*request.texts])
    words = [_quote([word]) + (f" (it knows {_quote(near)})" if near else "") for word, near in unknown.items()]
    if words:
        more = f" and {len(words) - 10} more words" if len(words) > 10 else ""
        yield f"'{source.name}' does not know {', '.join(words[:10])}{more} and reads {source.unknown_token}."
    if not source.one_run and (sentences := source.sentences(request)):
        cost = estimate.estimate(source, len(sentences[0].tokens), request.edits, len(sentences))
        if cost.seconds > SILENT:
            yield f"{cost}."


def _quote(words: Iterable[str]) -> str:
    return ", ".join(f"“{visible_text(word)}”" for word in words)
