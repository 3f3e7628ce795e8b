"""Masks of published models, written from their papers in plain arithmetic, each with the text that says it.

Nothing here is taken from the package: this is what the checks are held against. A mask is a boolean array, (Q, K),
True = may attend.
"""

from collections.abc import Iterator

import numpy as np


def places(n):
    """Queries down, keys across."""
    return np.arange(n)[:, None], np.arange(n)[None, :]


def full(n):
    return np.ones((n, n), bool)


def causal(n):
    i, j = places(n)
    return j <= i


def window(n, before, after=0):
    """Sliding windows: Mistral 7B (Jiang et al. 2023) looks back, Longformer to both sides."""
    i, j = places(n)
    return (j >= i - before) & (j <= i + after)


def dilated(n, before, after, step):
    """Longformer (Beltagy et al. 2020), section 3.1."""
    i, j = places(n)
    return window(n, before * step, after * step) & ((j - i) % step == 0)


def prefix_lm(n, prefix):
    """T5 (Raffel et al. 2020), section 3.2.1; UniLM, GLM, PaliGemma."""
    _, j = places(n)
    return causal(n) | (j < prefix)


def seen_by_all(n, tokens):
    """Global tokens see all and are seen by all."""
    i, j = places(n)
    return np.isin(i, tokens) | np.isin(j, tokens)


def longformer(n, side, tokens):
    return window(n, side, side) | seen_by_all(n, tokens)


def blocks(n, size, before, after, first=0):
    """BigBird (Zaheer et al. 2020), appendix D, without its random blocks; with `before` = n block-causal."""
    i, j = (place // size for place in places(n))
    return ((j >= i - before) & (j <= i + after)) | (i < first) | (j < first)


def strided(n, stride):
    """Sparse Transformer (Child et al. 2019), section 4.2, both heads of the strided pattern at once."""
    i, j = places(n)
    return (j <= i) & ((i - j <= stride) | ((i - j) % stride == 0))


def fixed(n, stride, summary):
    """Sparse Transformer, section 4.2, both heads of the fixed pattern at once."""
    i, j = places(n)
    return (j <= i) & ((i // stride == j // stride) | (j % stride >= stride - summary))


def documents(n, lengths):
    """Packed texts, such as Krell et al. 2021."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    assert len(owner) == n
    return owner[:, None] == owner[None, :]


def chunked(n, size):
    """Llama 4: local layers attend within chunks."""
    i, j = places(n)
    return causal(n) & (i // size == j // size)


def sinks(n, first, before):
    """StreamingLLM (Xiao et al. 2023): the first tokens and a window."""
    _, j = places(n)
    return causal(n) & (window(n, before) | (j < first))


def natten(n, kernel, dilation=1):
    """Neighborhood attention (Hassani et al. 2023) and its dilated form (Hassani and Shi 2022), one-dimensional."""
    found = np.zeros((n, n), bool)
    for i in range(n):
        group = list(range(i % dilation, n, dilation))
        start = min(max(group.index(i) - kernel // 2, 0), max(len(group) - kernel, 0))
        found[i, group[start : start + kernel]] = True
    return found


def flamingo(n, images, tokens):
    """Text sees the image before it alone (Alayrac et al. 2022), section 2.3; (text, images x tokens)."""
    found = np.zeros((n, len(images) * tokens), bool)
    for i in range(n):
        last = sum(image <= i for image in images)
        if last:
            found[i, (last - 1) * tokens : last * tokens] = True
    return found


def block_diffusion(n, size):
    """BD3-LM (Arriola et al. 2025), section 3.3: noised tokens and then the clean ones, n in all."""
    half, found = n // 2, np.zeros((n, n), bool)
    for i in range(n):
        for j in range(n):
            mine, other = i % half // size, j % half // size
            if i < half:
                found[i, j] = mine == other if j < half else other < mine
            else:
                found[i, j] = j >= half and other <= mine
    return found


def padded(mask, real, left=False):
    """Keys that are padding are blocked."""
    found = mask.copy()
    found[:, : mask.shape[1] - real if left else 0] = False
    found[:, mask.shape[1] if left else real :] = False
    return found


def halves(n, seed=0):
    """Lengths of two to four documents."""
    draw = np.random.default_rng(seed + n)
    count = min(n, 2 + n // 8)
    ends = np.sort(draw.choice(np.arange(1, n), count - 1, replace=False)) if count > 1 else []
    return np.diff([0, *ends, n]).tolist()


def right(n) -> Iterator[tuple[str, np.ndarray]]:
    """Masks for `n` queries, n >= 6, each with the text of its intent."""
    some, few, root = n // 3, max(1, n // 5), max(2, round(n**0.5))
    lengths = halves(n)
    packed = f"documents({', '.join(map(str, lengths))})"
    yield "two-way", full(n)
    yield "causal", causal(n)
    yield "two-way", padded(full(n), 2 * some)
    yield "two-way", padded(full(n), 2 * some, left=True)
    yield "causal", padded(causal(n), 2 * some)
    yield "causal", padded(causal(n), 2 * some, left=True)
    yield f"causal & padding({2 * some})", padded(causal(n), 2 * some)
    yield f"causal & padding({2 * some}, left={n})", padded(causal(n), 2 * some, left=True)
    yield f"causal & window({some})", window(n, some)
    yield f"window({few}, {few})", window(n, few, few)
    yield f"window({few}, {few}) & padding({2 * some})", padded(window(n, few, few), 2 * some)
    yield f"causal | prefix({max(2, some)})", prefix_lm(n, max(2, some))
    yield f"window({few}, {few}) | global(0)", longformer(n, few, (0,))
    yield packed, documents(n, lengths)
    yield f"causal & {packed}", documents(n, lengths) & causal(n)
    yield f"causal & {packed} & window({some})", documents(n, lengths) & window(n, some)
    yield f"strided({root})", strided(n, root)
    yield f"fixed({root}, 1)", fixed(n, root, 1)
    yield f"causal & (window({few}) | prefix(1))", sinks(n, 1, few)
    yield f"causal & blocks({max(2, some)}, 0, 0)", chunked(n, max(2, some))
    yield f"neighborhood(3, {n})", natten(n, 3)
    yield f"media(0, {n // 2}, size=2)", flamingo(n, (0, n // 2), 2)
    yield f"dilated({max(1, n // 6)}, {max(1, n // 6)}, 2)", dilated(n, max(1, n // 6), max(1, n // 6), 2)
    yield f"blocks({max(2, few)}, {n}, 0)", blocks(n, max(2, few), n, 0)
    if n % 2 == 0:
        yield f"block_diffusion(2, {n // 2})", block_diffusion(n, 2)
