"""Tiny models of texts and pictures of each family with random weights, as folders with their processors."""

from pathlib import Path
from typing import Any

import torch
import transformers as hf
from sight import LAYER, SMALL, save
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers.models.smolvlm import processing_smolvlm

from attnviz.sources.huggingface.mixing import without_videos

LETTERS = (*map(chr, range(33, 127)), "Ġ", "Ċ")
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<image>", "<begin>", "<end>", "<video>", "<fake_token_around_image>")
SPECIAL += ("<global-img>", "<end_of_utterance>", *(f"<row_{row}_col_{column}>" for row in "123" for column in "123"))
TEXT = LAYER | {"vocab_size": 128, "head_dim": 8, "num_key_value_heads": 2, "max_position_embeddings": 2048}
TEXT |= {"tie_word_embeddings": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SQUARE = {"height": 32, "width": 32}
IMAGE = SPECIAL.index("<image>")
LAYERS = ["sliding_attention", "full_attention"]
AXES = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}}
QWEN = {"depth": 2, "num_heads": 4, "patch_size": 8, "temporal_patch_size": 2, "spatial_merge_size": 2}
VISION = {"image_token_id": IMAGE, "video_token_id": 7, "vision_start_token_id": 5, "vision_end_token_id": 6}
TURN = "{% for m in messages %}{{ m.role }}: {% for c in m.content %}{% if c.type == 'image' %}IMAGE{% else %}"
TURN += "{{ c.text }}{% endif %}{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"


def tokenizer(**names: str) -> Any:
    """Letters, with a beginning before each text."""
    ids = {piece: id for id, piece in enumerate((*SPECIAL, *LETTERS))}
    cut = Tokenizer(models.BPE(ids, [], unk_token="<unk>"))
    cut.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    cut.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", 1)])
    cut.add_special_tokens(list(SPECIAL))
    usual = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=cut, **usual, extra_special_tokens=names)


def _clip(kind: str, **more: Any) -> Any:
    tower = hf.CLIPVisionConfig(**SMALL)
    text = hf.LlamaConfig(**TEXT)
    return getattr(hf, kind)(vision_config=tower, text_config=text, image_token_id=IMAGE, **more)


COUNTS = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
PINPOINTS = {"image_grid_pinpoints": [[32, 64], [64, 32], [64, 64], [32, 96]]}


def llava():
    config = _clip("LlavaConfig", vision_feature_select_strategy="default", vision_feature_layer=-1)
    images = hf.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=SQUARE)
    return config, hf.LlavaProcessor(images, tokenizer(), chat_template=TURN.replace("IMAGE", "<image>"), **COUNTS)


def llava_next():
    config = _clip("LlavaNextConfig", **PINPOINTS, vision_feature_layer=-1)
    images = hf.LlavaNextImageProcessorPil(size={"shortest_edge": 32}, crop_size=SQUARE, **PINPOINTS)
    return config, hf.LlavaNextProcessor(images, tokenizer(), **COUNTS)


def _qwen(kind: str, vision: dict[str, Any], **text: Any):
    text = TEXT | AXES | text
    config = getattr(hf, f"{kind}Config")(text_config=text, vision_config=QWEN | vision, **VISION)
    images = hf.Qwen2VLImageProcessorPil(
        patch_size=8, temporal_patch_size=2, merge_size=2, size={"shortest_edge": 512, "longest_edge": 4096}
    )
    processor = without_videos(getattr(hf, f"{kind}Processor"))
    template = TURN.replace("IMAGE", "<begin><image><end>")
    return config, processor(images, tokenizer(image_token="<image>", video_token="<video>"), None, template)


def qwen2_vl():
    return _qwen("Qwen2VL", {"embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2})


def qwen2_5_vl():
    sizes = {"hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 48, "window_size": 32}
    return _qwen("Qwen2_5_VL", sizes | {"fullatt_block_indexes": [1]})


def qwen3_vl():
    sizes = {"hidden_size": 32, "out_hidden_size": 32, "intermediate_size": 48, "num_position_embeddings": 64}
    return _qwen("Qwen3VL", sizes | {"deepstack_visual_indexes": [0]})


def _idefics(kind: str, processor: Any, *more: None):
    text = hf.LlamaConfig(**TEXT)
    config = getattr(hf, f"{kind}Config")(vision_config=SMALL, text_config=text, image_token_id=IMAGE, scale_factor=2)
    images = getattr(hf, f"{kind}ImageProcessorPil")(size={"longest_edge": 96}, max_image_size={"longest_edge": 32})
    template = TURN.replace("IMAGE", "<image>")
    return config, processor(images, tokenizer(), *more, image_seq_len=4, chat_template=template)


def idefics3():
    return _idefics("Idefics3", hf.Idefics3Processor)


def smolvlm():
    processing_smolvlm.num2words = str  # of a package that writes the lengths of videos alone
    return _idefics("SmolVLM", without_videos(hf.SmolVLMProcessor), None)


def gemma3():
    text = hf.Gemma3TextConfig(**TEXT, sliding_window=8, query_pre_attn_scalar=8, layer_types=LAYERS)
    config = hf.Gemma3Config(
        vision_config=hf.SiglipVisionConfig(**SMALL),
        text_config=text,
        image_token_id=IMAGE,
        boi_token_id=5,
        eoi_token_id=6,
        mm_tokens_per_image=4,
    )
    images = hf.Gemma3ImageProcessorPil(size=SQUARE)
    words = tokenizer(image_token="<image>", boi_token="<begin>", eoi_token="<end>")
    return config, hf.Gemma3Processor(images, words, "<s>" + TURN.replace("IMAGE", "<begin>"), image_seq_length=4)


def internvl():
    vision = LAYER | {"image_size": [32, 32], "patch_size": [8, 8]}
    text = hf.Qwen2Config(**TEXT)
    config = hf.InternVLConfig(vision_config=vision, text_config=text, image_token_id=IMAGE, image_seq_length=4)
    images = hf.GotOcr2ImageProcessorPil(size=SQUARE, crop_to_patches=True, min_patches=1, max_patches=6)
    names = {"start_image_token": "<begin>", "end_image_token": "<end>", "context_image_token": "<image>"}
    words = tokenizer(**names, video_token="<video>")
    processor = without_videos(hf.InternVLProcessor)
    return config, processor(images, words, None, image_seq_length=4, chat_template=TURN.replace("IMAGE", "<image>\n"))


def paligemma():
    vision = hf.SiglipVisionConfig(**SMALL, projection_dim=32, vision_use_head=False)
    text = hf.GemmaConfig(**TEXT)
    config = hf.PaliGemmaConfig(vision_config=vision, text_config=text, image_token_id=IMAGE, projection_dim=32)
    images = hf.SiglipImageProcessorPil(size=SQUARE)
    images.image_seq_length = 16
    return config, hf.PaliGemmaProcessor(images, tokenizer(image_token="<image>"))


FAMILIES = {
    "llava": llava,
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
    "idefics3": idefics3,
    "smolvlm": smolvlm,
    "gemma3": gemma3,
    "internvl": internvl,
    "paligemma": paligemma,
}
"""Families whose tokens have places in the picture."""


def folder(path: Path, family: str) -> Path:
    """A folder of a tiny model of a family."""
    torch.manual_seed(0)
    config, processor = (FAMILIES | {"llava_next": llava_next})[family]()
    return save(path, hf.AutoModelForImageTextToText.from_config(config), processor)
