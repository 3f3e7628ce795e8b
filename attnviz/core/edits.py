"""Changes to the attention, as a value. A run never changes its model: it is given edits."""

from dataclasses import dataclass, fields, replace
from typing import Any

from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask
from attnviz.core.modifiers import Bias
from attnviz.core.scoring import Scoring

KINDS = ("encoder", "decoder", "cross")
BY_LETTER = {kind[0]: kind for kind in KINDS}
"""The kinds as a link writes them: e, d and c."""


@dataclass(frozen=True, order=True)
class Site:
    """One attention call of a model: a kind ("encoder", "decoder" or "cross") and a layer, counted from 0."""

    kind: str
    layer: int

    def __post_init__(self):
        site = quoted(f"{self.kind} layer {self.layer}")
        if self.kind not in KINDS:
            raise InputError(f"There is no site {site}; a kind is one of {', '.join(KINDS)}.")
        if not 0 <= self.layer < 1000:
            raise InputError(f"There is no site {site}; layers are counted from 0.")

    def __str__(self) -> str:
        return f"{self.kind} layer {self.layer}"

    def head(self, *numbers: int) -> str:
        """Name of heads of the site in words: "head 0 of decoder layer 1", "heads 0, 2 of decoder layer 1".

        Wherever a person reads of a head, in a sentence, a title or a file, it has this name; where there is no room
        for it, in a table or over a small map, that of `brief`, and beside a mark that of `short`: it is said there.
        """
        return f"{'head' if len(numbers) == 1 else 'heads'} {', '.join(map(str, numbers))} of {self}"

    def brief(self, head: int) -> str:
        """Name of a head where there is little room: "decoder 1.0" is head 0 of decoder layer 1."""
        return f"{self.kind} {self.short(head)}"

    def short(self, head: int) -> str:
        """Name of a head where its kind is known: "1.0" is head 0 of layer 1."""
        return f"{self.layer}.{head}"


@dataclass(frozen=True)
class Edits(Scoring):
    """Changes to the untouched model. Hashable, so results can be kept by it.

    Changes of the scores are the fields of `Scoring`, given by name: `scale` and `softcap` replace the model's
    own, each `bias` is added to it. A bias reaches self-attention alone: queries and keys of cross-attention stand in
    two texts, between which there is no distance.

    Attributes:
        mask: joined to the built-in mask by "and", at every site.
        mask_cross: whether `mask` acts on cross-attention, too.
        heads_off: (site, head) of each head whose output is zeroed (zero ablation); its weights are still shown.
        own_mask: whether the built-in mask (padding; a decoder's future) stays. Without it, `mask` stands alone.
    """

    mask: Mask | None = None
    heads_off: frozenset[tuple[Site, int]] = frozenset()
    own_mask: bool = True
    mask_cross: bool = True

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "heads_off", frozenset(self.heads_off))
        for bias in self.bias:
            if not isinstance(bias, Bias):
                raise InputError(f"The bias holds {quoted(bias)}; each of it is a named bias, such as ALiBi().")
        for site, head in self.heads_off:
            if head < 0:
                raise InputError(f"There is no {site.head(head)}; heads are counted from 0.")

    def at(self, site: Site, own: Scoring) -> Scoring:
        """How scores are made at a site whose model makes them by a scoring of its own."""
        return (replace(self, bias=()) if site.kind == "cross" else self).over(own)

    def mask_at(self, kind: str) -> Mask | None:
        """The mask that acts on attention of a kind."""
        return None if kind == "cross" and not self.mask_cross else self.mask

    def off(self, site: Site) -> frozenset[int]:
        """The heads that are off at a site."""
        return frozenset(head for place, head in self.heads_off if place == site)

    def off_alone(self, site: Site) -> tuple[frozenset[int], ...]:
        """The heads that are off at a site in each sentence of a batch alone; empty where all are treated alike."""
        return ()

    def with_heads_off(self, site: Site, heads: set[int] | frozenset[int]) -> "Edits":
        """The same edits, with just these heads off at this site."""
        others = {(place, head) for place, head in self.heads_off if place != site}
        return replace(self, heads_off=frozenset(others | {(site, head) for head in heads}))

    def in_words(self) -> tuple[str, ...]:
        """One phrase for each thing that is changed; empty if nothing is."""
        phrases = [] if self.own_mask else ["built-in mask off"]
        where = "" if self.mask_cross else ", on self-attention alone"
        phrases += [] if self.mask is None else [f"mask: {self.mask}{where}"]
        phrases += [f"{site.head(head)} off" for site, head in sorted(self.heads_off)]
        with_colon = ("bias", "empty rows")
        settings = (f"{what}{':' if what in with_colon else ''} {value}" for what, value in self.phrases())
        return (*phrases, *settings)

    def to_json(self) -> dict[str, Any]:
        """A JSON object of what is changed, for a program that reads what the shell prints."""
        data: dict[str, Any] = {} if self.mask is None else {"mask": self.mask.to_json()}
        data |= {name: False for name in ("own_mask", "mask_cross") if not getattr(self, name)}
        if self.heads_off:
            data["heads_off"] = [[site.kind, site.layer, head] for site, head in sorted(self.heads_off)]
        scoring = {f.name: getattr(self, f.name) for f in fields(Scoring) if getattr(self, f.name) != f.default}
        return data | scoring | ({"bias": [bias.to_json() for bias in self.bias]} if self.bias else {})


@dataclass(frozen=True)
class EachOff(Edits):
    """Edits under which each sentence of a batch has heads of its own off, besides those that are off in all.

    So one run over copies of a sentence tells what each head does. No link brings it, and none is made of it.
    """

    each_off: tuple[frozenset[tuple[Site, int]], ...] = ()

    def off_alone(self, site: Site) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(head for place, head in off if place == site) for off in self.each_off)
