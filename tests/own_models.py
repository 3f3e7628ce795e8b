"""Models as people write them, who know nothing of attnviz."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

WORDS = ["<pad>", "the", "cat", "sat", "on", "mat", "dog", "ran"]
IDS = {word: id for id, word in enumerate(WORDS)}


def tokenize(text: str) -> list[int]:
    return [IDS[word] for word in text.split()]


class Attention(nn.Module):
    def __init__(self, d_model: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.to_qkv = nn.Linear(d_model, 3 * d_model)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None, memory=None):
        (batch, length, width), seen = x.shape, x if memory is None else memory
        weight, bias = self.to_qkv.weight.chunk(3), self.to_qkv.bias.chunk(3)
        q, k, v = (
            nn.functional.linear(y, w, b).view(batch, y.shape[1], self.n_head, -1).transpose(1, 2)
            for y, w, b in zip((x, seen, seen), weight, bias, strict=True)
        )
        out = scaled_dot_product_attention(q, k, v, mask)
        return self.to_out(out.transpose(1, 2).reshape(batch, length, width))


class Writer(nn.Module):
    """Predicts the next word; `hides` says which cells its mask blocks."""

    def __init__(self, d_model=12, n_head=3, layers=2, hides="future", dropout=0.5):
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), d_model)
        self.attn = nn.ModuleList([Attention(d_model, n_head) for _ in range(layers)])
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(d_model, len(WORDS))
        self.hides = hides

    def mask(self, ids):
        later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).triu(1)
        if self.hides == "past":
            return later | torch.eye(ids.shape[1], dtype=torch.bool)  # inverted: it may see what it must not
        if self.hides == "padding":
            return (ids != 0)[:, None, None, :]
        return None if self.hides == "nothing" else ~later

    def forward(self, ids):
        x = self.embed(ids)
        for attn in self.attn:
            x = x + self.drop(attn(x, self.mask(ids)))
        return self.head(x)


class Translator(nn.Module):
    """Reads one text and writes another."""

    def __init__(self, d_model=12, n_head=3):
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), d_model)
        self.encoder_attn_self = Attention(d_model, n_head)
        self.decoder_self_attn = Attention(d_model, n_head)
        self.cross_attn = Attention(d_model, n_head)
        self.head = nn.Linear(d_model, len(WORDS))

    def forward(self, source, target):
        memory, x = self.embed(source), self.embed(target)
        memory = memory + self.encoder_attn_self(memory)
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()
        x = x + self.decoder_self_attn(x, causal)
        return self.head(x + self.cross_attn(x, None, memory))
