"""Residual stream of a run of a model of transformers: its parts, which must sum to the whole, and its logit lens."""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.core.stream import Embedded, Origin, Stream, StreamParts
from attnviz.sources.huggingface import running
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.module_search import (
    NAMES,
    Search,
    StreamModules,
    Unproven,
    bound,
    calls_of,
    floats,
    ratio,
    refusal,
    states_of,
)

ALL_IN_ONE = "The model makes these vectors in one step; if it adds positions, they are included."
POSITION_LATER = "Positions are not added to the tokens: they change queries and keys, or add a bias to the scores."

_results: WeakKeyDictionary[nn.Module, dict[str, Any]] = WeakKeyDictionary()
"""Results of searches in each model: its parts, its lens, the reason it has no parts, and the last searched call."""


def stream_of(loaded: Loaded, record: Record) -> Stream:
    """Residual stream of a record, by another run of its model: its states, and its parts if they are proven.

    Raises:
        InputError: if the model has no logits of words, or if proven parts do not sum to the whole.
    """
    _check_words(loaded)
    results = _results.setdefault(loaded.model, {})
    if "no parts" not in results:
        try:
            return _with_parts(loaded, record, modules_of(loaded))
        except Unproven as error:
            results["no parts"] = str(error)
    if "lens" not in results:
        with torch.inference_mode():
            results["lens"] = Search(loaded).lens()
    readout, modules = results["lens"]
    states, unembedding = [], loaded.model.get_output_embeddings()
    for state in states_of(_rerun(loaded, record))[:-1]:
        with loaded.turns.turn(), torch.inference_mode(), calls_of([unembedding]) as calls:
            for module in modules:
                state = module(state)
        states.append(calls[-1].input if modules else floats(state))
    return Stream(readout, tuple(states), None, results["no parts"])


def modules_of(loaded: Loaded, *, all_projections: bool = False) -> StreamModules:
    """Modules that write into the residual stream of a model, searched once.

    Args:
        all_projections: whether to include the projections of queries, keys and values, which take memory.

    Raises:
        InputError: if a part of the stream is not the sum of modules' outputs (the message names the part), or if
            the projections need more memory than is free (the message names both numbers).
    """
    _check_words(loaded)
    results = _results.setdefault(loaded.model, {})
    modules = results.get("all parts") or (not all_projections and results.get("parts"))
    if not modules:
        with torch.inference_mode():
            modules = Search(loaded).modules(all_projections=all_projections)
        results["all parts" if all_projections else "parts"] = modules
    return modules


def origin_of(loaded: Loaded, record: Record, site: Site) -> Origin | None:
    """Input of an attention call before its projections, by another run; None if the projections are unknown."""
    results = _results.setdefault(loaded.model, {})
    if results.get("call", (None,))[0] != site:
        with torch.inference_mode():
            results["call"] = site, Search(loaded).call(site)
    if results["call"][1] is None:
        return None
    model, (projections, parts, adds_positions) = loaded.model, results["call"][1]
    stacks = {"decoder": model}
    if "cross" in {site.kind for site in loaded.trial.heads}:
        stacks = {"encoder": model.get_encoder(), "decoder": model.get_decoder()}
    embeddings = {kind: stack.get_input_embeddings() for kind, stack in stacks.items()}
    readers = [parts[name].module for name in ("w_q", "w_k")]
    with calls_of([*readers, *embeddings.values()]) as calls:
        returned = _rerun(loaded, record)
    query, key = (next(call.input for call in reversed(calls) if call.module is module) for module in readers)
    tokens = {}
    for kind, module in embeddings.items():
        states = getattr(returned, "encoder_hidden_states", None) if kind == "encoder" else states_of(returned)
        ordered = calls if kind == "encoder" else reversed(calls)
        words = next((call.output for call in ordered if call.module is module), None)
        tokens[kind] = states and _embedded_tokens(loaded, floats(states[0]), words, adds_positions)
    input_tokens, decoder_tokens = tokens.get("encoder", tokens["decoder"]), tokens["decoder"]
    if input_tokens is None:
        return None
    return Origin(
        query,
        query if torch.equal(query, key) else key,
        *(parts[name].linear for name in NAMES),
        projections.w_o,
        query_tokens=input_tokens if site.kind == "encoder" else decoder_tokens,
        key_tokens=decoder_tokens if site.kind == "decoder" else input_tokens,
        is_normalized=projections.before is not None,
        is_rotary=projections.rotary,
        normalizes_heads=parts["w_q"].normalized or parts["w_k"].normalized,
    )


def _embedded_tokens(loaded: Loaded, first: Tensor, words: Tensor | None, adds_positions: bool) -> Embedded:
    """Embedded tokens that the first layer reads; positions are separate if the model adds nothing else.

    Args:
        first: states before the first layer, (B, n, d_model).
        words: output of the embedding of tokens; None if the embedding was not called.
    """
    if words is None or words.shape != first.shape:
        return Embedded(first, None, note=ALL_IN_ONE)
    rounding = bound(loaded) * float(first.abs().max())
    if float((first - words * (ratio(first, words) or 1.0)).abs().max()) <= rounding:
        return Embedded(first, None, note=POSITION_LATER)
    positions = first - words
    if adds_positions and float((positions - positions[:1]).abs().max()) <= rounding:
        return Embedded(words, positions[0])
    return Embedded(first, None, note=ALL_IN_ONE)


def _check_words(loaded: Loaded) -> None:
    """Raise InputError if a model has no logits of words."""
    if loaded.task not in ("next", "fill", "write"):
        raise refusal(loaded, "it gives no word a logit")


def _rerun(loaded: Loaded, record: Record) -> Any:
    """Output of the model for the texts of a record, as in its run."""
    model_inputs = running.inputs(record.sentences, loaded)
    if record.targets:
        model_inputs["decoder_input_ids"] = running.inputs(record.targets, loaded)["input_ids"]
    lengths = tuple(sentence.length for sentence in record.sentences)
    return running.run_model(loaded, record.edits, model_inputs, lengths)[0]


def _with_parts(loaded: Loaded, record: Record, modules: StreamModules) -> Stream:
    """Residual stream with its parts, after a check that they sum to the whole."""
    with calls_of([modules.words, modules.last, *(module for module, _ in modules.feed_forward.values())]) as calls:
        states = states_of(_rerun(loaded, record))
    by_module, first = {call.module: call for call in calls}, floats(states[0])
    words = by_module[modules.words].output * modules.factor
    feed_forward = {
        layer: by_module[module].output.reshape(first.shape) * factor
        for layer, (module, factor) in modules.feed_forward.items()
    }
    parts = StreamParts(
        modules.weights,
        words if modules.adds_positions else first,  # without positions, the first states, which also hold pictures
        first - words if modules.adds_positions else None,
        feed_forward,
        by_module[modules.last].input.reshape(first.shape),
    )
    attention = sum(
        projections.writes(record.step(site).outputs()) for site, projections in modules.weights.sites.items()
    )
    is_real = torch.zeros(first.shape[:2], dtype=torch.bool)
    for row, sentence in zip(is_real, record.read, strict=True):
        row[: sentence.length] = True
    parts.check(attention, record.prediction.logits, record.source, is_token=is_real, within=bound(loaded))
    return Stream(modules.weights.readout, tuple(map(floats, states[:-1])), parts)
