"""Maps of long inputs beside PyTorch's fused attention on the same tensors: `make bench`. It asserts nothing.

One head of d_k 64, pooled into 512 x 512 tiles with the largest weight, where it is, and the sum. Ratios are time of
attnviz / time of `F.scaled_dot_product_attention(is_causal=True)`, in one run. Goals: at most 1.0 under the causal
mask, a quarter of that under a window of 4,096, and at most 150 MB above the tensors. The floor of each is the product
of matrices and the exp of the same cells alone.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch
from measure import interleaved, machine, table
from torch.nn import functional as F

from attnviz import analysis
from attnviz.analysis import blocks
from attnviz.core.attention import attend
from attnviz.core.blocks import Blockwise, is_open
from attnviz.core.edits import Site
from attnviz.core.masks import Subsequent, Window
from attnviz.core.record import Step
from attnviz.core.scoring import Scoring

LENGTHS = (8_192, 32_768, 131_072)
CAUSAL, WINDOW = Subsequent(), Window(4095)
D_K = 64


def step_of(n: int, mask: object) -> Step:
    """One head, normal; its log-sum-exp comes from the kernel's own sums, which cost what the kernel does."""
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 1, n, D_K).unbind()
    sums = torch.zeros(1, 1, n, dtype=torch.float64)
    return Step(Site("decoder", 0), query, key, value, mask, sums, Scoring())


def row(n: int) -> list[str]:
    """Times as ratios, and the memory that pooling takes above the tensors."""
    causal, near = step_of(n, CAUSAL), step_of(n, WINDOW)
    inputs = causal.query, causal.key, causal.value
    window = {"rows": slice(n - 512, n), "columns": slice(n // 2, n // 2 + 512)}
    cases = {
        "fused": lambda: F.scaled_dot_product_attention(*inputs, is_causal=True),
        "pooled": lambda: analysis.pooled(replace(causal), 0),  # a new one each time: the maps of a step are kept
        "window": lambda: analysis.pooled(replace(near), 0),
        "floor": lambda: products(causal),
        "window's floor": lambda: products(near),
        "attend": lambda: attend(*inputs, CAUSAL),
        "cells": lambda: analysis.cells(causal, 0, **window),
    }
    if n > 100_000:
        del cases["attend"]  # minutes
    seconds = interleaved(cases, rounds=1 if n > 100_000 else 5, span=0)
    names = ("pooled", "floor", "window", "window's floor", "attend")
    ratios = [f"{seconds[name] / seconds['fused']:.2f}" if name in seconds else "-" for name in names]
    return [
        f"{n:,}",
        f"{seconds['fused']:.2f} s",
        *ratios,
        f"{seconds['cells'] * 1e3:.0f} ms",
        f"{_megabytes(n):.0f} MB",
    ]


def products(step: Step) -> None:
    """Compute only the products and the exp of each pooled weight, the lower bound of any pooling."""
    weights, n = Blockwise(step, [0]), step.shape[2]
    for down in range(0, n, high := blocks.HEIGHT * torch.get_num_threads()):
        cells, weigh = weights.rows(rows := slice(down, down + high))
        for across in range(0, n, blocks.WIDTH):
            columns = slice(across, across + blocks.WIDTH)
            if is_open(step, range(n)[rows], range(n)[columns]) is not False:
                weigh(cells(columns, None))


def _megabytes(n: int) -> float:
    """Return by how much the peak memory of a process grows while it pools."""
    return float(subprocess.run([sys.executable, __file__, "memory", str(n)], capture_output=True, text=True).stdout)


def memory(n: int) -> float:
    """Return by how much pooling raises the peak memory of this process, on Linux."""
    step = step_of(n, CAUSAL)
    analysis.pooled(step_of(512, CAUSAL), 0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    analysis.pooled(step, 0)
    return _status("VmHWM") - before


def _status(name: str) -> float:
    """Read one number of this process from /proc, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


@torch.inference_mode()
def main(lengths: tuple[int, ...]) -> None:
    print(f"Long inputs: one head, d_k {D_K}, float32; medians of turns taken in one run. {machine()}")
    table(
        "Pooled maps, as ratios to SDPA under the causal mask; a window of 512 x 512 cells; memory above the tensors",
        ["n", "SDPA", "pooled", "its floor", "window of 4,096", "its floor", "attend", "512 x 512", "pooling takes"],
        [row(n) for n in lengths],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        print(memory(int(sys.argv[2])))
    else:
        main(tuple(map(int, sys.argv[1:])) or LENGTHS)
