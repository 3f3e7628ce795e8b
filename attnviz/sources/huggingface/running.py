"""Runs of a loaded text model: over whole texts, to write a text, and for one new token with a cache."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnviz.capturing import capture
from attnviz.core.attention import LONG
from attnviz.core.edits import KINDS, Edits, Site, input_sites
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Continuation, Source, token_ids
from attnviz.sources.huggingface import faults, files, hooks, mixing, tapped
from attnviz.sources.huggingface.loaded import DELTAS, Loaded
from attnviz.sources.huggingface.tapped import ModelRun

LONGEST_ANSWER = 64
"""Maximum number of tokens that an encoder-decoder writes."""
PROMPT = 8
"""Maximum number of tokens that Whisper reads before it writes: start, language, task, no timestamps."""
IN_MODULES = ("recurrent_gemma",)
"""Types of models that store the state of a text in their modules, where two runs would overwrite each other."""
_layers: WeakKeyDictionary[nn.Module, dict[nn.Module, list[Site]]] = WeakKeyDictionary()
"""Cached results of `layers_of` for each model."""


def inputs(sentences: tuple[Sentence, ...], loaded: Loaded) -> dict[str, Tensor]:
    """Make the inputs of a model, (B, n): ids, attention mask, and, if the model reads them, segments and pictures."""
    ids = token_ids(sentences)
    is_token = torch.arange(ids.shape[1]) < torch.tensor([[sentence.length] for sentence in sentences])
    pad_ids = (getattr(loaded.config, "pad_token_id", None), loaded.tokenizer.pad_token_id)
    pad = next((id for id in pad_ids if id is not None and 0 <= id < loaded.vocabulary), 0)
    ids = ids.where(is_token, pad)  # some models find the end of a text by its padding
    model_inputs = {"input_ids": ids, "attention_mask": is_token.long()}
    types = getattr(loaded.config, "type_vocab_size", None)
    if "token_type_ids" in loaded.tokenizer.model_input_names and types not in (0, 1):
        model_inputs["token_type_ids"] = torch.tensor([[t.segment for t in sentence.tokens] for sentence in sentences])
    model_inputs = {name: tensor.to(loaded.device) for name, tensor in model_inputs.items()}
    return model_inputs | (mixing.inputs(loaded, sentences) if sentences[0].pictures else {})


def model_run(loaded: Loaded, edits: Edits, lengths: tuple[int, ...] | None, **options: Any) -> ModelRun:
    """Make the state of one call of a loaded model through the tap."""
    return ModelRun(loaded.model, edits, lengths, layers=loaded.trial.layers, one_kind=loaded.trial.one_kind, **options)


def run_model(
    loaded: Loaded, edits: Edits, model_inputs: dict[str, Any], lengths: tuple[int, ...]
) -> tuple[Any, tuple[Step, ...]]:
    """Run a model once; return its output, and one step per attention call."""
    model = loaded.model
    with loaded.turns.turn(), torch.inference_mode():
        if loaded.trial.is_captured:
            with capture(model, edits, sites=loaded.trial.calls) as captured:
                output = model(**model_inputs, **settings(model))
            return output, captured.steps_of(dict.fromkeys(KINDS, lengths))
        run = model_run(loaded, edits, lengths)
        mask_by_rule = tapped.rules() if loaded.trial.takes_rules and max(lengths) > LONG else nullcontext()
        edited_inputs = entering(loaded, run, model_inputs) if input_sites(edits) else nullcontext()
        with mask_by_rule, edited_inputs:
            output = tapped.call(model, run, **model_inputs, **settings(model))
    return output, tuple(run.tap.steps)


def graph(loaded: Loaded, record: Record, tap: Tap, vectors: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    """Run a model on vectors in place of tokens, and record autograd's graph; see `sources.base.Source.graph`."""
    model, model_inputs = loaded.model, inputs(record.sentences, loaded)
    ids, names, readers = [model_inputs.pop("input_ids")], ["inputs_embeds"], [model]
    if record.targets:
        ids.append(inputs(record.targets, loaded)["input_ids"])
        names.append("decoder_inputs_embeds")
        readers = [model.get_encoder(), model.get_decoder()]
    embeddings = [reader.get_input_embeddings() for reader in readers]
    if not set(names) <= signature(model.forward).parameters.keys():
        raise InputError(f"{loaded.name} reads tokens, and no vectors in their place, so there are no gradients.")
    run = model_run(loaded, record.edits, tuple(sentence.length for sentence in record.sentences), tap=tap)
    with loaded.turns.turn(), torch.inference_mode(False), torch.enable_grad():
        if not vectors:
            pairs = zip(embeddings, ids, strict=True)
            vectors = tuple(embedding(rows).detach().requires_grad_() for embedding, rows in pairs)
        arguments = model_inputs | dict(zip(names, vectors, strict=True))
        return vectors, tapped.call(model, run, **arguments, **settings(model)).logits.float()


