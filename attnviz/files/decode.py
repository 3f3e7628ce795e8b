"""A record from a JSON object and tensors, which may be of anybody: everything is checked."""

from typing import Any

import torch
from torch import Tensor

from attnviz.core import masks, modifiers
from attnviz.core.edits import EachOff, Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.masks import Mask
from attnviz.core.modifiers import Bias
from attnviz.core.patches import SIDE, Patches
from attnviz.core.record import Prediction, Record, Step
from attnviz.core.scoring import Scoring
from attnviz.core.shapes import check_broadcast
from attnviz.core.tap import BiasBesideSink, MaskBesideSink
from attnviz.core.tokens import Sentence, Token

TOKEN = (str, int, int, int, bool, bool, int)


def record_of(name: str, header: dict[str, Any], tensors: dict[str, Tensor]) -> Record:
    """The record that `encode.described` told of.

    Raises:
        InputError: if something in it does not fit.
    """
    try:
        return _record(_Kept(tensors), header)
    except AttnvizError as error:
        raise InputError(f"{name} holds no whole record: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, RecursionError):
        raise InputError(f"{name} is damaged: what it says of its record does not fit together.") from None


class _Kept:
    """Tensors as `encode.Tensors` names them."""

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


def _record(kept: _Kept, said: dict[str, Any]) -> Record:
    sentences, targets = (tuple(map(_sentence, said[name])) for name in ("sentences", "targets"))
    _check(len(sentences) > 0 and len(targets) in (0, len(sentences)), "it has no texts")
    steps = tuple(_step(kept, step, len(sentences)) for step in said["steps"])
    output = kept.get(said["output"], 3)
    labels = said["labels"] and (tuple(map(_text, said["labels"][0])), kept.get(said["labels"][1], 2))
    return Record(
        sentences=sentences,
        source=_text(said["source"]),
        provenance=_text(said["provenance"]),
        edits=_edits(said["edits"]),
        steps=steps,
        output=output,
        targets=targets,
        prediction=said["prediction"] and _prediction(kept, said["prediction"]),
        labels=labels,
        vectors=kept.get(said["vectors"], 2),
        read_only=bool(said["read_only"]),
        unseen=said["unseen"] and _text(said["unseen"]),
        precision=_text(said["precision"]),
        patches=_patches(kept, said.get("patches"), len(sentences)),
    )


def _patches(kept: _Kept, said: dict[str, Any] | None, batch: int) -> Patches | None:
    if said is None:
        return None
    sizes, images = [said[name] for name in ("rows", "columns", "extra")], [kept.get(one, 3) for one in said["images"]]
    rows, columns, extra = sizes
    _check(all(type(n) is int for n in sizes) and min(rows, columns) > 0 and extra >= 0, "a grid has no patches")
    _check(len(images) in (0, batch), "there are not as many pictures as texts")
    for image in images:
        small = max(image.shape[:2]) <= SIDE and image.numel() > 0
        _check(small and image.shape[2] == 3 and image.dtype is torch.uint8, "a picture is none")
    return Patches(rows, columns, extra, tuple(images))


def _sentence(said: dict[str, Any]) -> Sentence:
    tokens = []
    for parts in said["tokens"]:
        _check(len(parts) == len(TOKEN) and all(map(isinstance, parts, TOKEN)), "a token is none")
        tokens.append(Token(*parts))
    length = said["length"]
    _check(type(length) is int and 0 <= length <= len(tokens), "a text is longer than its tokens")
    return Sentence(_text(said["text"]), tuple(tokens), length)


def _step(kept: _Kept, said: dict[str, Any], batch: int) -> Step:
    dtype = getattr(torch, said["dtype"])
    query, key, value = (kept.get(said[name], 4).to(dtype) for name in ("query", "key", "value"))
    logsumexp = kept.get(said["logsumexp"], 3)
    b, heads, queries, width = query.shape
    keys = key.shape[2]
    fits = b == batch and key.shape == (b, heads, keys, width) and value.shape[:3] == (b, heads, keys)
    _check(fits and logsumexp.shape == (b, heads, queries), "the tensors of a step do not fit each other")
    shape = (b, heads, queries, keys)
    mask = said["mask"]
    mask = _mask(mask) if isinstance(mask, dict) else kept.get(mask)
    if isinstance(mask, Tensor):
        _check(mask.dtype is torch.bool, "a mask holds numbers")
        check_broadcast("mask", mask, shape)
    scoring = {name: value for name, value in said["scoring"].items() if name != "bias"}
    scoring = Scoring(**scoring, bias=tuple(_bias(kept, one) for one in said["scoring"]["bias"]))
    scoring.check(shape)
    return Step(
        Site(said["kind"], said["layer"]),
        query,
        key,
        value,
        mask,
        logsumexp,
        scoring,
        _heads_of(said["heads_off"]),
        bool(said["has_sink"]),
        tuple(map(_heads_of, said["off_alone"])),
        _text(said["name"]),
        bool(said["weights_only"]),
    )


def _heads_of(numbers: list[int]) -> frozenset[int]:
    _check(all(type(n) is int for n in numbers), "a head has no number")
    return frozenset(numbers)


def _mask(said: dict[str, Any]) -> Mask:
    if "beside" in said:
        return MaskBesideSink(_mask({k: v for k, v in said.items() if k != "beside"}), _whole(said["beside"]))
    return masks.from_json(said)


def _bias(kept: _Kept, said: Any) -> Tensor | Bias:
    if not isinstance(said, dict):
        return kept.get(said)
    if "beside" in said:
        return BiasBesideSink(_bias(kept, {k: v for k, v in said.items() if k != "beside"}), _whole(said["beside"]))
    return modifiers.from_json(said)


def _edits(said: dict[str, Any]) -> Edits:
    given = {name: value for name, value in said.items() if name not in ("mask", "heads_off", "bias", "each_off")}
    given["mask"] = _mask(said["mask"]) if "mask" in said else None
    given["heads_off"] = _sites(said.get("heads_off", []))
    given["bias"] = tuple(map(modifiers.from_json, said.get("bias", [])))
    if "each_off" in said:
        return EachOff(**given, each_off=tuple(map(_sites, said["each_off"])))
    return Edits(**given)


def _sites(said: list[list]) -> frozenset:
    return frozenset((Site(kind, _whole(layer)), _whole(head)) for kind, layer, head in said)


def _prediction(kept: _Kept, said: dict[str, Any]) -> Prediction:
    logits, vocabulary = kept.get(said["logits"], 3), tuple(map(_text, said["vocabulary"]))
    _check(logits.shape[-1] == len(vocabulary) > 0, "its prediction has other words than numbers")
    blanks = said["blanks"] and tuple(tuple(map(_whole, one)) for one in said["blanks"])
    return Prediction(logits, vocabulary, tuple(map(_text, said["written"])), blanks, _whole(said["others"]))


def _text(value: Any) -> str:
    _check(isinstance(value, str), "a name is no text")
    return value


def _whole(value: Any) -> int:
    _check(type(value) is int and value >= 0, "a place is no whole number")
    return value


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InputError(f"{otherwise}.")
