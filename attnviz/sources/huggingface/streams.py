"""The residual stream of a record of a model of transformers, and what its attention calls were projected from.

Both by another run in which the modules that `module_search` found keep what they are given and give.
"""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.core.stream import Embedded, Origin, Readout, Stream, StreamParts
from attnviz.sources.huggingface import running
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.module_search import (
    CallModules,
    ModuleCall,
    Search,
    StreamModules,
    Unproven,
    bound,
    calls_of,
    floats,
    ratio,
    refused,
    states_of,
)

ALL_IN_ONE = "The model makes these vectors in one part, which holds their positions, too, if it adds any."
POSITION_LATER = "No position is added to the tokens: it acts later, on queries and keys or as a bias of their scores."

_models: WeakKeyDictionary[nn.Module, StreamModules] = WeakKeyDictionary()
_lenses: WeakKeyDictionary[nn.Module, tuple[Readout, tuple[nn.Module, ...]]] = WeakKeyDictionary()
_why_no_parts: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
_last_call: WeakKeyDictionary[nn.Module, tuple[Site, CallModules | None]] = WeakKeyDictionary()
"""The call of each model that was taken apart last."""


def modules_of(loaded: Loaded, *, all_projections: bool = False) -> StreamModules:
    """The modules that write into the residual stream of a model, found once.

    Args:
        all_projections: whether those to queries, keys and values are looked for, too: they take memory.

    Raises:
        InputError: which part of it is not the sum of modules' outputs, so that the model is not taken apart; or if
            there is too little memory for its projections, with both numbers.
    """
    if loaded.keeps_own_attention and not loaded.trial.is_captured:
        raise refused(loaded, "its attention is its own, and what its heads give is not known")
    _check_words(loaded)
    modules = _models.get(loaded.model)
    if modules is None or (all_projections and not modules.has_all_projections):
        with torch.inference_mode():
            modules = _models[loaded.model] = Search(loaded).modules(all_projections=all_projections)
    return modules


def _check_words(loaded: Loaded) -> None:
    """Raises: InputError: if a model gives no word a logit."""
    if not _reads_ids(loaded):
        raise refused(loaded, "it reads no text")
    if loaded.task not in ("next", "fill", "write"):
        raise refused(loaded, "it gives no word a logit")


def call_of(loaded: Loaded, site: Site) -> CallModules | None:
    """The modules around an attention call; None where its projections are not known."""
    if not _reads_ids(loaded) or (loaded.keeps_own_attention and not loaded.trial.is_captured):
        return None
    last = _last_call.get(loaded.model)
    if last is None or last[0] != site:
        with torch.inference_mode():
            last = _last_call[loaded.model] = site, Search(loaded).call(site)
    return last[1]


def _reads_ids(loaded: Loaded) -> bool:
    """Whether it reads tokens of a text: not pictures or sounds alone."""
    return loaded.vocabulary > 0 and not loaded.hears


def origin_of(loaded: Loaded, record: Record, site: Site) -> Origin | None:
    """Input of an attention call before its projections, by another run; None where these are not known."""
    known = call_of(loaded, site)
    if known is None:
        return None
    embeddings = {kind: part.get_input_embeddings() for kind, part in _parts(loaded).items()}
    readers = [known.parts[name].module for name in ("w_q", "w_k")]
    with calls_of([*readers, *embeddings.values()]) as calls:
        returned = _again(loaded, record)
    by_module = {call.module: call for call in calls}
    query, key = (by_module[module].input for module in readers)
    read = {
        kind: _embedded(loaded, returned, calls, kind, module, adds_positions=known.adds_positions)
        for kind, module in embeddings.items()
    }
    own, other = read.get("encoder", read["decoder"]), read["decoder"]
    if own is None:
        return None
    projections = known.projections
    return Origin(
        query,
        query if torch.equal(query, key) else key,
        *(known.parts[name].linear for name in ("w_q", "w_k", "w_v")),
        projections.w_o,
        query_tokens=own if site.kind == "encoder" else other,
        key_tokens=other if site.kind == "decoder" else own,
        is_normalized=projections.before is not None,
        is_rotary=projections.rotary,
        normalizes_heads=known.normalized,
    )