def settings(model: nn.Module) -> dict[str, bool]:
    """Arguments that make a model return its hidden states and keep no cache."""
    return {"output_hidden_states": True} | ({"use_cache": False} if hasattr(model.config, "use_cache") else {})


def hidden(output: Any) -> Tensor | None:
    """Last hidden states in a model's output, (B, n, d_model), of the decoder if there is one; None if it has none."""
    states = getattr(output, "decoder_hidden_states", None) or getattr(output, "hidden_states", None)
    return states[-1] if states else getattr(output, "last_hidden_state", None)


def written(
    loaded: Loaded, edits: Edits, model_inputs: dict[str, Tensor], lengths: tuple[int, ...] = ()
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """Let an encoder-decoder write a text by its own `generate`, with the most probable token at each step.

    Args:
        model_inputs: inputs of the encoder, for texts or sounds.
        lengths: numbers of tokens of the texts without padding.

    Returns:
        (B, n) ids from the start token on, without the end token; for each text the number of ids, including the start
        token; and for each text the number of tokens after which it was cut, 0 if the model ended it.
    """
    model, config = loaded.model, deepcopy(loaded.model.generation_config)

    def add_tap(module: nn.Module, arguments: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Add a new tap to the arguments of a call."""
        return arguments, named | {"attnviz": model_run(loaded, edits, lengths, keep=False)}

    config.update(do_sample=False, num_beams=1, guidance_scale=None, max_length=None, return_dict_in_generate=True)
    if not loaded.trial.is_captured:
        edited_attention = hooks.before([model, model.get_encoder()], add_tap)
    else:
        edited_attention = nullcontext() if edits == Edits() else capture(model, edits, sites=loaded.trial.calls)
    with loaded.turns.turn(), torch.inference_mode(), files.quiet(), edited_attention:
        if loaded.hears:
            config.max_new_tokens = min(LONGEST_ANSWER, loaded.config.max_target_positions - PROMPT)
        else:
            config.max_new_tokens = min(LONGEST_ANSWER, loaded.longest or LONGEST_ANSWER) - 1
            config.update(use_cache=False, decoder_start_token_id=begins_with(model))
            memory = model.get_encoder()(**model_inputs)
            ids, padding = model_inputs["input_ids"], model_inputs["attention_mask"]
            model_inputs = {"encoder_outputs": memory, "input_ids": ids, "attention_mask": padding}
        ids = model.generate(**model_inputs, generation_config=config)["sequences"].cpu()
    is_end = torch.isin(ids, torch.tensor(_as_ids(config.eos_token_id), dtype=torch.long))
    is_end[:, 0] = False  # the start token
    counts, cut = [], []
    for row in is_end:
        ended = bool(row.any())
        counts.append(int(row.nonzero()[0]) if ended else len(row))
        cut.append(0 if ended else len(row) - 1)
    return ids[:, : max(counts)], tuple(counts), tuple(cut)


def _as_ids(setting: int | list[int] | None) -> list[int]:
    """Ids in a setting of transformers that is one id, a list of ids, or None."""
    return [id for id in (setting if isinstance(setting, list) else [setting]) if id is not None]


def begins_with(model: Any) -> int:
    """Id of the token that a decoder's input begins with, as in `generate`; T5 begins with the padding token."""
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        for config in (getattr(model, "generation_config", None), model.config):
            start = getattr(config, name, None)
            if start is not None:
                return start
    what = "does not say with which token its decoder begins"
    raise InputError(f"{type(model).__name__} {what}; set decoder_start_token_id in its config.json.")


def rules(loaded: Loaded, prompt: int, longest: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Logits processors of `generate`, which force or forbid words by a model's own generation settings.

    Args:
        prompt: number of tokens before the answer.
        longest: maximum number of tokens of the prompt and the answer.

    Returns:
        A function from the ids so far, (B, n), and logits, (B, vocabulary), to new logits.
    """
    from transformers import LogitsProcessorList

    model = loaded.model
    if getattr(model, "generation_config", None) is None:
        return LogitsProcessorList()
    config = deepcopy(model.generation_config)
    config.do_sample, config.guidance_scale, config.max_length = False, None, longest
    model._prepare_special_tokens(config, device="cpu")
    return model._get_logits_processor(config, prompt, None, device="cpu")


def layers_of(loaded: Loaded, model_inputs: dict[str, Any]) -> dict[nn.Module, list[Site]]:
    """Map the module of each layer to the sites of its calls, in order; ALBERT calls one module for all layers.

    A layer is the innermost member of a `ModuleList` that contains the attention. The result of the first call, which
    runs the model, is kept.
    """
    model = loaded.model
    if model not in _layers:
        layer_of = {}
        for module_list in (module for module in model.modules() if isinstance(module, nn.ModuleList)):
            for layer in module_list:
                _, *parts = layer.modules()  # the layer itself comes first
                layer_of.update(dict.fromkeys(parts, layer))
        run = model_run(loaded, Edits(), None)
        tapped.call(model, run, **model_inputs, **settings(model))
        layers: dict[nn.Module, list[Site]] = {}
        for step, module in zip(run.tap.steps, run.modules, strict=True):
            if step.site.kind != "cross" and module in layer_of:
                layers.setdefault(layer_of[module], []).append(step.site)
        _layers[model] = layers
    return _layers[model]


def entering(loaded: Loaded, run: ModelRun, model_inputs: dict[str, Any]) -> AbstractContextManager[None]:
    """Context manager in which the tap of a run stores or replaces the input of each layer, in this thread alone."""
    sites_left = {module: iter(sites) for module, sites in layers_of(loaded, model_inputs).items()}

    def enter(module: nn.Module, arguments: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Pass the vectors that a layer reads through the tap."""
        site = next(sites_left[module])
        if arguments and isinstance(arguments[0], Tensor):
            vectors, *others = arguments
            return (run.tap.enter(vectors, site=site), *others), named
        if not isinstance(named.get("hidden_states"), Tensor):
            raise InputError(f"What enters the layers of {loaded.name} is not known; take an output or values.")
        return arguments, named | {"hidden_states": run.tap.enter(named["hidden_states"], site=site)}

    return hooks.before(sites_left, enter)


def ends(loaded: Loaded) -> frozenset[int]:
    """Ids of the tokens that end a text, from the generation settings of the model, else from its tokenizer."""
    stated = getattr(getattr(loaded.model, "generation_config", None), "eos_token_id", None)
    return frozenset(_as_ids(loaded.tokenizer.eos_token_id if stated is None else stated))


def cache_for(loaded: Loaded, sentence: Sentence, edits: Edits) -> Any:
    """Make an empty cache for keys and values; None if the whole text must be run again for each new token.

    The whole text must be run if tokens attend to later tokens, edits add a bias by position or take numbers from
    another text, a mask is edited and a layer drops old keys, attention is captured, the class supports no cache of
    transformers, or a picture shifts the positions after it.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    model = loaded.model
    has_cache = model.config.model_type not in IN_MODULES and model._supports_default_dynamic_cache()
    shifts_positions = bool(sentence.pictures) and any(hasattr(part, DELTAS) for part in model.modules())
    if not has_cache or shifts_positions or loaded.trial.is_captured:
        return None
    if edits.bias or edits.taken or not edits.own_mask:
        return None
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    keeps_all_keys = all(type(layer) is DynamicLayer for layer in cache.layers)
    return cache if keeps_all_keys or edits.mask is None else None


class CachedContinuation(Continuation):
    """Continuation that runs only the new tokens, with the cached keys and values of earlier tokens."""

    def __init__(self, source: Source, loaded: Loaded, cache: Any, sentence: Sentence, edits: Edits, room: int):
        from transformers.cache_utils import DynamicLayer

        super().__init__(source, sentence, edits, room)
        self.loaded, self.cache, self.done = loaded, cache, 0  # `done` counts the tokens in the cache
        self.is_hybrid = any(not isinstance(layer, DynamicLayer) for layer in cache.layers)

    def plain_logits(self) -> Tensor:
        loaded, ids = self.loaded, token_ids([self.sentence]).to(self.loaded.device)
        pictures = mixing.inputs(loaded, (self.sentence,)) if self.sentence.pictures and not self.done else {}
        model_inputs = {"input_ids": ids[:, self.done :], "attention_mask": torch.ones_like(ids), **pictures}
        if self.is_hybrid:  # the model counts earlier tokens by the keys of the first layer, which may keep none
            model_inputs["position_ids"] = torch.arange(self.done, ids.shape[1], device=loaded.device)[None]
        edits = replace(self.edits, mask=self.edits.mask and self.edits.mask.shifted(self.done))
        call = partial(tapped.call, loaded.model, model_run(loaded, edits, (ids.shape[1],), keep=False))
        is_long = loaded.trial.takes_rules and not self.done and ids.shape[1] > LONG
        with (
            faults.unforeseen(f"{self.source.name} ({loaded.made_of})"),
            loaded.turns.turn(),
            torch.inference_mode(),
            tapped.rules() if is_long else nullcontext(),
        ):
            output = call(**model_inputs, past_key_values=self.cache, use_cache=True)
            self.cache, self.done = output.past_key_values, ids.shape[1]
            return output.logits[0, -1].float().cpu()
