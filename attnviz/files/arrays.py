"""Arrays of anyone as a record: weights alone, or queries and keys, from another tool, a paper or own code."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.check import MOST_CELLS, check, reading
from attnviz.check.arrays import real_tensor
from attnviz.core import conventions
from attnviz.core.edits import KINDS, Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.record import Record, Step
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token
from attnviz.files import outputs, pieces

MOST_LAYERS = 1000
"""As many as a `Site` names."""

SAME = 1e-4
"""How far given weights may be from those that given queries and keys make."""

READ = {
    "may-attend": lambda mask: mask,
    "true-is-masked": conventions.from_true_is_masked,
    "zero-is-masked": conventions.from_zero_is_masked,
    "additive": conventions.from_additive,
}
CHECKED = "'attnviz check' reads it, and in the app the page Masks, under Check"

TEXTS = ("tokens", "keys")
LENS = re.compile(r"blocks\.(\d+)\.attn\.hook_(pattern|q|k|v)")
"""Names in a cache of TransformerLens: weights (B, H, Q, K), and queries, keys and values (B, n, H, d)."""


BREAKS = re.compile("[\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029]")
"""Line breaks; each becomes a blank, as a text is one line."""


def from_arrays(
    weights: Any = None,
    *,
    query: Any = None,
    key: Any = None,
    value: Any = None,
    mask: Any = None,
    convention: str | None = None,
    scale: float | None = None,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    keys: Sequence[str] | Sequence[Sequence[str]] | None = None,
    kind: str = "encoder",
    name: str = "arrays",
) -> Record:
    """A record of attention that was computed elsewhere: for every picture, number, check and file.

        attnviz.from_arrays(model(**inputs, output_attentions=True).attentions, tokens=tokens)

    What `generate(..., output_attentions=True, return_dict_in_generate=True)` returns, or its attentions, is joined to
    one map; with beams give all of it, as it says which beam each token is of. Arrays are of NumPy, torch or what NumPy
    takes: (Q, K), (H, Q, K), (B, H, Q, K), (layers, B, H, Q, K), or a list
    with one of these per layer. With one sentence of tokens, four axes whose first is not 1 are (layers, H, Q, K).

    Args:
        weights: after the softmax. With `query` and `key` they are checked against what these make.
        query, key, value: (..., n, d) in the place of (..., Q, K).
        mask: booleans, True = may attend; or what `convention` says; the same for all layers if it is one array.
        convention: of the mask, one of `attnviz.check.CONVENTIONS`.
        scale: of the dot products; by default 1/√d_k.
        tokens: what stands at the queries, as words or as a tokenizer's pieces ("Ġcat", "##s"); of several sentences a
            list each. Otherwise they are numbered.
        keys: of kind "cross", what stands at the keys; elsewhere the tokens do.
        kind: "encoder", "decoder" or "cross".
        name: of the source.

    Raises:
        InputError: if there are neither weights nor queries and keys, or shapes do not fit, with both of them.
    """
    if kind not in KINDS:
        raise InputError(f"There is no kind {quoted(kind)}. There are: {', '.join(KINDS)}.")
    if keys is not None and kind != "cross":
        raise InputError(f"Keys of their own stand in cross-attention alone: say kind='cross', not {kind}.")
    if weights is None and (query is None or key is None):
        raise InputError("There is no attention in this: give weights, or query and key.")
    weights, kind, generated = outputs.layers_of(weights, kind)
    one_text = tokens is not None and all(isinstance(word, str) for word in tokens)
    arrays = {"weights": weights, "query": query, "key": key, "value": value}
    layers = {what: _layers(array, what, one_text=one_text) for what, array in arrays.items() if array is not None}
    count = len(next(iter(layers.values())))
    if wrong := [f"{len(tensors)} of {what}" for what, tensors in layers.items() if len(tensors) != count]:
        raise InputError(f"There are {count} layers of {next(iter(layers))} and {', '.join(wrong)}.")
    if count > MOST_LAYERS:
        raise InputError(f"There are {count:,} layers of {next(iter(layers))}; at most {MOST_LAYERS:,} are read.")
    masks = _masks(mask, convention, count)
    steps, notes = [], []
    for layer in range(count):
        step, step_notes = _step(
            Site(kind, layer), {what: tensors[layer] for what, tensors in layers.items()}, masks[layer], scale
        )
        steps.append(step)
        notes += [f"{step.site}: {note}" for note in step_notes]
    if generated and tokens is not None:  # the last one that was written was not read
        tokens = _read(tokens, steps[0].shape[2])
    return _record(tuple(steps), notes, tokens, keys, name)


def _read(tokens: Sequence[Any], length: int) -> Sequence[Any]:
    """Tokens without the last one of each text, where they are one more than a generation has read."""
    if all(isinstance(word, str) for word in tokens):
        return tokens[:length] if len(tokens) == length + 1 else tokens
    return [_read(words, length) for words in tokens]


def from_cache(arrays: Mapping[str, Any], **more: Any) -> Record | None:
    """The record of arrays under the names that TransformerLens gives them; None if there are no such names.

    Whether the future is hidden is seen by the weights; without them it is.
    """
    named = {(int(match[1]), match[2]): array for name, array in arrays.items() if (match := LENS.fullmatch(name))}
    if not named:
        return None
    layers = sorted({layer for layer, _ in named})
    arguments: dict[str, Any] = {} if any(hook == "pattern" for _, hook in named) else {"mask": Subsequent()}
    for hook, what in (("pattern", "weights"), ("q", "query"), ("k", "key"), ("v", "value")):
        tensors_of_hook = [named[layer, hook] for layer in layers if (layer, hook) in named]
        if len(tensors_of_hook) == len(layers):
            tensors = [_tensor(array, what) for array in tensors_of_hook]
            arguments[what] = tensors if hook == "pattern" else [tensor.movedim(-2, -3) for tensor in tensors]
    return from_arrays(**({"kind": "decoder", "name": "TransformerLens"} | arguments | more))


def from_file(name: str, content: bytes) -> Record:
    """The record of a file of arrays: weights, a cache of TransformerLens, or query, key and more under these names.

    One array of weights of four axes is of the layers of one text, which people save rather than a batch of one layer.
    Beside "query" and "key" may stand "value", "weights" and "may_attend"; beside all of them "tokens", and of
    cross-attention "keys", as texts. No pickle is read.

    Raises:
        InputError: if it cannot be read, or holds none, or several that could be meant.
    """
    file = reading.read_file(name, content)
    texts = {key: file.texts[key].astype(str).tolist() for key in TEXTS if key in file.texts}
    called = {"name": name} | texts | ({"kind": "cross"} if "keys" in texts else {})
    if (record := from_cache(file.arrays, **called)) is not None:
        return record
    if {"query", "key"} <= set(file.arrays):
        return from_arrays(**_parts(name, file.arrays), **called)
    layers, notes = _weights(file, one_text=np.ndim(called.get("tokens", "")) < 2)
    called = {"kind": "decoder" if all(map(_hides_the_future, layers)) else "encoder"} | called
    record = from_arrays(layers if len(layers) > 1 else layers[0], **called)
    return replace(record, findings=(*record.findings, *notes))


def _weights(file: reading.ArrayFile, *, one_text: bool) -> tuple[list[Any], list[str]]:
    """The weights of a file, an array of each layer or one of all, and notes about how they were read."""
    chosen, name = file.chosen(), quoted(file.name)
    weights = {key: array for key, array in chosen.items() if reading.kind_by_name(key) in (None, "weights")}
    if not weights:
        kind = reading.kind_by_name(next(iter(chosen)))
        raise InputError(f"{name} holds {'a mask' if kind == 'mask' else kind}, no weights: {CHECKED}.")
    if len(weights) > 1 and not reading.are_layers(weights):
        raise InputError(f"Which array of {name} is meant? It has {', '.join(map(quoted, weights))}; give one alone.")
    if any(str(array.dtype) in ("bool", "torch.bool") for array in weights.values()):
        raise InputError(f"{name} holds booleans, as a mask does, and no weights: {CHECKED}.")
    layers, notes = list(weights.values()), [f"{quoted(key)} is not read." for key in chosen.keys() - weights]
    if len(layers) == 1 and layers[0].ndim == 4 and len(layers[0]) > 1 and one_text:
        notes.append(f"{tuple(layers[0].shape)} is read as (layers, H, Q, K) of one text.")
        layers = list(layers[0])
    return layers, notes


def _hides_the_future(weights: Any) -> bool:
    """Whether no query gives weight to a later key, as in a decoder."""
    weights = _tensor(weights, "weights")
    square = weights.dim() > 1 and weights.shape[-1] == weights.shape[-2] > 1
    return square and not bool(weights.triu(1).any())


def _parts(name: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `from_arrays`, of a file that holds queries and keys."""
    kinds = {kind: [key for key in arrays if reading.kind_by_name(key) == kind] for kind in ("weights", "mask")}
    if len(kinds["weights"]) > 1 or set(kinds["mask"]) - {"may_attend"}:
        may = "one array of weights, and a mask called 'may_attend', True where open"
        raise InputError(f"{quoted(name)} may hold beside query and key {may}.")
    parts = {part: arrays[part] for part in ("query", "key", "value") if part in arrays}
    return parts | {"weights": next((arrays[key] for key in kinds["weights"]), None), "mask": arrays.get("may_attend")}


