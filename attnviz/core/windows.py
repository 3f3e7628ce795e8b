"""Convert attention within windows of a picture, as in Swin, to attention over the whole picture.

The model treats windows as sentences of a batch, (B·windows, H, n, d), where n = size² patches per window.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from attnviz.core.edits import Edits, Resolved
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.masks import Mask, PatchWindows
from attnviz.core.record import Step
from attnviz.core.scoring import ALL, Bias

CLOSED = -50.0
"""Bias below which a cell counts as masked: Swin adds -100 to the scores of masked cells, Swin V2 -200."""


@dataclass(frozen=True)
class WindowGrid:
    """Division of a picture of rows x columns patches into windows; the picture is padded at its end to whole windows.

    Attributes:
        rows, columns: size of the picture, in patches.
        size: side length of a window, in patches.
        shift: number of rows and columns by which the padded picture is rolled up and left before the division.
    """

    rows: int
    columns: int
    size: int
    shift: int

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and columns of the padded picture, in patches."""
        return tuple(math.ceil(side / self.size) * self.size for side in (self.rows, self.columns))

    @property
    def count(self) -> int:
        """Number of windows."""
        return math.prod(self.padded) // self.size**2

    @cached_property
    def places(self) -> Tensor:
        """Position of each window cell in the padded picture, counted row by row, (windows, size²)."""
        rows, columns = self.padded
        rolled = torch.arange(rows * columns).reshape(rows, columns).roll((-self.shift, -self.shift), (0, 1))
        windows = rolled.unfold(0, self.size, self.size).unfold(1, self.size, self.size)  # (down, across, size, size)
        return windows.reshape(self.count, -1)

    @property
    def mask(self) -> PatchWindows:
        """The mask of the padded picture: which positions may attend to each other."""
        return PatchWindows(self.padded[1], self.size, self.shift)

    @cached_property
    def open_cells(self) -> Tensor:
        """The mask within each window, (windows, n, n): rolling joins patches that are not neighbors in the picture."""
        places = self.places
        return self.mask.allows(places[:, :, None], places[:, None, :], torch.zeros(1, 1, 1, dtype=torch.int64))

    def split_mask(self, mask: Tensor | None, bias: Tensor | None, batch: int) -> tuple[Tensor, Tensor] | None:
        """Split what a model adds to the scores into the mask of rolled windows and the bias that all windows share.

        Args:
            mask, bias: booleans and floats that broadcast to (batch, H, n, n), or None.
            batch: number of pictures times number of windows.

        Returns:
            `open_cells` for the batch, (batch, 1, n, n), and the bias, (1, H, n, n); None if the model has another
            mask, or if windows have different biases.
        """
        device = next((tensor.device for tensor in (mask, bias) if tensor is not None), None)
        is_open = self.open_cells.to(device)[:, None].repeat(batch // self.count, 1, 1, 1)
        added = torch.zeros(is_open.shape, device=device) if bias is None else bias.detach().float()
        if mask is not None:
            added = added.masked_fill(~mask, -math.inf)
        is_closed = added - added.amax(-1, keepdim=True) < CLOSED  # far below the row's maximum
        common_bias = added.masked_fill(is_closed, -math.inf).amax(0, keepdim=True)
        has_other_mask = (is_closed == is_open).any()
        if has_other_mask or (is_open & (added != common_bias)).any():
            return None
        return is_open, common_bias.masked_fill(common_bias == -math.inf, 0)

    def edits(self, edits: Edits, sentences: int) -> Edits:
        """Convert edits for `sentences` padded pictures to edits for their windows; raise InputError if impossible."""
        if edits.bias or not edits.own_mask or edits.empty_rows == "uniform":
            limits = "no bias can be added, the built-in mask stays, and empty rows cannot be uniform"
            message = f"The model computes attention within windows of a picture: {limits}."
            raise InputError(f"{message} Change masks, heads or scores.")
        if edits.mask is not None:
            edits = replace(edits, mask=InWindows(edits.mask, self, sentences))
        if isinstance(edits, Resolved):
            edits = replace(edits, each_off=tuple(off for off in edits.each_off for _ in range(self.count)))
        return edits

    def join(self, step: Step, edits: Edits) -> Step:
        """Convert a step of windows to a step of the padded picture, (B, H, N, N), with the same edits."""
        order = self.places.flatten().argsort()  # for each position, its index among the cells of all windows

        def join_windows(vectors: Tensor) -> Tensor:
            """Convert (B · windows, H, n, ...) to (B, H, N, ...)."""
            heads_first = vectors.unflatten(0, (-1, self.count)).transpose(1, 2)  # (B, H, windows, n, ...)
            return heads_first.flatten(2, 3)[:, :, order].contiguous()

        names = ("query", "key", "value", "logsumexp")
        tensors = {name: join_windows(getattr(step, name)) for name in names}
        mask, edit_mask = self.mask, edits.mask_at(step.site.kind)
        scoring = replace(step.scoring, bias=tuple(WindowBias(mask, table[0]) for table in step.scoring.bias))
        if self.count == 1 and bool(self.open_cells.all()):
            mask = edit_mask
        elif edit_mask is not None:
            mask = mask & edit_mask
        return replace(step, **tensors, mask=mask, scoring=scoring, off_alone=step.off_alone[:: self.count])


@dataclass(frozen=True)
class InWindows(Mask):
    """A mask of the padded picture, for a batch of all windows: entry s is window s % count of picture s // count."""

    mask: Mask
    windows: WindowGrid
    sentences: int

    @property
    def batch_size(self):
        return self.sentences * self.windows.count

    def allows(self, query, key, sentence):
        places, window = self.windows.places.to(query.device), sentence % self.windows.count
        query, key = places[window, query], places[window, key]  # positions in the picture
        return self.mask.allows(query, key, sentence // self.windows.count)

    def __str__(self) -> str:
        return str(self.mask)


@dataclass(frozen=True, eq=False)
class WindowBias(Bias):
    """A bias between the patches of a window, for scores of the whole picture; cells between windows are masked.

    Attributes:
        windows: division of the picture into windows.
        table: bias per head, (H, n, n), where n = size².
    """

    windows: PatchWindows
    table: Tensor

    def tensor(self, heads, queries, keys, *, head_slice=ALL, rows=ALL, columns=ALL, dtype=torch.float32):
        if len(self.table) != heads:
            raise ShapeError(f"The bias of windows is for {len(self.table)} heads; the model has {heads}.")
        query, key = self._cells(torch.arange(queries)[rows]), self._cells(torch.arange(keys)[columns])
        return self.table[head_slice][:, query[:, None], key].to(dtype)[None]

    def _cells(self, positions: Tensor) -> Tensor:
        """Index within its window for each position of the picture."""
        width, size, shift = self.windows.columns, self.windows.size, self.windows.shift
        return (positions // width - shift) % size * size + (positions % width - shift) % size

    def __str__(self) -> str:
        return f"relative bias within windows of {self.windows.size} x {self.windows.size} patches"
