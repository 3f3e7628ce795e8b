"""One run of a loaded model: what it was computed from, and what the model says."""

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.capturing import capture
from attnviz.core.attention import LONG
from attnviz.core.edits import KINDS, Edits
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.core.taking import enters
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.sources.huggingface import eager, layers, mixing, tapped
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.tapped import ModelRun

LONGEST_ANSWER = 64
"""Tokens that an encoder-decoder writes, at most."""


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
        entering = layers.entering(loaded, run, read) if enters(edits) else nullcontext()
        with tapped.rules() if takes_rule else nullcontext(), entering:
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
    """With which a model tells its hidden states, and keeps nothing for a next token."""
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
