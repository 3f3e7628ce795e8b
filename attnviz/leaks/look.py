"""Outputs that a leak test compares: of one attention call, or of all layers of a kind."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.amounts import counted
from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Record
from attnviz.core.tokens import Token


@dataclass(frozen=True)
class LeakTarget:
    """All layers of a kind, or one of them."""

    kind: str
    layer: int | None

    @property
    def changes(self) -> str:
        """The kind of attention that reads the changed tokens first."""
        return "encoder" if self.kind == "cross" else self.kind

    def holds(self, site: Site) -> bool:
        """Whether a site is of this kind, and not behind the layer that is compared."""
        return site.kind == self.kind and (self.layer is None or site.layer <= self.layer)

    def in_words(self, record: Record) -> str:
        """Compared layers, as "decoder layer 0" or "decoder, 2 layers"."""
        if self.layer is not None:
            return str(Site(self.kind, self.layer))
        layers = sum(site.kind == self.kind for site in record.sites)
        return f"{self.kind}, {counted(layers, 'layer')}"


def look_at(record: Record, site: Site | str | None, writes: bool) -> LeakTarget:
    """Layers to compare; by default the decoder's, if what it reads can be chosen."""
    kinds = [kind for kind in KINDS if any(place.kind == kind for place in record.sites)]
    chosen = not record.targets or writes
    if site is None:
        return LeakTarget("decoder" if "decoder" in kinds and chosen else kinds[0], None)
    look = LeakTarget(site.kind, site.layer) if isinstance(site, Site) else LeakTarget(site, None)
    if look.kind not in kinds:
        raise InputError(f"'{record.source}' has no {quoted(look.kind)}. It has: {', '.join(kinds)}.")
    if look.kind != "encoder" and not chosen:
        raise InputError(f"What the decoder of '{record.source}' reads cannot be held fixed; test its encoder.")
    if look.layer is not None:
        record.step(Site(look.kind, look.layer))  # raises if there is none
    return look


def output(record: Record, look: LeakTarget, row: int) -> Tensor:
    """Output to compare of one sentence of a batch, (Q, numbers)."""
    if look.layer is not None:
        step = record.step(Site(look.kind, look.layer))
        part = step.weights if record.read_only else step.output
        return torch.cat([part(head, sentence=row).float() for head in range(step.num_heads)], -1)
    if look.kind == "encoder" and record.targets:  # what the decoder gets of the encoder, by two linear maps
        step = next(step for step in record.steps if step.site.kind == "cross")
        return torch.cat([step.key[row], step.value[row]], -1).transpose(0, 1).flatten(1)
    return record.output[row]


def tokens(record: Record, look: LeakTarget) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The tokens whose output is compared, and those that are changed."""
    sentence, read = record.sentences[0].tokens, record.read[0].tokens
    return (sentence if look.kind == "encoder" else read), (read if look.kind == "decoder" else sentence)
