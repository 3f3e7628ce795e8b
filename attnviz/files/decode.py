"""A record from a JSON object and tensors, which may be of anybody: everything is checked."""

from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import Tensor

from attnviz.core import masks, modifiers
from attnviz.core.edits import Edits, Site, Take
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.masks import Mask
from attnviz.core.modifiers import Bias
from attnviz.core.places import SIDE, Box, Picture, grid
from attnviz.core.record import LabelKind, Prediction, Record, Step
from attnviz.core.scoring import Scoring
from attnviz.core.shapes import check_broadcast
from attnviz.core.taking import EachOff
from attnviz.core.tap import BiasBesideSink, MaskBesideSink
from attnviz.core.tokens import Sentence, Token
from attnviz.core.windows import WindowBias
from attnviz.files.encode import PRECISIONS

TOKEN = (str, int, int, int, bool, bool, int)
MOST_PICTURES, LONGEST = 64, 3600.0
"""Pictures of a text, and seconds of a sound, at most."""
MOST = 2**28
"""Queries, keys or values of one call at most: 1 GB of float32, which may be one number that repeats."""


def record_of(name: str, header: dict[str, Any], tensors: dict[str, Tensor]) -> Record:
    """The record that `encode.described` told of.

    Raises:
        InputError: if something in it does not fit.
    """
    try:
        return _record(_StoredTensors(tensors), header)
    except AttnvizError as error:
        raise InputError(f"{name} holds no whole record: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, RecursionError):
        raise InputError(f"{name} is damaged: what it says of its record does not fit together.") from None


class _StoredTensors:
    """Tensors by the names that `encode.Tensors` gives them."""

    def __init__(self, tensors: dict[str, Tensor]):
        self.tensors = tensors

    def get(self, name: str | list | None, axes: int | None = None) -> Tensor | None:
        if name is None:
            return None
        name, shape = name if isinstance(name, list) else (name, None)
        tensor = self.tensors[name]
        if shape is not None:
            _check(all(type(n) is int and 0 < n <= 10**6 for n in shape), "an axis is too long")
            tensor = tensor.expand(shape)
        _check(axes is None or tensor.dim() == axes, f"'{name}' has {tensor.dim()} axes")
        return tensor


def _record(tensors: _StoredTensors, header: dict[str, Any]) -> Record:
    patches = header.get("patches")
    sentences, targets = (
        tuple(_sentence(tensors, fields, patches, n) for n, fields in enumerate(header[name]))
        for name in ("sentences", "targets")
    )
    _check(len(sentences) > 0 and len(targets) in (0, len(sentences)), "it has no texts")
    steps = tuple(_step(tensors, step, len(sentences)) for step in header["steps"])
    _check(0 < len(steps) == len({step.site for step in steps}), "it has no attention, or a layer twice")
    read = targets or sentences
    _check(len({len(sentence.tokens) for sentence in sentences} | {0}) == 2, "its texts are not of one length")
    _check(header["precision"] in ("", *PRECISIONS), "its numbers are of no known precision")
    places = len(read), len(read[0].tokens)
    return Record(
        sentences=sentences,
        source=_text(header["source"]),
        provenance=_text(header["provenance"]),
        edits=_edits(header["edits"]),
        steps=steps,
        output=tensors.get(header["output"], 3),
        targets=targets,
        prediction=_if_there(header["prediction"], lambda value: _prediction(tensors, value, places)),
        **_labels(tensors, header, len(read)),
        pooling=_text(header.get("pooling", "")),
        vectors=tensors.get(header["vectors"], 2),
        read_only=bool(header["read_only"]),
        unseen=_if_there(header["unseen"], _text),
        precision=header["precision"],
        findings=tuple(map(_text, header.get("findings", []))),
        own_texts=_own_texts(tensors, header.get("own_texts", []), len(sentences)),
    )


def _own_texts(tensors: _StoredTensors, sites: list, batch: int) -> dict[Site, tuple]:
    texts = {
        Site(kind, _whole(layer)): tuple(
            tuple(_sentence(tensors, fields, None, n) for n, fields in enumerate(end)) for end in (queries, keys)
        )
        for kind, layer, queries, keys in sites
    }
    _check(all(len(end) == batch for ends in texts.values() for end in ends), "there are not as many pictures as texts")
    return texts


def _labels(tensors: _StoredTensors, header: dict[str, Any], batch: int) -> dict[str, Any]:
    """The labels, and how they are read: as those of one class where a file does not say."""
    labels = _if_there(header["labels"], lambda value: (tuple(map(_text, value[0])), tensors.get(value[1], 2)))
    _check(not labels or labels[1].shape == (batch, len(labels[0])), "its labels do not fit its texts")
    kind = header.get("label_kind", "one")
    _check(kind in get_args(LabelKind), "its labels are read in no known way")
    return {"labels": labels, "label_kind": kind}


def _sentence(tensors: _StoredTensors, fields: dict[str, Any], patches: dict[str, Any] | None, index: int) -> Sentence:
    """A sentence; `patches` of its record stand in files of before tokens had boxes."""
    tokens, listed = [], fields["tokens"]
    boxes, pictures = fields.get("boxes") or [None] * len(listed), fields.get("pictures", [])
    rows, columns, extra = (_whole(patches[name]) for name in ("rows", "columns", "extra")) if patches else (0, 0, 0)
    if patches and extra + rows * columns == len(listed):
        boxes = [None] * extra + [[*vars(box).values()] for box in grid(rows, columns)]
        pictures = [[image, 0.0] for image in patches["images"][index : index + 1]]
    _check(len(boxes) == len(listed), "there are not as many places as tokens")
    for parts, box in zip(listed, boxes, strict=True):
        fits = len(parts) in (len(TOKEN), len(TOKEN) + 1) and all(map(isinstance, parts, (*TOKEN, str)))
        _check(fits and all(abs(part) < 2**63 for part in parts[1 : len(TOKEN)]), "a token is none")
        tokens.append(Token(*parts, box=_if_there(box, lambda box: _box(box, len(pictures)))))
    length = fields["length"]
    _check(type(length) is int and 0 <= length <= len(tokens), "a text is longer than its tokens")
    _check(len(pictures) <= MOST_PICTURES, "it has too many pictures")
    _check(all(0 <= float(seconds) <= LONGEST for _, seconds in pictures), "a sound lasts no time that there is")
    read = tuple(Picture(_pixels(tensors.get(name, 3)), float(seconds)) for name, seconds in pictures)
    return Sentence(_text(fields["text"]), tuple(tokens), length, read)


def _box(fields: list, pictures: int) -> Box:
    *sides, picture = fields
    left, top, right, bottom = map(float, sides)
    _check(0 <= left <= right <= 1 and 0 <= top <= bottom <= 1, "a place lies outside of its picture")
    _check(_whole(picture) < max(pictures, 1), "a place is of a picture that is not there")
    return Box(left, top, right, bottom, picture)


def _pixels(pixels: Tensor) -> Tensor:
    small = max(pixels.shape[:2]) <= SIDE and pixels.numel() > 0
    _check(small and pixels.shape[2] == 3 and pixels.dtype is torch.uint8, "a picture is none")
    return pixels


def _step(tensors: _StoredTensors, fields: dict[str, Any], batch: int) -> Step:
    dtype = getattr(torch, fields["dtype"])
    query, key, value = (_numbers(tensors.get(fields[name], 4), dtype) for name in ("query", "key", "value"))
    logsumexp = tensors.get(fields["logsumexp"], 3)
    b, heads, queries, width = query.shape
    keys = key.shape[2]
    fits = b == batch and key.shape == (b, heads, keys, width) and value.shape[:3] == (b, heads, keys)
    _check(fits and logsumexp.shape == (b, heads, queries), "the tensors of a step do not fit each other")
    shape = (b, heads, queries, keys)
    taken = None if fields.get("taken") is None else _numbers(tensors.get(fields["taken"], 4), dtype)
    _check(taken is None or taken.shape == (*shape[:3], value.shape[3]), "what was taken does not fit its step")
    mask = fields["mask"]
    mask = _mask(mask) if isinstance(mask, dict) else tensors.get(mask)
    if isinstance(mask, Tensor):
        _check(mask.dtype is torch.bool, "a mask holds numbers")
        check_broadcast("mask", mask, shape)
    return Step(
        Site(fields["kind"], fields["layer"]),
        query,
        key,
        value,
        mask,
        logsumexp,
        _scoring(tensors, fields, shape),
        _heads_of(fields["heads_off"]),
        bool(fields["has_sink"]),
        tuple(map(_heads_of, fields["off_alone"])),
        name=_text(fields["name"]),
        weights_only=bool(fields["weights_only"]),
        taken=taken,
    )


def _scoring(tensors: _StoredTensors, fields: dict[str, Any], shape: tuple[int, int, int, int]) -> Scoring:
    """How scores are made; a sink has its own in the last bias."""
    numbers = {name: value for name, value in fields["scoring"].items() if name != "bias"}
    scoring = Scoring(**numbers, bias=tuple(_bias(tensors, bias) for bias in fields["scoring"]["bias"]))
    scoring.check(shape)
    sinks = [bias for bias in scoring.bias[-1:] if isinstance(bias, Tensor) and bias.shape[-1] == shape[3]]
    _check(bool(sinks) or not fields["has_sink"], "a sink has no score")
    return scoring


def _numbers(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    _check(dtype.is_floating_point and tensor.numel() <= MOST, "a step is too large, or holds no numbers")
    return tensor.to(dtype)


def _heads_of(numbers: list[int]) -> frozenset[int]:
    _check(all(type(n) is int for n in numbers), "a head has no number")
    return frozenset(numbers)


def _mask(written: str | dict[str, Any]) -> Mask:
    fields = {"text": written} if isinstance(written, str) else written
    if "text" not in fields:
        raise InputError("its mask is JSON, as attnviz 0.2 wrote it. Make the record again with this version.")
    mask = masks.mask_from_text(_text(fields["text"]))
    return MaskBesideSink(mask, _whole(fields["beside"])) if "beside" in fields else mask


def _bias(tensors: _StoredTensors, fields: Any) -> Tensor | Bias:
    if not isinstance(fields, dict):
        return tensors.get(fields)
    if "windows" in fields:
        windows, table = _mask(fields["windows"]), tensors.get(fields["table"], 3)
        fits = isinstance(windows, masks.PatchWindows) and table.shape[1:] == (windows.size**2,) * 2
        _check(fits and windows.size > 0 and table.is_floating_point(), "a bias of windows is none")
        return WindowBias(windows, table)
    if "beside" in fields:
        return BiasBesideSink(
            _bias(tensors, {k: v for k, v in fields.items() if k != "beside"}), _whole(fields["beside"])
        )
    return modifiers.from_json(fields)


def _edits(fields: dict[str, Any]) -> Edits:
    settings = {
        name: value for name, value in fields.items() if name not in ("mask", "heads_off", "bias", "each_off", "taken")
    }
    settings["mask"] = _mask(fields["mask"]) if "mask" in fields else None
    settings["heads_off"] = _sites(fields.get("heads_off", []))
    settings["bias"] = tuple(map(modifiers.from_json, fields.get("bias", [])))
    if "scored_site" in fields:
        settings["scored_site"] = Site(*fields["scored_site"])
    settings["taken"] = tuple(map(Take.read, map(_text, fields.get("taken", []))))
    if "each_off" in fields:
        return EachOff(**settings, each_off=tuple(map(_sites, fields["each_off"])))
    return Edits(**settings)


def _sites(heads: list[list]) -> frozenset:
    return frozenset((Site(kind, _whole(layer)), _whole(head)) for kind, layer, head in heads)


def _prediction(tensors: _StoredTensors, fields: dict[str, Any], places: tuple[int, int]) -> Prediction:
    logits, vocabulary = tensors.get(fields["logits"], 3), tuple(map(_text, fields["vocabulary"]))
    fits = len(logits) == places[0] and logits.shape[1] >= places[1]
    _check(fits and logits.shape[2] == len(vocabulary) > 0, "its prediction has other words than numbers")
    blanks = (
        None if fields["blanks"] is None else tuple(tuple(map(_whole, positions)) for positions in fields["blanks"])
    )
    inside = blanks is None or (
        len(blanks) == places[0] and all(n < places[1] for positions in blanks for n in positions)
    )
    written = tuple(map(_text, fields["written"]))
    _check(inside and len(written) in (0, places[0]), "its prediction is of other texts")
    classes = fields.get("classes", False)
    _check(isinstance(classes, bool) and (blanks is not None or not classes), "its labels are of no positions")
    cut = tuple(map(_whole, fields.get("cut", [])))
    _check(len(cut) in (0, len(written)), "other texts are cut than were written")
    special = frozenset(map(_whole, fields.get("special", [])))
    _check(all(id < len(vocabulary) for id in special), "its special tokens are not in its vocabulary")
    return Prediction(logits, vocabulary, written, blanks, _whole(fields["others"]), classes, cut, special)


def _if_there(value: Any, read: Callable[[Any], Any]) -> Any:
    return None if value is None else read(value)


def _text(value: Any) -> str:
    _check(isinstance(value, str), "a name is no text")
    return value


def _whole(value: Any) -> int:
    _check(type(value) is int and value >= 0, "a place is no whole number")
    return value


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InputError(f"{otherwise}.")
