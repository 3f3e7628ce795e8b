"""Convert the arguments of a command (a text or a link, and flags) to a model, a request and a figure to draw."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
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

PAGES = {"": "", "heads": "", "overview": "", "masks": "mask", "compare": "difference"}
"""Form of the picture by the page in a link; "" if other parameters of the link select the form."""
PARTS = {"All heads": "overview", "Contributions": "contributions", "Logit lens": "lens"}
"""Form of the picture by the part of the page Overview."""
PROBE = "The cat sat on the mat because it was tired"
"""Text that is used for a link without a text, if the model has no example."""
SILENT = 2.0
"""Estimated seconds of a run above which its cost is printed."""
FLAGS = ("step", "target", "temperature", "head", "sentence", "form", "word", "minus", "model")
"""Flags with the same name and syntax as in a link."""


@dataclass(frozen=True)
class Inputs:
    """Model, request, layer and head that a command names; `choices` are the values of its link and flags."""

    source: Source
    request: Request
    choices: Choices
    site: Site
    head: int | str
    form: str

    def record(self, *, stream: bool = False) -> Record:
        """Run the model with the edits."""
        record = api.analyze(self.request, self.source, stream=stream)
        at_load = self.source.findings  # printed when the model was loaded
        terminal.note(*[finding for finding in record.findings if finding not in at_load])
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
    """Read the text or link and the flags, which override the link; print unknown words and the cost to stderr."""
    text, paths = options.text, options.picture
    is_link = LINK.fullmatch(text) is not None
    form, choices = _link(text) if is_link else ("", Choices())
    flags = _flags(options)
    choices = choices.put(**flags)
    if options.command == "export" and "b" in flags:  # --compare
        form = "difference"
    form = flags.get("form") or form
    is_file = not is_link and not paths and os.path.isfile(text)
    if is_file and text.lower().endswith((*PICTURES, media.SOUND_ENDING)):  # TEXT may also be a picture or sound
        text, paths, is_file = "", [text], False
    if is_file and not options.model and Path(text).suffix:  # a saved run; without an ending, the argument is a text
        source = load(text, **({} if choices["step"] is None else {"step": choices["step"]}))
        request = Request(source.one_run)
    else:
        source = source_of(choices)
        if not is_link and (text or not paths):
            choices = choices.put(text="\n".join(texts(text, by_line=options.lines)), lines=options.lines)
        request = request_of(choices, source, paths, is_link=is_link)
    site = _site(options, choices, source, is_mask=form == "mask")
    request = replace(request, answer=choices["answer"], edits=edits(options, source, choices, site))
    usual_site, usual_head = opening(source)
    default_head = usual_head if site == usual_site else 0
    head = choices["head"] if "head" in choices.chosen else default_head
    form = form or ("picture" if is_link and request.pictures else "map")
    terminal.note(*_notes(source, request))
    return Inputs(source, request, choices, site, head, form)


def _link(address: str) -> tuple[str, Choices]:
    """Return the form of the picture ("" if the link names none) and the choices; print invalid values to stderr."""
    url = urlsplit(address)
    page = url.path.rsplit("/", 1)[-1]
    if page not in PAGES or not (url.query or url.netloc):
        raise InputError(f"{quoted(address)} is no link to a page with one picture: heads, overview, masks or compare.")
    choices, complaints = link.read(parse_qs(url.query, keep_blank_values=True))
    terminal.note(*complaints)
    if choices["gray"] or choices["less"] == "neutral":
        action = "make patches gray" if choices["gray"] else "subtract a neutral question"
        raise InputError(f"The command line cannot {action}: export this picture in the app.")
    if page != "overview":
        return PAGES[page] or choices["form"] or "", choices
    part = choices["part"] or "All heads"
    if part not in PARTS:
        raise InputError(f"The command line cannot draw {quoted(part)}: export this picture in the app.")
    return PARTS[part], choices


def _flags(options: Namespace) -> dict[str, Any]:
    """Return the values of the flags that the user gave, by their names in a link; a command may lack some flags."""
    flag_texts = {name: getattr(options, name, None) for name in FLAGS}
    flag_texts["take"] = "\n".join(options.take) or None
    masks = [f"({mask})" for mask in options.mask] if len(options.mask) > 1 else options.mask
    flag_texts["mask"] = " & ".join(masks) or None  # several --mask must all allow a cell
    if getattr(options, "chat", False) or getattr(options, "system", None):
        flag_texts["chat"] = options.system or "-"  # the link writes "-" for a chat without system prompt
    values = {name: _value(name, str(text), f"--{name}") for name, text in flag_texts.items() if text is not None}
    if (b := getattr(options, "compare", None)) is not None:
        values["b"] = _value("b", b, "--compare")
    for setting in options.set:
        name, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"{quoted(setting)} is not a setting; give NAME=VALUE, such as cell=7.2.")
        if name not in link.NAMES:
            raise InputError(f"A link has no setting {quoted(name)}.{did_you_mean(name, link.NAMES)}")
        values[name] = _value(name, text, f"--set {name}")
    return values


def _value(name: str, text: str, flag: str) -> Any:
    """Convert the text of a setting to its value, as a link does; an error message begins with the flag."""
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
    user_code = FILE.fullmatch(name)
    is_saved = name.lower().endswith(files.READ) or os.path.isfile(name)
    if not user_code and not is_saved:
        return fetch(name, **settings)
    if settings:
        kind = "A model from a file" if user_code else "A saved run"
        raise InputError(f"{kind} has no setting {quoted(next(iter(settings)))}.")
    if not user_code:
        return cases.source(name)
    note_user_code(*user_code.groups())
    return own_code.build(*user_code.groups())


def fetch(name: str, **settings: object) -> Source:
    """Load a model by name, without opening a file or running user code; print its findings to stderr."""
    with terminal.download(name) as report:
        source = api.load(name, report=report, **settings)
    terminal.note(*map(as_sentence, source.findings))
    return source


def note_user_code(file: str, function: str) -> None:
    """Print to stderr that a user's file is run, and then a function of it."""
    terminal.note(f"the code of {visible_text(file)} is run, then {visible_text(function)}.")


