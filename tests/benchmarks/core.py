"""The core beside PyTorch's own attention: `make bench`. It prints ratios, and asserts nothing.

Every ratio is time of attnviz / time of the peer, in one run; below 1 attnviz is faster. Goals: the output alone
within 1.1 of the fused kernel, with weights within 1.1 of the faster peer that gives weights too. Up to about 64 tokens
the few microseconds in which shapes are checked show. OMP_NUM_THREADS=1 makes it steadier on a busy machine.
"""

import math
import sys

import torch
from measure import interleaved, machine, table
from torch.nn import functional as F

from attnviz.core.attention import attend, attention_output, scaled_dot_product_attention
from attnviz.core.masks import Subsequent

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
HEADS, WIDTH = 8, 64


def composition(query, key, value, mask):
    """softmax(q kᵀ / √d_k) v as one would type it."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def functions(n: int, masked: bool) -> list[str]:
    """One row: our three functions beside the peers, without projections."""
    q, k, v = torch.randn(3, 1, HEADS, n, WIDTH).unbind()
    mask = Subsequent().grid(n) if masked else None
    seconds = interleaved(
        {
            "fused": lambda: F.scaled_dot_product_attention(q, k, v, mask),
            "output": lambda: attention_output(q, k, v, mask),
            "attend": lambda: attend(q, k, v, mask),
            "composed": lambda: composition(q, k, v, mask),
            "weights": lambda: scaled_dot_product_attention(q, k, v, mask),
        }
    )
    return [
        f"{n:,}",
        "subsequent" if masked else "none",
        f"{seconds['fused'] * 1e3:.3f} ms",
        f"{seconds['output'] / seconds['fused']:.2f}",
        f"{seconds['attend'] / seconds['fused']:.2f}",
        f"{seconds['composed'] * 1e3:.3f} ms",
        f"{seconds['weights'] / seconds['composed']:.2f}",
    ]


@torch.inference_mode()
def main(lengths: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    print(f"Core: batch 1, {HEADS} heads, d_k {WIDTH}, float32; medians of turns taken in one run. {machine()}")
    settings = [(n, masked) for masked in (False, True) for n in lengths]
    table(
        "Attention alone, as ratios",
        ["n", "mask", "SDPA", "output / SDPA", "attend / SDPA", "softmax(qkᵀ)v", "with weights / softmax(qkᵀ)v"],
        [functions(*setting) for setting in settings],
    )


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or LENGTHS)
