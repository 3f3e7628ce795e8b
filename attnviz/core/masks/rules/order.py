"""Rules that depend on the order of positions: keys before the query, near it, or at regular distances."""

from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.parameters import MOST, parameter


@dataclass(frozen=True)
class Subsequent(Mask):
    """Causal (look-ahead) mask, which blocks the future: query i sees the keys 0 to i + offset.

    An offset of 0 aligns queries and keys top-left, as `is_causal` of PyTorch's SDPA; an offset of keys - queries
    aligns them bottom-right, as with a cache.
    """

    rule = "subsequent"
    keyword = "causal"
    meaning = "blocks the future: a query sees itself and what is before it"
    words = "causal[ (offset {offset})]"
    offset: int = parameter("offset", default=0, least=-MOST, signed=True)

    def allows(self, query, key, sentence):
        return key <= query + self.offset

    def shifted(self, offset):
        return Subsequent(self.offset + offset)

    def code(self, writer):
        return writer.band(None, self.offset)


@dataclass(frozen=True)
class Window(Mask):
    """A sliding window: query i sees the keys i - before to i + after."""

    rule = "window"
    meaning = "a sliding window: a query sees the keys near it"
    words = "window ({before} before, {after} after)"
    before: int = parameter("keys before", start=2, signed=True)
    after: int = parameter("keys after", default=0, signed=True)

    def allows(self, query, key, sentence):
        return (key >= query - self.before) & (key <= query + self.after)

    def code(self, writer):
        return writer.band(self.before, self.after)


@dataclass(frozen=True)
class Dilated(Mask):
    """A sliding window with gaps: query i sees `before` keys before itself and `after` after it, `step` apart.

    The keys are i - before · step, ..., i - step, i, i + step, ..., i + after · step. With a step of 1 it is `Window`.
    The dilated sliding window of Longformer (Beltagy et al. 2020, section 3.1).
    """

    rule = "dilated"
    meaning = "a sliding window with gaps"
    words = "dilated window ({before} before, {after} after, step {step})"
    before: int = parameter("keys before", start=2, signed=True)
    after: int = parameter("keys after", default=0, signed=True)
    step: int = parameter("step", default=2, least=1)

    def allows(self, query, key, sentence):
        distance = key - query
        near = (distance >= -self.before * self.step) & (distance <= self.after * self.step)
        return near & (distance % self.step == 0)


@dataclass(frozen=True)
class Strided(Mask):
    """Strided pattern: query i sees itself, the `stride` keys before it, and every `stride`-th key before those.

    The union of both heads of the strided pattern of the Sparse Transformer (Child et al. 2019, section 4.2): key j if
    j <= i, and i - j <= stride or i - j is a multiple of the stride.
    """

    rule = "strided"
    meaning = "the keys just before the query, and every n-th key before them"
    words = "strided by {stride}"
    stride: int = parameter("stride", least=1, start=3)

    def allows(self, query, key, sentence):
        distance = query - key
        return (distance >= 0) & ((distance <= self.stride) | (distance % self.stride == 0))


@dataclass(frozen=True)
class Fixed(Mask):
    """Fixed pattern: query i sees its block of `stride` keys up to itself, and the last `summary` keys of each block.

    Later keys are blocked. The union of both heads of the fixed pattern of the Sparse Transformer (Child et al. 2019,
    section 4.2).
    """

    rule = "fixed"
    meaning = "its own block so far, and the last keys of each earlier block (Sparse Transformer)"
    words = "fixed blocks of {stride} ({summary} summary)"
    stride: int = parameter("stride", least=1, start=3)
    summary: int = parameter("summary keys", default=1)

    def allows(self, query, key, sentence):
        same_block = query // self.stride == key // self.stride
        return (key <= query) & (same_block | (key % self.stride >= self.stride - self.summary))


@dataclass(frozen=True)
class Blocks(Mask):
    """Block-sparse mask: positions are divided into blocks of `size`, and a query sees whole blocks of keys.

    A query sees its own block, `before` blocks before it and `after` blocks after it. The `first` blocks are global:
    they see all keys, and all queries see them. These are the window and global blocks of BigBird (Zaheer et al. 2020,
    section 2 and appendix D, "ITC"); its random keys are `Random`.
    """

    rule = "blocks"
    meaning = "block-sparse: a query sees whole blocks of keys"
    words = "blocks of {size} ({before} before, {after} after[, first {first}])"
    size: int = parameter("block size", least=1, start=2)
    before: int = parameter("blocks before", default=1, signed=True)
    after: int = parameter("blocks after", default=1, signed=True)
    first: int = parameter("global blocks", default=0)

    def allows(self, query, key, sentence):
        query_block, key_block = query // self.size, key // self.size
        near = (key_block >= query_block - self.before) & (key_block <= query_block + self.after)
        if not self.first:
            return near
        query_is_global = (query_block >= 0) & (query_block < self.first)  # below 0: see `Shifted`
        return near | (key_block < self.first) | query_is_global


@dataclass(frozen=True)
class Prefix(Mask):
    """Prefix: every query sees only the first `length` keys. ``Subsequent() | Prefix(n)`` gives a prefix-LM."""

    rule = "prefix"
    meaning = "every query sees the first keys: after causal, a prefix-LM"
    words = "prefix of {length}"
    join = "or"
    of_keys = True
    length: int = parameter("prefix length", start=2, signed=True)

    def allows(self, query, key, sentence):
        return key < self.length
