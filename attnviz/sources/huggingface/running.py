"""Runs of a loaded model of text: one over whole texts, those in which it writes, and one token with a cache."""

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
from attnviz.core.edits import KINDS, Edits, Site, enters
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Continuation, Source
from attnviz.sources.huggingface import faults, files, mixing, tapped
from attnviz.sources.huggingface.loaded import DELTAS, Loaded
from attnviz.sources.huggingface.tapped import ModelRun

LONGEST_ANSWER = 64
"""Most tokens that an encoder-decoder writes."""
PROMPT = 8
"""Largest number of tokens before the first that Whisper writes: start, language, task, no timestamps."""
IDS = ("input_ids", "attention_mask")
IN_MODULES = ("recurrent_gemma",)
"""Types of models that keep what they have read in their modules, where two runs would meet."""
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


def written(
    loaded: Loaded, edits: Edits, read: dict[str, Tensor], lengths: tuple[int, ...] = ()
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """Let an encoder-decoder write by its own `generate`, always the most probable token.

    Args:
        read: inputs of the encoder: texts, or sounds.
        lengths: numbers of tokens of the texts without padding.

    Returns:
        (B, n) ids from the start token on, without the end; the number of ids of each sentence, with the start; and the
        number of tokens after which each text was cut, 0 if the model ended it.
    """
    model, settings = loaded.model, deepcopy(loaded.model.generation_config)

    def add_tap(module: nn.Module, arguments: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        return arguments, named | {"attnviz": model_run(loaded, edits, lengths, keep=False)}

    settings.update(do_sample=False, num_beams=1, guidance_scale=None, max_length=None, return_dict_in_generate=True)
    if not loaded.trial.is_captured:
        acting = tapped.before([model, model.get_encoder()], add_tap)
    else:
        acting = nullcontext() if edits == Edits() else capture(model, edits, sites=loaded.trial.calls)
    with loaded.turns.turn(), torch.inference_mode(), files.quiet(), acting:
        if loaded.hears:
            settings.max_new_tokens = min(LONGEST_ANSWER, loaded.config.max_target_positions - PROMPT)
        else:
            settings.max_new_tokens = min(LONGEST_ANSWER, loaded.longest or LONGEST_ANSWER) - 1
            settings.update(use_cache=False, decoder_start_token_id=begins_with(model))
            read = {"encoder_outputs": model.get_encoder()(**read), **{name: read[name] for name in IDS}}
        ids = model.generate(**read, generation_config=settings)["sequences"].cpu()
    end = settings.eos_token_id
    ends = torch.tensor([id for id in (end if isinstance(end, list) else [end]) if id is not None], dtype=torch.long)
    ended = torch.isin(ids, ends)
    ended[:, 0] = False
    counts = tuple(int(row.nonzero()[0]) if row.any() else len(row) for row in ended)
    cut = tuple(0 if row.any() else count - 1 for row, count in zip(ended, counts, strict=True))
    return ids[:, : max(counts)], counts, cut


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


def rules(loaded: Loaded, prompt: int, longest: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Logits processors of `generate`: a model's own settings force it to write words, or forbid them.

    Args:
        prompt: number of tokens before the first that is written.
        longest: most tokens, with those of the prompt.

    Returns:
        A function from the ids so far, (B, n), and logits, (B, vocabulary), to new logits.
    """
    from transformers import LogitsProcessorList

    model = loaded.model
    if getattr(model, "generation_config", None) is None:
        return LogitsProcessorList()
    settings = deepcopy(model.generation_config)
    settings.do_sample, settings.guidance_scale, settings.max_length = False, None, longest
    model._prepare_special_tokens(settings, device="cpu")
    return model._get_logits_processor(settings, prompt, None, device="cpu")


def layers_of(loaded: Loaded, read: dict[str, Any]) -> dict[nn.Module, list[Site]]:
    """The module of each layer, and the sites of its calls in their order: ALBERT calls one module for all layers.

    A layer is the innermost member of a list of modules around the attention; a run finds it once per model.
    """
    model = loaded.model
    if model not in _layers:
        lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
        around = {part: member for members in lists for member in members for part in [*member.modules()][1:]}
        run = model_run(loaded, Edits(), None)
        tapped.call(model, run, **read, **settings(model))
        layers: dict[nn.Module, list[Site]] = {}
        for step, module in zip(run.tap.steps, run.modules, strict=True):
            if step.site.kind != "cross" and module in around:
                layers.setdefault(around[module], []).append(step.site)
        _layers[model] = layers
    return _layers[model]


def entering(loaded: Loaded, run: ModelRun, read: dict[str, Any]) -> AbstractContextManager[None]:
    """Context manager in which the tap of a run reads and replaces the input of each layer, in this thread alone."""
    left = {module: iter(sites) for module, sites in layers_of(loaded, read).items()}

    def enter(module: nn.Module, arguments: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        site = next(left[module])
        if arguments and isinstance(arguments[0], Tensor):
            return (run.tap.enter(arguments[0], site=site), *arguments[1:]), named
        if not isinstance(named.get("hidden_states"), Tensor):
            raise InputError(f"What enters the layers of {loaded.name} is not known; take an output or values.")
        return arguments, named | {"hidden_states": run.tap.enter(named["hidden_states"], site=site)}

    return tapped.before(left, enter)


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
