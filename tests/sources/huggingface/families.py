"""Tiny models of every family with random weights, built from their configurations: nothing is downloaded."""

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor

TOKENS, WRITTEN, VOCABULARY = 9, 7, 99

_SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_SIZES |= {"intermediate_size": 48, "max_position_embeddings": 64}
_IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_GROUPED = _SIZES | _IDS | {"num_key_value_heads": 2, "head_dim": 8}
_PARTS = {"layers": 2, "attention_heads": 4, "ffn_dim": 32}
SIDES = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in _PARTS.items()}
"""Sizes of both sides of a model with an encoder and a decoder."""
_BART = {"vocab_size": VOCABULARY, "d_model": 32, "max_position_embeddings": 64} | SIDES | _IDS
_BART |= {"decoder_start_token_id": 2, "forced_eos_token_id": None}
_SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_attention_heads": 4}

ENCODERS = {
    "Bert": _SIZES,
    "Roberta": _SIZES,
    "Electra": _SIZES | {"embedding_size": 16},
    "Albert": _SIZES | {"embedding_size": 16},
    "DistilBert": {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    "ModernBert": _SIZES
    | dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    | {"local_attention": 6, "global_attn_every_n_layers": 2},
    "Camembert": _SIZES,
    "XLMRoberta": _SIZES,
    "ViT": {k: v for k, v in _SIZES.items() if "size" in k and k != "vocab_size"}
    | {"num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 8, "patch_size": 2},
}
DECODERS = {
    "GPT2": {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "Llama": _GROUPED,
    "Qwen3": _GROUPED,
    "Mistral": _GROUPED | {"sliding_window": 4},
    "Gemma2": _GROUPED | {"sliding_window": 4, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 0.01},
    "Gemma3Text": _GROUPED | {"sliding_window": 4, "query_pre_attn_scalar": 8},
    "GPTNeoX": _SIZES,
    "Phi": _SIZES,
    "Phi3": _GROUPED,
    "OPT": _SIZES | {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "Olmo2": _GROUPED,
    "SmolLM3": _GROUPED,
    "GptOss": _GROUPED
    | {"num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4}
    | {"layer_types": ["sliding_attention", "full_attention"]},
}
BOTH = {
    "T5": {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    | {"decoder_start_token_id": 0},
    "Bart": _BART,
    "Marian": _BART | {"decoder_start_token_id": 0},
    "Whisper": _BART
    | {"max_source_positions": 20, "max_target_positions": 20, "num_mel_bins": 8}
    | {"suppress_tokens": None, "begin_suppress_tokens": None},
}
TAPPED = ENCODERS | DECODERS | BOTH

OWN = {
    "DebertaV2": _SIZES,
    "MPNet": _SIZES,
    "Bloom": {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "GPTJ": {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4},
    "GPTNeo": {"vocab_size": VOCABULARY, "hidden_size": 32, "num_layers": 2, "num_heads": 4}
    | {"attention_types": [[["global", "local"], 1]], "intermediate_size": 48, "window_size": 4},
    "Falcon": _SMALL | {"num_hidden_layers": 2},
    "XLNet": {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
}
"""Families that compute attention in their own code."""

_HEADS = {
    "Whisper": "WhisperForConditionalGeneration",
    **dict.fromkeys(("T5", "Bart", "Marian"), "AutoModelForSeq2SeqLM"),
    **dict.fromkeys(DECODERS, "AutoModelForCausalLM"),
    **dict.fromkeys(("Bloom", "GPTJ", "GPTNeo", "Falcon"), "AutoModelForCausalLM"),
    **dict.fromkeys(("Bert", "Roberta", "Albert", "DistilBert", "ModernBert"), "AutoModelForMaskedLM"),
}


def build(family: str, attention: str = "eager", **more: Any) -> transformers.PreTrainedModel:
    """The same random weights each time."""
    config = getattr(transformers, f"{family}Config")(**(TAPPED | OWN)[family] | more)
    head = getattr(transformers, _HEADS.get(family, "AutoModel"))
    make = getattr(head, "from_config", None) or head._from_config
    torch.manual_seed(0)
    model = make(config, attn_implementation=attention).eval()
    for name, parameter in model.named_parameters():
        if "sinks" in name or "relative_attention_bias" in name:
            torch.nn.init.normal_(parameter)
    return model.requires_grad_(False)


def words(ends: bool = False, **more: int) -> Tokenizer:
    """A tokenizer of the words w5 to w98, and `more`, between a beginning and an end if it has `ends`."""
    ids = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4} | {f"w{i}": i for i in range(5, VOCABULARY)}
    cut = Tokenizer(models.WordLevel(ids | more, "<unk>"))
    cut.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if ends:
        cut.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 1))
    return cut


def save(folder: Path, model: transformers.PreTrainedModel, cut: Tokenizer | None = None, **settings: Any) -> str:
    """Save a model with a tokenizer, by default that of `words`; return the folder."""
    model.save_pretrained(folder)
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>", "eos_token": "</s>"} | settings
    transformers.PreTrainedTokenizerFast(tokenizer_object=cut or words(), **names).save_pretrained(folder)
    return str(folder)


def example(family: str) -> tuple[dict[str, Tensor], tuple[int, ...] | None]:
    """Two inputs, the second shorter and padded, and their lengths; None where there is no padding."""
    torch.manual_seed(1)
    if family == "ViT":
        return {"pixel_values": torch.randn(2, 3, 8, 8)}, None
    written = {"decoder_input_ids": torch.randint(5, VOCABULARY, (2, WRITTEN))}
    if family == "Whisper":
        return {"input_features": torch.randn(2, 8, 40)} | written, None
    ids, mask = torch.randint(5, VOCABULARY, (2, TOKENS)), torch.ones(2, TOKENS, dtype=torch.long)
    mask[1, 6:] = 0
    return {"input_ids": ids, "attention_mask": mask} | (written if family in BOTH else {}), (TOKENS, 6)


def answer(model: Any, read: dict[str, Tensor], lengths: tuple[int, ...] | None, **arguments: Any) -> Tensor:
    """Return the first output of a model, (positions, numbers), without the positions of padding."""
    with torch.inference_mode():
        given = (
            model(**read, use_cache=False, **arguments) if "use_cache" in model.config else model(**read, **arguments)
        )
    first = given[0]
    if lengths is None or first.shape[1] != TOKENS:
        return first.flatten(0, 1)
    return torch.cat([row[:length] for row, length in zip(first, lengths, strict=True)])
