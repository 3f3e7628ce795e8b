"""Save a run with all that is needed to repeat it (a case), and verify such a file by running the model again.

attnviz.cases.save("The cat sat", "case.attn", "story")
attnviz.cases.verify("case.attn").lines
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import attnviz
from attnviz import api, files
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, check_no_picture, quoted, readable
from attnviz.core.places import SIDE
from attnviz.core.record import Record
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
    return files.save(record, path, settings=settings_of(source, record.request), **options)


def settings_of(source: Source, request: Request) -> dict[str, Any]:
    """Make the entries of a file from which a run can be repeated: the source's name, settings and checksum, targets.

    A user's own model has no name that can be loaded, so none is stored: pass the model to `verify`. For a folder, only
    the last part of its path is stored, because the rest is specific to this machine.
    """
    name = source.id if api.is_named(source) else None
    if name is not None and source.provenance == "from a folder":
        name = without_path(name)
    target = {"target": [*request.targets]} if request.targets else {}
    versions = {"attnviz": attnviz.__version__, "torch": torch.__version__}
    return {"name": name, "settings": api.changed_settings(source), "checksum": source.checksum()} | versions | target


def without_path(name: str) -> str:
    """Shorten the path of a folder to its last part; other names of models stay unchanged."""
    return f"./{Path(name).name}" if Path(name).is_absolute() or name.startswith("~") else name


def source(file: str | Path, content: bytes | None = None) -> Saved:
    """Open a file as a source: a saved run, or an array file from any tool.

    Args:
        content: bytes of the file; by default they are read from `file`.

    Raises:
        InputError: if the file cannot be read, as in `attnviz.read`.
    """
    name = Path(file).name
    with readable(name):
        if not name.lower().endswith(files.READ):
            check_no_picture(name)
            remedy = "Unpack it, and open the .attn file." if name.lower().endswith(".zip") else files.NO_PICKLE
            raise InputError(f"{quoted(name)} cannot be opened: its name must end in {', '.join(files.READ)}. {remedy}")
        if name.lower().endswith(files.ARRAYS):
            return Saved(name, files.from_file(name, files.content(Path(file)) if content is None else content))
        record, case = files.opened(Path(file) if content is None else content, name)
        return Saved(name, record, case=case if isinstance(case, dict) else {})


def state_of(source: Saved) -> dict[str, list[str]]:
    """Return the state of the app at the time of saving, as URL parameters; empty if the file has no valid state."""
    state = source.case.get("state")
    values_by_name = state.values() if isinstance(state, dict) else [None]
    is_valid = all(isinstance(values, list) and all(isinstance(v, str) for v in values) for values in values_by_name)
    return state if is_valid else {}


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
    is_chat = any(token.role for sentence in record.sentences for token in sentence.tokens)
    if is_chat or (source.reads != "sound" and any(sentence.pictures for sentence in record.sentences)):
        again = source.run(record.sentences, record.edits)
    else:  # an encoder-decoder writes its output again, unless a target was given
        texts, target = [sentence.text for sentence in record.sentences], case.get("target")
        again = api.analyze(texts, source, record.edits, target=target if isinstance(target, list) else None)
    again = files.rounded(again) if record.precision else again
    differences, reasons = [*_differences(record, again)], [*_reasons(case, source, record)]
    if differences:
        reasons = reasons or ["Weights and versions are the same, so this is a bug; please report it."]
        return Verified(False, (*differences, *reasons))
    accuracy = ""
    if not record.precision:
        pairs = list(zip(record.steps, again.steps, strict=True))
        difference = max(_difference(getattr(a, name), getattr(b, name)) for a, b in pairs for name in VECTORS)
        accuracy = f", to {difference:.1g} of the largest number" if difference else ", bit for bit"
    return Verified(True, (f"The same{accuracy}: {source.name}, {len(record.steps)} attention calls.", *reasons))


def _source(path: str | Path, case: dict[str, Any], load: Callable[..., Source]) -> Source:
    """Load the source that a file names; the file may come from anyone."""
    name, settings = case.get("name"), case.get("settings")
    if not isinstance(name, str) or not isinstance(settings, dict):
        raise InputError(f"{quoted(str(path))} does not name a model that can be loaded: give the model to run.")
    try:
        return load(name, **settings)
    except InputError as error:
        if Path(name).exists() or not name.startswith("."):
            raise
        hint = "Give its folder: attnviz open FILE --verify --model FOLDER, or verify(file, load(folder))."
        raise InputError(f"The model of the run is in the folder {quoted(name)}, which is not here. {hint}") from error
    except (TypeError, KeyError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise InputError(f"The source {quoted(name)} cannot be made from its settings: {reason}.") from None


def _differences(record: Record, again: Record) -> Iterator[str]:
    """Yield sentences about the differences between the record of a file and the record of a new run."""
    texts = {"tokens": (record.sentences, again.sentences), "words written": (record.targets, again.targets)}
    for noun, batches in texts.items():
        stored, here = ([sentence.labels for sentence in batch] for batch in batches)
        if stored != here:
            in_file, rerun = (" | ".join(map(" ".join, labels)) for labels in (stored, here))
            yield f"Other {noun}: {quoted(in_file)} in the file, {quoted(rerun)} here."
            return
    if record.sites != again.sites:
        yield f"Other attention calls: {len(record.sites)} in the file, {len(again.sites)} here."
        return
    close = CLOSE[record.precision]
    for stored, rerun in zip(record.steps, again.steps, strict=True):
        differences = {name: _difference(getattr(stored, name), getattr(rerun, name)) for name in VECTORS}
        worst = next((name for name in VECTORS if differences[name] > close), None)
        if worst is not None:
            yield f"{stored.site}: the {worst} vectors differ by up to {differences[worst]:.2g} of the largest."
            continue
        for head, sentence in product(range(stored.num_heads), range(stored.shape[0])):
            weights = (step.weights(head, sentence=sentence) for step in (stored, rerun))
            if (difference := _difference(*weights)) > close:
                yield f"{stored.site.head(head)}: the weights differ by up to {difference:.2g}."
                break
    outputs = {"last hidden states": (record.output, again.output)}
    if record.prediction and again.prediction and not record.prediction.others:
        outputs["logits"] = record.prediction.logits, again.prediction.logits
    for what, (stored, rerun) in outputs.items():
        if (difference := _difference(stored, rerun)) > CLOSE[""]:
            yield f"The {what} differ by up to {difference:.2g} of the largest."


def _difference(a: Tensor, b: Tensor) -> float:
    """Compute the largest difference, relative to the largest number of `a`; infinite for other shapes or NaN cells."""
    if a.shape != b.shape or not torch.equal(a.isfinite(), b.isfinite()):
        return float("inf")
    a, b = a.double().nan_to_num(0, 0, 0), b.double().nan_to_num(0, 0, 0)
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-30)) if a.numel() else 0.0


def _reasons(case: dict[str, Any], source: Source, record: Record) -> Iterator[str]:
    """Yield sentences about causes of differences: weights and versions other than in the file, and its rounding."""
    if case and case.get("checksum") != source.checksum():
        sums = f"{case.get('checksum')!s:.8}, {source.checksum()!s:.8}"
        yield f"The weights of {source.name} are not those of the file (checksums {sums})."
    for name, now in (("attnviz", attnviz.__version__), ("torch", torch.__version__)):
        if case and case.get(name) != now:
            yield f"The file was made by {name} {case.get(name)!s:.40}; here is {now}."
    if any(max(picture.size) == SIDE for sentence in record.sentences for picture in sentence.pictures):
        yield f"The file stores pictures with at most {SIDE} pixels per side: numbers of larger pictures differ."
    if record.precision:
        most = f"differences up to {CLOSE[record.precision]} of the largest are rounding"
        yield f"The file stores numbers as {record.precision}: {most}."
