"""Every class of transformers that reads text, as a tiny model with random weights, and what attnviz makes of it."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto as tables

from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.sources.huggingface import running
from attnviz.sources.huggingface.source import HuggingFace

TABLES = ("FOR_CAUSAL_LM", "FOR_MASKED_LM", "FOR_SEQ_TO_SEQ_CAUSAL_LM", "FOR_SEQUENCE_CLASSIFICATION")
TABLES += ("FOR_TEXT_ENCODING", "FOR_PRETRAINING", "")
LETTERS = (*map(chr, range(33, 127)), "Ġ")
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<mask>")
VOCABULARY = 101
"""Ids of the tokenizer and one more: a prime, as the sizes of tests are."""
TEXTS = ["A cat sat.", "It was."]
BIG = 6_000_000
"""Numbers of a model that is not tiny: its sizes have names that are not known here."""

_SIZES = {
    2: "num_hidden_layers n_layer num_layers n_layers encoder_layers decoder_layers num_decoder_layers "
    "num_encoder_layers num_key_value_heads num_experts_per_tok moe_topk num_kv_heads mamba_n_groups n_groups ngram",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
    "num_encoder_attention_heads num_decoder_attention_heads num_local_experts num_experts n_routed_experts "
    "index_n_heads mamba_n_heads sliding_window n_mamba_heads qk_rope_head_dim qk_nope_head_dim rotary_dim",
    3: "index_topk",
    1: "n_group topk_group n_shared_experts first_k_dense_replace zero_expert_num num_random_blocks",
    8: "head_dim d_kv global_head_dim v_head_dim index_head_dim mamba_d_state state_size linear_key_head_dim "
    "linear_value_head_dim linear_head_dim hidden_size_per_layer_input laurel_rank attention_head_size",
    16: "kv_lora_rank q_lora_rank block_size chunk_size mamba_chunk_size",
    32: "hidden_size d_model n_embd dim word_embed_proj_dim embedding_size emb_dim embed_dim embedding_rank",
    48: "intermediate_size n_inner encoder_ffn_dim decoder_ffn_dim ffn_dim hidden_dim d_ff moe_intermediate_size "
    "d_inner feed_forward_size ffn_hidden_size expert_ffn_hidden_size shared_intermediate_size dim_ff",
    96: "max_position_embeddings n_positions max_seq_len n_ctx max_source_positions",
    VOCABULARY: "vocab_size src_vocab_size tgt_vocab_size vocab_size_per_layer_input",
}
SIZES = {name: size for size, names in _SIZES.items() for name in names.split()}
IDS = dict.fromkeys(("pad_token_id", "forced_eos_token_id"), 0) | {"forced_eos_token_id": None, "mask_token_id": 4}
IDS |= {"bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2, "decoder_start_token_id": 2}
_BERT = {name: SIZES[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")}
_BERT |= {"intermediate_size": 48, "max_position_embeddings": 96}
_PARTS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
_PARTS |= {"intermediate_size": 48, "max_position_embeddings": 96, "vocab_size": VOCABULARY, "sliding_window": 4}
_PARTS |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_HYBRID = {"layer_types": ["linear_attention", "full_attention"]}
_CONV = {"layer_types": ["conv", "full_attention"]}
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_AXES, _HALF = ({"rope_parameters": _ROPE | {"mrope_section": one}} for one in ([2, 1, 1], [1, 1, 0]))
FAMILIES: dict[str, dict[str, Any]] = {
    "albert": {"num_hidden_layers": 3},
    "bailing_hybrid": _HYBRID,
    "bamba": {"attn_layer_indices": [1]},
    "cohere_compass_text": {"rope_parameters": {"sliding_attention": _ROPE, "full_attention": _ROPE}},
    "cosmos3_edge_text": _AXES,
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0}}
    | {"ffn_config": {"ffn_hidden_size": 48}},
    "encoder-decoder": {
        "encoder": transformers.BertConfig(**_BERT).to_dict(),
        "decoder": transformers.BertConfig(**_BERT, is_decoder=True, add_cross_attention=True).to_dict(),
    },
    "esmc": {"num_key_value_heads": 4},
    "funnel": {"block_sizes": [2, 2], "num_decoder_layers": 2},
    "gemma3n_text": {"num_hidden_layers": 4, "num_kv_shared_layers": 2},
    "glm4v_moe_text": _HALF,
    "glm4v_text": _HALF,
    "glm_image_text": _HALF,
    "glm_ocr_text": _HALF,
    "glm5_next_text": {"index_kpool": 1, "qk_rope_head_dim": 0, "head_dim": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "hunyuan_vl_text": _AXES,
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": _HYBRID,
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "lfm2_moe": _CONV,
    "lfm3": _CONV,
    "lilt": {"hidden_size": 48},
    "luke": {"entity_vocab_size": 9},
    "mamba2": {"num_heads": 8},
    "neomme": {"head_dim": 16},
    "qwen2_vl_text": _AXES,
    "qwen2_5_vl_text": _AXES,
    "qwen3_next": _HYBRID,
    "qwen3_5_text": _HYBRID,
    "qwen3_5_moe_text": _HYBRID,
    "qwen4_exp_text": _HYBRID
    | {"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 8}
    | {"indexer_budget": 4, "indexer_compress_ratio": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"axial_pos_embds_dim": (8, 24), "axial_pos_shape": (8, 12)},
    "roc_bert": {
        "pronunciation_embed_dim": 8,
        "shape_embed_dim": 8,
        "shape_vocab_size": 9,
        "pronunciation_vocab_size": 9,
    },
    "t5gemma": {"encoder": _PARTS, "decoder": _PARTS},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"num_hidden_layers": 5, "attn_layer_period": 2, "attn_layer_offset": 1},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2, "num_hidden_layers": 4},
    "zaya": {"num_experts_per_tok": 1},
    "ReformerModelWithLMHead": {"is_decoder": True},
    "T5GemmaEncoderModel": {"is_encoder_decoder": False},
}
"""Settings that families, and a few classes, need beside these."""
UNBUILT = frozenset(
    "bark blt chameleon clvp colmodernvbert colpali colqwen2 csm dia emu3 evolla fastspeech2_conformer_with_hifigan "
    "fuyu gemma4_assistant gemma4_unified_assistant glm4v_moe_vision glm4v_vision glm5_next_vision glm_ocr_vision "
    "gradium_phonon_tts granite_docling_vision granite_speech granite_speech_plus higgs_audio_v2_tokenizer "
    "kyutai_speech_to_text layoutlmv2 musicgen musicgen_melody pe_audio_video pe_video pocket_tts seamless_m4t_v2 "
    "t5gemma2 tvp vibevoice_asr vits voxtral_realtime_text".split()
) | {"SeamlessM4TModel"}
"""Families, and a class, that say that they read text and need more: sounds, images, other libraries, large parts."""
SCORES = {"squeezebert": ("encoder", "decoder"), "prophetnet": ("encoder", "cross")}
"""Kinds of attention for which a family returns the scores before the softmax, masks added."""
Kind = Literal["works", "refused"]


def combinations() -> dict[tuple[str, str], str]:
    """Every family with each of its classes, by the table of transformers that names it first."""
    found: dict[tuple[str, str], str] = {}
    for table in TABLES:
        names = getattr(tables, f"MODEL_{table}{'_' * bool(table)}MAPPING_NAMES")
        for family, classes in names.items():
            for name in [classes] if isinstance(classes, str) else classes:
                found.setdefault((family, name), table or "BASE")
    return found


def named(classes: Iterable[tuple[str, str]]) -> list:
    """Parameters of a test, with the names of the classes as its ids."""
    return [pytest.param(*key, id="-".join(key)) for key in classes]


def config(family: str, name: str, **more: Any) -> Any:
    """A configuration with small sizes."""
    cls = CONFIG_MAPPING[family]
    known = {field.name for field in dataclasses.fields(cls)}
    sizes = {name: value for name, value in (SIZES | IDS).items() if name in known}
    if "qk_rope_head_dim" in known:  # latent attention, whose keys are as many as its queries
        sizes |= {"num_key_value_heads": 4, "head_dim": 4} if "head_dim" in known else {"num_key_value_heads": 4}
    return cls(**sizes | FAMILIES.get(family, {}) | FAMILIES.get(name, {}) | more)


def build(family: str, name: str, **more: Any) -> transformers.PreTrainedModel:
    """The same random weights each time, large enough that attention is far from even."""
    cls, settings = getattr(transformers, name), config(family, name, **more)
    with torch.device("meta"):
        size = sum(one.numel() for one in cls._from_config(settings).parameters())
    if size > BIG:
        raise ValueError(f"{size:,} numbers")
    torch.manual_seed(0)
    model = cls._from_config(settings, attn_implementation="eager").eval().requires_grad_(False)
    wide = {id(one.weight) for one in model.modules() if isinstance(one, torch.nn.Embedding)}
    for parameter in model.parameters():
        if parameter.dim() < 2:
            parameter.add_(0.1 * torch.randn_like(parameter))
        elif parameter.is_floating_point():
            parameter.normal_(0, 1 if id(parameter) in wide else parameter.shape[-1] ** -0.5)
    return model


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Letters, and an end after each text."""
    ids = {one: id for id, one in enumerate((*SPECIAL, *LETTERS))}
    cut = Tokenizer(models.BPE(ids, [], unk_token="<unk>"))
    cut.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    cut.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 2)])
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>", "eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=cut, **names)