def _layers(array: Any, what: str, *, one_text: bool) -> list[Tensor]:
    """One (B, H, n, m) per layer."""
    if _is_layers(array):
        return [_four(_tensor(part, what), what) for part in array]
    tensor = _tensor(array, what)
    if tensor.dim() == 5:
        return list(tensor)
    if tensor.dim() == 4 and one_text and len(tensor) > 1:
        return [part.unsqueeze(0) for part in tensor]
    return [_four(tensor, what)]


def _is_layers(array: Any) -> bool:
    """Whether it is a list of arrays; nested lists of numbers are one array."""
    return isinstance(array, list | tuple) and bool(array) and getattr(array[0], "ndim", 0) >= 2


def _tensor(array: Any, what: str) -> Tensor:
    """An array with float32 for its numbers.

    Raises:
        InputError: if it holds anything but numbers, or booleans in the place of weights, queries, keys or values.
    """
    tensor = real_tensor(array, what)
    if tensor.dtype is not torch.bool:
        return tensor.float()
    if what != "mask":
        raise InputError(f"The {what} must hold numbers; given booleans, as of a mask: {CHECKED}.")
    return tensor


def _four(tensor: Tensor, what: str) -> Tensor:
    if not 2 <= tensor.dim() <= 4:
        raise InputError(f"The {what} have shape {tuple(tensor.shape)}; (Q, K), (H, Q, K) or (B, H, Q, K) are read.")
    return tensor[(None,) * (4 - tensor.dim())]


