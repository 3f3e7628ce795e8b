"""Runs of a loaded model of text: one over whole texts, those in which it writes, and one token with a cache."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial
from inspect import signature
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnviz.capturing import capture
from attnviz.core.attention import LONG
from attnviz.core.conventions import named
from attnviz.core.edits import KINDS, Edits, Site, enters
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Continuation, Source
from attnviz.sources.huggingface import faults, mixing, tapped
from attnviz.sources.huggingface.loaded import DELTAS, Loaded
from attnviz.sources.huggingface.tapped import ModelRun

LONGEST_ANSWER = 64
"""Most tokens that an encoder-decoder writes."""
IN_MODULES = ("recurrent_gemma",)
"""Types of models that keep what they have read in their modules, where two runs would meet."""
SCORES = {"squeezebert": ("encoder", "decoder"), "prophetnet": ("encoder", "cross")}
"""Kinds of attention for which a family, by its model_type, returns the scores before the softmax, masks added."""
BLOCKED = -1e30
"""Returned score below which a cell is masked: families add about the lowest float32."""

_layers: WeakKeyDictionary[nn.Module, dict[nn.Module, list[Site]]] = WeakKeyDictionary()
"""Layers of models, by `layers_of`."""


def inputs(sentences: tuple[Sentence, ...], loaded: Loaded) -> dict[str, Tensor]:
    """Inputs of a model, (B, n): ids, which of them are not padding, and the text of a pair that each belongs to."""
    ids = torch.tensor([[token.id for token in sentence.tokens] for sentence in sentences])
    real = torch.arange(ids.shape[1]) < torch.tensor([[sentence.length] for sentence in sentences])
    pads = (getattr(loaded.config, "pad_token_id", None), loaded.tokenizer.pad_token_id)
    pad = next((id for id in pads if id is not None and 0 <= id < loaded.vocabulary), 0)
    read = {"input_ids": ids.where(real, pad), "attention_mask": real.long()}  # some look for it where a text ends
    types = getattr(loaded.config, "type_vocab_size", None)
    if "token_type_ids" in loaded.tokenizer.model_input_names and types not in (0, 1):
        read["token_type_ids"] = torch.tensor([[t.segment for t in sentence.tokens] for sentence in sentences])
    read = {name: tensor.to(loaded.device) for name, tensor in read.items()}
    return read | (mixing.inputs(loaded, sentences) if sentences[0].pictures else {})


def model_run(loaded: Loaded, edits: Edits, lengths: tuple[int, ...] | None, **options: Any) -> ModelRun:
    """A call of a loaded model through the tap."""
    return ModelRun(loaded.model, edits, lengths, layers=loaded.trial.layers, alone=loaded.trial.alone, **options)


def run_model(
    loaded: Loaded, edits: Edits, read: dict[str, Any], lengths: tuple[int, ...]
) -> tuple[Any, tuple[Step, ...]]:
    """Run a model once; gives its output, and a step per attention call."""
    model = loaded.model
    with loaded.turns.turn(), torch.inference_mode():
        if loaded.trial.is_captured:
            with capture(model, edits, sites=loaded.trial.calls) as captured:
                output = model(**read, **settings(model))
            return output, captured.steps_of(dict.fromkeys(KINDS, lengths))
        if loaded.keeps_own_attention:
            output = model(**read, output_attentions=True, **settings(model))
            return output, returned_steps(loaded, output, read, lengths)
        run = model_run(loaded, edits, lengths)
        takes_rule = loaded.trial.takes_rules and max(lengths) > LONG
        replaced = entering(loaded, run, read) if enters(edits) else nullcontext()
        with tapped.rules() if takes_rule else nullcontext(), replaced:
            output = tapped.call(model, run, **read, **settings(model))
    return output, tuple(run.tap.steps)


def graph(loaded: Loaded, record: Record, tap: Tap, vectors: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    """Run a model within autograd's graph on vectors in place of tokens; see `sources.base.Source.graph`."""
    model, read = loaded.model, inputs(record.sentences, loaded)
    ids, parts = [read.pop("input_ids")], ("inputs_embeds", "decoder_inputs_embeds")
    embeddings = [model.get_input_embeddings()]
    if record.targets:
        ids.append(inputs(record.targets, loaded)["input_ids"])
        embeddings = [model.get_encoder().get_input_embeddings(), model.get_decoder().get_input_embeddings()]
    if not set(parts[: len(ids)]) <= signature(model.forward).parameters.keys():
        raise InputError(f"{loaded.name} reads tokens, and no vectors in their place, so gradients have no beginning.")
    run = model_run(loaded, record.edits, tuple(sentence.length for sentence in record.sentences), tap=tap)
    with loaded.turns.turn(), torch.inference_mode(False), torch.enable_grad():
        if not vectors:
            pairs = zip(embeddings, ids, strict=True)
            vectors = tuple(embedding(rows).detach().requires_grad_() for embedding, rows in pairs)
        whole = read | dict(zip(parts, vectors, strict=False))
        return vectors, tapped.call(model, run, **whole, **settings(model)).logits.float()


