"""From arguments to a request: a link and the flags beside it name a model, texts, changes and what is shown."""

import math
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from attnviz import api, cases, files, link
from attnviz.cli import terminal
from attnviz.cli.parser import FILE, LINK
from attnviz.core.display import as_sentence, visible_text
from attnviz.core.edits import BY_LETTER, Edits, Site
from attnviz.core.errors import PICTURES, AttnvizError, InputError, did_you_mean, quoted
from attnviz.core.finite import not_finite
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.files import media
from attnviz.link import Choices
from attnviz.sources import estimate, script
from attnviz.sources.base import Source
from attnviz.studies import gradients

PAGES = {"": "", "heads": "", "overview": "overview", "masks": "mask", "compare": "difference"}
"""Form of the picture of a page, by its path; on the page Heads the link names it."""
PARTS = {"All heads": "overview", "Contributions": "contributions", "Logit lens": "lens"}
"""Forms of the parts of the page Overview."""
PROBE = "The cat sat on the mat because it was tired"
"""Text of a link without one, of a model without an example."""
NO_PICTURE = "none"
"""Name of no picture in a link, for a model that reads text without one, too."""
SILENT = 2.0
"""Seconds a run may take before its cost is printed."""
MOST_UNKNOWN = 10
"""Unknown words that are named, at most."""
FLAGS = {name: name for name in ("step", "target", "temperature", "head", "sentence", "form")} | {"compare": "b"}
"""Flags whose values are written as the link writes them, and their names there."""


@dataclass(frozen=True)
class Inputs:
    """Model, request and place that the arguments of a command name.

    Attributes:
        choices: values of the link and the flags.
        form: form of the picture.
        notes: lines about the run for stderr.
    """

    source: Source
    request: Request
    choices: Choices
    site: Site
    head: int | str
    form: str
    notes: tuple[str, ...] = ()

    @property
    def domain(self) -> str:
        """Range of the colors, as figures name it."""
        return {"adaptive": "adapts"}.get(self.choices["colors"], self.choices["colors"])

    def record(self, *, stream: bool = False) -> Record:
        """Run the model with the changes."""
        record = api.analyze(self.request, self.source, stream=stream)
        if sentence := not_finite(record):
            terminal.note(sentence)
        return record

    def before(self) -> Record | None:
        """Run the model without the changes; None if nothing is changed."""
        return None if self.request.edits == Edits() else api.analyze(self.request.unchanged, self.source)

    def sentence(self, record: Record) -> int:
        """Index of the line that is drawn."""
        number, count = self.choices["sentence"], len(record.sentences)
        if number > count:
            raise InputError(f"There is no sentence {number}; there are {count}, counted from 1.")
        return number - 1


def read(options: Namespace) -> Inputs:
    """Read a text or a link, and the flags beside it; the flags win."""
    if options.text is None:
        raise InputError("There is no text; type one, or name a model that needs none: --live story.")
    is_link = LINK.fullmatch(options.text) is not None
    form, choices = _link(options.text) if is_link else ("", Choices())
    chosen = _flags(options)
    choices = choices.put(**chosen)
    if options.command == "export" and "b" in chosen:
        form = "difference"
    form = chosen.get("form") or form
    name, paths = options.text, options.picture
    if not (is_link or paths) and is_file(name) and name.lower().endswith((*PICTURES, media.SOUND_ENDING)):
        name, paths = "", [name]
    if not (is_link or paths or options.model) and Path(name[:200]).suffix and is_file(name):
        source = load(name, **({} if choices["step"] is None else {"step": choices["step"]}))
        request = Request(source.one_run)
    else:
        source = source_of(choices, sos=form == "mask")
        if not (is_link or (paths and not name)):
            lines = texts(name, by_line=options.lines)
            choices = choices.put(text="\n".join(lines), lines=options.lines)
        request = request_of(choices, source, paths, is_link=is_link)
    if form == "mask" and choices["mask"] is None and "sos" in source.settings():
        choices = choices.put(mask=link.NAMES["mask"].codec.read("causal"))
    site = _site(options.layer, choices, source, is_mask=form == "mask")
    request = replace(request, answer=choices["answer"], edits=_edits(options, choices, source, site))
    opens, head = opening(source)
    head = head if site == opens else 0
    head = choices["head"] if "head" in choices.chosen else head
    form = form or ("picture" if is_link and request.pictures else "map")
    notes = (*_unknown(source, request), *_cost(options, source, request))
    return Inputs(source, request, choices, site, head, form, notes)


def _edits(options: Namespace, choices: Choices, source: Source, site: Site) -> Edits:
    choices = choices.put(heads_off=choices["heads_off"] | _off(options.off, site))
    return link.edits(choices, of_cross=any(other.kind == "cross" for other in source.sites))


def edits(options: Namespace, source: Source) -> Edits:
    """Changes of the flags alone, for a check of a model."""
    choices = Choices(_flags(options))
    return _edits(options, choices, source, _site(options.layer, choices, source))


