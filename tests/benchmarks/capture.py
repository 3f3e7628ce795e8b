"""Measure capturing a model against running it: `make bench`. It prints ratios, and asserts nothing.

Every ratio is time of a captured forward / time of the plain one, in one run, of 12 layers 768 wide in evaluation,
without gradients. Goals: within 1.2 where PyTorch computes attention, within 1.6 where it is written by hand. "kept" is
what the calls keep; it grows with the tokens, never with their square. The fused layers of `nn.TransformerEncoder` are
switched off in both, as a capture leaves them.
"""

import sys

import torch
from measure import interleaved, machine, table
from torch import Tensor, nn
from torch.nn import functional as F

from attnviz.capturing import capture
from attnviz.core.edits import Edits, Site

WIDTH, HEADS, LAYERS = 768, 12, 12
LENGTHS = (128, 512)


class Layer(nn.Module):
    """A layer of a Transformer, its attention computed in one of three ways."""

    def __init__(self, way: str):
        super().__init__()
        self.way, self.num_heads = way, HEADS
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        if way == "MHA":
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        else:
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.first(x))
        return x + self.feed(self.second(x))

    def attend(self, x: Tensor) -> Tensor:
        if self.way == "MHA":
            return self.attention(x, x, x, need_weights=False)[0]
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        if self.way == "SDPA":
            given = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
            given = F.softmax(scores.masked_fill(~mask, -torch.inf), -1) @ v
        return self.out(given.transpose(1, 2).flatten(2))


def kept(seen: object) -> float:
    """MiB that the calls keep."""
    tensors = [one for call in seen.calls for one in vars(call).values() if isinstance(one, Tensor)]
    return sum(one.nbytes for one in tensors) / 2**20


def row(way: str, length: int) -> list[str]:
    model, x = nn.Sequential(*(Layer(way) for _ in range(LAYERS))).eval(), torch.randn(1, length, WIDTH)
    edits = Edits(temperature=1.1).with_heads_off(Site("encoder" if way == "MHA" else "decoder", 3), {1})
    size = 0.0

    def run(edits: Edits | None = None) -> None:
        nonlocal size
        if edits is None:
            model(x)
            return
        with capture(model, edits) as seen:
            model(x)
        size = kept(seen)

    with torch.inference_mode():
        torch.backends.mha.set_fastpath_enabled(False)
        cases = {"plain": run, "seen": lambda: run(Edits()), "edited": lambda: run(edits)}
        took = interleaved(cases, rounds=9, budget=60)
        torch.backends.mha.set_fastpath_enabled(True)
    ratios = [f"{took[name] / took['plain']:.2f}" for name in ("seen", "edited")]
    return [way, str(length), f"{took['plain'] * 1e3:.0f} ms", *ratios, f"{size:.1f} MiB"]


def main() -> None:
    print(machine(), file=sys.stderr)
    torch.manual_seed(0)
    rows = [row(way, length) for way in ("SDPA", "MHA", "by hand") for length in LENGTHS]
    table("A captured forward beside the plain one", ["attention", "n", "plain", "captured", "edited", "kept"], rows)


if __name__ == "__main__":
    main()