def settings(model: nn.Module) -> dict[str, bool]:
    """Arguments that make a model return its hidden states and keep no cache."""
    return {"output_hidden_states": True} | ({"use_cache": False} if hasattr(model.config, "use_cache") else {})


def hidden(output: Any) -> Tensor:
    """The last hidden states, (B, n, d_model); the decoder's if there is one."""
    states = getattr(output, "decoder_hidden_states", None) or getattr(output, "hidden_states", None)
    return states[-1] if states else output.last_hidden_state


def returned_maps(output: Any, alone: str) -> dict[Site, Tensor]:
    """Attention weights that a model returns, by site, in the order of the calls.

    Args:
        alone: kind of the attention of a model that has only one.
    """
    names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    if not hasattr(output, "decoder_attentions"):
        names = {alone: "attentions"}
    by_site = {
        Site(kind, layer): weights
        for kind, name in names.items()
        for layer, weights in enumerate(getattr(output, name, None) or ())
        if isinstance(weights, Tensor)
    }
    return dict(
        sorted(by_site.items(), key=lambda item: (item[0].kind != "encoder", item[0].layer, item[0].kind == "cross"))
    )


def map_sizes(read: dict[str, Tensor]) -> dict[str, tuple[int, int]]:
    """Numbers of queries and keys of a whole map of each kind."""
    n = read["input_ids"].shape[1]
    m = read.get("decoder_input_ids", read["input_ids"]).shape[1]
    return {"encoder": (n, n), "decoder": (m, m), "cross": (m, n)}


def returns_scores(model: nn.Module, site: Site) -> bool:
    """Whether a model returns scores in place of weights at a site."""
    return site.kind in SCORES.get(model.config.model_type, ())


def is_map(model: nn.Module, site: Site, weights: Tensor, read: dict[str, Tensor]) -> bool:
    """Whether weights that a model returned are a map (B, H, Q, K) of all queries over all keys; see `SCORES`."""
    if weights.dim() != 4 or weights.shape[2:] != map_sizes(read)[site.kind]:
        return False
    if returns_scores(model, site):
        return True
    deviations = (weights.float().sum(-1) - 1).abs()
    return not bool((weights < 0).any() or (deviations > 0.02).any())  # NaN passes: weights of a broken model


def returned_steps(loaded: Loaded, output: Any, read: dict[str, Tensor], lengths: tuple[int, ...]) -> tuple[Step, ...]:
    """Steps of attention that a model computed itself, n x n, at the sites that are shown.

    Queries and keys are not known: the logarithm of a weight is the bias of a score that is zero, so that the softmax
    gives the weight back.

    Raises:
        InputError: if the model cuts a text of this length into pieces.
    """
    maps, tap = returned_maps(output, next(iter(loaded.trial.heads)).kind), Tap()
    for site in loaded.trial.heads:
        weights = maps[site].float().cpu()
        if weights.dim() != 4 or weights.shape[2:] != map_sizes(read)[site.kind]:
            cut = f"{faults.name(loaded.name)} cuts a text of {read['input_ids'].shape[1]:,} tokens into pieces"
            raise InputError(f"{cut}, of which there is no map of all queries and keys. Shorten the text.")
        has_scores = returns_scores(loaded.model, site)
        blocked = weights.amax(1, keepdim=True) <= (BLOCKED if has_scores else 0)
        bias = weights.masked_fill(blocked, 0) if has_scores else weights.log()
        nothing = weights.new_zeros(*weights.shape[:2], sum(weights.shape[2:]), 1)
        query, key = nothing.split(weights.shape[2:], 2)
        mask = named(~blocked, *weights.shape[2:], lengths)
        tap.attend(query, key, key, site=site, scoring=Scoring(bias=bias, scale=1.0), mask=mask)
    return tuple(tap.steps)