def outcome(family: str, name: str, folder: Path) -> tuple[Kind, str]:
    """Open a class with attnviz and compare it with the model's own eager attention; return the kind and the sentence.

    Raises:
        AssertionError: if what it shows is not what the model computes.
    """
    save(family, name, folder)
    try:
        source = HuggingFace(str(folder))
        record = source.run(source.tokenize(TEXTS))
    except AttnvizError as error:
        sentence = str(error).replace(str(folder), "a model")
        assert "\n" not in sentence
        return "refused", sentence
    check(source, record)
    changes(source, record)
    return "works", source.unseen or ""


def save(family: str, name: str, folder: Path, **more: Any) -> None:
    """A model as its authors would publish it."""
    build(family, name, **more).save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def save_unread(folder: Path) -> None:
    """A model without biases whose file has eight of them."""
    save("llama", "LlamaForCausalLM", folder, attention_bias=True)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"attention_bias": False}))


def reads_text(family: str, name: str) -> bool:
    """Whether a class, as far as it says itself, reads tokens of text and nothing else."""
    senses = {f"{sense}_config" for sense in ("vision", "audio", "image")}
    return getattr(transformers, name).main_input_name == "input_ids" and not senses & {
        *CONFIG_MAPPING[family].sub_configs
    }


def unbuilt(family: str, name: str, folder: Path) -> str:
    """Return the sentence of attnviz for a class not built here: its configuration, with another model's weights."""
    try:
        settings = CONFIG_MAPPING[family]()
    except Exception:
        settings = transformers.PreTrainedConfig()
        settings.model_type = family
    settings.architectures = [name]
    settings.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    save_file({f"weight {i}": torch.zeros(1) for i in range(100)}, folder / "model.safetensors", {"format": "pt"})
    try:
        HuggingFace(str(folder))
    except AttnvizError as error:
        return str(error).replace(str(folder), "a model")
    raise AssertionError(f"{name} was loaded with weights that are not its own")


