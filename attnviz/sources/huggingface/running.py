"""Runs of a loaded model of text: one over whole texts, those in which it writes, and one token with a cache."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from inspect import signature
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnviz.capturing import capture
from attnviz.core.attention import LONG
from attnviz.core.edits import KINDS, Edits, Site, enters
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Continuation, Source
from attnviz.sources.huggingface import eager, faults, mixing, tapped
from attnviz.sources.huggingface.loaded import DELTAS, Loaded
from attnviz.sources.huggingface.tapped import ModelRun

LONGEST_ANSWER = 64
"""Tokens that an encoder-decoder writes, at most."""
IN_MODULES = ("recurrent_gemma",)
"""Types of models that keep what they have read in their modules, where two readers would meet."""
_layers: WeakKeyDictionary[nn.Module, dict[nn.Module, list[Site]]] = WeakKeyDictionary()
"""Layers of models, by `layers_of`."""


def inputs(sentences: tuple[Sentence, ...], loaded: Loaded) -> dict[str, Tensor]:
    """Inputs of a model, (B, n): ids, which of them are no padding, and of a pair which text each is of."""
    ids = torch.tensor([[token.id for token in sentence.tokens] for sentence in sentences])
    real = torch.arange(ids.shape[1]) < torch.tensor([[sentence.length] for sentence in sentences])
    named = (getattr(loaded.config, "pad_token_id", None), loaded.tokenizer.pad_token_id)
    pad = next((id for id in named if id is not None and 0 <= id < loaded.vocabulary), 0)
    read = {"input_ids": ids.where(real, pad), "attention_mask": real.long()}  # some look for it where a text ends
    types = getattr(loaded.config, "type_vocab_size", None)
    if "token_type_ids" in loaded.tokenizer.model_input_names and types not in (0, 1):
        read["token_type_ids"] = torch.tensor([[t.segment for t in sentence.tokens] for sentence in sentences])
    read = {name: tensor.to(loaded.device) for name, tensor in read.items()}
    return read | (mixing.inputs(loaded, sentences) if sentences[0].pictures else {})


def watched(
    loaded: Loaded, edits: Edits, read: dict[str, Any], lengths: tuple[int, ...]
) -> tuple[Any, tuple[Step, ...]]:
    """Run a model once; gives what it gave, and a step per attention call."""
    model = loaded.model
    with loaded.turns.turn(), torch.inference_mode():
        if loaded.trial.is_captured:
            with capture(model, edits, sites=loaded.trial.calls) as captured:
                output = model(**read, **settings(model))
            return output, captured.steps_of(dict.fromkeys(KINDS, lengths))
        if loaded.keeps_own_attention:
            output = model(**read, output_attentions=True, **settings(model))
            return output, eager.steps(loaded, output, read, lengths)
        run = ModelRun(model, edits, lengths, layers=loaded.trial.layers, alone=loaded.trial.alone)
        takes_rule = loaded.trial.takes_rules and max(lengths) > LONG
        replaced = entering(loaded, run, read) if enters(edits) else nullcontext()
        with tapped.rules() if takes_rule else nullcontext(), replaced:
            output = model(**read, attnviz=run, **settings(model))
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
    lengths = tuple(sentence.length for sentence in record.sentences)
    run = ModelRun(model, record.edits, lengths, layers=loaded.trial.layers, alone=loaded.trial.alone, tap=tap)
    with loaded.turns.turn(), torch.inference_mode(False), torch.enable_grad():
        if not vectors:
            pairs = zip(embeddings, ids, strict=True)
            vectors = tuple(embedding(one).detach().requires_grad_() for embedding, one in pairs)
        whole = read | dict(zip(parts, vectors, strict=False))
        return vectors, model(**whole, attnviz=run, **settings(model)).logits.float()


def settings(model: nn.Module) -> dict[str, bool]:
    """Arguments that make a model return its hidden states and keep no cache."""
    return {"output_hidden_states": True} | ({"use_cache": False} if hasattr(model.config, "use_cache") else {})


def hidden(output: Any) -> Tensor:
    """The last hidden states, (B, n, d_model); the decoder's where there is one."""
    states = getattr(output, "decoder_hidden_states", None) or getattr(output, "hidden_states", None)
    return states[-1] if states else output.last_hidden_state