def texts(argument: str, *, by_line: bool = False) -> list[str]:
    """Return a list with the text of an argument, or with its lines that are not empty; "-" reads it from stdin."""
    try:
        text = sys.stdin.read().removesuffix("\n") if argument == "-" else argument
    except UnicodeDecodeError:
        raise InputError("The text on stdin is not UTF-8.") from None
    if not text.strip():
        raise InputError("There is no text; give a sentence, or - to read it from stdin.")
    return [line for line in text.splitlines() if line.strip()] if by_line else [text]


def request_of(choices: Choices, source: Source, paths: Sequence[str] = (), *, is_link: bool = True) -> Request:
    """Make the request from the choices and the pictures or sound in `paths`; if a link has none, use an example."""
    examples = (source.card.examples if source.card else ()) or source.examples or (PROBE,)
    text = choices["text"] or examples[0]
    if source.reads in ("picture", "sound") and (is_link or paths):  # the model reads no text
        text = ""
    by_line = len(text.strip("\r\n").splitlines()) > 1 if choices["lines"] is None else choices["lines"]
    lines = tuple(line for line in text.splitlines() if line.strip()) if by_line else (text,)
    targets = choices["target"].splitlines() if by_line else [choices["target"].strip("\r\n")]
    request = Request(lines, targets=tuple(target for target in targets if target.strip()))
    name = choices["picture"]
    if is_link and not paths and source.reads != "text" and name != "none":
        is_sound = source.reads == "sound"
        samples = {key: path for key, path in api.EXAMPLES.items() if (path.suffix == media.SOUND_ENDING) == is_sound}
        if name is not None and name not in samples:
            names = ", ".join(samples)
            raise InputError(f"The link refers to the file {quoted(name)}; give the file. Available examples: {names}.")
        paths = [samples[name or next(iter(samples))]]
    if paths:
        picture = media.sound(paths[0]) if str(paths[0]).lower().endswith(media.SOUND_ENDING) else media.picture(paths)
        request = replace(request, pictures=picture.pictures * len(lines))
    source.check_pictures(request.pictures)
    return request


def opening(source: Source) -> tuple[Site, int]:
    """Return the site and the head that are shown first for a model."""
    return source.card.opens if source.card else (source.sites[0], 0)


def _site(options: Namespace, choices: Choices, source: Source, *, is_mask: bool = False) -> Site:
    """Return the site of --layer, else of the link, else the first one shown (for a mask, of a decoder if any)."""
    usual, _ = opening(source)
    has_decoder = any(site.kind == "decoder" for site in source.sites)
    kind = "decoder" if is_mask and has_decoder else usual.kind
    if options.layer is None:
        return choices["layer"] or Site(kind, usual.layer)
    text = f"{kind[0]}{options.layer}" if options.layer.isdecimal() else options.layer  # "2" is "d2" in a decoder
    return _value("layer", text, "--layer")


def edits(options: Namespace, source: Source, choices: Choices | None = None, site: Site | None = None) -> Edits:
    """Make the edits from the choices (by default the flags) and --off: heads of `site` ("2,3") or others ("c0.2")."""
    choices = Choices(_flags(options)) if choices is None else choices
    site = site or _site(options, choices, source)
    heads_off = set(choices["heads_off"])
    for head in [head.strip() for heads in options.off for head in heads.split(",")]:
        if head.isdecimal():
            head = f"{site.layer}.{head}"
        if head[:1].isdecimal():  # "0.2": layer 0 of the same kind as `site`
            head = f"{site.kind[0]}{head}"
        heads_off |= _value("heads_off", head, "--off")
    choices = choices.put(heads_off=frozenset(heads_off))
    return link.edits(choices, has_cross=any(site.kind == "cross" for site in source.sites))


def _notes(source: Source, request: Request) -> Iterable[str]:
    """Yield notes about unknown words, with similar known words, and about the cost of a slow run."""
    unknown, words = {} if request.pictures else source.unknown([*request.texts]), []
    for word, similar in unknown.items():
        quotes = [f"“{visible_text(text)}”" for text in (word, *similar)]
        words.append(f"{quotes[0]} (it knows {', '.join(quotes[1:])})" if similar else quotes[0])
    if words:
        more = f" and {len(words) - 10} more words" if len(words) > 10 else ""
        yield f"'{source.name}' does not know {', '.join(words[:10])}{more} and reads {source.unknown_token} instead."
    if not source.one_run and (sentences := source.sentences(request)):
        cost = estimate.estimate(source, len(sentences[0].tokens), request.edits, len(sentences))
        if cost.seconds > SILENT:
            yield f"{cost}."
