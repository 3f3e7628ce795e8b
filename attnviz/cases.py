"""Save a run with everything that is needed to repeat it (a case), and verify it on this machine.

attnviz.cases.save("The cat sat", "case.attn", "story")
attnviz.cases.verify("case.attn").lines
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice, product
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from torch import Tensor

import attnviz
from attnviz import api, files
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, check_no_picture, quoted, readable
from attnviz.core.places import SIDE
from attnviz.core.record import Record, Step
from attnviz.core.request import Request
from attnviz.core.stream import VECTORS
from attnviz.sources.base import Source
from attnviz.sources.saved import Saved

CLOSE = {"": 2e-5, "float16": 5e-3}
"""Largest difference that counts as equal, relative to the largest number, by precision of the file."""


def save(
    text: str | Request | Sequence[str | Request],
    path: str | Path,
    source: Source | str = api.DEFAULT,
    edits: Edits = Edits(),
    *,
    target: str | Sequence[str] | None = None,
    **options: Any,
) -> Path:
    """Run a source on a text and save the run as a case; `options` as in `attnviz.save`."""
    source = api.load(source) if isinstance(source, str) else source
    record = api.analyze(text, source, edits, target=target)
    return files.save(record, path, settings=settings_of(source) | made_with(record.request), **options)


def made_with(request: Request) -> dict[str, Any]:
    """Make the file entry for the targets of an encoder-decoder; empty if the model wrote its own output."""
    return {"target": [*request.targets]} if request.targets else {}


def settings_of(source: Source) -> dict[str, Any]:
    """Make the file entries from which a source can be loaded again: name, settings and checksum of the weights.

    The name of a user's own model is omitted, because it has no meaning elsewhere: pass the model to `verify`. For a
    folder, only the last part of its path is stored, because the rest is specific to this machine.
    """
    chosen = api.chosen(source)
    name = source.id if api.is_named(source) else None
    if name is not None and source.provenance == "from a folder":
        name = without_path(name)
    settings = {"name": name, "settings": chosen, "checksum": source.checksum(), "attnviz": attnviz.__version__}
    return settings | {"torch": torch.__version__}


def without_path(name: str) -> str:
    """Shorten the path of a folder to its last part; other names of models stay unchanged."""
    return f"./{Path(name).name}" if Path(name).is_absolute() or name.startswith("~") else name


def source(file: str | Path, content: bytes | None = None, *, most: int = files.MOST_BYTES) -> Saved:
    """Open a file of any origin as a source: a saved run, also in a ZIP archive, or an array file.

    Args:
        content: bytes of the file; by default they are read from `file`.
        most: maximum size of the run in an archive, in unpacked bytes.

    Raises:
        InputError: if the file cannot be read, as in `attnviz.read`.
    """
    name = Path(file).name
    with readable(name):
        if name.lower().endswith(".zip"):
            name, content = _find_run(name, files.content(Path(file)) if content is None else content, most)
        if not name.lower().endswith(files.READ):
            check_no_picture(name)
            endings = ", ".join(files.READ)
            raise InputError(f"{quoted(name)} is no file that opens: its name must end in {endings}. {files.NO_PICKLE}")
        if name.lower().endswith(files.ARRAYS):
            return Saved(name, files.from_file(name, files.content(Path(file)) if content is None else content))
        record, case = files.opened(Path(file) if content is None else content, name)
        return Saved(name, record, case=case if isinstance(case, dict) else {})


def _find_run(name: str, content: bytes, most: int) -> tuple[str, bytes]:
    """Read the saved run in an archive, with its name, after a check of its size."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            runs = [member for member in archive.infolist() if member.filename.endswith(files.ENDING)]
            if len(runs) == 1 and runs[0].file_size <= most:
                return Path(runs[0].filename).name, archive.read(runs[0])
    except Exception:  # the library raises nearly anything for a damaged archive
        raise InputError(f"{quoted(name)} is damaged or no ZIP archive.") from None
    contents = f"one of {runs[0].file_size:,} bytes, and {most:,} are read" if len(runs) == 1 else len(runs) or "none"
    raise InputError(f"An archive opens with one saved run ({files.ENDING}) in it; {quoted(name)} has {contents}.")


def state_of(source: Saved, what: str = "state") -> dict[str, list[str]]:
    """Return the state of the app at the time of saving, as parameters of a link; empty if the file has none.

    Args:
        what: "state", or "link" for the link of the page, which shows the run in its model.
    """
    link = source.case.get(what)
    texts = isinstance(link, dict) and all(
        isinstance(values, list) and all(isinstance(value, str) for value in values) for values in link.values()
    )
    return link if texts else {}


