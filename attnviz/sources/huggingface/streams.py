"""Residual stream of a run of a model of transformers: its parts, which must sum to the whole, and its logit lens."""

from collections.abc import Callable, Hashable
from functools import partial
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
    AttentionCall,
    Search,
    StreamModules,
    Unproven,
    bound,
    calls_of,
    floats,
    ratio,
    states_of,
)

ALL_IN_ONE = "The model makes these vectors in one step; if it adds positions, they are included."
POSITION_LATER = "Positions are not added to the tokens: they change queries and keys, or add a bias to the scores."

_results: WeakKeyDictionary[nn.Module, dict[Hashable, Any]] = WeakKeyDictionary()
"""Results of searches in each model, by the name of the search or the site of an attention call."""


def _cached(loaded: Loaded, key: Hashable, find: Callable[[Search], Any]) -> Any:
    """Return the result of a search in a model, which is made once, or raise its refusal again."""
    results = _results.setdefault(loaded.model, {})
    if key not in results:
        try:
            with torch.inference_mode():
                results[key] = find(Search(loaded))
        except Unproven as error:
            results[key] = Unproven(*error.args)  # without its traceback, which holds the run
    if isinstance(results[key], Unproven):
        raise Unproven(*results[key].args)
    return results[key]


def modules_of(loaded: Loaded, *, all_projections: bool = False) -> StreamModules:
    """Modules that write into the residual stream of a model, searched once.

    Args:
        all_projections: whether to include the projections of queries, keys and values, which take memory.

    Raises:
        InputError: if a part of the stream is not the sum of modules' outputs (the message names the part), or if
            the projections need more memory than is free (the message names both numbers).
    """
    return _cached(loaded, ("modules", all_projections), partial(Search.modules, all_projections=all_projections))


def stream_of(loaded: Loaded, record: Record) -> Stream:
    """Residual stream of a record, by another run of its model: its states, and its parts if they are proven.

    Raises:
        InputError: if the model has no logits of words, or if proven parts do not sum to the whole.
    """
    try:
        modules = modules_of(loaded)
    except Unproven as error:
        readout, head = _cached(loaded, "lens", Search.lens)
        states, unembedding = [], loaded.model.get_output_embeddings()
        for state in states_of(_rerun(loaded, record))[:-1]:
            with loaded.turns.turn(), torch.inference_mode(), calls_of([unembedding]) as calls:
                for module in head:
                    state = module(state)
            states.append(calls[-1].input)
        return Stream(readout, tuple(states), None, str(error))
    words, factor = modules.words or (modules.last, 1.0)
    with calls_of([words, modules.last, *(module for module, _ in modules.feed_forward.values())]) as calls:
        states = [floats(state) for state in states_of(_rerun(loaded, record))]
    last_call, first = {call.module: call for call in calls}, states[0]
    embedding = last_call[words].output * factor if modules.words else first  # the first states also hold pictures
    parts = StreamParts(
        modules.weights,
        embedding,
        first - embedding if modules.words else None,
        {n: last_call[module].output.reshape(first.shape) * by for n, (module, by) in modules.feed_forward.items()},
        last_call[modules.last].input.reshape(first.shape),
    )
    sites = modules.weights.sites.items()
    attention = sum(projections.writes(record.step(site).outputs()) for site, projections in sites)
    lengths = torch.tensor([[sentence.length] for sentence in record.read])
    real = torch.arange(first.shape[1]) < lengths
    parts.check(attention, record.prediction.logits, record.source, real=real, within=bound(loaded))
    return Stream(modules.weights.readout, tuple(states[:-1]), parts)


def origin_of(loaded: Loaded, record: Record, site: Site) -> Origin | None:
    """Input of an attention call before its projections, by another run; None if the projections are unknown."""

    def find(search: Search) -> tuple[AttentionCall, bool]:
        """Find the call, and whether positions are added to tokens."""
        return search.attention(next(step for step in search.steps if step.site == site)), search.embedding()[2] is not None

    try:
        call, adds_positions = _cached(loaded, site, find)
    except Unproven:
        return None
    if call.projected.keys() != NAMES.keys():
        return None
    model, projected = loaded.model, call.projected
    stacks = {"decoder": model}
    if "cross" in {site.kind for site in loaded.trial.heads}:
        stacks = {"encoder": model.get_encoder(), "decoder": model.get_decoder()}
    tables = {kind: stack.get_input_embeddings() for kind, stack in stacks.items()}
    with calls_of([projected["w_q"].module, projected["w_k"].module, *tables.values()]) as calls:
        returned = _rerun(loaded, record)
    first_call, last_call = ({call.module: call for call in ordered} for ordered in (reversed(calls), calls))
    query, key = (last_call[projected[name].module].input for name in ("w_q", "w_k"))
    tokens = {}
    for kind, table in tables.items():  # a table of both stacks is called for the encoder first
        words = (first_call if kind == "encoder" else last_call).get(table)
        states = getattr(returned, "encoder_hidden_states", None) if kind == "encoder" else states_of(returned)
        if not states:
            return None
        tokens[kind] = _embedded(loaded, floats(states[0]), None if words is None else words.output, adds_positions)
    decoder_tokens = tokens["decoder"]
    input_tokens = tokens.get("encoder", decoder_tokens)
    return Origin(
        query,
        query if torch.equal(query, key) else key,
        *(projected[name].linear for name in NAMES),
        call.weights.w_o,
        query_tokens=input_tokens if site.kind == "encoder" else decoder_tokens,
        key_tokens=decoder_tokens if site.kind == "decoder" else input_tokens,
        is_normalized=call.weights.before is not None,
        is_rotary=call.weights.rotary,
        normalizes_heads=projected["w_q"].normalized or projected["w_k"].normalized,
    )


def _embedded(loaded: Loaded, first: Tensor, words: Tensor | None, adds_positions: bool) -> Embedded:
    """Embedded tokens that the first layer reads; positions are separate if the model adds nothing else.

    Args:
        first: states before the first layer, (B, n, d_model).
        words: output of the embedding of tokens; None if the embedding was not called.
    """
    rounding = bound(loaded) * float(first.abs().max())
    if words is not None and words.shape == first.shape:
        positions = first - words
        if float((first - words * (ratio(first, words) or 1.0)).abs().max()) <= rounding:
            return Embedded(first, None, note=POSITION_LATER)
        if adds_positions and float((positions - positions[:1]).abs().max()) <= rounding:
            return Embedded(words, positions[0])
    return Embedded(first, None, note=ALL_IN_ONE)


def _rerun(loaded: Loaded, record: Record) -> Any:
    """Output of the model for the texts of a record, as in its run."""
    model_inputs = running.inputs(record.sentences, loaded)
    if record.targets:
        model_inputs["decoder_input_ids"] = running.inputs(record.targets, loaded)["input_ids"]
    lengths = tuple(sentence.length for sentence in record.sentences)
    return running.run_model(loaded, record.edits, model_inputs, lengths)[0]
