"""What a person changed about the attention, as a value. A run never changes its model: it is given edits."""

import json
from dataclasses import dataclass, fields, replace
from typing import Any

from attnviz.core import masks, modifiers
from attnviz.core.attention import EMPTY_ROWS
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.masks import Mask
from attnviz.core.modifiers import Bias

KINDS = ("encoder", "decoder", "cross")
BY_LETTER = {kind[0]: kind for kind in KINDS}
"""The kinds as a link writes them: e, d and c."""

MOST_BIASES = 8
"""How many biases a link may bring."""


@dataclass(frozen=True, order=True)
class Site:
    """One attention call of a model: a kind ("encoder", "decoder" or "cross") and a layer, counted from 0."""

    kind: str
    layer: int

    def __post_init__(self):
        if self.kind not in KINDS or not 0 <= self.layer < 1000:
            site = quoted(f"{self.kind} layer {self.layer}")
            raise InputError(f"There is no site {site}; a kind is one of {', '.join(KINDS)}.")

    def __str__(self) -> str:
        return f"{self.kind} layer {self.layer}"


@dataclass(frozen=True)
class Edits:
    """What differs from the untouched model. Hashable, so results can be kept by it.

    Attributes:
        mask: joined to the model's own mask by "and", at every site.
        heads_off: (site, head) of each head whose output is zeroed (zero ablation); its weights are still shown.
        temperature: divides the scores of every row; 1 changes nothing.
        scale: replaces 1/√d_k.
        empty_rows: what a query with no key left gets: "zero", "nan", "uniform" or "error".
        own_mask: whether the model's own mask (its padding; a decoder's future) stays. Without it, `mask` stands alone.
        bias: each is added to the scores, and to the model's own bias, at every site of self-attention. Cross-attention
            stays as it is: its queries and keys stand in two texts, between which there is no distance.
        softcap: c, replaces the model's own at every site: the scaled scores s become c · tanh(s / c) before any bias.
    """

    mask: Mask | None = None
    heads_off: frozenset[tuple[Site, int]] = frozenset()
    temperature: float = 1.0
    scale: float | None = None
    empty_rows: str = "zero"
    own_mask: bool = True
    bias: tuple[Bias, ...] = ()
    softcap: float | None = None

    def __post_init__(self):
        object.__setattr__(self, "heads_off", frozenset(self.heads_off))
        if self.empty_rows not in EMPTY_ROWS:
            raise InputError(f"empty_rows is {quoted(self.empty_rows)}; it must be one of {', '.join(EMPTY_ROWS)}.")
        if not 0 < self.temperature < 1e6:
            raise InputError(f"The temperature is {self.temperature}; it must be above 0 and below 1,000,000.")
        if self.scale is not None and not abs(self.scale) < 1e6:
            raise InputError(f"The scale is {self.scale}; it must be between -1,000,000 and 1,000,000.")
        object.__setattr__(self, "bias", tuple(self.bias))
        for bias in self.bias:
            if not isinstance(bias, Bias):
                raise InputError(f"The bias holds {quoted(bias)}; each of it is a named bias, such as ALiBi().")
        if self.softcap is not None and not 0 < self.softcap < 1e6:
            raise InputError(f"The softcap is {self.softcap}; it must be above 0 and below 1,000,000.")
        for site, head in self.heads_off:
            if head < 0:
                raise InputError(f"There is no head {head} at {site}; heads are counted from 0.")

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
        phrases = [] if self.own_mask else ["the model's own mask off"]
        phrases += [] if self.mask is None else [f"mask: {self.mask}"]
        phrases += [f"{site} head {head} off" for site, head in sorted(self.heads_off)]
        if self.temperature != 1:
            phrases.append(f"temperature {self.temperature:g}")
        if self.scale is not None:
            phrases.append(f"scale {self.scale:g}")
        phrases += [f"bias: {bias}" for bias in self.bias]
        if self.softcap is not None:
            phrases.append(f"softcap {self.softcap:g}")
        if self.empty_rows != "zero":
            phrases.append(f"empty rows: {self.empty_rows}")
        return tuple(phrases)

    def to_json(self) -> dict[str, Any]:
        """A JSON object of what is changed, from which `from_json` makes equal edits."""
        data: dict[str, Any] = {}
        if self.mask is not None:
            data["mask"] = self.mask.to_json()
        if not self.own_mask:
            data["own_mask"] = False
        if self.heads_off:
            data["heads_off"] = [[site.kind, site.layer, head] for site, head in sorted(self.heads_off)]
        for name, default in (("temperature", 1.0), ("scale", None), ("softcap", None), ("empty_rows", "zero")):
            if getattr(self, name) != default:
                data[name] = getattr(self, name)
        if self.bias:
            data["bias"] = [bias.to_json() for bias in self.bias]
        return data

    @classmethod
    def from_json(cls, data: str | dict[str, Any]) -> "Edits":
        """Make edits from the object or text that `to_json` gave.

        Raises:
            AttnvizError: says what is wrong, for data from a link or a file.
        """
        try:
            data = json.loads(data) if isinstance(data, str) else dict(data)
            if not isinstance(data, dict):
                raise TypeError
            if unknown := set(data) - {f.name for f in fields(cls)}:
                raise InputError(f"Edits have no {quoted(unknown.pop())}.")
            if data.get("mask") is not None:
                data["mask"] = masks.from_json(data["mask"])
            if "heads_off" in data:
                places = [(Site(kind, _whole(layer)), _whole(head)) for kind, layer, head in data["heads_off"]]
                data["heads_off"] = frozenset(places)
            if not isinstance(data.get("own_mask", True), bool):
                raise TypeError
            if "bias" in data:
                data["bias"] = _biases(data["bias"])
            for name in ("temperature", "scale", "softcap"):
                if data.get(name) is not None:
                    data[name] = _number(data[name])
            return cls(**data)
        except AttnvizError:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise InputError("The edits cannot be read.") from None


@dataclass(frozen=True)
class EachOff(Edits):
    """Edits under which each sentence of a batch has heads of its own off, besides those that are off in all.

    So one run over copies of a sentence tells what each head does. No link brings it, and none is made of it.
    """

    each_off: tuple[frozenset[tuple[Site, int]], ...] = ()

    def off_alone(self, site: Site) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(head for place, head in off if place == site) for off in self.each_off)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"A layer and a head are whole numbers; given {quoted(value)}.")
    return value


def _biases(value: Any) -> tuple[Bias, ...]:
    if not isinstance(value, list) or len(value) > MOST_BIASES:
        raise InputError(f"The bias is a list of at most {MOST_BIASES}; given {quoted(value)}.")
    return tuple(map(modifiers.from_json, value))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"The temperature, the scale and the softcap are numbers; given {quoted(value)}.")
    return float(value)
