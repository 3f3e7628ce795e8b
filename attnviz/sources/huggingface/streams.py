"""Residual stream of a run of a model of transformers: its parts, which must sum to the whole, and its logit lens."""

from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.core.stream import Embedded, Origin, Stream, StreamParts
from attnviz.core.tokens import Sentence
from attnviz.sources.huggingface import module_search, running
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.module_search import NAMES, Search, StreamModules, calls_of, floats, states_of

ALL_IN_ONE = "The model makes these vectors in one step; if it adds positions, they are included."
POSITION_LATER = "Positions are not added to the tokens: they change queries and keys, or add a bias to the scores."

_results: WeakKeyDictionary[nn.Module, dict[str | Site, Any]] = WeakKeyDictionary()
"""Results of searches in each model: its "parts", its "circuits", its "lens", and the last attention call."""
_lock = RLock()
"""Lock for `_results`, so that sessions do not search a model at the same time."""


def _cached(loaded: Loaded, key: str | Site, find: Callable[[Search], Any]) -> Any:
    """Return the result of a search in a model, which is made once; of attention calls, only the last one is kept."""
    with _lock:
        results = _results.setdefault(loaded.model, {})
        if key not in results:
            for site in [site for site in results if isinstance(site, Site)]:
                del results[site]
            with torch.inference_mode():
                results[key] = find(Search(loaded))
        return results[key]


def modules_of(loaded: Loaded, *, all_projections: bool = False) -> StreamModules:
    """Modules that write into the residual stream of a model, searched once.

    Args:
        all_projections: whether to include the projections of queries, keys and values, which take memory.

    Raises:
        InputError: if a part of the stream is not the sum of modules' outputs (the message names the part), or if
            the projections need more memory than is free (the message names both numbers).
    """
    names = tuple(NAMES) if all_projections else ("w_v",)
    return _cached(loaded, "circuits" if all_projections else "parts", partial(Search.modules, names=names))


def stream_of(loaded: Loaded, record: Record) -> Stream:
    """Residual stream of a record, by another run of its model: its states, and its parts if they are proven.

    Raises:
        InputError: if the model has no logits of words, or if proven parts do not sum to the whole.
    """
    try:
        modules = modules_of(loaded)
    except InputError as error:
        readout, head = _cached(loaded, "lens", Search.lens)
        states, unembedding = [], loaded.model.get_output_embeddings()
        for state in states_of(_rerun(loaded, record))[:-1]:
            with loaded.turns.turn(), torch.inference_mode(), calls_of([unembedding]) as calls:
                for module, factor in head:
                    state = module(state) if factor == 1 else module(state) * factor
            states.append(calls[-1].input)
        return Stream(readout, tuple(states), None, str(error))
    with calls_of([modules.last, *modules.feed_forward.values()]) as calls:
        states = [floats(state) for state in states_of(_rerun(loaded, record))]
    last_call, first = {call.module: call for call in calls}, states[0]
    words, positions = _embedded(loaded, modules.embedding, first, record.read)
    outputs = {layer: last_call[module].output for layer, module in modules.feed_forward.items()}
    feed_forward = {layer: output.reshape(first.shape) * modules.factor for layer, output in outputs.items()}
    end = last_call[modules.last].input.reshape(first.shape)
    parts = StreamParts(modules.weights, words, positions, feed_forward, end)
    sites = modules.weights.sites.items()
    attention = sum(projections.writes(floats(record.step(site).outputs())) for site, projections in sites)
    real = torch.arange(first.shape[1]) < torch.tensor([[sentence.length] for sentence in record.read])
    parts.check(attention, record.prediction.logits, record.source, real=real, within=module_search.bound(loaded))
    return Stream(modules.weights.readout, tuple(states[:-1]), parts)


def origin_of(loaded: Loaded, record: Record, site: Site) -> Origin | None:
    """Input of an attention call before its projections, by another run; None if the projections are unknown."""
    try:
        weights, parts, embeddings = _cached(loaded, site, partial(Search.call, site=site))
    except InputError:
        return None
    if parts.keys() != NAMES.keys():
        return None
    with calls_of([parts["w_q"].module, parts["w_k"].module]) as calls:
        returned = _rerun(loaded, record)
    last_call = {call.module: call for call in calls}
    query, key = (last_call[parts[name].module].input for name in ("w_q", "w_k"))

    def embedded(kind: str) -> Embedded:
        """Embedded tokens that the "encoder" or the "decoder" reads; a model that is only one of them is both."""
        states, read = states_of(returned), record.read
        if kind == "encoder" and record.targets:
            states, read = returned.encoder_hidden_states, record.sentences
        words, positions = _embedded(loaded, embeddings[kind], floats(states[0]), read)
        if positions is None:
            return Embedded(words, None, note=ALL_IN_ONE if embeddings[kind][0] is None else POSITION_LATER)
        lengths = [sentence.length for sentence in read]
        return Embedded(words, positions[lengths.index(max(lengths))])  # of the longest text, without padding

    return Origin(
        query,
        query if torch.equal(query, key) else key,
        *(parts[name].linear for name in NAMES),
        weights.w_o,
        query_tokens=embedded("encoder" if site.kind == "encoder" else "decoder"),
        key_tokens=embedded("decoder" if site.kind == "decoder" else "encoder"),
        is_normalized=weights.before is not None,
        is_rotary=weights.rotary,
        normalizes_heads=parts["w_q"].is_normalized or parts["w_k"].is_normalized,
    )


def _embedded(
    loaded: Loaded, embedding: module_search.Embedding, first: Tensor, sentences: tuple[Sentence, ...]
) -> tuple[Tensor, Tensor | None]:
    """Split the first states of a run, (B, n, d_model), into embeddings of tokens and vectors of positions.

    If no positions are added, the states are not split: they may also hold pictures.
    """
    module, factor, added = embedding
    if module is None or added is None:
        return first, None
    with loaded.turns.turn(), torch.inference_mode():
        words = floats(module(running.inputs(sentences, loaded)["input_ids"])) * factor
    return words, first - words


def _rerun(loaded: Loaded, record: Record) -> Any:
    """Output of the model for the texts of a record, as in its run."""
    model_inputs = running.inputs(record.sentences, loaded)
    if record.targets:
        model_inputs["decoder_input_ids"] = running.inputs(record.targets, loaded)["input_ids"]
    lengths = tuple(sentence.length for sentence in record.sentences)
    return running.run_model(loaded, record.edits, model_inputs, lengths)[0]
