"""A decoder of Hugging Face that continues a text with its cache: a token costs one step."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnviz.core.attention import LONG
from attnviz.core.edits import Edits
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Continuation, Source
from attnviz.sources.huggingface import faults, mixing, tapped
from attnviz.sources.huggingface.loaded import DELTAS, Loaded
from attnviz.sources.huggingface.tapped import ModelRun

IN_MODULES = ("recurrent_gemma",)
"""Types of models that keep what they have read in their modules, where two readers would meet."""


def ends(loaded: Loaded) -> frozenset[int]:
    """Ids with which a model ends a text, by its generation settings, else by its tokenizer."""
    named = getattr(getattr(loaded.model, "generation_config", None), "eos_token_id", None)
    named = loaded.tokenizer.eos_token_id if named is None else named
    return frozenset(id for id in (named if isinstance(named, list) else [named]) if id is not None)


def cache_for(loaded: Loaded, sentence: Sentence, edits: Edits) -> Any:
    """Empty cache for keys and values of the text so far; None where the whole text has to be run for each token.

    That is so where a token sees later ones, where a bias counts positions, where something is taken from another text,
    where a mask meets layers that drop keys, where only a capture sees the calls, where a class takes no cache of
    transformers' own, and where a picture moves the positions behind it.
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