@dataclass(frozen=True)
class Verified:
    """Result of a repeated case.

    Attributes:
        same: whether every number is equal up to rounding.
        lines: sentences with the differences, their size and possible reasons.
    """

    same: bool
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def verify(path: str | Path, source: Source | None = None, *, load: Callable[..., Source] = api.load) -> Verified:
    """Repeat the run in a file and compare every number.

    Args:
        source: source to run; by default the source named in the file. A file does not name a user's own model.
        load: function that loads the source from its name and settings.

    Raises:
        InputError: if the file names no source, or the source cannot be loaded here.
    """
    record, case = files.opened(path)
    case = case if isinstance(case, dict) else {}
    source = _source(path, case, load) if source is None else source
    chat = any(token.role for sentence in record.sentences for token in sentence.tokens)
    if chat or (source.reads != "sound" and any(sentence.pictures for sentence in record.sentences)):
        again = source.run(record.sentences, record.edits)
    else:  # an encoder-decoder writes its output again, unless a target was given
        texts, target = [sentence.text for sentence in record.sentences], case.get("target")
        again = api.analyze(texts, source, record.edits, target=target if isinstance(target, list) else None)
    again = files.rounded(again) if record.precision else again
    differences, reasons = [*_differences(record, again)], [*_reasons(case, source, record)]
    if differences:
        reasons = reasons or ["Weights and versions are the same, so this is a bug; please report it."]
        return Verified(False, (*differences, *reasons))
    steps = zip(record.steps, again.steps, strict=True)
    pairs = [(getattr(stored, name), getattr(rerun, name)) for stored, rerun in steps for name in VECTORS]
    far = max((_difference(ours, theirs) for ours, theirs in pairs), default=0.0)
    exactly = f", to {far:.1g} of the largest number" if far else ", bit for bit"
    exactly = "" if record.precision else exactly
    return Verified(True, (f"The same{exactly}: {source.name}, {len(record.steps)} attention calls.", *reasons))


def _source(path: str | Path, case: dict[str, Any], load: Callable[..., Source]) -> Source:
    """Load the source that a file names; the file may come from anyone."""
    name, settings = case.get("name"), case.get("settings")
    if not isinstance(name, str) or not isinstance(settings, dict):
        raise InputError(f"{quoted(str(path))} does not name a model that can be loaded: say which one to run.")
    try:
        return load(name, **settings)
    except InputError as error:
        if Path(name).exists() or not name.startswith("."):
            raise
        moved = "Say where it stands now: attnviz open FILE --verify --model FOLDER, or verify(file, load(folder))."
        raise InputError(f"The run is of the folder {quoted(name)}, which is not here. {moved}") from error
    except (TypeError, KeyError, ValueError) as error:
        why = str(error).rstrip(".")
        raise InputError(f"The source {quoted(name)} cannot be made from its settings: {why}.") from None


def _differences(record: Record, again: Record) -> Iterator[str]:
    pairs = (("tokens", record.sentences, again.sentences), ("words written", record.targets, again.targets))
    for what, ours, theirs in pairs:
        if [sentence.labels for sentence in ours] != [sentence.labels for sentence in theirs]:
            stored, here = (" | ".join(" ".join(sentence.labels) for sentence in each) for each in (ours, theirs))
            yield f"Other {what}: {quoted(stored)} in the file, {quoted(here)} here."
            return
    if record.sites != again.sites:
        yield f"Other attention calls: {len(record.sites)} in the file, {len(again.sites)} here."
        return
    for stored, rerun in zip(record.steps, again.steps, strict=True):
        yield from islice(_step_differences(stored, rerun, CLOSE[record.precision]), 1)
    outputs = {"last hidden states": (record.output, again.output)}
    if record.prediction and again.prediction and not record.prediction.others:
        outputs["logits"] = record.prediction.logits, again.prediction.logits
    for what, (ours, theirs) in outputs.items():
        if (far := _difference(ours, theirs)) > CLOSE[""]:
            yield f"The {what} differ by up to {far:.2g} of the largest."


def _step_differences(stored: Step, rerun: Step, close: float) -> Iterator[str]:
    for name in VECTORS:
        if (far := _difference(getattr(stored, name), getattr(rerun, name))) > close:
            yield f"{stored.site}: the {name} vectors differ by up to {far:.2g} of the largest."
    for head, sentence in product(range(stored.num_heads), range(stored.shape[0])):
        ours, theirs = (step.weights(head, sentence=sentence) for step in (stored, rerun))
        if (far := _difference(ours, theirs)) > close:
            yield f"{stored.site.head(head)}: the weights differ by up to {far:.2g}."


def _difference(a: Tensor, b: Tensor) -> float:
    """Compute the largest difference, relative to the largest number; infinite if shapes or non-finite cells differ."""
    if a.shape != b.shape or not torch.equal(a.isfinite(), b.isfinite()):
        return float("inf")
    a, b = a.double().nan_to_num(0, 0, 0), b.double().nan_to_num(0, 0, 0)
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-30)) if a.numel() else 0.0


def _reasons(case: dict[str, Any], source: Source, record: Record) -> Iterator[str]:
    if case and case.get("checksum") != source.checksum():
        sums = f"{case.get('checksum')!s:.8}, {source.checksum()!s:.8}"
        yield f"The weights of {source.name} are not those of the file (checksums {sums})."
    for name, now in (("attnviz", attnviz.__version__), ("torch", torch.__version__)):
        if case and case.get(name) != now:
            yield f"The file was made by {name} {case.get(name)!s:.40}; here is {now}."
    if any(max(picture.size) == SIDE for sentence in record.sentences for picture in sentence.pictures):
        yield f"The file keeps {SIDE} pixels of the longer side of a picture: of a larger one the numbers differ."
    if record.precision:
        rounding = CLOSE[record.precision]
        yield f"The file keeps {record.precision}: differences up to {rounding} of the largest are rounding."