def written(
    loaded: Loaded, edits: Edits, read: dict[str, Tensor], lengths: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """Decoder input for the text that an encoder-decoder writes: at each step the most probable token.

    Returns:
        (B, n) ids from the start token on, without the end; the number of ids of each sentence, with the start; and the
        number of tokens after which each text was cut, 0 if the model ended it.
    """
    model, start, end_ids = loaded.model, begins_with(loaded.model), loaded.model.generation_config.eos_token_id
    end_ids = [id for id in (end_ids if isinstance(end_ids, list) else [end_ids]) if id is not None]
    end_ids = torch.tensor(end_ids, device=loaded.device, dtype=torch.long)
    batch, most = len(lengths), min(LONGEST_ANSWER, loaded.longest or LONGEST_ANSWER)
    chooses = rules(loaded, 1, most, read.get("input_ids"))
    ids = torch.full((batch, 1), start, device=loaded.device)
    counts, ended = torch.ones(batch, dtype=torch.long), torch.zeros(batch, dtype=torch.bool, device=loaded.device)
    options = {"attention_mask": read["attention_mask"], "use_cache": False}

    def tap() -> dict[str, ModelRun]:
        return {} if loaded.keeps_own_attention else {"attnviz": model_run(loaded, edits, lengths, keep=False)}

    trial = loaded.trial
    captured = capture(model, edits, sites=trial.calls) if trial.is_captured else nullcontext()
    with loaded.turns.turn(), torch.inference_mode(), captured:
        memory = model.get_encoder()(**read, **tap())
        while ids.shape[1] < most:
            output = model(decoder_input_ids=ids, encoder_outputs=memory, **tap(), **options)
            chosen = chooses(ids, output.logits[:, -1].float()).argmax(-1)
            ended |= torch.isin(chosen, end_ids)
            if ended.all():
                break
            counts += ~ended.cpu()
            ids = torch.cat([ids, chosen.masked_fill(ended, start).unsqueeze(1)], 1)
    lengths = tuple(counts.tolist())
    return ids, lengths, tuple(0 if end else length - 1 for end, length in zip(ended.tolist(), lengths, strict=True))


def begins_with(model: Any) -> int:
    """Start token of the decoder of an encoder-decoder, as in `generate`; else padding, as for T5.

    Raises:
        InputError: if the model names none.
    """
    names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
    settings = getattr(model, "generation_config", None), model.config
    named = (getattr(config, name, None) for name in names for config in settings)
    start = next((id for id in named if id is not None), None)
    if start is None:
        what = "does not say with which token its decoder begins"
        raise InputError(f"{type(model).__name__} {what}; set decoder_start_token_id in its config.json.")
    return start


def rules(loaded: Loaded, prompt: int, longest: int, read: Tensor | None = None) -> Callable[[Tensor, Tensor], Tensor]:
    """Logits processors of `generate`: a model's own settings force it to write words, or forbid them.

    Args:
        prompt: number of tokens before the first that is written.
        longest: most tokens, with those of the prompt.
        read: ids that an encoder read, (B, n).

    Returns:
        A function from the ids so far, (B, n), and logits, (B, vocabulary), to new logits.
    """
    from transformers import LogitsProcessorList

    model = loaded.model
    if getattr(model, "generation_config", None) is None:
        return LogitsProcessorList()
    settings, device = deepcopy(model.generation_config), "cpu" if read is None else read.device
    settings.do_sample, settings.guidance_scale, settings.max_length = False, None, longest
    if model.config.is_encoder_decoder:
        settings.decoder_start_token_id = begins_with(model)
    model._prepare_special_tokens(settings, device=device)
    return model._get_logits_processor(settings, prompt, read, device=device)


def layers_of(loaded: Loaded, read: dict[str, Any]) -> dict[nn.Module, list[Site]]:
    """The module of each layer, and the sites of its calls in their order: ALBERT calls one module for all layers.

    A layer is the innermost member of a list of modules around the attention; a run finds it once per model.
    """
    model = loaded.model
    if model not in _layers:
        lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
        around = {part: member for members in lists for member in members for part in [*member.modules()][1:]}
        run = model_run(loaded, Edits(), None)
        tapped.call(model, run, **read, **({"use_cache": False} if hasattr(model.config, "use_cache") else {}))
        layers: dict[nn.Module, list[Site]] = {}
        for step, module in zip(run.tap.steps, run.modules, strict=True):
            if step.site.kind != "cross" and module in around:
                layers.setdefault(around[module], []).append(step.site)
        _layers[model] = layers
    return _layers[model]


@contextmanager
def entering(loaded: Loaded, run: ModelRun, read: dict[str, Any]) -> Iterator[None]:
    """Context manager in which the tap of a run reads and replaces the input of each layer, in this thread alone."""
    thread, left = get_ident(), {module: iter(sites) for module, sites in layers_of(loaded, read).items()}

    def enter(module: nn.Module, arguments: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
        if get_ident() != thread:
            return None
        site = next(left[module])
        if arguments and isinstance(arguments[0], Tensor):
            return (run.tap.enter(arguments[0], site=site), *arguments[1:]), named
        if not isinstance(named.get("hidden_states"), Tensor):
            raise InputError(f"What enters the layers of {loaded.name} is not known; take an output or values.")
        return arguments, named | {"hidden_states": run.tap.enter(named["hidden_states"], site=site)}

    hooks = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in left]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def ends(loaded: Loaded) -> frozenset[int]:
    """Ids with which a model ends a text, by its generation settings, else by its tokenizer."""
    ids = getattr(getattr(loaded.model, "generation_config", None), "eos_token_id", None)
    ids = loaded.tokenizer.eos_token_id if ids is None else ids
    return frozenset(id for id in (ids if isinstance(ids, list) else [ids]) if id is not None)


def cache_for(loaded: Loaded, sentence: Sentence, edits: Edits) -> Any:
    """Empty cache for keys and values of the text so far; None if the whole text must be run for each token.

    The whole text must be run if a token attends to later ones, a bias counts positions, edits take from another text,
    a mask meets layers that drop keys, a capture reads the calls, the class takes no cache of transformers, or a
    picture moves the positions after it.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    model = loaded.model
    takes = model.config.model_type not in IN_MODULES and model._supports_default_dynamic_cache()
    moves = bool(sentence.pictures) and any(hasattr(part, DELTAS) for part in model.modules())
    if not takes or moves or loaded.trial.is_captured or edits.bias or not edits.own_mask or edits.taken:
        return None
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    is_whole = all(type(layer) is DynamicLayer for layer in cache.layers)
    return cache if is_whole or edits.mask is None else None


class CachedContinuation(Continuation):
    """Continuation that runs new tokens alone, with the cached keys and values of earlier tokens."""

    def __init__(self, source: Source, loaded: Loaded, cache: Any, sentence: Sentence, edits: Edits, room: int):
        from transformers.cache_utils import DynamicLayer

        super().__init__(source, sentence, edits, room)
        self.loaded, self.cache, self.done = loaded, cache, 0
        self.is_hybrid = any(not isinstance(layer, DynamicLayer) for layer in cache.layers)

    def plain_logits(self) -> Tensor:
        loaded = self.loaded
        ids = torch.tensor([[token.id for token in self.sentence.tokens]], device=loaded.device)
        shown = mixing.inputs(loaded, (self.sentence,)) if self.sentence.pictures and not self.done else {}
        read: dict[str, Any] = {"input_ids": ids[:, self.done :], "attention_mask": torch.ones_like(ids), **shown}
        if self.is_hybrid:  # the first layer keeps no keys, by which the model counts earlier tokens
            read["position_ids"] = torch.arange(self.done, ids.shape[1], device=loaded.device)[None]
        call: Callable[..., Any] = loaded.model
        if not loaded.keeps_own_attention:
            edits = replace(self.edits, mask=self.edits.mask and self.edits.mask.shifted(self.done))
            call = partial(tapped.call, loaded.model, model_run(loaded, edits, (ids.shape[1],), keep=False))
        is_long = loaded.trial.takes_rules and not self.done and ids.shape[1] > LONG
        with (
            faults.unforeseen(f"{self.source.name} ({loaded.made_of})"),
            loaded.turns.turn(),
            torch.inference_mode(),
            tapped.rules() if is_long else nullcontext(),
        ):
            output = call(**read, past_key_values=self.cache, use_cache=True)
            self.cache, self.done = output.past_key_values, ids.shape[1]
            return output.logits[0, -1].float().cpu()
