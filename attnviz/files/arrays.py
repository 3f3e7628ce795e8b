"""Make records from arrays of other code: weights, or queries and keys, from another tool, a paper or user code."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
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

MOST_LAYERS = 1000
"""Maximum number of layers."""
SAME = 1e-4
"""Largest difference between given weights and weights from given queries and keys that counts as equal."""
READ = {
    "may-attend": torch.Tensor.clone,
    "true-is-masked": conventions.from_true_is_masked,
    "zero-is-masked": conventions.from_zero_is_masked,
    "additive": conventions.from_additive,
}
CHECKED = "'attnviz check' reads it, and in the app the page Masks, under Check"
NOTHING = (
    "There is no attention in these weights: the default attention of transformers gives none. Load the model with "
    'attn_implementation="eager" and call it with output_attentions=True.'
)
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

STARTS, CONTINUES = ("Ġ", "▁"), "##"
"""Prefixes of pieces that begin a word (byte-level BPE, SentencePiece) or continue a word (WordPiece)."""
NAMED = re.compile(r"<.+>|\[[A-Z]+\]")
"""Pattern of special tokens, which do not belong to a word."""
SHARE = 1 / 4
"""Share of tokens with a prefix above which it marks pieces; below, words begin with it by chance."""
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
    convention: str | None = None,
    scale: float | None = None,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    keys: Sequence[str] | Sequence[Sequence[str]] | None = None,
    kind: str = "encoder",
    name: str = "arrays",
) -> Record:
    """Make a record of attention that other code computed, for all figures, analyses, checks and files.

        attnviz.from_arrays(model(**inputs, output_attentions=True).attentions, tokens=tokens)

    The output of `generate(..., output_attentions=True, return_dict_in_generate=True)`, or its attentions, is joined to
    one map; with beam search, give the whole output, because it holds the beam of each token. Arrays are from NumPy,
    torch or anything that NumPy accepts: (Q, K), (H, Q, K), (B, H, Q, K), (layers, B, H, Q, K), or a list with one
    array per layer. For one sentence of tokens, four axes whose first is not 1 are (layers, H, Q, K).

    Args:
        weights: weights after the softmax. If `query` and `key` are given too, the weights are compared with theirs.
        query, key, value: arrays with the last axes (n, d) instead of (Q, K).
        mask: booleans, True = may attend, or values in `convention`; one array is the mask of all layers.
        convention: convention of the mask, one of `attnviz.check.CONVENTIONS`.
        scale: factor of the dot products; by default 1/√d_k.
        tokens: words at the queries, or pieces of a tokenizer ("Ġcat", "##s"); for several sentences, one list per
            sentence. By default, positions are numbered.
        keys: words at the keys, only for kind "cross"; for other kinds, the tokens.
        kind: "encoder", "decoder" or "cross".
        name: name of the source.

    Raises:
        InputError: if there are neither weights nor queries and keys, or shapes do not fit, with both shapes.
    """
    if kind not in KINDS:
        raise InputError(f"There is no kind {quoted(kind)}. There are: {', '.join(KINDS)}.")
    if keys is not None and kind != "cross":
        raise InputError(f"Only cross-attention has separate keys: say kind='cross', not {kind}.")
    if weights is None and (query is None or key is None):
        raise InputError("There is no attention: give weights, or query and key.")
    weights, kind, generated = _find_weights(weights, kind)
    one_text = tokens is not None and all(isinstance(word, str) for word in tokens)
    arrays = {"weights": weights, "query": query, "key": key, "value": value}
    layers = {what: _layers(array, what, one_text=one_text) for what, array in arrays.items() if array is not None}
    first, count = next((what, len(tensors)) for what, tensors in layers.items())
    if wrong := [f"{len(tensors)} of {what}" for what, tensors in layers.items() if len(tensors) != count]:
        raise InputError(f"There are {count} layers of {first} and {', '.join(wrong)}.")
    if count > MOST_LAYERS:
        raise InputError(f"There are {count:,} layers of {first}; at most {MOST_LAYERS:,} are read.")
    masks = _masks(mask, convention, count)
    steps, notes = [], []
    for layer in range(count):
        parts = {what: tensors[layer] for what, tensors in layers.items()}
        step, step_notes = _step(Site(kind, layer), parts, masks[layer], scale)
        steps.append(step)
        notes += [f"{step.site}: {note}" for note in step_notes]
    batch, _, queries, length = steps[0].shape
    if generated and tokens is not None:  # the model does not read the last token of its output
        each = [tokens] if one_text else tokens
        each = [words[:queries] if len(words) == queries + 1 else words for words in each]
        tokens = each[0] if one_text else each
    sentences = _sentences(tokens, batch, queries, "tokens", "queries")
    return Record(
        _sentences(keys, batch, length, "keys", "keys") if kind == "cross" else sentences,
        name,
        "your own",
        Edits(),
        tuple(steps),
        _output(steps[-1]),
        sentences if kind == "cross" else (),
        read_only=any(step.weights_only for step in steps),
        findings=tuple(dict.fromkeys(notes)),
    )


def from_cache(arrays: Mapping[str, Any], **more: Any) -> Record | None:
    """Make a record of arrays with the names of TransformerLens; None if there are no such names.

    Without weights, the mask is causal.
    """
    named = {(int(match[1]), match[2]): array for name, array in arrays.items() if (match := LENS.fullmatch(name))}
    if not named:
        return None
    layers = sorted({layer for layer, _ in named})
    arguments: dict[str, Any] = {} if any(hook == "pattern" for _, hook in named) else {"mask": Subsequent()}
    for hook, what in (("pattern", "weights"), ("q", "query"), ("k", "key"), ("v", "value")):
        tensors = [_tensor(named[layer, hook], what) for layer in layers if (layer, hook) in named]
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
        names = {
            kind: [key for key in file.arrays if reading.kind_by_name(key) == kind] for kind in ("weights", "mask")
        }
        if len(names["weights"]) > 1 or set(names["mask"]) - {"may_attend"}:
            may = "one array of weights, and a mask called 'may_attend', True where open"
            raise InputError(f"{quoted(name)} may hold beside query and key {may}.")
        parts = {part: file.arrays.get(part) for part in ("query", "key", "value")}
        weights = next((file.arrays[key] for key in names["weights"]), None)
        return from_arrays(weights, **parts, mask=file.arrays.get("may_attend"), **options)
    layers, notes = _weights_of(file, one_text=np.ndim(options.get("tokens", "")) < 2)
    options = {"kind": "decoder" if all(map(_hides_the_future, layers)) else "encoder"} | options
    record = from_arrays(layers if len(layers) > 1 else layers[0], **options)
    return replace(record, findings=(*record.findings, *notes))


def _weights_of(file: reading.ArrayFile, *, one_text: bool) -> tuple[list[Any], list[str]]:
    """Find the weights in a file, as a list with an array per layer or one array, with notes on how they were read."""
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
    """Whether no query has weight on a later key, as in a decoder."""
    weights = _tensor(weights, "weights")
    square = weights.dim() > 1 and weights.shape[-1] == weights.shape[-2] > 1
    return square and not bool(weights.triu(1).any())


def _find_weights(weights: Any, kind: str) -> tuple[Any, str, bool]:
    """Find the weights in the output of a model of transformers; arrays are returned unchanged.

    Returns:
        Weights, their kind, and whether they were joined from the steps of a generation.
    """
    beams = None
    if any(hasattr(weights, name) for names in OUTPUTS.values() for name in names):
        beams = getattr(weights, "beam_indices", None)
        weights = next((maps for name in OUTPUTS[kind] if (maps := getattr(weights, name, None))), ())
    if not isinstance(weights, list | tuple):
        return weights, kind, False
    if not weights or all(step is None or (isinstance(step, list | tuple) and not len(step)) for step in weights):
        raise InputError(NOTHING)
    is_map = all(isinstance(step, list | tuple) and all(getattr(a, "ndim", 0) == 4 for a in step) for step in weights)
    if not is_map:
        return weights, kind, False
    kind = "decoder" if kind == "encoder" else kind
    if len(counts := {len(step) for step in weights}) > 1:
        numbers = " and ".join(map(str, sorted(counts)))
        raise InputError(f"The steps of the generation have {numbers} layers; give those of one generation.")
    return [_join_steps(list(layer), kind, beams) for layer in zip(*weights, strict=True)], kind, True


def _join_steps(steps: Sequence[Any], kind: str, beams: Any) -> Tensor:
    """Join the generation steps of a layer, each (B, H, q, k), into one map, (B, H, Q, K)."""
    maps = [torch.as_tensor(step).detach().cpu().float() for step in steps]
    if beams is not None:
        maps = [_beam_rows(weights, torch.as_tensor(beams).cpu(), step) for step, weights in enumerate(maps)]
    if len({weights.shape[:2] for weights in maps}) > 1:
        shapes = ", ".join(str(tuple(weights.shape)) for weights in maps[:3])
        what = f"The steps of the generation have the shapes {shapes} ..."
        raise InputError(f"{what}; batch and heads must stay the same.")
    if kind == "cross":
        if len({weights.shape[3] for weights in maps}) > 1:
            what = "The steps of the generation have encoder texts of different lengths"
            raise InputError(f"{what}; give the steps for one text.")
        return torch.cat(maps, 2)
    first, total = maps[0], sum(weights.shape[2] for weights in maps)
    cached = first.shape[3] - first.shape[2]
    cached = cached if cached > 0 and bool(first[..., first.shape[2] :].any()) else 0  # or empty slots
    joined = first.new_zeros(*first.shape[:2], total, cached + total)
    row = 0
    for weights in maps:
        queries, keys = weights.shape[2:]
        end = cached + row + queries
        begin = max(0, end - keys)  # a window keeps only the last keys
        joined[:, :, row : row + queries, begin:end] = weights[..., : end - begin]
        row += queries
    return joined


def _beam_rows(weights: Tensor, beams: Tensor, step: int) -> Tensor:
    """Select the rows of the returned sentences from a step over all beams; zeros after the end of a sentence."""
    indices = beams[:, step] if step < beams.shape[1] else beams.new_full((len(beams),), -1)
    return weights[indices.clamp(min=0)].masked_fill((indices < 0)[:, None, None, None], 0)


def _is_layers(array: Any) -> bool:
    """Whether `array` is a list of arrays; nested lists of numbers are a single array."""
    return isinstance(array, list | tuple) and bool(array) and getattr(array[0], "ndim", 0) >= 2


def _layers(array: Any, what: str, *, one_text: bool) -> list[Tensor]:
    """Split arrays into one array (B, H, n, m) per layer."""
    if _is_layers(array):
        return [_four_axes(_tensor(part, what), what) for part in array]
    tensor = _tensor(array, what)
    if tensor.dim() == 5:
        return list(tensor)
    if tensor.dim() == 4 and one_text and len(tensor) > 1:
        return [part.unsqueeze(0) for part in tensor]
    return [_four_axes(tensor, what)]


def _tensor(array: Any, what: str) -> Tensor:
    """Convert an array to a float32 tensor; a mask may stay boolean."""
    tensor = real_tensor(array, what)
    if tensor.dtype is not torch.bool:
        return tensor.float()
    if what != "mask":
        raise InputError(f"The {what} must hold numbers; given booleans, as of a mask: {CHECKED}.")
    return tensor


def _four_axes(tensor: Tensor, what: str) -> Tensor:
    if not 2 <= tensor.dim() <= 4:
        raise InputError(f"The {what} have shape {tuple(tensor.shape)}; (Q, K), (H, Q, K) or (B, H, Q, K) are read.")
    return tensor[(None,) * (4 - tensor.dim())]


def _masks(mask: Any, convention: str | None, count: int) -> list[Tensor | Mask | None]:
    """Convert masks to one mask per layer, True = may attend."""
    if mask is None or isinstance(mask, Mask):
        return [mask] * count
    each = list(mask) if _is_layers(mask) else [mask]
    if len(each) not in (1, count):
        raise InputError(f"There are {count} layers and {len(each)} masks.")
    if convention is not None and convention not in READ:
        raise InputError(f"There is no convention {quoted(convention)}. There are: {', '.join(READ)}.")
    tensors = [_four_axes(_tensor(array, "mask"), "mask") for array in each]
    if convention is None and any(tensor.dtype is not torch.bool for tensor in tensors):
        raise InputError(f"The mask holds numbers: say its convention, one of {', '.join(READ)}.")
    return [READ[convention or "may-attend"](tensor) for tensor in tensors] * (count // len(tensors))


def _step(
    site: Site, arrays: dict[str, Tensor], mask: Tensor | Mask | None, scale: float | None
) -> tuple[Step, list[str]]:
    """Make the step of a layer, with one sentence per problem of its arrays."""
    weights, notes = arrays.get("weights"), []
    if weights is not None and weights.numel() > MOST_CELLS:
        notes.append(f"the {weights.numel():,} weights were not checked; at most {MOST_CELLS:,} are.")
    elif weights is not None:
        findings = check(weights, kind="weights").findings
        notes += [finding.message for finding in findings if finding.severity != "note"]
    if {"query", "key"} <= set(arrays):
        query, key = arrays["query"], arrays["key"]
        value = arrays.get("value", key.new_zeros(*key.shape[:3], 1))
        causal = weights is not None and mask is None and query.shape[2] == key.shape[2]
        for candidate in (mask, Subsequent()) if causal else (mask,):
            tap = Tap()
            tap.attend(query, key, value, site=site, mask=candidate, scoring=Scoring(scale=scale))
            step = replace(tap.steps[0], name="")
            far = 0.0 if weights is None else _difference(step, weights)
            if far <= SAME:
                return step, notes
        notes.append(f"softmax(query · key) differs from the given weights by up to {far:.2g}: the weights are shown.")
    b, h, q, k = weights.shape
    value = arrays.get("value")
    if bool((weights < 0).any()):
        raise InputError(f"The weights of {site} hold {float(weights.min()):.4g}; give weights from after the softmax.")
    if value is not None and value.shape[:3] != (b, h, k):
        raise InputError(f"The weights of {site} have shape {(b, h, q, k)} and the values {tuple(value.shape)}.")
    nothing = weights.new_zeros(b, h, max(q, k), 1)
    value = nothing[:, :, :k] if value is None else value
    empty = (weights == 0).all(-1)  # rows are not normalized, whatever their sum
    logsumexp = torch.zeros(b, h, q, dtype=torch.float64).masked_fill(empty, -torch.inf)
    scoring = Scoring(scale=1.0, bias=weights.log())
    step = Step(site, nothing[:, :, :q], nothing[:, :, :k], value, mask, logsumexp, scoring, weights_only=True)
    return step, notes


def _difference(step: Step, weights: Tensor) -> float:
    if tuple(weights.shape) != step.shape:
        raise InputError(f"The weights have shape {tuple(weights.shape)}; query and key make {step.shape}.")
    pairs = (
        (step.weights(head, sentence=b), weights[b, head])
        for b in range(len(weights))
        for head in range(step.num_heads)
    )
    return max(float((ours - theirs).abs().nan_to_num(1.0).max()) for ours, theirs in pairs)


def _output(step: Step) -> Tensor:
    """Compute the concatenated outputs of all heads, (B, Q, H·d_v)."""
    batch, heads, queries, _ = step.shape
    if not bool(step.value.any()):
        return step.value.new_zeros(batch, queries, heads * step.value.shape[-1])
    return step.outputs()


def _sentences(words: Sequence[Any] | None, batch: int, length: int, what: str, where: str) -> tuple[Sentence, ...]:
    """Make sentences from words, pieces of a tokenizer, or (None) the numbers of positions."""
    if words is None:
        words = [[str(n) for n in range(length)]] * batch
    elif all(isinstance(word, str) for word in words):
        words = [words]
    if len(words) != batch or any(len(each) != length for each in words):
        sizes = f"{len(words)} texts of {' and '.join(sorted({str(len(each)) for each in words})[:3])} {what}"
        raise InputError(f"There are {sizes}; the arrays have {batch} of {length} {where}.")
    sentences = []
    for each in words:
        tokens, text = [], ""
        for number, (word, apart, joined) in enumerate(_pieces([str(word) for word in each])):
            text += " " if number and apart else ""
            tokens.append(Token(word, number, len(text), len(text) + len(word), joined=joined))
            text += BREAKS.sub(" ", word)
        sentences.append(Sentence(text, tuple(tokens), length))
    return tuple(sentences)


def _pieces(words: Sequence[str]) -> list[tuple[str, bool, bool]]:
    """Convert pieces of a tokenizer, "Ġcat", "▁cat" or "##s", to the text that they stand for; words stay unchanged.

    Returns:
        Text of each piece, whether a blank is before it, and whether it continues the word before it.
    """
    signs = [s for s in (*STARTS, CONTINUES) if sum(w.startswith(s) for w in words) >= max(1, SHARE * len(words))]
    sign = signs[0] if signs else None
    rows = []
    for before, word in pairwise(["<s>", *words]):
        text = word if sign is None else word.removeprefix(sign) or word
        if sign in STARTS:
            apart = word.startswith(sign) or bool(NAMED.fullmatch(word) or NAMED.fullmatch(before))
            is_bytes = sign == "Ġ" and all(byte in BYTES for byte in word)
            decoded = bytes(BYTES[byte] for byte in word).decode(errors="replace") if is_bytes else ""
            if decoded and "\ufffd" not in decoded:  # otherwise, the piece is a part of a character
                text = decoded.removeprefix(" ") or decoded
            rows.append((text, apart, not apart and text[:1].isalnum()))
        else:
            continues = sign is not None and word.startswith(sign)
            rows.append((text, not continues, continues))
    return rows