def _link(address: str) -> tuple[str, Choices]:
    """Form and choices of a link; what cannot be read is noted."""
    parts = urlsplit(address)
    page = parts.path.rsplit("/", 1)[-1]
    if page not in PAGES or not (parts.query or parts.netloc):
        raise InputError(f"{quoted(address)} is no link to a page with one picture: heads, overview, masks or compare.")
    choices, complaints = link.read(parse_qs(parts.query, keep_blank_values=True))
    for complaint in complaints:
        terminal.note(complaint)
    if choices["gray"]:
        raise InputError("The shell makes no patches gray in a picture: export this picture in the app.")
    if choices["less"] == "neutral":
        raise InputError("The shell asks no neutral question: export this picture in the app.")
    if page != "overview":
        return PAGES[page] or choices["form"] or "", choices
    if (part := choices["part"] or "All heads") not in PARTS:
        raise InputError(f"The shell draws no {quoted(part)}: export this picture in the app.")
    return PARTS[part], choices


def _flags(options: Namespace) -> dict[str, Any]:
    """Values of the flags by their names in a link."""
    written = {
        name: str(getattr(options, flag)) for flag, name in FLAGS.items() if getattr(options, flag, None) is not None
    }
    flags = {name: f"--{flag}" for flag, name in FLAGS.items()}
    if options.model is not None and options.command != "check":
        written["model"] = options.model
    if getattr(options, "system", None) and not options.chat:
        raise InputError("--system is what the system says in a chat; add --chat.")
    if getattr(options, "chat", False):
        written["chat"] = options.system or "-"
    if options.mask:
        masks = [f"({mask})" for mask in options.mask] if len(options.mask) > 1 else options.mask
        written["mask"], flags["mask"] = " & ".join(masks), "--mask"
    if options.take:
        written["take"] = "\n".join(options.take)
    for setting in options.set:
        name, sign, value = setting.partition("=")
        if not sign:
            raise InputError(f"{quoted(setting)} is no setting; give NAME=VALUE, such as cell=7.2.")
        if name not in link.NAMES:
            raise InputError(f"A link has no {quoted(name)}.{did_you_mean(name, link.NAMES)}")
        written[name], flags[name] = value, f"--set {name}"
    values = {}
    for name, value in written.items():
        try:
            values[name] = link.NAMES[name].codec.read(value)
        except AttnvizError as error:
            raise InputError(f"{flags.get(name, f'--{name}')}: {error}") from None
    return values


# Models


def source_of(choices: Choices, *, sos: bool = False) -> Source:
    """Load the model of a link.

    Args:
        sos: begin each sentence with <sos> where the model can, as for a mask alone.
    """
    name, settings = api.named_model(choices["model"])
    step = {} if choices["step"] is None else {"step": choices["step"]}
    chat = {} if choices["chat"] is None else {"chat": True, "system": choices["chat"]}
    source = load(name, **settings, **step, **chat)
    return load(name, sos=True, **settings) if sos and "sos" in source.settings() else source


def load(name: str, **settings: object) -> Source:
    """Load a model by its name; notes on stderr that it is fetched, or that the code of a file is run."""
    if file := FILE.fullmatch(name):
        if settings:
            raise InputError(f"What a file builds has no setting {quoted(next(iter(settings)))}; set it in the file.")
        return own(*file.groups(), of=script.build)
    if name.lower().endswith(files.READ) or is_file(name):
        if settings:
            raise InputError(f"A saved run has no setting {quoted(next(iter(settings)))}; it is shown as it is.")
        return cases.source(name)
    return fetch(name, **settings)


def fetch(name: str, **settings: object) -> Source:
    """Load a model by its name alone, with its findings on stderr: no file of that name is opened, no code is run."""
    with terminal.Download(name, sys.stderr) as progress:
        source = api.load(name, report=progress, **settings)
    for finding in source.findings:
        terminal.note(as_sentence(finding))
    return source


def own(file: str, name: str, of: Callable[[str, str], Any] = script.value_of) -> Any:
    """Run a person's file and return what its function returns: a model, or with `script.value_of` anything."""
    terminal.note(f"the code of {visible_text(file)} is run, then {visible_text(name)}.")
    return of(file, name)


