"""One head versus all others: how alike they look on the same text, as a list, a matrix, a tree and a map."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.metrics import batch
from attnviz.metrics.compare import jensen_shannon

Head = tuple[Site, int]


@dataclass(frozen=True, eq=False)
class Divergences:
    """How differently heads look at the same tokens.

    Attributes:
        heads: (site, head) of the rows and columns.
        divergence: (N, N), Jensen-Shannon divergence in nats, the mean over the rows that both heads have: 0 (alike) to
            ln 2 (apart); symmetric, 0 on the diagonal.
        left_out: heads that share no row with some other, so that nothing can be said of them.
    """

    heads: tuple[Head, ...]
    divergence: np.ndarray
    left_out: tuple[Head, ...] = ()

    def nearest(self, site: Site, head: int, count: int = 5) -> list[tuple[Site, int, float]]:
        """The heads that look most like one, nearest first, each with its divergence.

        Raises:
            InputError: if that head is not among them.
        """
        index = _place(self.heads, site, head)
        order = [i for i in np.argsort(self.divergence[index], kind="stable") if i != index][:count]
        return [(*self.heads[i], float(self.divergence[index, i])) for i in order]


def divergences(record: Record, kind: str | None = None, sentence: int = 0) -> Divergences:
    """Every two heads of a kind of site: maps of different kinds stand over different tokens.

    Raises:
        InputError: names the kinds that there are, if several or not this one.
    """
    kinds = list(dict.fromkeys(site.kind for site in record.sites))
    if kind is None and len(kinds) == 1:
        kind = kinds[0]
    if kind not in kinds:
        raise InputError(f"'{record.source}' has heads of these kinds: {', '.join(kinds)}; name the kind to compare.")
    steps = [step for step in record.steps if step.site.kind == kind]
    heads = tuple((step.site, head) for step in steps for head in range(step.num_heads))
    sums, counts = torch.zeros(2, len(heads), len(heads), dtype=torch.float64)
    for weights, counted in _together(record, steps, sentence, len(heads)):
        entropy = torch.special.entr(weights).sum(-1)
        for i in range(len(heads)):
            both = counted[i] & counted[i:]
            middle = torch.special.entr((weights[i] + weights[i:]) / 2).sum(-1)
            js = (middle - (entropy[i] + entropy[i:]) / 2).clamp(min=0) * both
            sums[i, i:] += js.sum(1)
            counts[i, i:] += both.sum(1)
    return _means(heads, sums + sums.triu(1).T, counts + counts.triu(1).T)


def farthest(
    record: Record, site: Site, head: int, *, sentence: int = 0, count: int = 3
) -> list[tuple[Site, int, float]]:
    """The heads of its kind that look least like one, farthest first, each with its divergence as in `Divergences`.

    Heads that share no row with it are left out. Time grows with the number of heads, not with that of their pairs.

    Raises:
        InputError: if there is no such head.
    """
    steps = [step for step in record.steps if step.site.kind == site.kind]
    heads = tuple((step.site, number) for step in steps for number in range(step.num_heads))
    index = _place(heads, site, head)
    sums, counts = torch.zeros(2, len(heads), dtype=torch.float64)
    for weights, counted in _together(record, steps, sentence, len(heads)):
        for i in range(len(heads)):
            both = counted[i] & counted[index]
            sums[i] += (jensen_shannon(weights[i], weights[index]) * both).sum()
            counts[i] += both.sum()
    means = (sums / counts.clamp(min=1)).tolist()
    others = [(*heads[i], means[i]) for i in range(len(heads)) if i != index and counts[i]]
    return sorted(others, key=lambda other: other[2], reverse=True)[:count]


def _place(heads: tuple[Head, ...], site: Site, head: int) -> int:
    """The place of a head among those that are compared."""
    if (site, head) not in heads:
        raise InputError(f"{site.head(head).capitalize()} is not among the {len(heads)} heads that were compared.")
    return heads.index((site, head))


def _together(record: Record, steps: Sequence[Step], sentence: int, heads: int):
    """The weights of all heads, (N, R, K), and which rows count, (N, R), block by block."""
    options = {"texts": range(sentence, sentence + 1), "heads": 2 * heads, "dtype": torch.float64}  # each held twice
    each = [batch.blocks(step, batch.sides_of(record, step), **options) for step in steps]
    for blocks in zip(*each, strict=True):
        yield torch.cat([block.weights[0] for block in blocks]), torch.cat([block.counted[0] for block in blocks])


def _means(heads: tuple[Head, ...], sums: Tensor, counts: Tensor) -> Divergences:
    """Without the heads that have no rows at all, and then without those that share none with some other."""
    remaining = torch.arange(len(heads))
    while len(remaining) and (bare := (counts[remaining][:, remaining] == 0)).any():
        remaining = torch.cat([remaining[: (worst := int(bare.sum(1).argmax()))], remaining[worst + 1 :]])
    divergence = (sums / counts.clamp(min=1))[remaining][:, remaining].numpy()
    chosen = set(remaining.tolist())
    left_out = tuple(head for i, head in enumerate(heads) if i not in chosen)
    return Divergences(tuple(heads[i] for i in remaining), divergence, left_out)


@dataclass(frozen=True, eq=False)
class Tree:
    """Heads joined to groups, the most alike first; its numbers are square roots of divergences, which are distances.

    Attributes:
        linkage: (N - 1, 4) as SciPy gives it: the two that are joined, their distance, and how many heads they hold.
        leaves: the heads by their numbers, in the order in which they stand beside each other.
        lines: (N - 1, 4, 2), the corners of each bracket: x in places of leaves from 0, y a distance.
    """

    linkage: np.ndarray
    leaves: tuple[int, ...]
    lines: np.ndarray


def tree(divergences: Divergences) -> Tree:
    """Average linkage over √divergence, which is a metric (Endres and Schindelin 2003), drawn by SciPy as numbers.

    Raises:
        InputError: if there are fewer than two heads.
    """
    from scipy.cluster.hierarchy import dendrogram, linkage
    from scipy.spatial.distance import squareform

    if len(divergences.heads) < 2:
        raise InputError("A tree needs at least two heads.")
    joined = linkage(squareform(np.sqrt(divergences.divergence), checks=False), "average", optimal_ordering=True)
    drawing = dendrogram(joined, no_plot=True)
    places = (np.array(drawing["icoord"]) - 5) / 10  # SciPy puts the leaves at 5, 15, 25 ...
    return Tree(joined, tuple(drawing["leaves"]), np.stack([places, np.array(drawing["dcoord"])], -1))


def map2d(divergences: Divergences) -> np.ndarray:
    """A place for each head, (N, 2), so that distances are as near as can be to √divergence: classical scaling.

    √divergence can be had exactly in enough dimensions (Fuglede and Topsøe 2004), of which these are the widest two.
    Each axis points to where its farthest head is. Source: Torgerson 1952.
    """
    n = len(divergences.heads)
    if not n:
        return np.zeros((0, 2))
    center = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-center @ divergences.divergence @ center / 2)
    places = np.zeros((n, 2))
    for axis, index in enumerate(np.argsort(values)[::-1][:2]):
        along = vectors[:, index] * np.sqrt(max(values[index], 0.0))
        places[:, axis] = along * (np.sign(along[np.abs(along).argmax()]) or 1)
    return places
