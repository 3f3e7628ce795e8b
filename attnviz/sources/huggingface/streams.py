"""Residual stream of a run of a model of transformers: its parts, which must sum to the whole, and its logit lens."""

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.core.stream import Embedded, Origin, Stream, StreamParts
from attnviz.sources.huggingface import running
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.module_search import NAMES, Search, StreamModules, bound, calls_of, floats, states_of

ALL_IN_ONE = "The model makes these vectors in one step; if it adds positions, they are included."
POSITION_LATER = "Positions are not added to the tokens: they change queries and keys, or add a bias to the scores."

_results: WeakKeyDictionary[nn.Module, dict[str | Site, Any]] = WeakKeyDictionary()
"""Results of searches in each model: its "parts", its "circuits", its "lens", and the last attention call."""


def _cached(loaded: Loaded, key: str | Site, find: Callable[[Search], Any]) -> Any:
    """Return the result of a search in a model, which is made once; of attention calls, only the last one is kept."""
    results = _results.setdefault(loaded.model, {})
    if key not in results:
        for site in [site for site in [*results] if isinstance(site, Site)]:
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
        for state in states_of(_rerun(loaded, record)[0])[:-1]:
            with loaded.turns.turn(), torch.inference_mode(), calls_of([unembedding]) as calls:
                for module in head:
                    state = module(state)
            states.append(calls[-1].input)
        return Stream(readout, tuple(states), None, str(error))
    words, factor = modules.words or (modules.last, 1.0)
    with calls_of([words, modules.last, *(module for module, _ in modules.feed_forward.values())]) as calls:
        states = [floats(state) for state in states_of(_rerun(loaded, record)[0])]
    last_call, first = {call.module: call for call in calls}, states[0]
    embedding = last_call[words].output * factor if modules.words else first  # first states also hold pictures
    written = {n: last_call[module].output * by for n, (module, by) in modules.feed_forward.items()}
    parts = StreamParts(
        modules.weights,
        embedding,
        first - embedding if modules.words else None,
        {layer: vectors.reshape(first.shape) for layer, vectors in written.items()},
        last_call[modules.last].input.reshape(first.shape),
    )
    sites = modules.weights.sites.items()
    attention = sum(projections.writes(floats(record.step(site).outputs())) for site, projections in sites)
    real = torch.arange(first.shape[1]) < torch.tensor([[sentence.length] for sentence in record.read])
    parts.check(attention, record.prediction.logits, record.source, real=real, within=bound(loaded))
    return Stream(modules.weights.readout, tuple(states[:-1]), parts)


def origin_of(loaded: Loaded, record: Record, site: Site) -> Origin | None:
    """Input of an attention call before its projections, by another run; None if the projections are unknown."""

    def find(search: Search) -> tuple[Any, ...]:
        """Find the weights of the call, its projections, and the embeddings of the tokens of queries and keys."""
        kinds = "encoder" if site.kind == "encoder" else "decoder", "decoder" if site.kind == "decoder" else "encoder"
        return *search.attention(site), *((kind, search.embedding(kind)) for kind in kinds)

    try:
        weights, projected, *embeddings = _cached(loaded, site, find)
    except InputError:
        return None
    if projected.keys() != NAMES.keys():
        return None
    modules = [projected[name].call.module for name in ("w_q", "w_k")]
    with calls_of(modules) as calls:
        returned, model_inputs = _rerun(loaded, record)
    last_call = {call.module: call for call in calls}
    query, key = (last_call[module].input for module in modules)
    query_tokens, key_tokens = (_embedded(loaded, returned, model_inputs, *embedding) for embedding in embeddings)
    return Origin(
        query,
        query if torch.equal(query, key) else key,
        *(projected[name].linear for name in NAMES),
        weights.w_o,
        query_tokens,
        key_tokens,
        is_normalized=weights.before is not None,
        is_rotary=weights.rotary,
        normalizes_heads=projected["w_q"].is_normalized or projected["w_k"].is_normalized,
    )


def _embedded(
    loaded: Loaded, returned: Any, model_inputs: dict[str, Tensor], kind: str, embedding: tuple[Any, ...]
) -> Embedded:
    """Embedded tokens that the "encoder" or the "decoder" reads in a run; see `Search.embedding`."""
    module, factor, positions = embedding
    is_decoder = kind == "decoder" or "decoder_input_ids" not in model_inputs
    first = floats((states_of(returned) if is_decoder else returned.encoder_hidden_states)[0])
    if module is None or positions is None:
        return Embedded(first, None, note=ALL_IN_ONE if module is None else POSITION_LATER)
    ids = model_inputs.get("decoder_input_ids", model_inputs["input_ids"]) if is_decoder else model_inputs["input_ids"]
    with loaded.turns.turn(), torch.inference_mode():
        words = floats(module(ids)) * factor
    return Embedded(words, (first - words)[0])


def _rerun(loaded: Loaded, record: Record) -> tuple[Any, dict[str, Tensor]]:
    """Run the model again on the texts of a record; return its output, and its inputs."""
    model_inputs = running.inputs(record.sentences, loaded)
    if record.targets:
        model_inputs["decoder_input_ids"] = running.inputs(record.targets, loaded)["input_ids"]
    lengths = tuple(sentence.length for sentence in record.sentences)
    return running.run_model(loaded, record.edits, model_inputs, lengths)[0], model_inputs
