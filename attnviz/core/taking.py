"""Edits as a run takes them: with the numbers that came from other texts, and some of them in one copy alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attnviz.core.edits import Edits, Site, Take
from attnviz.core.errors import InputError
from attnviz.core.scoring import Area, Scoring

NOT_TAKEN = (
    "Nothing can be taken from another text here: that needs a model whose attention attnviz computes, such as "
    "'story' or GPT-2."
)


@dataclass(frozen=True, eq=False)
class Donor:
    """Numbers of the run of another text, and where they are put.

    Attributes:
        take: what is taken.
        tensors: by their names "query", "key", "value" and "output", (D, H, n, d), "stream", (D, n, d_model), or "row",
            (D, H, 1, K), the scores of one query before the mask. The D texts are repeated over the batch.
        rows: sentences of the batch in which it is put.
    """

    take: Take
    tensors: Mapping[str, Tensor]
    rows: slice = field(default_factory=lambda: slice(None))

    def put(self, name: str, tensor: Tensor) -> Tensor:
        """A copy of a tensor of the run with what is taken in it; the tensor itself where nothing of it is taken."""
        if name not in self.tensors:
            return tensor
        taken, take = self.tensors[name].to(tensor), self.take
        source, target = slice(taken.shape[-2]), slice(taken.shape[-2])
        if take.position is not None:
            first = take.position if take.from_position is None else take.from_position
            source, target = slice(first, first + 1), slice(take.position, take.position + 1)
        heads = [slice(None) if take.head is None else slice(take.head, take.head + 1)] * (tensor.dim() - 3)
        tensor = tensor.clone()
        put_into = tensor[(self.rows, *heads, target)]
        taken = taken[(slice(None), *heads, source)]
        put_into.copy_(taken.repeat(len(put_into) // len(taken), *[1] * (taken.dim() - 1)))
        return tensor


@dataclass(frozen=True)
class Resolved(Edits):
    """Edits with the numbers that they take from other texts. No link brings it, and none is made of it.

    Attributes:
        donors: the numbers of each of `taken`, and of what one copy takes alone.
        entered: sites whose steps keep what entered the whole layer.
    """

    donors: tuple[Donor, ...] = field(default=(), repr=False)
    entered: frozenset[Site] = frozenset()


@dataclass(frozen=True)
class EachOff(Resolved):
    """Edits under which each sentence of a batch has heads of its own off, besides those that are off in all.

    So one run over copies of a sentence tells what each head does. No link brings it, and none is made of it.
    """

    each_off: tuple[frozenset[tuple[Site, int]], ...] = ()

    def off_alone(self, site: Site) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(head for place, head in off if place == site) for off in self.each_off)


def donors(edits: Edits, site: Site) -> list[Donor]:
    """The numbers that a run with some edits takes at a site.

    Raises:
        InputError: if the other texts were not run, because this model takes nothing from them.
    """
    if edits.taken and not (isinstance(edits, Resolved) and edits.donors):
        raise InputError(NOT_TAKEN)
    return [donor for donor in getattr(edits, "donors", ()) if donor.take.site == site]


def with_rows(sources: list[Donor], query: Tensor, key: Tensor, scoring: Scoring) -> Scoring:
    """Scoring with a bias that gives some queries the rows of scores that are taken; the mask acts after it."""
    if not any("row" in donor.tensors for donor in sources):
        return scoring
    wide = torch.promote_types(query.dtype, torch.float32)
    bias = query.new_zeros(*query.shape[:3], key.shape[2], dtype=wide)
    for donor in (donor for donor in sources if "row" in donor.tensors):
        row, take = donor.tensors["row"], donor.take
        heads = slice(None) if take.head is None else slice(take.head, take.head + 1)
        where = Area(donor.rows, heads, slice(take.position, take.position + 1), slice(row.shape[-1]))
        own = scoring.scores(query, key, where)
        row = row[:, heads].to(own)
        bias[where] = (row.repeat(len(own) // len(row), 1, 1, 1) - own) * scoring.temperature
    return replace(scoring, bias=(*scoring.bias, bias))


def enters(edits: Edits) -> frozenset[Site]:
    """Sites of the layers whose input a run keeps, or takes from another text."""
    if not isinstance(edits, Resolved):
        return frozenset()
    return edits.entered | {donor.take.site for donor in edits.donors if "stream" in donor.tensors}


def overlaid(output: Tensor, taken: Tensor | None) -> Tensor:
    """The output per head, with what was taken in its place; `taken` is NaN where it stays."""
    return output if taken is None else torch.where(taken.isnan(), output, taken)
