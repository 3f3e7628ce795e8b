"""Edits with the tensors taken from other texts (activation patching), also for single sentences of a batch."""

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
    """Tensors from the run of another text, and the place where they are inserted.

    Attributes:
        take: description of the part that is taken.
        tensors: tensors by name: "query", "key", "value" and "output", (D, H, n, d), "stream", (D, n, d_model), or
            "row", (D, H, 1, K), the scores of one query before the mask. The D texts repeat over the batch.
        rows: sentences of the batch into which the tensors are inserted.
    """

    take: Take
    tensors: Mapping[str, Tensor]
    rows: slice = field(default_factory=lambda: slice(None))

    def put(self, name: str, tensor: Tensor) -> Tensor:
        """Insert the taken values into a copy of the run's tensor `name`; without such values, the tensor itself."""
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
    """Edits with the tensors that they take from other texts. They are never read from or written to a link.

    Attributes:
        donors: tensors for each entry of `taken`, and for single sentences of the batch.
        entered: sites whose steps record the input of the whole layer.
    """

    donors: tuple[Donor, ...] = field(default=(), repr=False)
    entered: frozenset[Site] = frozenset()


@dataclass(frozen=True)
class EachOff(Resolved):
    """Edits with heads that are off per sentence of the batch, in addition to the heads that are off in all sentences.

    One run over copies of a sentence thus measures the effect of each head. Never read from or written to a link.
    """

    each_off: tuple[frozenset[tuple[Site, int]], ...] = ()

    def off_alone(self, site: Site) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(head for place, head in off if place == site) for off in self.each_off)


def donors(edits: Edits, site: Site) -> list[Donor]:
    """The donors of some edits at a site.

    Raises:
        InputError: if the edits take from other texts, but this model does not support that.
    """
    if edits.taken and not (isinstance(edits, Resolved) and edits.donors):
        raise InputError(NOT_TAKEN)
    return [donor for donor in getattr(edits, "donors", ()) if donor.take.site == site]


def with_rows(sources: list[Donor], query: Tensor, key: Tensor, scoring: Scoring) -> Scoring:
    """Add a bias to the scoring that turns the scores of some queries into the taken rows; the mask acts afterwards."""
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
    """Sites of the layers whose input a run records or takes from another text."""
    if not isinstance(edits, Resolved):
        return frozenset()
    return edits.entered | {donor.take.site for donor in edits.donors if "stream" in donor.tensors}


def overlaid(output: Tensor, taken: Tensor | None) -> Tensor:
    """The output per head, replaced by `taken` wherever `taken` is not NaN."""
    return output if taken is None else torch.where(taken.isnan(), output, taken)
