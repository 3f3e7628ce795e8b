"""A mask through a view: it has no weights, so nothing is divided."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from attnviz import analysis
from attnviz.analysis import stream
from attnviz.analysis.views.groups import Groups, View, groups
from attnviz.analysis.views.kept import notes_of, paired, window_in_words, within
from attnviz.analysis.views.seen import RowBlock
from attnviz.core.masks import Mask
from attnviz.core.record import ALL
from attnviz.core.tokens import Token

MERGED_MASK = "pieces are merged into words: one may attend where any of its pieces may"
HIDDEN_MASK = "special tokens are hidden"


@dataclass(frozen=True, eq=False)
class SeenMask:
    """A mask through a view, in a window; see `see_mask`. A word may attend where any of its pieces may.

    Attributes:
        lengths: how many queries and keys there are, also outside of the window.
    """

    mask: Mask
    sentence: int
    lengths: tuple[int, int]
    rows: slice
    columns: slice
    queries: Groups
    keys: Groups
    notes: tuple[str, ...]

    @cached_property
    def plain(self) -> bool:
        """Whether each row and column of the window is a position."""
        return all(
            len(part) == len(range(*window.indices(n))) and not part.merged
            for part, window, n in zip((self.queries, self.keys), (self.rows, self.columns), self.lengths, strict=True)
        )

    @property
    def window(self) -> str:
        """Which positions are seen, where not all are."""
        return window_in_words((self.rows, self.columns), (self.queries, self.keys), self.lengths)

    @cached_property
    def left(self) -> np.ndarray:
        """How many of all keys each position of the queries may attend to, (Q,)."""
        return self.mask.keys_left(*self.lengths, sentence=self.sentence).numpy()

    @cached_property
    def open_keys(self) -> np.ndarray:
        """How many of the keys that are seen each row may attend to."""
        if self.plain and self.columns == ALL:
            return self.left[self.rows]
        return np.concatenate([(blocked == 0).sum(1) for _, _, blocked in self.blocks()])

    def blocked(self, tile: int = 1) -> tuple[tuple[str, ...], np.ndarray]:
        """Reasons, and 0 where one may attend, else the number of the reason; of a tile, where any of its cells may."""
        if self.plain and tile > 1:
            window = {"rows": self.rows, "columns": self.columns}
            tiles = analysis.pooled_mask(self.mask, self.lengths, sentence=self.sentence, **window, tile=tile)
            firsts = {"rows": torch.from_numpy(tiles.queries), "columns": torch.from_numpy(tiles.keys)}
            reasons, rules = self.mask.reasons(*self.lengths, sentence=self.sentence, **firsts)
            return reasons, rules.numpy() * (tiles.open == 0)
        names: dict[str, int] = {}
        blocks = (
            RowBlock(np.zeros(blocked.shape), blocked, None, reasons) for _, reasons, blocked in self.blocks(tile)
        )
        parts = [block.pooled(tile).renamed(names).blocked for block in blocks]
        return tuple(names), np.concatenate(parts)

    def blocks(self, tile: int = 1) -> Iterator[tuple[slice, tuple[str, ...], np.ndarray]]:
        """The same of some rows after the other, whole tiles of them, with the reasons of each block."""
        merged = self.queries.merged or self.keys.merged
        for rows in analysis.row_slices(len(self.queries), len(self.keys), tile):
            spans = self.queries[rows].spans, self.keys.spans
            reasons, rules = analysis.first_reasons(self.mask, self.lengths, *spans, sentence=self.sentence)
            if merged:
                places = map(analysis.stretch, spans)
                read = stream.openings(self.mask, self.lengths, *places, sentence=self.sentence)
                rules = rules * ~analysis.grouped(read, *spans)[1]
            yield rows, reasons, rules


def see_mask(
    mask: Mask,
    queries: Sequence[Token],
    keys: Sequence[Token],
    *,
    sentence: int = 0,
    view: View = View(),
    rows: slice = ALL,
    columns: slice = ALL,
) -> SeenMask:
    """A mask over tokens through a view, and of that a window. It has no weights, so nothing is divided.

    Raises:
        InputError: if the view leaves nothing to see.
    """
    tokens = tuple(queries), tuple(keys)
    sides = paired([groups(part, view) for part in tokens], view, tokens, "the mask")
    notes = notes_of(view, tokens, sides, MERGED_MASK, HIDDEN_MASK)
    lengths = len(queries), len(keys)
    windows = [within(part, window, n) for part, window, n in zip(sides, (rows, columns), lengths, strict=True)]
    return SeenMask(mask, sentence, lengths, rows, columns, *windows, notes)