def is_file(name: str) -> bool:
    """Whether there is a file of that name; a text may be too long to be one."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


# Texts


def texts(typed: str, *, by_line: bool = False) -> list[str]:
    """A text with its line breaks, or one per line. The last line break of stdin is the end of its last line."""
    try:
        text = sys.stdin.read().removesuffix("\n") if typed == "-" else typed
    except UnicodeDecodeError:
        raise InputError("What came on stdin is not text in UTF-8.") from None
    lines = [line for line in (text.splitlines() if by_line else [text]) if line.strip()]
    if not lines:
        raise InputError("There is no text; give a sentence, or - to read it from stdin.")
    return lines


def request_of(choices: Choices, source: Source, paths: Sequence[str] = (), *, is_link: bool = True) -> Request:
    """The texts, targets and pictures of a link or of flags.

    Args:
        paths: files of pictures or one sound, in place of what a link names.
        is_link: whether texts and pictures that are not named are the examples that a model opens with.
    """
    offered = (source.card.examples if source.card else ()) or source.examples or (PROBE,)
    text = "" if source.reads in ("picture", "sound") and (is_link or paths) else choices["text"] or offered[0]
    several = len(text.strip("\r\n").splitlines()) > 1 if choices["lines"] is None else choices["lines"]
    lines = tuple(line for line in text.splitlines() if line.strip()) if several else (text,)
    request = Request(lines)
    if (target := choices["target"]).strip():
        targets = target.splitlines() if several else [target.strip("\r\n")]
        request = replace(request, targets=tuple(line for line in targets if line.strip()))
    if is_link and not paths and source.reads != "text" and choices["picture"] != NO_PICTURE:
        paths = [_example(source, choices["picture"])]
    if paths:
        picture = media.sound(paths[0]) if str(paths[0]).lower().endswith(media.SOUND_ENDING) else media.picture(paths)
        request = replace(request, pictures=picture.pictures * len(lines))
    source.check_pictures(request.pictures)
    return request


def _example(source: Source, name: str | None) -> Path:
    """The example that a link names, or the first that the model reads."""
    hears = source.reads == "sound"
    there = {name: path for name, path in api.EXAMPLES.items() if (path.suffix == media.SOUND_ENDING) == hears}
    if name is not None and name not in there:
        raise InputError(f"The link shows {quoted(name)}, which it does not hold. Examples are: {', '.join(there)}.")
    return there[name or next(iter(there))]


# Places


def opening(source: Source) -> tuple[Site, int]:
    """The layer and the head that a model opens with."""
    return source.card.opens if source.card else (source.sites[0], 0)


def _site(typed: str | None, choices: Choices, source: Source, *, is_mask: bool = False) -> Site:
    """The layer that is shown; a mask is shown where a decoder hides the future."""
    opens, _ = opening(source)
    kind = "decoder" if is_mask and any(site.kind == "decoder" for site in source.sites) else opens.kind
    if typed is not None:
        match = re.fullmatch(r"([edc]?)(\d{1,9})", typed, re.ASCII)
        if match is None:
            raise InputError(f"{quoted(typed)} is no layer; give a number, or one with its kind: e0, d0 or c0.")
        return Site(BY_LETTER[match[1]] if match[1] else kind, int(match[2]))
    return choices["layer"] or Site(kind, opens.layer)


def _off(typed: Iterable[str], site: Site) -> frozenset[tuple[Site, int]]:
    """Heads of --off: "2,3", "0.2,1.3" or "c1.2"."""
    parts = [part.strip() for text in typed for part in text.split(",")]
    matches = {part: re.fullmatch(r"(?:([edc]?)(\d{1,9})\.)?(\d{1,9})", part, re.ASCII) for part in parts}
    if wrong := [part for part, match in matches.items() if match is None]:
        raise InputError(f"--off: {quoted(wrong[0])} are no heads; give 2,3 or LAYER.HEAD, such as 0.2 or d0.2.")
    return frozenset(
        (Site(BY_LETTER[match[1]] if match[1] else site.kind, int(match[2] or site.layer)), int(match[3]))
        for match in matches.values()
    )


# Notes


def _unknown(source: Source, request: Request) -> list[str]:
    """A line for each unknown word that known ones are spelled like, with these, and one for all others."""
    words: Mapping[str, Any] = {} if request.pictures else source.unknown([*request.texts])
    named, more = list(words.items())[:MOST_UNKNOWN], len(words) - MOST_UNKNOWN
    lines = [(_listed([word]), f"; it knows {_listed(near)}") for word, near in named if near]
    others = [_listed([word]) for word, near in named if not near]
    text = ", ".join(others) + (f" and {more} more words" if others and more > 0 else "")
    lines += [(text, "")] if others else []
    return [f"'{source.name}' does not know {what} and reads {source.unknown_token}{hint}." for what, hint in lines]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"“{visible_text(word)}”" for word in words)


def _cost(options: Namespace, source: Source, request: Request) -> list[str]:
    """Cost of the run as a line, if it takes time; a run beyond what was allowed is refused."""
    sentences = () if source.one_run else source.sentences(request)
    if not sentences:
        return []
    tokens, count = len(sentences[0].tokens), len(sentences)
    estimated = estimate.estimate(source, tokens, request.edits, count)
    if getattr(options, "show", None) == "gradients":  # as many runs, forward and backward
        runs = gradients.RUNS * (gradients.STEPS + 1) * count
        estimated = replace(estimated, seconds=estimate.estimate(source, tokens, request.edits, runs).seconds)
    seconds = math.inf if options.seconds is None else options.seconds
    if estimated.seconds > seconds or estimated.bytes > (math.inf if options.memory is None else 1e9 * options.memory):
        raise InputError(f"{estimated}; that is more than --seconds or --memory allows. Use less of the text.")
    return [f"{estimated}."] if estimated.seconds > SILENT else []
