"""Models as users write them, without any code of attnviz."""

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


class Server(nn.Module):
    """A causal model with a window, which runs packed, padded and with a cache; `fault` names its fault."""

    WINDOW = 4

    def __init__(self, fault="", rotary=False, d_model=12, n_head=3, layers=2):
        super().__init__()
        self.fault, self.rotary, self.n_head = fault, rotary, n_head
        self.embed, self.place = nn.Embedding(len(WORDS), d_model), nn.Embedding(64, d_model)
        self.qkv = nn.ModuleList([nn.Linear(d_model, 3 * d_model) for _ in range(layers)])
        self.head = nn.Linear(d_model, len(WORDS))

    def may_attend(self, queries, keys, documents, padding, past):
        window = self.WINDOW
        if past and self.fault.startswith("window"):
            window = {"window ignored": keys, "window one more": 5, "window one less": 3}[self.fault]
        first = 0 if self.fault == "wrong corner" else keys - queries
        back = torch.arange(first, first + queries)[:, None] - torch.arange(keys)
        mask = (back >= 0) & (back < window)
        if documents is not None and self.fault != "documents seen":
            mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])
        if padding is not None and self.fault != "padding seen":
            mask = mask & padding[:, None, None, :]
        if past and self.fault == "mask cut":
            mask = mask & (torch.arange(keys) < past)
        if past and queries > 1 and self.fault == "boundary hidden":
            mask = mask & (torch.arange(keys) >= past)
        return mask

    def positions(self, ids, positions, padding, past):
        counted = torch.arange(ids.shape[1])[None] + (0 if self.fault == "cache forgotten" else past)
        if padding is not None and self.fault != "not shifted":
            counted = (padding.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        return counted if positions is None or self.fault == "not reset" else positions

    def turned(self, x, positions):
        """Rotary positions, in pairs of numbers."""
        angle = positions[:, None, :, None].to(x.dtype) * torch.tensor([1.0, 0.1], dtype=x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def forward(self, ids, positions=None, documents=None, padding=None, cache=None):
        past, kept = 0 if cache is None else cache[0][0].shape[2], []
        places, x = self.positions(ids, positions, padding, past), self.embed(ids)
        x = x if self.rotary else x + self.place(places)
        for i, layer in enumerate(self.qkv):
            q, k, v = (t.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for t in layer(x).chunk(3, -1))
            q, k = (self.turned(t, places) for t in (q, k)) if self.rotary else (q, k)
            if cache is not None and self.fault != "keys lost":
                k, v = torch.cat([cache[i][0], k], 2), torch.cat([cache[i][1], v], 2)
            kept.append((k, v))
            mask = self.may_attend(q.shape[2], k.shape[2], documents, padding, past)
            if past and self.fault == "keys cut":
                mask, k, v = mask[..., :past], k[:, :, :past], v[:, :, :past]
            if past and self.fault == "buffer seen":
                mask = nn.functional.pad(mask, (0, 3), value=True)
                k, v = (nn.functional.pad(t, (0, 0, 0, 3)) for t in (k, v))
            if self.fault == "empty rows":
                scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
                x = x + (scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2)
            else:
                x = x + scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
            if self.fault == "dropout":
                x = nn.functional.dropout(x, 0.1)
            if self.fault == "batch mixed":
                x = x - 0.1 * x.mean(0, keepdim=True)
        return self.head(x), kept
