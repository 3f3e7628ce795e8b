"""One run of a loaded model: what it was computed from, and what the model says."""

from typing import Any

import torch
from torch import Tensor, nn

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Step
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.sources.huggingface.loading import Loaded
from attnviz.sources.huggingface.tapped import Run, named

LONGEST_ANSWER = 64
"""So many tokens an encoder-decoder writes at most."""


def inputs(sentences: tuple[Sentence, ...], loaded: Loaded) -> dict[str, Tensor]:
    """What a model reads, (B, n): ids, which of them are no padding, and of a pair which text each is of."""
    ids = torch.tensor([[token.id for token in sentence.tokens] for sentence in sentences])
    real = torch.arange(ids.shape[1]) < torch.tensor([[sentence.length] for sentence in sentences])
    read = {"input_ids": ids, "attention_mask": real.long()}
    if "token_type_ids" in loaded.tokenizer.model_input_names:
        read["token_type_ids"] = torch.tensor([[t.segment for t in sentence.tokens] for sentence in sentences])
    return {name: tensor.to(loaded.device) for name, tensor in read.items()}


def watched(
    loaded: Loaded, edits: Edits, read: dict[str, Any], lengths: tuple[int, ...]
) -> tuple[Any, tuple[Step, ...]]:
    """Run a model once; gives what it gave, and a step per attention call.

    Raises:
        AttnvizError: if the model has attention that cannot be seen.
    """
    model = loaded.model
    settings = {"output_hidden_states": True} | ({"use_cache": False} if hasattr(model.config, "use_cache") else {})
    with torch.inference_mode():
        if loaded.keeps_own_attention:
            given = model(**read, output_attentions=True, **settings)
            return given, _shown(model, given, lengths)
        run = Run(model, edits, lengths)
        given = model(**read, attnviz=run, **settings)
    if not run.tap.steps:
        raise AttnvizError(f"{type(model).__name__} has no attention that attnviz can see.")
    return given, tuple(run.tap.steps)


def hidden(given: Any) -> Tensor:
    """The last hidden states, (B, n, d_model); the decoder's where there is one."""
    found = getattr(given, "decoder_hidden_states", None) or getattr(given, "hidden_states", None)
    return found[-1] if found else given.last_hidden_state


def means(output: Tensor, sentences: tuple[Sentence, ...]) -> Tensor:
    """The mean of each sentence's vectors without its padding, (B, d_model), as sentence-transformers takes it."""
    return torch.stack([row[: one.length].mean(0) for row, one in zip(output, sentences, strict=True)])


def _shown(model: nn.Module, given: Any, lengths: tuple[int, ...]) -> tuple[Step, ...]:
    """Steps of attention that the model computed itself, from the weights it gave, n x n.

    Queries and keys are not known: the logarithm of a weight stands as the bias of a score that is zero, so that the
    softmax gives the weight back.
    """
    kind = "decoder" if model.can_generate() else "encoder"
    steps = []
    for layer, weights in enumerate(given.attentions):
        weights = weights.float().cpu()
        nothing = weights.new_zeros(*weights.shape[:2], weights.shape[2], 1)
        mask = named(weights.amax((0, 1), keepdim=True) > 0, *weights.shape[2:], lengths)
        tap = Tap()
        empty = nothing[:, :, :1].expand(-1, -1, weights.shape[3], -1)
        tap.attend(nothing, empty, empty, site=Site(kind, layer), bias=weights.log(), scale=1.0, mask=mask)
        steps += tap.steps
    return tuple(steps)


def written(
    loaded: Loaded, edits: Edits, read: dict[str, Tensor], lengths: tuple[int, ...]
) -> tuple[Tensor, tuple[int, ...]]:
    """What an encoder-decoder writes, each time the most probable token, as what its decoder then reads.

    Returns:
        (B, n) ids from the start token on, without the end; and how many of each sentence count, the start included.
    """
    model, settings = loaded.model, loaded.model.generation_config
    named = (settings.decoder_start_token_id, model.config.decoder_start_token_id, settings.bos_token_id, 0)
    start = next(id for id in named if id is not None)
    ends = settings.eos_token_id if isinstance(settings.eos_token_id, list) else [settings.eos_token_id]
    ends = torch.tensor([end for end in ends if end is not None], device=loaded.device, dtype=torch.long)
    batch, most = len(lengths), min(LONGEST_ANSWER, loaded.longest or LONGEST_ANSWER)
    ids = torch.full((batch, 1), start, device=loaded.device)
    counts, ended = torch.ones(batch, dtype=torch.long), torch.zeros(batch, dtype=torch.bool, device=loaded.device)
    kept = {"attention_mask": read["attention_mask"], "use_cache": False}
    with torch.inference_mode():
        memory = model.get_encoder()(**read, attnviz=Run(model, edits, lengths, keep=False))
        while ids.shape[1] < most:
            run = Run(model, edits, lengths, keep=False)
            given = model(decoder_input_ids=ids, encoder_outputs=memory, attnviz=run, **kept)
            chosen = _choice(given.logits[:, -1], ids.shape[1], settings)
            ended |= torch.isin(chosen, ends)
            if ended.all():
                break
            counts += ~ended.cpu()
            ids = torch.cat([ids, chosen.masked_fill(ended, start).unsqueeze(1)], 1)
    return ids, tuple(counts.tolist())


def _choice(logits: Tensor, position: int, settings: Any) -> Tensor:
    """The most probable next token, (B,), where the model's own settings do not force one or forbid it."""
    if position == 1 and settings.forced_bos_token_id is not None:
        return torch.full((len(logits),), settings.forced_bos_token_id, device=logits.device)
    if banned := sorted({ids[0] for ids in settings.bad_words_ids or [] if len(ids) == 1}):
        logits = logits.index_fill(1, torch.tensor(banned, device=logits.device), -torch.inf)
    return logits.argmax(-1)
