"""Make records from arrays of other code: weights, or queries and keys, from another tool, a paper or user code."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.check import MOST_CELLS, check, reading
from attnviz.check.arrays import real_tensor
from attnviz.core.edits import KINDS, Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.record import Record, Step
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token

MOST_LAYERS = 1000
"""Maximum number of layers."""
SAME = 1e-4
"""Largest difference between given weights and weights from given queries and keys that counts as equal."""
CHECKED = "open it with 'attnviz check', or in the app on the page Masks, under Check"
NOTHING = (
    "There is no attention in these weights: the default attention of transformers gives none. Load the model with "
    'attn_implementation="eager" and call it with output_attentions=True.'
)
GENERATION = "A generation has maps for each token; give model(generated_ids, output_attentions=True).attentions."
OUTPUTS = {
    "encoder": ("encoder_attentions", "attentions", "decoder_attentions"),
    "decoder": ("decoder_attentions", "attentions"),
    "cross": ("cross_attentions",),
}
"""Attributes with attention in an output of transformers, per kind."""
LENS = re.compile(r"blocks\.(\d+)\.attn\.hook_(pattern|q|k|v)")
"""Names in a cache of TransformerLens: weights (B, H, Q, K), and queries, keys and values (B, n, H, d)."""
BREAKS = re.compile("[\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029]")
"""Line breaks, which are replaced by blanks, because a text is one line."""
SIGNS = ("Ġ", "▁", "##")
"""Prefixes of pieces that begin a word (byte-level BPE, SentencePiece) or continue a word (WordPiece)."""
SHARE = 1 / 4
"""Share of pieces with a prefix above which it marks pieces; below, words begin with it by chance."""
NAMED = re.compile(r"<.+>|\[[A-Z]+\]")
"""Pattern of special tokens, which do not belong to a word."""
_PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_REST = [byte for byte in range(256) if byte not in _PLAIN]
BYTES = {chr(byte): byte for byte in _PLAIN} | {chr(256 + i): byte for i, byte in enumerate(_REST)}
"""Byte of each character in byte-level BPE, as in GPT-2."""


def from_arrays(
    weights: Any = None,
    *,
    query: Any = None,
    key: Any = None,
    value: Any = None,
    mask: Any = None,
    scale: float | None = None,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    keys: Sequence[str] | Sequence[Sequence[str]] | None = None,
    kind: str = "encoder",
    name: str = "arrays",
) -> Record:
    """Make a record of attention that other code computed, for all figures, analyses, checks and files.

        attnviz.from_arrays(model(**inputs, output_attentions=True).attentions, tokens=tokens)

    Arrays are from NumPy, torch or anything that NumPy accepts: (Q, K), (H, Q, K), (B, H, Q, K), (layers, B, H, Q, K),
    or a list with one array per layer. For one sentence of tokens, four axes whose first is not 1 are (layers, H, Q,
    K). `weights` may also be the output of a model of transformers; `kind` chooses its attention.

    Args:
        weights: weights after the softmax. If `query` and `key` are given too, the weights are compared with theirs.
        query, key, value: arrays with the last axes (n, d) instead of (Q, K).
        mask: booleans, True = may attend; one array is the mask of all layers.
        scale: factor of the dot products; by default 1/√d_k.
        tokens: words at the queries, or pieces of a tokenizer ("Ġcat", "##s"), as a list per sentence if there are
            several sentences. By default, positions are numbered.
        keys: words at the keys, only for kind "cross"; for other kinds, the tokens.
        kind: "encoder", "decoder" or "cross".
        name: name of the source.

    Raises:
        InputError: if there are neither weights nor queries and keys, or shapes do not fit; the message has the shapes.
    """
    if kind not in KINDS:
        raise InputError(f"There is no kind {quoted(kind)}. Available: {', '.join(KINDS)}.")
    if keys is not None and kind != "cross":
        raise InputError(f"Only cross-attention has separate keys: use kind='cross', not {kind}.")
    if weights is None and (query is None or key is None):
        raise InputError("There is no attention: give weights, or query and key.")
    weights = None if weights is None else _find_weights(weights, kind)
    one_text = tokens is not None and all(isinstance(word, str) for word in tokens)
    arrays = {"weights": weights, "query": query, "key": key, "value": value}
    layers = {what: _layers(array, what, one_text=one_text) for what, array in arrays.items() if array is not None}
    first = next(iter(layers))
    num_layers = len(layers[first])
    if different := [f"{len(tensors)} of {what}" for what, tensors in layers.items() if len(tensors) != num_layers]:
        raise InputError(f"There are {num_layers} layers of {first} and {', '.join(different)}.")
    if num_layers > MOST_LAYERS:
        raise InputError(f"There are {num_layers:,} layers of {first}; at most {MOST_LAYERS:,} are read.")
    steps, notes = [], []
    for layer, mask_of_layer in enumerate(_masks(mask, num_layers)):
        arrays_of_layer = {what: tensors[layer] for what, tensors in layers.items()}
        step, step_notes = _step(Site(kind, layer), arrays_of_layer, mask_of_layer, scale)
        steps.append(step)
        notes += [f"{step.site}: {note}" for note in step_notes]
    batch, _, queries, length = steps[0].shape
    sentences = _sentences(tokens, batch, queries, "tokens", "queries")
    value = steps[-1].value
    zeros = value.new_zeros(batch, queries, steps[-1].num_heads * value.shape[-1])
    return Record(
        _sentences(keys, batch, length, "keys", "keys") if kind == "cross" else sentences,
        name,
        "your own",
        Edits(),
        tuple(steps),
        steps[-1].outputs() if bool(value.any()) else zeros,
        sentences if kind == "cross" else (),
        read_only=any(step.weights_only for step in steps),
        findings=tuple(dict.fromkeys(notes)),
    )


def from_cache(arrays: Mapping[str, Any], **more: Any) -> Record | None:
    """Make a record of arrays with the names of TransformerLens, see `LENS`; None if there are no such names.

    Without weights, the mask is causal. `more` are further arguments of `from_arrays`.
    """
    hooks = {(int(match[1]), match[2]): array for name, array in arrays.items() if (match := LENS.fullmatch(name))}
    if not hooks:
        return None
    layers = sorted({layer for layer, _ in hooks})
    arguments: dict[str, Any] = {} if any(hook == "pattern" for _, hook in hooks) else {"mask": Subsequent()}
    for hook, what in (("pattern", "weights"), ("q", "query"), ("k", "key"), ("v", "value")):
        tensors = [_tensor(hooks[layer, hook], what) for layer in layers if (layer, hook) in hooks]
        if len(tensors) == len(layers):
            arguments[what] = tensors if hook == "pattern" else [tensor.movedim(-2, -3) for tensor in tensors]
    return from_arrays(**({"kind": "decoder", "name": "TransformerLens"} | arguments | more))


def from_file(name: str, content: bytes) -> Record:
    """Make a record of a file of arrays: weights, a cache of TransformerLens, or arrays named "query" and "key".

    A single array of weights with four axes is read as the layers of one text, because this is more common than a batch
    of one layer. A file with "query" and "key" may also hold "value", "weights" and "may_attend". Each file may hold
    "tokens", and "keys" for cross-attention, as texts. Pickles are not read.

    Raises:
        InputError: if the file cannot be read, has no attention, or has several arrays that could be meant.
    """
    file = reading.read_file(name, content)
    texts = {key: file.texts[key].astype(str).tolist() for key in ("tokens", "keys") if key in file.texts}
    options = {"name": name} | texts | ({"kind": "cross"} if "keys" in texts else {})
    if (record := from_cache(file.arrays, **options)) is not None:
        return record
    if {"query", "key"} <= set(file.arrays):
        kinds = {key: reading.kind_by_name(key) for key in file.arrays}
        weights = [file.arrays[key] for key, kind in kinds.items() if kind == "weights"]
        if len(weights) > 1 or any(kind == "mask" and key != "may_attend" for key, kind in kinds.items()):
            allowed = "one array of weights, and a mask called 'may_attend', True where open"
            raise InputError(f"Besides query and key, {quoted(name)} may hold {allowed}.")
        vectors = {name: file.arrays.get(name) for name in ("query", "key", "value")}
        return from_arrays(*weights, **vectors, mask=file.arrays.get("may_attend"), **options)
    layers, notes = _weights_of(file, one_text=np.ndim(options.get("tokens", "")) < 2)
    tensors = [_tensor(layer, "weights") for layer in layers]
    are_square = all(tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2] > 1 for tensor in tensors)
    is_causal = are_square and not any(bool(tensor.triu(1).any()) for tensor in tensors)
    options = {"kind": "decoder" if is_causal else "encoder"} | options
    record = from_arrays(layers if len(layers) > 1 else layers[0], **options)
    return replace(record, findings=(*record.findings, *notes))


def _weights_of(file: reading.ArrayFile, *, one_text: bool) -> tuple[list[Any], list[str]]:
    """Find the weights in a file: a list with an array per layer, or one array, and notes on how they were read."""
    chosen, name = file.chosen(), quoted(file.name)
    weights = {key: array for key, array in chosen.items() if reading.kind_by_name(key) in (None, "weights")}
    if not weights:
        kind = reading.kind_by_name(next(iter(chosen)))
        raise InputError(f"{name} holds {'a mask' if kind == 'mask' else kind}, not weights: {CHECKED}.")
    if len(weights) > 1 and not reading.are_layers(weights):
        raise InputError(f"{name} holds several arrays: {', '.join(map(quoted, weights))}. Give a file with only one.")
    if any(str(array.dtype) in ("bool", "torch.bool") for array in weights.values()):
        raise InputError(f"{name} holds booleans, as a mask does, not weights: {CHECKED}.")
    layers, notes = list(weights.values()), [f"{quoted(key)} is not read." for key in chosen.keys() - weights]
    if len(layers) == 1 and layers[0].ndim == 4 and len(layers[0]) > 1 and one_text:
        notes.append(f"{tuple(layers[0].shape)} is read as (layers, H, Q, K) of one text.")
        layers = list(layers[0])
    return layers, notes


def _find_weights(weights: Any, kind: str) -> Any:
    """Find the weights in the output of a model of transformers; arrays are returned unchanged."""
    if any(hasattr(weights, name) for names in OUTPUTS.values() for name in names):
        attentions = [getattr(weights, name, None) for name in OUTPUTS[kind]]
        weights = next(filter(None, attentions), ())
    layers = weights if isinstance(weights, list | tuple) else [weights]
    if all(layer is None or (isinstance(layer, list | tuple) and not len(layer)) for layer in layers):
        raise InputError(NOTHING)
    if all(isinstance(layer, list | tuple) and all(getattr(a, "ndim", 0) == 4 for a in layer) for layer in layers):
        raise InputError(GENERATION)  # a tuple of layers for each token
    return weights


def _is_layers(array: Any) -> bool:
    """Whether `array` is a list of arrays; nested lists of numbers are a single array."""
    return isinstance(array, list | tuple) and bool(array) and getattr(array[0], "ndim", 0) >= 2


def _layers(array: Any, what: str, *, one_text: bool) -> list[Tensor]:
    """Convert an array, or a list of arrays, to one tensor (B, H, n, m) per layer; see `from_arrays` for the axes."""
    if _is_layers(array):
        return [_four_axes(_tensor(layer, what), what) for layer in array]
    tensor = _tensor(array, what)
    if tensor.dim() == 5:
        return [*tensor]
    if tensor.dim() == 4 and one_text and len(tensor) > 1:  # (layers, H, n, m) of one text
        return [layer.unsqueeze(0) for layer in tensor]
    return [_four_axes(tensor, what)]


def _tensor(array: Any, what: str) -> Tensor:
    """Convert an array to a float32 tensor; a mask may stay boolean."""
    tensor = real_tensor(array, what)
    if tensor.dtype is not torch.bool:
        return tensor.float()
    if what != "mask":
        raise InputError(f"The {what} must hold numbers; given booleans, as a mask has: {CHECKED}.")
    return tensor


def _four_axes(tensor: Tensor, what: str) -> Tensor:
    """Add axes of size 1 in front, up to (B, H, n, m)."""
    if not 2 <= tensor.dim() <= 4:
        raise InputError(f"The {what} have shape {tuple(tensor.shape)}; (Q, K), (H, Q, K) or (B, H, Q, K) are read.")
    return tensor.view((1,) * (4 - tensor.dim()) + tensor.shape)


def _masks(mask: Any, count: int) -> list[Tensor | Mask | None]:
    """Convert masks to one mask per layer, True = may attend."""
    if mask is None or isinstance(mask, Mask):
        return [mask] * count
    tensors = [_four_axes(_tensor(part, "mask"), "mask") for part in (mask if _is_layers(mask) else [mask])]
    if len(tensors) not in (1, count):
        raise InputError(f"There are {count} layers and {len(tensors)} masks.")
    if any(tensor.dtype is not torch.bool for tensor in tensors):
        remedy = "convert it with from_true_is_masked, from_zero_is_masked or from_additive"
        raise InputError(f"The mask holds numbers, not booleans, True = may attend: {remedy}.")
    return tensors * (count // len(tensors))


def _step(
    site: Site, arrays: dict[str, Tensor], mask: Tensor | Mask | None, scale: float | None
) -> tuple[Step, list[str]]:
    """Make the attention call of a layer from its arrays, and a list of sentences about problems with the arrays."""
    weights, query, key, value = (arrays.get(name) for name in ("weights", "query", "key", "value"))
    notes = []
    if weights is not None and weights.numel() > MOST_CELLS:
        notes.append(f"the {weights.numel():,} weights were not checked; at most {MOST_CELLS:,} are.")
    elif weights is not None:
        findings = check(weights, kind="weights").findings
        notes += [finding.message for finding in findings if finding.severity != "note"]
    if query is not None and key is not None:
        # weights without a mask may still be causal: compare them with both
        may_be_causal = weights is not None and mask is None and query.shape[2] == key.shape[2]
        for candidate in (mask, Subsequent()) if may_be_causal else (mask,):
            tap = Tap()
            values = key.new_zeros(*key.shape[:3], 1) if value is None else value
            tap.attend(query, key, values, site=site, mask=candidate, scoring=Scoring(scale=scale))
            step = tap.steps[0]
            if weights is None:
                return step, notes
            if tuple(weights.shape) != step.shape:
                raise InputError(f"The weights have shape {tuple(weights.shape)}; query and key make {step.shape}.")
            largest = 0.0  # difference between given and computed weights
            for b, head in product(range(len(weights)), range(step.num_heads)):
                difference = (step.weights(head, sentence=b) - weights[b, head]).abs().nan_to_num(1.0)
                largest = max(largest, float(difference.max()))
            if largest <= SAME:
                return step, notes
        problem = f"softmax(query · key) differs from the given weights by up to {largest:.2g}"
        notes.append(f"{problem}: the weights are shown.")
    b, h, q, k = weights.shape
    if bool((weights < 0).any()):
        raise InputError(f"The weights of {site} hold {float(weights.min()):.4g}; pass the weights after the softmax.")
    if value is not None and value.shape[:3] != (b, h, k):
        raise InputError(f"The weights of {site} have shape {(b, h, q, k)} and the values {tuple(value.shape)}.")
    zeros = weights.new_zeros(b, h, max(q, k), 1)
    value = zeros[:, :, :k] if value is None else value
    empty = (weights == 0).all(-1)  # rows are not normalized, whatever their sum
    logsumexp = torch.zeros(b, h, q, dtype=torch.float64).masked_fill(empty, -torch.inf)
    scoring = Scoring(scale=1.0, bias=weights.log())
    step = Step(site, zeros[:, :, :q], zeros[:, :, :k], value, mask, logsumexp, scoring, weights_only=True)
    return step, notes


def _sentences(words: Sequence[Any] | None, batch: int, length: int, what: str, where: str) -> tuple[Sentence, ...]:
    """Make sentences from words or pieces of a tokenizer; None for the numbers of the positions as words."""
    if words is None:
        words = [[str(n) for n in range(length)]] * batch
    elif all(isinstance(word, str) for word in words):
        words = [words]
    if len(words) != batch or any(len(row) != length for row in words):
        lengths = " and ".join(sorted({str(len(row)) for row in words})[:3])
        raise InputError(f"Given: {len(words)} texts of {lengths} {what}; the arrays have {batch} of {length} {where}.")
    return tuple(_sentence([str(word) for word in row]) for row in words)


def _sentence(pieces: list[str]) -> Sentence:
    """Make a sentence from words or pieces of a tokenizer: "Ġcat", "▁cat" and "##s" become the text they stand for."""
    least = max(1, SHARE * len(pieces))
    prefixes = [prefix for prefix in SIGNS if sum(piece.startswith(prefix) for piece in pieces) >= least]
    prefix, tokens, text = prefixes[0] if prefixes else "", [], ""
    for before, piece in pairwise(["<s>", *pieces]):  # "<s>" before the first piece: a special token
        has_prefix = prefix != "" and piece.startswith(prefix)
        word, begins_word = piece.removeprefix(prefix) or piece, not has_prefix
        if prefix in ("Ġ", "▁"):
            begins_word = has_prefix or bool(NAMED.fullmatch(piece) or NAMED.fullmatch(before))
            if prefix == "Ġ" and all(character in BYTES for character in piece):
                decoded = bytes(BYTES[character] for character in piece).decode(errors="replace")
                if "\ufffd" not in decoded:  # otherwise, the piece is a part of a character
                    word = decoded.removeprefix(" ") or decoded
        joined = not begins_word and (prefix == "##" or word[:1].isalnum())
        text += " " if tokens and begins_word else ""
        tokens.append(Token(word, len(tokens), len(text), len(text) + len(word), joined=joined))
        text += BREAKS.sub(" ", word)
    return Sentence(text, tuple(tokens), len(tokens))
