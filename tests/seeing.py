"""Tiny models of pictures, without any code of attnviz."""

import torch
from torch import nn

import attnviz

PICTURE = torch.tensor([40, 160, 90])[:, None, None].expand(3, 30, 50) / 255
PICTURE = torch.where(torch.arange(50) < 25, torch.tensor([200, 40, 40])[:, None, None] / 255, PICTURE)
"""Picture that is red on the left and green on the right."""


def seen_by(model, picture):
    """Capture a run of a model on one picture."""
    torch.manual_seed(0)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.4)
    with torch.no_grad(), attnviz.capture(model.eval()) as seen:
        model(picture[None])
    return seen


class Sees(nn.Module):
    """A vision transformer: [CLS] and patches of 10 x 10 pixels."""

    def __init__(self, d_model=12, num_heads=3):
        super().__init__()
        self.patch = nn.Conv2d(3, d_model, 10, 10)
        self.cls = nn.Parameter(torch.zeros(1, 1, d_model))
        self.places = nn.Parameter(torch.zeros(1, 16, d_model))
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.head = nn.Linear(d_model, 4)

    def forward(self, picture):
        x = self.patch(picture).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.places
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x[:, 0])


class Finder(nn.Module):
    """A detector: four queries look at a picture without [CLS]."""

    def __init__(self, d_model=12, num_heads=3):
        super().__init__()
        self.patch = nn.Conv2d(3, d_model, 10, 10)
        self.queries = nn.Parameter(torch.zeros(1, 4, d_model))
        self.encoder = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.decoder_self_attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.decoder = nn.Identity()

    def forward(self, picture):
        memory = self.patch(picture).flatten(2).transpose(1, 2)
        memory = memory + self.encoder(memory, memory, memory)[0]
        queries = self.queries.expand(len(picture), -1, -1)
        causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
        queries = queries + self.decoder_self_attn(queries, queries, queries, attn_mask=causal)[0]
        return self.cross_attn(queries, memory, memory)[0]
