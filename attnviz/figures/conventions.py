"""A mask as a convention writes it, and as a reader of another one sees it."""

import torch

from attnviz.charts.state import CellState
from attnviz.core.masks import Mask
from attnviz.dialects import Dialect, Handed
from attnviz.figures.mask import title_of
from attnviz.figures.states import States, Tokens

VALUES = {
    "sdpa": ("True", "False"),
    "sdpa_additive": ("0", "-inf"),
    "is_causal": ("True", "False"),
    "attn_mask": ("False", "True"),
    "key_padding_mask": ("False", "True"),
    "flex_attention": ("True", "False"),
    "huggingface": ("0", "lowest"),
    "zero_is_masked": ("1", "0"),
    "true_is_masked": ("False", "True"),
}
"""Values that each dialect writes where a query may attend, and where it may not."""


def convention(mask: Mask, dialect: Dialect, queries: Tokens, keys: Tokens, *, sentence: int = 0) -> States | None:
    """The values of a dialect, cell by cell: of one sentence, or one row per sentence where it says padding.

    Args:
        queries, keys: the tokens of the sentence; None is given if the dialect cannot say the mask.
    """
    tensor = dialect.tensor(mask, len(queries), len(keys))
    if tensor is None:
        return None
    huggingface = dialect.name == "huggingface"
    padding = dialect.name == "key_padding_mask" or (huggingface and tensor.dim() == 2)
    may, blocked = ("1", "0") if padding and huggingface else VALUES[dialect.name]
    shape = f"shape ({', '.join(map(str, tensor.shape))}), {str(tensor.dtype).removeprefix('torch.')}"
    if padding:
        may_attend = mask.tensor(len(queries), len(keys))[:, 0, 0]
        rows: Tokens = [str(i + 1) for i in range(len(may_attend))]
        titles = ("Sentence", "Key")
    else:
        may_attend, rows, titles = mask.grid(len(queries), len(keys), sentence=sentence), queries, States.titles
    if dialect.name == "is_causal":
        shape = "no tensor: the grid is what the flag stands for"
    return States(
        title=f"Mask for {dialect.title}",
        states=(~may_attend).long().numpy(),
        kinds=(
            CellState(f"{_written(may)}: may attend", "open", may),
            CellState(f"{_written(blocked)}: blocked", "blocked", blocked),
        ),
        rows=rows,
        columns=keys,
        titles=titles,
        lines=(title_of(mask), shape),
        name=f"mask {dialect.name} {mask}",
    )


def _written(value: str) -> str:
    return {"-inf": "−inf", "lowest": "lowest number of the type"}.get(value, value)


READ = (
    CellState("open, as meant", "open", "dot"),
    CellState("blocked, as meant", "blocked", "hatch"),
    CellState("blocked by mistake", "hatch", "ring"),
    CellState("open by mistake", "leak", "cross"),
)
"""States of a cell as a reader takes it."""


def handed(read: Handed, queries: Tokens, keys: Tokens, *, sentence: int = 0) -> States | None:
    """Who sees whom when a mask is read in another dialect than the one it is written in; None if it is refused."""
    if read.seen is None:
        return None
    meant, actual = (_of(grid, sentence) for grid in (read.meant_grid, read.seen))
    states = torch.where(actual == meant, (~actual).long(), 2 + actual.long())
    return States(
        title="Mask as it is read",
        states=states.numpy(),
        kinds=READ,
        rows=queries,
        columns=keys,
        lines=(
            f"written for {read.meant.title}: {read.meant.says}",
            f"read by {read.read_as.title}: {read.read_as.says}",
        ),
        name=f"mask {read.meant.name} read as {read.read_as.name}",
    )


WEIGHTS = (
    CellState("weight", "ramp", legend=""),
    CellState("blocked", "blocked", "hatch"),
    CellState("not a number", "blocked", "cross"),
)


def weights_read(read: Handed, queries: Tokens, keys: Tokens, *, sentence: int = 0, head: int = 0) -> States | None:
    """Weights that this reader computes; None if it refuses the mask."""
    if read.weights is None:
        return None
    weights, may_attend = _of(read.weights, sentence), _of(read.seen, sentence)
    weights = weights[head if head < len(weights) else 0].double()
    states = torch.where(weights.isnan(), 2, ((weights == 0) & ~may_attend).long())
    return States(
        title="Weights that come out",
        states=states.numpy(),
        kinds=WEIGHTS,
        rows=queries,
        columns=keys,
        lines=(f"read by {read.read_as.title}",),
        name=f"weights {read.meant.name} read as {read.read_as.name}",
        weights=weights.nan_to_num(0.0).numpy(),
    )


def _of(grids: torch.Tensor, sentence: int) -> torch.Tensor:
    return grids[sentence if sentence < len(grids) else 0]
