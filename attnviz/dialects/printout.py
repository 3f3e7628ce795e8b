"""A tensor as PyTorch prints it, short: every axis longer than 12 is elided in its middle."""

from torch import Tensor

MOST, EDGE = 12, 4
"""The longest axis that is printed whole, and how much of a longer one is printed at each end."""


def printed(tensor: Tensor) -> str:
    """The numbers as in ``print(tensor)``, with dtype and shape behind them. It changes no global print options."""
    cells = _elided(tensor)
    width = max((len(cell) for cell in _leaves(cells)), default=0)
    shape = ", ".join(map(str, tensor.shape)) + ("," if tensor.dim() == 1 else "")
    return f"tensor({_nested(cells, 7, width)})  # {tensor.dtype}, ({shape})"


def _elided(tensor: Tensor) -> list | str:
    if not tensor.dim():
        return _number(tensor)
    if len(tensor) <= MOST:
        return [_elided(part) for part in tensor]
    return [*map(_elided, tensor[:EDGE]), "...", *map(_elided, tensor[-EDGE:])]


def _number(cell: Tensor) -> str:
    value = cell.item()
    if isinstance(value, float):
        if 1e5 < abs(value) < float("inf"):
            return f"{value:.4e}"
        return f"{value:.4g}." if value.is_integer() else f"{value:.4g}"
    return str(value)


def _leaves(cells: list | str) -> list[str]:
    if isinstance(cells, str):
        return [] if cells == "..." else [cells]
    return [leaf for part in cells for leaf in _leaves(part)]


def _nested(cells: list | str, indent: int, width: int) -> str:
    if isinstance(cells, str):
        return cells if cells == "..." else cells.rjust(width)
    parts = [_nested(part, indent + 1, width) for part in cells]
    if all(isinstance(part, str) for part in cells):
        return f"[{', '.join(parts)}]"
    between = "," + "\n" * _depth(cells) + " " * (indent + 1)
    return f"[{between.join(parts)}]"


def _depth(cells: list | str) -> int:
    """How many axes lie below this one; the first of a list is never elided."""
    return 0 if isinstance(cells, str) or not cells else 1 + _depth(cells[0]) - isinstance(cells[0], str)