def _parts(loaded: Loaded) -> dict[str, nn.Module]:
    """The encoder and the decoder of a model; of one that has not both, itself."""
    model = loaded.model
    if "cross" in {site.kind for site in loaded.trial.heads}:
        return {"encoder": model.get_encoder(), "decoder": model.get_decoder()}
    return {"decoder": model}


def _embedded(
    loaded: Loaded, returned: Any, calls: list[ModuleCall], kind: str, module: nn.Module, *, adds_positions: bool
) -> Embedded | None:
    """Tokens as the first layer reads them, positions apart where these are added alone; None if it tells none."""
    is_first, made = kind == "encoder", [call.output for call in calls if call.module is module]
    states = getattr(returned, "encoder_hidden_states", None) if is_first else states_of(returned)
    if not states:
        return None
    first = floats(states[0])
    whole = Embedded(first, None, note=ALL_IN_ONE)
    if not made or (words := made[0 if is_first else -1]).shape != first.shape:
        return whole
    positions = first - words * (ratio(first, words) or 1.0)
    if float(positions.abs().max()) <= bound(loaded) * float(first.abs().max()):
        return Embedded(first, None, note=POSITION_LATER)
    positions = first - words
    is_same = float((positions - positions[:1]).abs().max()) <= bound(loaded) * float(first.abs().max())
    return Embedded(words, positions[0]) if is_same and adds_positions else whole


def _again(loaded: Loaded, record: Record) -> Any:
    """Output of the model for the texts of a record, as in its run."""
    read = running.inputs(record.sentences, loaded)
    if record.targets:
        read["decoder_input_ids"] = running.inputs(record.targets, loaded)["input_ids"]
    lengths = tuple(sentence.length for sentence in record.sentences)
    return running.watched(loaded, record.edits, read, lengths)[0]


def stream_of(loaded: Loaded, record: Record) -> Stream:
    """The residual stream of a record, by another run of its model: its states, and its parts where these are proven.

    Raises:
        InputError: if no words are read from its states; or if parts that were proven do not sum to the whole.
    """
    _check_words(loaded)
    if loaded.model not in _why_no_parts:
        try:
            return _with_parts(loaded, record, modules_of(loaded))
        except Unproven as error:
            _why_no_parts[loaded.model] = str(error)
    if loaded.model not in _lenses:
        with torch.inference_mode():
            _lenses[loaded.model] = Search(loaded).lens()
    readout, between = _lenses[loaded.model]
    states = states_of(_again(loaded, record))[:-1]
    if between:
        states = [_through(loaded, between, state) for state in states]
    return Stream(readout, tuple(map(floats, states)), None, _why_no_parts[loaded.model])


def _through(loaded: Loaded, modules: tuple[nn.Module, ...], state: Tensor) -> Tensor:
    """The input of the unembedding, or what the last of the modules before it makes of a state."""
    unembedding = loaded.model.get_output_embeddings()
    with loaded.turns.turn(), torch.inference_mode(), calls_of([unembedding]) as calls:
        for module in modules:
            state = module(state)
    return calls[-1].input if calls else state


def _with_parts(loaded: Loaded, record: Record, modules: StreamModules) -> Stream:
    """The residual stream with its parts, which are held to the whole."""
    with calls_of([modules.words, modules.last, *(module for module, _ in modules.feed_forward.values())]) as calls:
        states = states_of(_again(loaded, record))
    by_module, first = {call.module: call for call in calls}, floats(states[0])
    words = by_module[modules.words].output * modules.factor
    has_positions = modules.positions is not None  # else pictures stand in the place of words, or nothing is added
    feed_forward = {
        layer: by_module[module].output.reshape(first.shape) * factor
        for layer, (module, factor) in modules.feed_forward.items()
    }
    parts = StreamParts(
        modules.weights,
        words if has_positions else first,
        first - words if has_positions else None,
        feed_forward,
        by_module[modules.last].input.reshape(first.shape),
    )
    attention = sum(
        projections.writes(record.step(site).outputs()) for site, projections in modules.weights.sites.items()
    )
    real = torch.zeros(first.shape[:2], dtype=torch.bool)
    for row, sentence in zip(real, record.read, strict=True):
        row[: sentence.length] = True
    parts.check(attention, record.prediction.logits, record.source, real=real, within=bound(loaded))
    return Stream(modules.weights.readout, tuple(map(floats, states[:-1])), parts)
