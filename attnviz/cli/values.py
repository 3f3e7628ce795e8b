"""From options to values: texts, a model, what is changed, and which site and head are shown."""

import math
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from attnviz import api, cases, files
from attnviz.analysis.views import PAIRS, View
from attnviz.cli.download import Download
from attnviz.cli.typed import FILE, FLAGS
from attnviz.core.display import as_sentence, visible_text
from attnviz.core.edits import KINDS, Edits, Site, Take
from attnviz.core.errors import PICTURES, InputError, quoted
from attnviz.core.masks import mask_from_text
from attnviz.core.request import Request
from attnviz.core.tokens import Sentence
from attnviz.files import images, sounds
from attnviz.sources import estimate, script
from attnviz.sources.base import Source
from attnviz.studies import gradients


def selected(options: Namespace, queries: int, keys: int) -> dict[str, tuple[int, int]]:
    """The cell to outline, as an argument of a figure, if one is given.

    Raises:
        InputError: if there is no such cell.
    """
    if options.cell is None:
        return {}
    if options.cell[0] >= queries or options.cell[1] >= keys:
        where = f"{queries:,} queries and {keys:,} keys"
        raise InputError("There is no cell {}.{}; there are {}, counted from 0.".format(*options.cell, where))
    return {"selected": options.cell}


def texts(typed: str, *, by_line: bool = False) -> list[str]:
    """A text with its line breaks, or one per line. Of stdin the last line break is the end of the last line."""
    try:
        text = sys.stdin.read().removesuffix("\n") if typed == "-" else typed
    except UnicodeDecodeError:
        raise InputError("What came on stdin is not text in UTF-8.") from None
    lines = [line for line in (text.splitlines() if by_line else [text]) if line.strip()]
    if not lines:
        raise InputError("There is no text; give a sentence, or - to read it from stdin.")
    return lines


def source(options: Namespace) -> Source:
    """The model that was chosen. A setting is never a reason to take the model that has it unasked.

    Raises:
        InputError: if a setting of another model was given.
    """
    name = options.model or api.DEFAULT
    flags = {setting: getattr(options, setting) for setting in FLAGS if hasattr(options, setting)}
    if getattr(options, "system", "") and not options.chat:
        raise InputError("--system is what the system says in a chat; add --chat.")
    chat = {"chat": True, "system": options.system} if getattr(options, "chat", False) else {}
    settings = flags | dict(options.set) | chat
    valid = api.SOURCES[name].settings() if name in api.SOURCES else ()
    if name in api.SOURCES and (unknown := [setting for setting in settings if setting not in valid]):
        flag = FLAGS.get(unknown[0], f"setting {unknown[0]}")
        owners = [owner for owner, factory in api.SOURCES.items() if unknown[0] in factory.settings()]
        if not owners:
            raise InputError(f"No model has a {flag}; '{name}' has: {', '.join(valid) or 'none'}.")
        has = " or ".join(f"--model {owner}" for owner in owners)
        if options.model:
            raise InputError(f"The model '{name}' has no {flag}; only {has} has.")
        raise InputError(f"{flag} is a setting of another model; add {has}.")
    if of_mask(options) and "sos" in valid:
        settings = {"sos": True} | settings
    if options.step is not None:
        settings["step"] = options.step
    return load(name, **settings)


def read(options: Namespace) -> tuple[Request, Source]:
    """The request and the model; the name of a file of attention in the place of a text is both, if no model is given.

    The name of a file with a picture is that picture.
    """
    name = options.text
    if name is None:
        raise InputError("There is no text; type one, or write a model that needs none: --live story.")
    is_run = not options.picture and options.model is None and Path(name).suffix and is_file(name)
    if is_run and not name.lower().endswith((*PICTURES, sounds.ENDING)):
        model = source(Namespace(**vars(options) | {"model": name}))
        request = Request(model.one_run)
    else:
        model = source(options)
        request = request_of(options, name, model)
    target = getattr(options, "target", None)
    targets = () if target is None else tuple(texts(target, by_line=options.lines))
    answer = tuple(getattr(options, "continued", ()))
    changed = edits(options, model) if hasattr(options, "masks") else Edits()
    return replace(request, targets=targets, answer=answer, edits=changed), model


def request_of(options: Namespace, name: str, model: Source) -> Request:
    """A text, or several with `--lines`, with the pictures of `--picture`; or a file with a picture or a sound."""
    if not options.picture and name.lower().endswith((*PICTURES, sounds.ENDING)) and is_file(name):
        request = sounds.sound(name) if name.lower().endswith(sounds.ENDING) else images.picture(name)
    elif options.picture and model.reads in ("picture", "sound") and not name:
        request = images.picture(options.picture)
    else:
        request = Request.of(texts(name, by_line=options.lines))
        if options.picture:
            request = replace(request, pictures=images.picture(options.picture).pictures * len(request.texts))
    model.check_pictures(request.pictures)
    return request