def _masks(mask: Any, convention: str | None, count: int) -> list[Tensor | Mask | None]:
    """A mask of ours per layer."""
    if mask is None or isinstance(mask, Mask):
        return [mask] * count
    each = list(mask) if _is_layers(mask) else [mask]
    if len(each) not in (1, count):
        raise InputError(f"There are {count} layers and {len(each)} masks.")
    if convention is not None and convention not in READ:
        raise InputError(f"There is no convention {quoted(convention)}. There are: {', '.join(READ)}.")
    tensors = [_four(_tensor(array, "mask"), "mask") for array in each]
    if convention is None and any(tensor.dtype is not torch.bool for tensor in tensors):
        raise InputError(f"The mask holds numbers: say its convention, one of {', '.join(READ)}.")
    return [READ[convention or "may-attend"](tensor) for tensor in tensors] * (count // len(tensors))


def _step(
    site: Site, arrays: dict[str, Tensor], mask: Tensor | Mask | None, scale: float | None
) -> tuple[Step, list[str]]:
    """A layer as a step, and notes about its arrays."""
    weights, notes = arrays.get("weights"), []
    if weights is not None:
        notes = [*_problems(weights)]
    if {"query", "key"} <= set(arrays):
        query, key = arrays["query"], arrays["key"]
        value = arrays.get("value", key.new_zeros(*key.shape[:3], 1))
        causal = weights is not None and mask is None and query.shape[2] == key.shape[2]
        for candidate in (mask, Subsequent()) if causal else (mask,):
            tap = Tap()
            tap.attend(query, key, value, site=site, mask=candidate, scoring=Scoring(scale=scale))
            step = replace(tap.steps[0], name="")
            far = 0.0 if weights is None else _far(step, weights)
            if far <= SAME:
                return step, notes
        notes.append(f"softmax(query · key) differs from the given weights by up to {far:.2g}: the weights are shown.")
    return _of_weights(site, weights, arrays.get("value"), mask), notes


def _of_weights(site: Site, weights: Tensor, value: Tensor | None, mask: Tensor | Mask | None) -> Step:
    """A step of just these weights: their logarithms are its bias. Rows stay as they are, whatever their sum."""
    b, h, q, k = weights.shape
    if bool((weights < 0).any()):
        raise InputError(f"The weights of {site} hold {float(weights.min()):.4g}; give weights from after the softmax.")
    if value is not None and value.shape[:3] != (b, h, k):
        raise InputError(f"The weights of {site} have shape {(b, h, q, k)} and the values {tuple(value.shape)}.")
    nothing = weights.new_zeros(b, h, max(q, k), 1)
    value = nothing[:, :, :k] if value is None else value
    empty = (weights == 0).all(-1)
    logsumexp = torch.zeros(b, h, q, dtype=torch.float64).masked_fill(empty, -torch.inf)
    scoring = Scoring(scale=1.0, bias=weights.log())
    return Step(site, nothing[:, :, :q], nothing[:, :, :k], value, mask, logsumexp, scoring, weights_only=True)


def _far(step: Step, weights: Tensor) -> float:
    if tuple(weights.shape) != step.shape:
        raise InputError(f"The weights have shape {tuple(weights.shape)}; query and key make {step.shape}.")
    computed = torch.stack(
        [torch.stack([step.weights(h, sentence=b) for h in range(len(w))]) for b, w in enumerate(weights)]
    )
    return float((computed - weights).abs().nan_to_num(1.0).max())


def _problems(weights: Tensor) -> Iterator[str]:
    """Errors and warnings of `attnviz.check` about weights, a sentence each."""
    if weights.numel() > MOST_CELLS:
        yield f"of its {weights.numel():,} weights none was checked; at most {MOST_CELLS:,} are."
        return
    for finding in check(weights, kind="weights").findings:
        if finding.severity != "note":
            yield finding.message


def _record(
    steps: tuple[Step, ...], notes: list[str], tokens: Sequence[Any] | None, keys: Sequence[Any] | None, name: str
) -> Record:
    batch, _, queries, length = steps[0].shape
    cross = steps[0].site.kind == "cross"
    query_sentences = _sentences(tokens, batch, queries, "tokens", "queries")
    key_sentences = _sentences(keys, batch, length, "keys", "keys") if cross else query_sentences
    return Record(
        key_sentences if cross else query_sentences,
        name,
        "your own",
        Edits(),
        steps,
        _output(steps[-1]),
        query_sentences if cross else (),
        read_only=any(step.weights_only for step in steps),
        findings=tuple(dict.fromkeys(notes)),
    )


def _output(step: Step) -> Tensor:
    """The outputs of all heads, (B, Q, H·d_v)."""
    batch, heads, queries, _ = step.shape
    if not bool(step.value.any()):
        return step.value.new_zeros(batch, queries, heads * step.value.shape[-1])
    return torch.stack([torch.cat([step.output(h, sentence=b) for h in range(heads)], -1) for b in range(batch)])


def _sentences(words: Sequence[Any] | None, batch: int, length: int, what: str, where: str) -> tuple[Sentence, ...]:
    """Texts of some words each, or of numbers."""
    if words is None:
        words = [[str(n) for n in range(length)]] * batch
    elif all(isinstance(word, str) for word in words):
        words = [words]
    if len(words) != batch or any(len(each) != length for each in words):
        sizes = f"{len(words)} texts of {' and '.join(sorted({str(len(each)) for each in words})[:3])} {what}"
        raise InputError(f"There are {sizes}; the arrays have {batch} of {length} {where}.")
    return tuple(_sentence([str(word) for word in each]) for each in words)


def _sentence(words: list[str]) -> Sentence:
    """A text of words, or of the pieces of a tokenizer."""
    tokens, text = [], ""
    for number, (word, apart, joined) in enumerate(pieces.read(words)):
        if number and apart:
            text += " "
        tokens.append(Token(word, number, len(text), len(text) + len(word), joined=joined))
        text += BREAKS.sub(" ", word)
    return Sentence(text, tuple(tokens), len(words))