def written(
    loaded: Loaded, edits: Edits, read: dict[str, Tensor], lengths: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """Text that an encoder-decoder writes, each time the most probable token, as its decoder then reads it.

    Returns:
        (B, n) ids from the start token on, without the end; how many of each sentence count, the start included; and
        after how many tokens each was cut, 0 where the model ended it.
    """
    model, settings, start = loaded.model, loaded.model.generation_config, begins_with(loaded.model)
    ends = settings.eos_token_id if isinstance(settings.eos_token_id, list) else [settings.eos_token_id]
    ends = torch.tensor([end for end in ends if end is not None], device=loaded.device, dtype=torch.long)
    batch, most = len(lengths), min(LONGEST_ANSWER, loaded.longest or LONGEST_ANSWER)
    chooses = rules(loaded, 1, most, read.get("input_ids"))
    ids = torch.full((batch, 1), start, device=loaded.device)
    counts, ended = torch.ones(batch, dtype=torch.long), torch.zeros(batch, dtype=torch.bool, device=loaded.device)
    options = {"attention_mask": read["attention_mask"], "use_cache": False}

    def tap() -> dict[str, ModelRun]:
        run = ModelRun(model, edits, lengths, layers=loaded.trial.layers, alone=loaded.trial.alone, keep=False)
        return {} if loaded.keeps_own_attention else {"attnviz": run}

    trial = loaded.trial
    captured = capture(model, edits, sites=trial.calls) if trial.is_captured else nullcontext()
    with loaded.turns.turn(), torch.inference_mode(), captured:
        memory = model.get_encoder()(**read, **tap())
        while ids.shape[1] < most:
            output = model(decoder_input_ids=ids, encoder_outputs=memory, **tap(), **options)
            chosen = chooses(ids, output.logits[:, -1].float()).argmax(-1)
            ended |= torch.isin(chosen, ends)
            if ended.all():
                break
            counts += ~ended.cpu()
            ids = torch.cat([ids, chosen.masked_fill(ended, start).unsqueeze(1)], 1)
    lengths = tuple(counts.tolist())
    return ids, lengths, tuple(0 if end else length - 1 for end, length in zip(ended.tolist(), lengths, strict=True))


def begins_with(model: Any) -> int:
    """The token with which the decoder of an encoder-decoder begins, found as `generate` does; else, as T5's, padding.

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
    """Logits processors of `generate`: words that a model's own settings force or forbid it to write.

    Args:
        prompt: how many tokens are read before the first that is written.
        longest: how many there are at most, with those of the prompt.
        read: ids that an encoder read, (B, n).

    Returns:
        A function of the ids so far, (B, n), and of logits, (B, vocabulary), that gives these anew.
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

    It is the innermost member of a list of modules around the one that computes attention; found once, by a run.
    """
    model = loaded.model
    if model not in _layers:
        lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
        around = {part: member for one in lists for member in one for part in [*member.modules()][1:]}
        run = ModelRun(model, Edits(), layers=loaded.trial.layers, alone=loaded.trial.alone)
        model(**read, attnviz=run, **({"use_cache": False} if hasattr(model.config, "use_cache") else {}))
        layers: dict[nn.Module, list[Site]] = {}
        for step, module in zip(run.tap.steps, run.modules, strict=True):
            if step.site.kind != "cross" and module in around:
                layers.setdefault(around[module], []).append(step.site)
        _layers[model] = layers
    return _layers[model]


@contextmanager
def entering(loaded: Loaded, run: ModelRun, read: dict[str, Any]) -> Iterator[None]:
    """Let the tap of a run see and replace what enters each layer, meanwhile, in this thread alone."""
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
    named = getattr(getattr(loaded.model, "generation_config", None), "eos_token_id", None)
    named = loaded.tokenizer.eos_token_id if named is None else named
    return frozenset(id for id in (named if isinstance(named, list) else [named]) if id is not None)


def cache_for(loaded: Loaded, sentence: Sentence, edits: Edits) -> Any:
    """Empty cache for keys and values of the text so far; None where the whole text has to be run for each token.

    A cache cannot be used if a token sees later ones, a bias counts positions, something is taken from another text, a
    mask meets layers that drop keys, only a capture sees the calls, the class takes no cache of transformers, or a
    picture moves the positions behind it.
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
    """The next token's logits, of the new tokens alone and the keys and values of those before."""

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
        if self.is_hybrid:  # their first layer keeps no keys, by which the model would count what is before
            read["position_ids"] = torch.arange(self.done, ids.shape[1], device=loaded.device)[None]
        if not loaded.keeps_own_attention:
            trial, count = loaded.trial, ids.shape[1]
            shifted = self.edits.mask and self.edits.mask.shifted(self.done)
            edits = replace(self.edits, mask=shifted)
            run = ModelRun(loaded.model, edits, (count,), layers=trial.layers, alone=trial.alone, keep=False)
            read["attnviz"] = run
        is_long = loaded.trial.takes_rules and not self.done and ids.shape[1] > LONG
        with (
            faults.unforeseen(f"{self.source.name} ({loaded.made_of})"),
            loaded.turns.turn(),
            torch.inference_mode(),
            tapped.rules() if is_long else nullcontext(),
        ):
            output = loaded.model(**read, past_key_values=self.cache, use_cache=True)
            self.cache, self.done = output.past_key_values, ids.shape[1]
            return output.logits[0, -1].float().cpu()