def load(name: str, **settings: object) -> Source:
    """A model by its name; one that is fetched says so on stderr, as does one whose file is run."""
    if file := FILE.fullmatch(name):
        if settings:
            raise InputError(f"What a file builds has no setting {quoted(next(iter(settings)))}; set it in the file.")
        return own(*file.groups(), of=script.build)
    if name.lower().endswith(files.READ) or is_file(name):
        if settings:
            raise InputError(f"A saved run has no setting {quoted(next(iter(settings)))}; it is shown as it is.")
        return cases.source(name)
    return fetch(name, **settings)


def own(file: str, name: str, of: Callable[[str, str], Any] = script.value_of) -> Any:
    """Run a person's file and return what its function returns: a source, or with `script.value_of` anything."""
    sys.stderr.write(f"attnviz: the code of {visible_text(file)} is run, then {visible_text(name)}.\n")
    return of(file, name)


SILENT = 2.0
"""Seconds below which nothing is said of a run."""


def cost(options: Namespace, source: Source, request: Request) -> str:
    """Cost of a run, as a line; "" where it takes no time.

    Raises:
        InputError: if that is more than was allowed, with the numbers.
    """
    sentences = () if source.one_run else source.sentences(request)
    if not sentences:
        return ""
    tokens = len(sentences[0].tokens)
    estimated = estimate.estimate(source, tokens, request.edits, len(sentences))
    if getattr(options, "gradients", False):  # as many runs and ways back
        count = gradients.RUNS * (gradients.STEPS + 1) * len(sentences)
        more = estimate.estimate(source, tokens, request.edits, count)
        estimated = replace(estimated, seconds=more.seconds)
    most = math.inf if options.seconds is None else options.seconds
    if estimated.seconds > most or estimated.bytes > (math.inf if options.memory is None else 1e9 * options.memory):
        raise InputError(f"{estimated}; that is more than --seconds or --memory allows. Use less of the text.")
    return f"{estimated}." if estimated.seconds > SILENT else ""


def is_file(name: str) -> bool:
    """Whether there is a file of that name; a text may be too long to be one."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def fetch(name: str, **settings: object) -> Source:
    """A model by its name alone, with its findings on stderr: no file of that name is opened, and no code is run."""
    with Download(name, sys.stderr) as progress:
        source = api.load(name, report=progress, **settings)
    sys.stderr.writelines(f"attnviz: {as_sentence(finding)}\n" for finding in source.findings)
    return source


def opening(source: Source) -> tuple[Site, int]:
    """The site and the head that a model opens with."""
    return source.card.opens if source.card else (source.sites[0], 0)


def of_mask(options: Namespace) -> bool:
    """Whether a mask alone is shown, of which a model without one gets an example."""
    return getattr(options, "form", "") == "mask"


def site(options: Namespace, source: Source) -> Site:
    """Requested site, completed by where the model opens; a mask is shown where a decoder hides the future."""
    opens, _ = opening(source)
    decodes = any(site.kind == "decoder" for site in source.sites)
    kind = options.kind or ("decoder" if decodes and of_mask(options) else opens.kind)
    if kind not in KINDS:
        raise InputError(f"There is no kind {quoted(kind)}. There are: {', '.join(KINDS)}.")
    return Site(kind, opens.layer if options.layer is None else options.layer)


def head(options: Namespace, source: Source) -> int | str:
    """Requested head; else the head that the model opens with, where it opens, and the first elsewhere."""
    opens, head = opening(source)
    if options.head is not None:
        return options.head
    return head if site(options, source) == opens else 0


def edits(options: Namespace, source: Source) -> Edits:
    default = ["causal"] if "sos" in source.settings() and of_mask(options) else []
    masks = [mask_from_text(text) for text in options.masks or default]
    current = site(options, source)
    off = {
        (Site(kind or current.kind, current.layer if layer is None else layer), head)
        for places in options.off
        for kind, layer, head in places
    }
    mask = reduce(and_, masks) if masks else None
    policy = {"empty_rows": options.empty_rows, "own_mask": options.own_mask, "mask_cross": options.mask_cross}
    policy["taken"] = tuple(map(Take.read, options.take))
    return Edits(mask, frozenset(off), temperature=options.temperature, scale=options.score_scale, **policy)


def view(options: Namespace) -> View:
    pairs = {name.replace(" to ", ""): name for name in PAIRS}
    if options.pair not in pairs:
        raise InputError(f"There is no pair {quoted(options.pair)}. There are: {', '.join(pairs)}.")
    return View(options.words, options.special, pairs[options.pair], options.sentences, options.parts)


def sentence(options: Namespace, sentences: Sequence[Sentence]) -> int:
    if not 1 <= options.sentence <= len(sentences):
        have = f"there are {len(sentences)}, counted from 1"
        raise InputError(f"There is no sentence {quoted(options.sentence)}; {have}.")
    return options.sentence - 1
