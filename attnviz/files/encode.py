"""A record as a JSON object and tensors."""

import math
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.core import attention
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask
from attnviz.core.modifiers import Bias
from attnviz.core.origin import VECTORS
from attnviz.core.record import Prediction, Record, Step
from attnviz.core.scoring import Scoring
from attnviz.core.taking import EachOff
from attnviz.core.tap import BiasBesideSink, MaskBesideSink
from attnviz.core.tokens import Sentence
from attnviz.core.windows import WindowBias

PRECISIONS = ("float32", "float16")
SMALL = 4096
"""Words of the largest vocabulary of which every logit is stored."""

TOP_WORDS = 50
"""Most probable words of each position that are stored of a larger vocabulary."""

NUMBERS = [field.name for field in fields(Scoring) if field.name != "bias"]


def described(record: Record, *, whole_prediction: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors from which `decode.record_of` restores the record."""
    store = Tensors()
    header = {
        "source": record.source,
        "provenance": record.provenance,
        "read_only": record.read_only,
        "unseen": record.unseen,
        "findings": list(record.findings),
        "precision": record.precision,
        "sentences": [_sentence(f"sentences.{n}", each, store) for n, each in enumerate(record.sentences)],
        "targets": [_sentence(f"targets.{n}", each, store) for n, each in enumerate(record.targets)],
        "own_texts": [
            [site.kind, site.layer]
            + [[_sentence(f"{site}.{end}.{n}", each, store) for n, each in enumerate(ends[end])] for end in (0, 1)]
            for site, ends in record.own_texts.items()
        ],
        "edits": _edits(record.edits),
        "steps": [_step(f"steps.{n}", step, store, record.precision) for n, step in enumerate(record.steps)],
        "output": store.put("output", record.output),
        "vectors": store.put("vectors", record.vectors),
        "labels": record.labels and [list(record.labels[0]), store.put("labels", record.labels[1])],
        "label_kind": record.label_kind,
        "pooling": record.pooling,
        "prediction": record.prediction and _prediction(record.prediction, store, whole_prediction),
    }
    return header, store.tensors


class Tensors:
    """Tensors by name. What is there already is named again; axes that only repeat are kept once."""

    def __init__(self):
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[tuple, tuple[str, Tensor]] = {}  # the tensor, so that its place in memory stays its own

    def put(self, name: str, tensor: Tensor | None) -> str | list | None:
        """The name under which a tensor is kept, with its shape where it repeats: [name, shape]."""
        if tensor is None:
            return None
        tensor = tensor.detach()
        repeats = [axis for axis in range(tensor.dim()) if tensor.stride(axis) == 0 and tensor.shape[axis] > 1]
        shape = list(tensor.shape)
        for axis in repeats:
            tensor = tensor.narrow(axis, 0, 1)
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype) if tensor.numel() else (name,)
        if place not in self._names:
            self._names[place] = name, tensor
            self.tensors[name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
        name = self._names[place][0]
        return [name, shape] if repeats else name


def rounded(record: Record) -> Record:
    """A record whose queries, keys and values are those of float16, and whose weights are made of these."""
    return replace(record, steps=tuple(map(_rounded, record.steps)), precision="float16")


def _rounded(step: Step) -> Step:
    numbers = [vector.to(torch.float16).to(vector.dtype) for vector in (step.query, step.key, step.value)]
    if not all(
        torch.equal(a.isfinite(), b.isfinite())
        for a, b in zip(numbers, (step.query, step.key, step.value), strict=True)
    ):
        raise InputError(f"Numbers of {step.site} are too large for float16; save them as float32.")
    _, logsumexp = attention.attend(*numbers, step.mask, step.scoring)
    return replace(step, **dict(zip(VECTORS, numbers, strict=True)), logsumexp=logsumexp)


def _sentence(name: str, sentence: Sentence, store: Tensors) -> dict[str, Any]:
    tokens = [
        [t.text, t.id, t.start, t.end, t.special, t.joined, t.segment, *([t.role] if t.role else [])]
        for t in sentence.tokens
    ]
    whole = {"text": sentence.text, "length": sentence.length, "tokens": tokens}
    if not (sentence.has_places or sentence.pictures):
        return whole
    boxes = [
        None if t.box is None else [t.box.left, t.box.top, t.box.right, t.box.bottom, t.box.picture]
        for t in sentence.tokens
    ]
    pictures = [
        [store.put(f"{name}.pictures.{n}", picture.small.pixels), picture.seconds]
        for n, picture in enumerate(sentence.pictures)
    ]
    return whole | {"boxes": boxes, "pictures": pictures}


def _edits(edits: Edits) -> dict[str, Any]:
    each = [_heads(off) for off in edits.each_off] if isinstance(edits, EachOff) else []
    return edits.to_json() | ({"each_off": each} if each else {})


def _heads(off: Iterable) -> list[list]:
    return [[site.kind, site.layer, head] for site, head in sorted(off)]


def _step(prefix: str, step: Step, store: Tensors, precision: str) -> dict[str, Any]:
    vectors = {name: getattr(step, name) for name in VECTORS}
    if precision:
        vectors = {name: vector.to(getattr(torch, precision)) for name, vector in vectors.items()}
    return {
        "kind": step.site.kind,
        "layer": step.site.layer,
        "name": step.name,
        "heads_off": sorted(step.heads_off),
        "off_alone": [sorted(off) for off in step.off_alone],
        "has_sink": step.has_sink,
        **({} if step.taken is None else {"taken": store.put(f"{prefix}.taken", step.taken)}),
        "weights_only": step.weights_only,
        "mask": store.put(f"{prefix}.mask", step.mask)
        if isinstance(step.mask, Tensor)
        else step.mask and _mask(step.mask),
        "scoring": {name: getattr(step.scoring, name) for name in NUMBERS}
        | {"bias": [_bias(f"{prefix}.bias.{n}", bias, store) for n, bias in enumerate(step.scoring.bias)]},
        "dtype": str(step.query.dtype).removeprefix("torch."),
        "logsumexp": store.put(f"{prefix}.logsumexp", step.logsumexp),
    } | {name: store.put(f"{prefix}.{name}", vector) for name, vector in vectors.items()}


def _mask(mask: Mask) -> dict[str, Any]:
    if isinstance(mask, MaskBesideSink):
        return {"text": mask.mask.text, "beside": mask.sink}
    return {"text": mask.text}


def _bias(name: str, bias: Tensor | Bias, store: Tensors) -> Any:
    if isinstance(bias, Tensor):
        return store.put(name, bias)
    if isinstance(bias, WindowBias):
        return {"windows": bias.windows.text, "table": store.put(name, bias.table)}
    return (
        {"beside": bias.sink, **_bias(name, bias.bias, store)} if isinstance(bias, BiasBesideSink) else bias.to_json()
    )


def _prediction(prediction: Prediction, store: Tensors, whole: bool) -> dict[str, Any]:
    if not whole and len(prediction.vocabulary) > SMALL and not prediction.others:
        prediction = _most_probable(prediction)
    return {
        "vocabulary": list(prediction.vocabulary),
        "written": list(prediction.written),
        "blanks": prediction.blanks and [list(positions) for positions in prediction.blanks],
        "others": prediction.others,
        "classes": prediction.classes,
        "cut": list(prediction.cut),
        "special": sorted(prediction.special),
        "logits": store.put("prediction.logits", prediction.logits),
    }


def _most_probable(prediction: Prediction) -> Prediction:
    """The words that are among the most probable of some position, and one for all others."""
    logits = prediction.logits
    ids = logits.topk(min(TOP_WORDS, logits.shape[-1]), -1).indices.unique()
    others = torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)
    others[ids] = False
    rest = logits.double().masked_fill(~others, -math.inf).logsumexp(-1, keepdim=True).to(logits.dtype)
    words = [prediction.vocabulary[id] for id in ids.tolist()]
    return replace(
        prediction,
        logits=torch.cat([logits[..., ids], rest], -1),
        vocabulary=(*words, f"{int(others.sum()):,} other words"),
        others=int(others.sum()),
        special=frozenset(place for place, id in enumerate(ids.tolist()) if id in prediction.special),
    )
