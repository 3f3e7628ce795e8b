"""Convert a record to JSON and tensors, and back. JSON objects have the fields of the dataclasses, except in `pack`.

Files may come from anyone: `unpack` checks the type of every value, and `check_fits` whether they make one record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from attnviz.core import masks
from attnviz.core.edits import Edits, Resolved, Site, Take
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask
from attnviz.core.places import SIDE, Box, Picture
from attnviz.core.record import Record, Step
from attnviz.core.scoring import Bias, bias_from_json, check_broadcast
from attnviz.core.stream import VECTORS
from attnviz.core.tap import BiasBesideSink, MaskBesideSink
from attnviz.core.tokens import Sentence, Token
from attnviz.core.windows import WindowBias

PRECISIONS = ("float32", "float16")
DTYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}
MOST_NUMBERS = 2**28
"""Maximum size of the queries, keys or values of a call (1 GB in float32), because a file may repeat one number."""
MOST_PICTURES, LONGEST = 64, 3600.0
"""Maximum number of pictures per text, and maximum length of a sound in seconds."""
AXES = {"output": 3, "vectors": 2, "logits": 3, "logsumexp": 3, "query": 4, "key": 4, "value": 4, "taken": 4, "gain": 3}
"""Number of axes per tensor of a record or a step."""
UNSAVED = {"stream", "request", "line", "entered", "site"}
"""Fields that are not written to files; a step has the entries kind and layer in place of its site."""
LATER = {"findings", "label_kind", "pooling", "own_texts", "classes", "cut", "special", "taken", "pictures", "linear"}
"""Fields that older files may lack."""


class Store:
    """Tensors of a file by name. A tensor that is used twice is stored once, and broadcast axes are stored once.

    Attributes:
        tensors: tensors by name.
        half: whether queries, keys and values are stored as float16.
    """

    def __init__(self, tensors: dict[str, Tensor], *, half: bool = False):
        self.tensors, self.half = tensors, half
        self._names: dict[tuple, tuple[str, Tensor]] = {}  # keeps the tensor, so that its memory is not reused

    def put(self, name: str, tensor: Tensor) -> str | list:
        """Store a tensor and return its name, or [name, shape] if it has broadcast axes."""
        tensor, shape = tensor.detach(), list(tensor.shape)
        for axis, stride in enumerate(tensor.stride()):
            if stride == 0 and shape[axis] > 1:  # a broadcast axis
                tensor = tensor.narrow(axis, 0, 1)
        memory = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype) if tensor.numel() else (name,)
        first_name, _ = self._names.setdefault(memory, (name, tensor))
        if first_name == name:
            self.tensors[name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
        return first_name if list(tensor.shape) == shape else [first_name, shape]

    def get(self, name: str | list) -> Tensor:
        """Look up a tensor by the result of `put`."""
        if not isinstance(name, list):
            return self.tensors[name]
        name, shape = name
        _check(all(type(n) is int and 0 < n <= 10**6 for n in shape), "an axis is too long")
        return self.tensors[name].expand(shape)


def pack(value: Any, store: Store, name: str = "") -> Any:
    """Convert a part of a record to JSON, and put its tensors into the store under names that begin with `name`."""
    match value:
        case Tensor():
            return store.put(name, value)
        case MaskBesideSink():
            return {"text": value.mask.text, "beside": value.sink}
        case Mask():
            return {"text": value.text}
        case BiasBesideSink():
            return {"beside": value.sink, **pack(value.bias, store, name)}
        case WindowBias():
            return {"windows": value.windows.text, "table": store.put(name, value.table)}
        case Resolved():
            heads_off = [[[*astuple(site), head] for site, head in sorted(off)] for off in value.each_off]
            return value.to_json() | ({"each_off": heads_off} if heads_off else {})
        case Bias() | Edits():
            return value.to_json()
        case Picture():
            return [store.put(name, value.small.pixels), value.seconds]
        case Box():
            return [*astuple(value)]
        case Token():
            row = [value.text, value.id, value.start, value.end, value.special, value.joined, value.segment, value.role]
            return row if value.role else row[:-1]
        case Mapping():
            return [[*astuple(site), *pack(texts, store, f"{name}.{site}")] for site, texts in value.items()]
        case frozenset():
            return sorted(value)
        case str():
            return value
        case Sequence():
            return [pack(part, store, f"{name}.{n}") for n, part in enumerate(value)]
    if not is_dataclass(value):
        return value
    more_entries: dict[str, Any] = {}
    if isinstance(value, Step):
        dtype = str(value.query.dtype).removeprefix("torch.")
        more_entries = {"kind": value.site.kind, "layer": value.site.layer, "dtype": dtype}
        value = replace(value, **{field: getattr(value, field).half() for field in VECTORS}) if store.half else value
    if isinstance(value, Sentence) and value.has_places:
        more_entries = {"boxes": [pack(token.box, store) for token in value.tokens]}
    prefix = f"{name}." if name else ""
    names = [field.name for field in fields(value) if field.name not in UNSAVED]
    return {field: pack(getattr(value, field), store, prefix + field) for field in names} | more_entries


_hints = cache(get_type_hints)


def unpack(kind: Any, value: Any, store: Store, name: str = "") -> Any:
    """Convert a JSON value to the type `kind`, such as `tuple[Step, ...]`.

    Args:
        name: name of the field.

    Raises:
        InputError: if the value has another type; damaged JSON may also raise errors such as TypeError and KeyError.
    """
    if get_origin(kind) is UnionType:
        if value is None and NoneType in get_args(kind):
            return None
        options = [option for option in get_args(kind) if option is not NoneType]
        kind = Tensor if Tensor in options and not isinstance(value, dict) else options[-1]
    origin, arguments = get_origin(kind), get_args(kind)  # of tuple[str, ...]: tuple, and (str, Ellipsis)
    if kind is Tensor:
        tensor, axes = store.get(value), AXES.get(name)
        _check(axes in (None, tensor.dim()), f"{quoted(value)} has {tensor.dim()} axes")
        return tensor
    if origin is Literal:
        _check(value in arguments, f"{name} is {quoted(value)}")
        return value
    if origin is Mapping:
        return {unpack(Site, row[:2], store): unpack(arguments[1], row[2:], store) for row in value}
    if origin is not None:
        _check(isinstance(value, list), f"{name} is not a list")
        if arguments[0] is Site:  # a head, (Site, int): kind, layer and index
            return unpack(Site, value[:2], store), unpack(int, value[2], store, "head")
        if origin is tuple and arguments[-1] is not Ellipsis:
            return tuple(unpack(hint, item, store, name) for hint, item in zip(arguments, value, strict=True))
        is_text = arguments[0] is str and {*map(type, value)} <= {str}  # fast: a vocabulary may have 150,000 words
        items = value if is_text else (unpack(arguments[0], item, store, name) for item in value)
        return frozenset(items) if origin is frozenset else tuple(items)
    if kind in (Token, Box, Site):  # a list of the fields; the last ones may be missing
        _check(isinstance(value, list), f"a {kind.__name__.lower()} is not a list")
        hints = list(_hints(kind).items())[: len(value)]
        return kind(*(unpack(hint, item, store, field) for (field, hint), item in zip(hints, value, strict=True)))
    if kind is Take:
        return Take.read(unpack(str, value, store, name))
    if kind in READERS:
        return READERS[kind](value, store)
    if is_dataclass(kind):
        return kind(**_fields(kind, value, store))
    is_kind = type(value) is kind or (kind is float and type(value) is int)
    _check(is_kind and (kind is not int or abs(value) < 2**63), f"{name} is {quoted(value)}")
    return value


def _fields(kind: type, values: dict[str, Any], store: Store) -> dict[str, Any]:
    """Convert the entries of a JSON object to the fields of a dataclass; old files may lack fields in `LATER`."""
    names = [field.name for field in fields(kind) if field.name not in UNSAVED]
    present = [name for name in names if name in values or name not in LATER]
    return {name: unpack(_hints(kind)[name], values[name], store, name) for name in present}


def _picture(values: list, store: Store) -> Picture:
    """Convert [name of the pixel tensor, seconds] to a picture, and check its size and type."""
    pixels, seconds = store.get(values[0]), float(values[1])
    is_small = pixels.dim() == 3 and max(pixels.shape[:2]) <= SIDE and pixels.numel() > 0
    _check(is_small and pixels.shape[2] == 3 and pixels.dtype is torch.uint8, "a picture has a wrong shape or type")
    _check(0 <= seconds <= LONGEST, "the length of a sound is out of range")
    return Picture(pixels, seconds)


def _sentence(values: dict[str, Any], store: Store) -> Sentence:
    """Convert a JSON object, with the boxes of the tokens as an extra entry, to a sentence, and check its numbers."""
    sentence = Sentence(**_fields(Sentence, values, store))
    if values.get("boxes"):
        boxes = unpack(tuple[Box | None, ...], values["boxes"], store, "boxes")
        tokens = [replace(token, box=box) for token, box in zip(sentence.tokens, boxes, strict=True)]
        sentence = replace(sentence, tokens=tuple(tokens))
    _check(len(sentence.pictures) <= MOST_PICTURES, "it has too many pictures")
    for box in (token.box for token in sentence.tokens if token.box is not None):
        is_inside = 0 <= box.left <= box.right <= 1 and 0 <= box.top <= box.bottom <= 1
        _check(is_inside, "the box of a token is outside of its picture")
        _check(0 <= box.picture < max(len(sentence.pictures), 1), "the box of a token is in a picture that is missing")
    _check(0 <= sentence.length <= len(sentence.tokens), "a text is longer than its tokens")
    return sentence


def _step(values: dict[str, Any], store: Store) -> Step:
    """Convert a JSON object to a step, with its vectors in the dtype that they had in the run."""
    dtype = DTYPES.get(values["dtype"])
    _check(dtype is not None, "a step holds no numbers")
    parts = _fields(Step, values, store)
    for field in (*VECTORS, "taken"):
        if parts.get(field) is not None:
            _check(parts[field].numel() <= MOST_NUMBERS, "a step is too large")
            parts[field] = parts[field].to(dtype)
    return Step(unpack(Site, [values["kind"], values["layer"]], store), **parts)


def _mask(values: str | dict[str, Any], store: Store) -> Mask:
    """Convert the text of a mask, or a JSON object with the text and perhaps the position of a sink, to a mask."""
    values = {"text": values} if isinstance(values, str) else values
    if "text" not in values:
        raise InputError("its mask is JSON, as attnviz 0.2 wrote it. Make the record again with this version.")
    mask = masks.mask_from_text(unpack(str, values["text"], store, "mask"))
    return MaskBesideSink(mask, _sink(values["beside"], store)) if "beside" in values else mask


def _bias(values: dict[str, Any], store: Store) -> Bias:
    """Convert a JSON object to a bias: a named bias, a bias within windows, or one of these next to a sink."""
    if "beside" in values:
        inner = {key: value for key, value in values.items() if key != "beside"}
        return BiasBesideSink(_bias(inner, store), _sink(values["beside"], store))
    if "windows" not in values:
        return bias_from_json(values)
    windows, table = _mask(values["windows"], store), store.get(values["table"])
    fits = isinstance(windows, masks.PatchWindows) and table.shape[1:] == (windows.size**2,) * 2
    _check(fits and windows.size > 0 and table.is_floating_point(), "the bias of windows has a wrong shape or type")
    return WindowBias(windows, table)


def _sink(value: Any, store: Store) -> int:
    """Read the position of a sink among the keys."""
    _check(unpack(int, value, store, "beside") >= 0, "the position of a sink is negative")
    return value


def _edits(values: dict[str, Any], store: Store) -> Edits:
    """Convert a JSON object to edits."""
    kind = Resolved if "each_off" in values else Edits
    return kind(**{name: unpack(_hints(kind)[name], value, store, name) for name, value in values.items()})


READERS = {Picture: _picture, Sentence: _sentence, Step: _step, Mask: _mask, Bias: _bias, Edits: _edits}
"""Functions for types whose JSON is not an object with their fields."""


def check_fits(record: Record) -> None:
    """Check that the parts of a record fit together, after `unpack` checked their types.

    Raises:
        InputError: if two parts do not fit, with the reason.
    """
    batch, texts = len(record.sentences), record.read
    _check(batch > 0 and len(record.targets) in (0, batch), "it has no texts")
    _check(0 < len(record.steps) == len(set(record.sites)), "it has no attention, or a layer twice")
    lengths = {len(sentence.tokens) for sentence in record.sentences}
    _check(len(lengths) == 1 and 0 not in lengths, "its texts are empty, or differ in length")
    _check(record.precision in ("", *PRECISIONS), "the precision of its numbers is unknown")
    _check(all(len(end) == batch for ends in record.own_texts.values() for end in ends), "a layer has other texts")
    labels = record.labels
    _check(labels is None or labels[1].shape == (len(texts), len(labels[0])), "its labels do not fit its texts")
    for step in record.steps:
        b, heads, queries, width = step.query.shape
        keys, taken, mask = step.key.shape[2], step.taken, step.mask
        fits = b == batch and step.key.shape == (b, heads, keys, width) and step.value.shape[:3] == (b, heads, keys)
        _check(fits and step.logsumexp.shape == (b, heads, queries), "the tensors of a step do not fit each other")
        _check(taken is None or taken.shape == (b, heads, queries, step.value.shape[3]), "patched outputs do not fit")
        if (linear := step.linear) is not None:
            fits = queries == keys and linear.gain.shape == linear.decay.shape[:3] == (b, heads, keys)
            fits = fits and linear.decay.shape[3:] in ((), (width,))
            _check(fits and (linear.skip is None or linear.skip.shape == (heads,)), "its linear attention does not fit")
        if isinstance(mask, Tensor):
            _check(mask.dtype is torch.bool, "a mask holds numbers")
            check_broadcast("mask", mask, (b, heads, queries, keys))
        step.scoring.check((b, heads, queries, keys))
        sinks = [bias for bias in step.scoring.bias[-1:] if isinstance(bias, Tensor) and bias.shape[-1] == keys]
        _check(bool(sinks) or not step.has_sink, "a sink has no score")
    if (prediction := record.prediction) is None:
        return
    length, count, shape = len(texts[0].tokens), len(prediction.vocabulary), prediction.logits.shape
    fits = shape[0] == len(texts) and shape[1] >= length and shape[2] == count > 0
    _check(fits and prediction.others >= 0, "the words of its prediction do not fit the logits")
    blanks = prediction.blanks
    if blanks is None:
        fits = not prediction.classes
    else:
        fits = len(blanks) == len(texts) and all(0 <= position < length for row in blanks for position in row)
    _check(fits and len(prediction.written) in (0, len(texts)), "its prediction does not fit its texts")
    _check(len(prediction.cut) in (0, len(prediction.written)), "the list of cut texts does not fit the written texts")
    _check(all(0 <= id < count for id in prediction.special), "its special tokens are not in its vocabulary")


def _check(condition: bool, problem: str) -> None:
    """Raise InputError with a description of the problem unless a condition holds."""
    if not condition:
        raise InputError(f"{problem}.")