def check(source: HuggingFace, record: Record) -> None:
    """Hold a record to the model with its own attention, loaded afresh."""
    loaded = source.loaded
    own = type(loaded.model).from_pretrained(source.model, attn_implementation="eager", dtype=loaded.dtype).eval()
    read = running.inputs(record.sentences, loaded)
    if loaded.task == "write":
        read["decoder_input_ids"] = torch.tensor([[token.id for token in one.tokens] for one in record.targets])
    with torch.inference_mode():
        given = own(**read, output_attentions=True, **running.settings(own))
    hidden = running.hidden(given)
    assert record.steps
    assert record.output.shape[:2] == (2, len(record.read[0].tokens)) == hidden.shape[:2]
    for sentence, one in enumerate(record.read):
        close(record.output[sentence, : one.length], hidden[sentence, : one.length])
    names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    for step in record.steps:
        queries, keys = record.tokens(step.site)
        assert (len(queries), len(keys)) == step.shape[2:]
        if step.site.kind != "cross":
            future = any(step.weights(head)[:, : step.shape[2]].triu(1).any() for head in range(step.num_heads))
            assert future == (step.site.kind == "encoder"), f"{step.site} looks ahead: {future}"
        maps = getattr(given, names[step.site.kind] if len(record.targets) else "attentions", None)
        if maps and not record.unseen and not step.has_sink and step.mixing == "softmax":
            rows = (record.sentences if step.site.kind == "encoder" else record.read)[1].length
            alike = [one.site for one in record.steps if one.site.kind == step.site.kind]
            if len(maps) < len(alike):  # linear attention returns no map
                alike = [one.site for one in record.steps if one.mixing == "softmax"]
            expected = maps[alike.index(step.site)][1, :, :rows]
            if step.site.kind in SCORES.get(own.config.model_type, ()):
                expected = expected.softmax(-1)
            for head in range(step.num_heads):
                close(step.weights(head, sentence=1)[:rows], expected[head])


def changes(source: HuggingFace, record: Record) -> None:
    """A head that is off changes what the model computes."""
    edits = Edits(heads_off={(record.sites[0], 0)})
    edited = source.run(record.sentences, edits, record.targets if source.loaded.task == "write" else ())
    assert not torch.allclose(edited.output, record.output, rtol=0, atol=1e-6)


def close(mine: Tensor, own: Tensor) -> None:
    """Two ways to the same float32 numbers: at most 200 sums of 100 products each lie between, 2^-24 off."""
    mine, own = mine.double(), own.double()
    assert mine.isfinite().all()
    assert (mine - own).abs().max() <= 1e-3 * max(own.abs().max(), 1), (mine - own).abs().max()
