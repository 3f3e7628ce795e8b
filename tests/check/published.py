"""Masks of published models, written from their papers in plain arithmetic, and the mistakes that are made with them.

Nothing here is taken from the package: this is what the checks are held against. A mask is a boolean array, (Q, K),
True = may attend.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

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


def bigbird(n, side, tokens, count, seed=0):
    """Window, global tokens and `count` random keys in each row."""
    found, draw = longformer(n, side, tokens), np.random.default_rng(seed)
    for row in found:
        free = np.flatnonzero(~row)
        row[draw.permutation(free)[:count]] = True
    return found


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


def spans(n, starts_and_lengths):
    """Causal, and both ways within the tokens of one image: Gemma 3."""
    found = causal(n)
    for start, length in starts_and_lengths:
        found[start : start + length, start : start + length] = True
    return found


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
    """One mask or two of each kind for `n` queries, n >= 3."""
    some, few, root = max(1, n // 3), max(1, n // 5), max(2, round(n**0.5))
    real = max(2, 2 * n // 3)
    yield "full", full(n)
    yield "causal", causal(n)
    yield "padding right", padded(full(n), real)
    yield "padding left", padded(full(n), real, left=True)
    yield "causal, padding right", padded(causal(n), real)
    yield "causal, padding left", padded(causal(n), real, left=True)
    yield "causal window", window(n, some)
    yield "window", window(n, few, few)
    yield "window, padding right", padded(window(n, few, few), real)
    yield "prefix-LM", prefix_lm(n, max(2, some))
    yield "Longformer", longformer(n, few, (0,))
    yield "Longformer, question", longformer(n, 1, (0, n // 2))
    yield "documents", documents(n, halves(n))
    yield "documents, causal", documents(n, halves(n)) & causal(n)
    yield "documents, causal window", documents(n, halves(n)) & window(n, some)
    yield "strided", strided(n, root)
    yield "fixed", fixed(n, root, 1)
    yield "sinks", sinks(n, 1, few)
    yield "chunked", chunked(n, max(2, some))
    yield "neighborhood", natten(n, 3)
    yield "Flamingo", flamingo(n, (0, n // 2), 2)
    if n >= 5:
        yield "Flamingo, text first", flamingo(n, (1, max(2, n // 3), n - 1), 3)
        yield "dilated", dilated(n, max(1, n // 6), max(1, n // 6), 2)
        yield "dilated, causal", dilated(n, max(1, n // 6), 0, 3)
        yield "block-causal", blocks(n, max(2, few), n, 0)
        yield "images in text", spans(n, [(1, 3)])
    if n >= 6:
        yield "dilated neighborhood", natten(n, 3, 2)
        yield "BigBird", bigbird(n, 1, (0,), max(1, n // 10), seed=n)
        yield "BigBird, blocks", blocks(n, 2, 1, 1, 1)
        yield "Longformer, dilated", dilated(n, 1, 1, 2) | seen_by_all(n, (0,))
    if n >= 8 and n % 2 == 0:
        yield "block diffusion", block_diffusion(n, 2)
        yield "block diffusion, larger", block_diffusion(n, max(3, n // 6))


@lru_cache(maxsize=4)
def listed(n) -> frozenset[bytes]:
    """Every mask of the kinds above for n queries and n keys, without padding, documents and random keys."""
    i, j = places(n)
    found = [full(n), causal(n), i != j]
    found += [window(n, b, a) for b in range(1, n) for a in range(b) if b < n - 1 or a == 0 or a > 1]
    found += [window(n, b, b) for b in range(n)]
    found += [prefix_lm(n, k) for k in range(n)]
    found += [dilated(n, b, a, s) for s in range(2, n) for b in range(1, (n - 1) // s + 1) for a in (0, b)]
    tokens = [(t,) for t in range(n)] + list(combinations(range(n), 2)) + [tuple(range(k)) for k in range(3, n)]
    for seen in tokens:
        everyone = seen_by_all(n, seen)
        found += [window(n, b, b) | everyone for b in range(1, n)]
        found += [dilated(n, b, b, 2) | everyone for b in range(1, n // 2 + 1)]
    found += [blocks(n, s, b, b, g) for s in range(1, n) for b in range(n // s + 1) for g in range(n // s + 1)]
    found += [blocks(n, s, b, 0) for s in range(1, n) for b in (*range(n // s + 1), n)]
    found += [causal(n) & blocks(n, s, b, 0, g) for s in range(1, n) for b in range(n // s + 1) for g in (0, 1)]
    found += [strided(n, s) for s in range(2, n)] + [fixed(n, s, c) for s in range(2, n) for c in range(1, s)]
    found += [sinks(n, s, b) for s in range(1, n) for b in range(1, n)] + [chunked(n, c) for c in range(2, n)]
    found += [natten(n, k, d) for d in range(1, n // 2 + 1) for k in range(2, n // d + 1)]
    found += [block_diffusion(n, s) for s in range(1, n // 2 + 1) if n % 2 == 0]
    return frozenset(one.tobytes() for one in found)


def is_documents(mask) -> bool:
    """Squares along the diagonal, whole or with a causal window in each."""
    n = len(mask)
    starts = [0, *(row for row in range(1, n) if not mask[row, row - 1])]
    squares = documents(n, np.diff([*starts, n]).tolist())
    return any(np.array_equal(mask, squares & one) for one in (full(n), *(window(n, b) for b in range(1, n))))


def is_spans(mask) -> bool:
    """Causal, but for squares of three tokens or more along the diagonal."""
    n, start = len(mask), 0
    expected = causal(n)
    while start < n:
        end = int(np.flatnonzero(mask[start])[-1]) + 1 if mask[start].any() else 0
        if end <= start or end == start + 2:
            return False
        expected[start:end, start:end] = True
        start = end
    return np.array_equal(mask, expected)


def is_published(mask) -> bool:
    """Whether a square mask is one of the above, whichever its numbers are; with padding on either side, too."""
    n, used = len(mask), np.flatnonzero(mask.any(0))
    if mask.shape != (n, n) or not len(used):
        return False
    first, last = used[0], used[-1] + 1
    pads = {(0, n), (0, int(last)), (int(first), n)}
    for start, end in pads:
        if start == 0 and end == n:
            if mask.tobytes() in listed(n) or is_documents(mask) or is_spans(mask):
                return True
            continue
        keys = np.zeros(n, bool)
        keys[start:end] = True
        if mask.tobytes() in padded_bases(n, start, end):
            return True
        inner = mask[start:end, start:end]
        outer = mask.copy()
        outer[start:end] = False
        if not outer.any() and (inner.tobytes() in listed(end - start) or is_documents(inner) or is_spans(inner)):
            return True
        if start == 0 and (is_documents(inner) and not outer.any()):
            return True
    return False


@lru_cache(maxsize=8)
def padded_bases(n, start, end) -> frozenset[bytes]:
    """Of `listed`, with the keys outside blocked for all."""
    found = set()
    for one in listed(n):
        mask = np.frombuffer(one, bool).reshape(n, n).copy()
        mask[:, :start] = False
        mask[:, end:] = False
        found.add(mask.tobytes())
    return frozenset(found)
