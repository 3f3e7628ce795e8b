"""Tiny models that hear, with random weights, as folders with their feature extractors; and sounds for them."""

from pathlib import Path

import torch
import transformers as hf
from families import SIDES
from sight import LAYER, save
from tokenizers import Tokenizer, models, pre_tokenizers

RATE = 16_000
WORDS = ["<start>", "<end>", *(f"w{i}" for i in range(58))]

_SMALL = {"conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}


def _whisper():
    ids = {"decoder_start_token_id": 0, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    sizes = {"d_model": 32, "num_mel_bins": 8, "max_source_positions": 100, "max_target_positions": 24}
    config = hf.WhisperConfig(vocab_size=60, **sizes, **ids, **SIDES, suppress_tokens=None, begin_suppress_tokens=None)
    words = Tokenizer(models.WordLevel({word: id for id, word in enumerate(WORDS)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"bos_token": "<start>", "eos_token": "<end>", "pad_token": "<end>", "unk_token": "w0"}
    tokenizer, extractor = hf.PreTrainedTokenizerFast(tokenizer_object=words, **names), hf.WhisperFeatureExtractor
    return hf.WhisperForConditionalGeneration(config), extractor(feature_size=8, chunk_length=2), tokenizer


FAMILIES = {
    "whisper": _whisper,
    "wav2vec2": lambda: (
        hf.Wav2Vec2Model(hf.Wav2Vec2Config(**LAYER, **_SMALL, feat_extract_norm="layer")),
        hf.Wav2Vec2FeatureExtractor(),
    ),
    "hubert": lambda: (
        hf.HubertForSequenceClassification(hf.HubertConfig(**LAYER, **_SMALL, num_labels=3)),
        hf.Wav2Vec2FeatureExtractor(),
    ),
    "ast": lambda: (
        hf.ASTForAudioClassification(hf.ASTConfig(**LAYER, max_length=116, num_mel_bins=32, num_labels=3)),
        hf.ASTFeatureExtractor(num_mel_bins=32, max_length=116),
    ),
}


def folder(path: Path, family: str) -> Path:
    """A folder of a tiny model of a family."""
    torch.manual_seed(0)
    return save(path, *FAMILIES[family]())


def tones(seconds: float = 1.0, rate: int = RATE) -> torch.Tensor:
    """Two tones and a pause between them."""
    time = torch.arange(round(seconds * rate)) / rate
    tone = torch.where(time < seconds / 2, 440.0, 880.0)
    is_pause = (time > 0.4 * seconds) & (time < 0.6 * seconds)
    return 0.5 * torch.sin(2 * torch.pi * tone * time).masked_fill(is_pause, 0)
