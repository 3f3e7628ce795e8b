"""Changes to the attention as an immutable value. A run takes edits as an argument and never changes its model.

`Edits` is what a user chooses; `Resolved` adds the tensors that are taken from other texts (activation patching).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask
from attnviz.core.scoring import Area, Bias, Scoring

KINDS = ("encoder", "decoder", "cross")
BY_LETTER = {kind[0]: kind for kind in KINDS}
"""Kinds by their first letter, which stands for the kind in a link: e, d and c."""
PARTS = ("output", "pattern", "values", "stream")
"""Parts of a run that can be replaced by the same part of another text's run; see `Take`."""
NOT_TAKEN = (
    "Nothing can be taken from another text here: that needs a model whose attention attnviz computes, such as "
    "'story' or GPT-2."
)


@dataclass(frozen=True, order=True)
class Site:
    """Place of an attention call in a model: a kind ("encoder", "decoder" or "cross") and a layer, counted from 0."""

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
        """Name heads of the site in words: "head 0 of decoder layer 1", "heads 0, 2 of decoder layer 1"."""
        return f"{'head' if len(numbers) == 1 else 'heads'} {', '.join(map(str, numbers))} of {self}"

    def brief(self, head: int) -> str:
        """Short name of a head for tables and small maps: "decoder 1.0" is head 0 of decoder layer 1."""
        return f"{self.kind} {self.short(head)}"

    def short(self, head: int) -> str:
        """Shortest name of a head, for places that already give the kind: "1.0" is head 0 of layer 1."""
        return f"{self.layer}.{head}"


@dataclass(frozen=True)
class Take:
    """One part of a run that is replaced by the same part of the run of another text (activation patching).

    Links and the shell write it as text: ``output-d0.1-The dog sat.`` replaces the output of head 1 of decoder layer
    0, ``values-d0@3-The dog sat.`` replaces the values of all heads of that layer at position 3, and
    ``stream-d0@3.5-The dog sat.`` replaces the layer's input at position 3 by that at position 5 of the other text.

    Attributes:
        text: the other text.
        part: "output" (weights @ values), "pattern" (queries and keys, so the weights; at one position the row of
            weights), "values", or "stream" (the vectors that enter the whole layer).
        head: index of the head; None for every head of the site, and for a stream.
        position: token position in this text; None for all positions. If it is None, or if the part is "pattern", the
            two texts must have the same number of tokens.
        from_position: token position in the other text; None for `position`.

    Raises:
        InputError: if the attributes contradict each other.
    """

    text: str
    part: str
    site: Site
    head: int | None = None
    position: int | None = None
    from_position: int | None = None

    def __post_init__(self):
        if self.part not in PARTS:
            raise InputError(f"There is no part {quoted(self.part)}. Available parts: {', '.join(PARTS)}.")
        for name in ("head", "position", "from_position"):
            number = getattr(self, name)
            if number is not None and (type(number) is not int or number < 0):
                raise InputError(f"{name} is {quoted(number)}; it must be a whole number, counted from 0.")
        if not (isinstance(self.text, str) and self.text.strip()):
            raise InputError("There is no other text; type one.")
        if self.part == "stream" and (self.head is not None or self.site.kind == "cross"):
            problem = f"The stream enters a whole layer, not {self._site_or_head}"
            raise InputError(f"{problem}; give no head, and choose an encoder or decoder layer.")
        if self.from_position is not None and self.position is None:
            raise InputError(f"from_position is {self.from_position}, but position is not given; give both.")
        if self.part == "pattern" and self.from_position not in (None, self.position):
            problem = f"Row {self.from_position} of a pattern cannot replace row {self.position}"
            raise InputError(f"{problem}: each row weighs its own keys. Leave out the position in the other text.")
        if self.part == "pattern" and self.site.kind == "cross" and self.position is not None:
            problem = "Queries and keys of cross-attention are positions of two texts"
            raise InputError(f"{problem}; replace its pattern at all positions, or its output at {self.position}.")

    @classmethod
    def read(cls, text: str) -> "Take":
        """Parse the text that `str` writes, such as ``output-d0.1-The dog sat.``; raise InputError for other texts."""
        pattern = rf"({'|'.join(PARTS)})-([edc])(\d{{1,3}})(?:\.(\d{{1,4}}))?(?:@(\d{{1,6}})(?:\.(\d{{1,6}}))?)?-(.*)"
        match = re.fullmatch(pattern, text, re.ASCII | re.DOTALL)
        if match is None:
            problem = f"{quoted(text[:60])} does not name a part of a run and another text"
            raise InputError(f"{problem}; write it like output-d0.1-The dog sat. or stream-d0@3-The dog sat.")
        part, kind, layer, head, position, from_position, other = match.groups()
        numbers = (None if number is None else int(number) for number in (head, position, from_position))
        return cls(other, part, Site(BY_LETTER[kind], int(layer)), *numbers)

    def __str__(self) -> str:
        head = "" if self.head is None else f".{self.head}"
        positions = "" if self.position is None else f"@{self.position}"
        positions += "" if self.from_position is None else f".{self.from_position}"
        return f"{self.part}-{self.site.kind[0]}{self.site.layer}{head}{positions}-{self.text}"

    @property
    def _site_or_head(self) -> str:
        """Name of the head, or of the site if no head is given."""
        return str(self.site) if self.head is None else self.site.head(self.head)

    def in_words(self) -> str:
        """Describe the part and its source: "values of head 1 of decoder layer 0 from 'The dog sat.'"."""
        is_all_heads = self.head is None and self.part != "stream"
        heads = f"all heads of {self.site}" if is_all_heads else self._site_or_head
        position = "" if self.position is None else f" at position {self.position}"
        source_position = "" if self.from_position in (None, self.position) else f"position {self.from_position} of "
        part = f"input of {heads}" if self.part == "stream" else f"{self.part} of {heads}"
        return f"{part}{position} from {source_position}{quoted(self.text)}"


@dataclass(frozen=True)
class Edits(Scoring):
    """Changes to the original model. Hashable, so it can be a cache key.

    The fields of `Scoring` change the scores: `scale` and `softcap` replace those of the model, and each `bias` is
    added to the model's bias. A bias acts on self-attention only: queries and keys of cross-attention are positions of
    two texts, between which there is no distance.

    Attributes:
        mask: rule that is joined to the built-in mask by "and", at every site.
        mask_cross: whether `mask` also acts on cross-attention.
        heads_off: (site, head) of each head whose output is zeroed (zero ablation); its weights are still shown.
        own_mask: whether the built-in mask (padding, causal) stays. If not, `mask` alone acts.
        taken: parts that are replaced by parts of other texts' runs, in this order. Their tensors are in `Resolved`.
        scored_site: the only site at which scale, softcap and temperature change; None for every site.
    """

    mask: Mask | None = None
    heads_off: frozenset[tuple[Site, int]] = frozenset()
    own_mask: bool = True
    mask_cross: bool = True
    taken: tuple[Take, ...] = ()
    scored_site: Site | None = None

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "heads_off", frozenset(self.heads_off))
        object.__setattr__(self, "taken", tuple(dict.fromkeys(self.taken)))
        if self.scale is None and self.softcap is None and self.temperature == 1:
            object.__setattr__(self, "scored_site", None)
        for take in self.taken:
            if not isinstance(take, Take):
                raise InputError(f"taken holds {quoted(take)}; each item must be a Take.")
        for bias in self.bias:
            if not isinstance(bias, Bias):
                raise InputError(f"The bias holds {quoted(bias)}; each item must be a named bias, such as ALiBi().")
        for site, head in self.heads_off:
            if head < 0:
                raise InputError(f"There is no {site.head(head)}; heads are counted from 0.")

    def at(self, site: Site, original: Scoring) -> Scoring:
        """Return the scoring at a site: the `original` scoring of the model, changed by the edits that act there."""
        edits = self
        if self.scored_site not in (None, site):
            edits = replace(edits, scale=None, softcap=None, temperature=1.0)
        if site.kind == "cross":
            edits = replace(edits, bias=())
        return edits.over(original)

    def mask_at(self, kind: str) -> Mask | None:
        """Return the mask that the edits add to attention of a kind; None if they add none."""
        return None if kind == "cross" and not self.mask_cross else self.mask

    def off(self, site: Site) -> frozenset[int]:
        """List the heads of a site that are off in all sentences."""
        return frozenset(head for head_site, head in self.heads_off if head_site == site)

    def off_alone(self, site: Site) -> tuple[frozenset[int], ...]:
        """List the heads of a site that are off per sentence: none here, as only `Resolved` distinguishes sentences."""
        return ()

    def with_heads_off(self, site: Site, heads: set[int] | frozenset[int]) -> "Edits":
        """Return edits with exactly these heads off at the site; other sites stay as they are."""
        others = {(other, head) for other, head in self.heads_off if other != site}
        return replace(self, heads_off=frozenset(others | {(site, head) for head in heads}))

    def in_words(self) -> tuple[str, ...]:
        """Describe each change in one phrase; empty if nothing is changed."""
        phrases = [] if self.own_mask else ["built-in mask off"]
        if self.mask is not None:
            phrases.append(f"mask: {self.mask}{'' if self.mask_cross else ', on self-attention alone'}")
        phrases += [f"{site.head(head)} off" for site, head in sorted(self.heads_off)]
        phrases += [take.in_words() for take in self.taken]
        scope = "" if self.scored_site is None else f" in {self.scored_site}"
        for setting, value in self.phrases():
            acts_everywhere = setting in ("bias", "empty rows")
            phrases.append(f"{setting}: {value}" if acts_everywhere else f"{setting} {value}{scope}")
        return tuple(phrases)

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the changes, for programs that read the output of the command line."""
        data: dict[str, Any] = {} if self.mask is None else {"mask": self.mask.text}
        for name in ("own_mask", "mask_cross"):
            if not getattr(self, name):
                data[name] = False
        if self.heads_off:
            data["heads_off"] = [[site.kind, site.layer, head] for site, head in sorted(self.heads_off)]
        if self.scored_site:
            data["scored_site"] = [self.scored_site.kind, self.scored_site.layer]
        if self.taken:
            data["taken"] = [str(take) for take in self.taken]
        data |= self.changed()
        if self.bias:
            data["bias"] = [bias.to_json() for bias in self.bias]
        return data


@dataclass(frozen=True, eq=False)
class Donor:
    """Tensors from the run of another text, and the place where they are inserted.

    Attributes:
        take: description of the part that is replaced.
        tensors: tensors of D texts by name: "query", "key", "value" and "output", (D, H, n, d), "stream",
            (D, n, d_model), or "row", (D, H, 1, K), the scores of one query before the mask.
        rows: sentences of the batch into which the tensors are inserted. For more than D sentences, the texts repeat.
    """

    take: Take
    tensors: Mapping[str, Tensor]
    rows: slice = field(default_factory=lambda: slice(None))

    def put(self, name: str, tensor: Tensor) -> Tensor:
        """Return a copy of the run's tensor `name`, (B, H, n, d), with the values of the other text inserted.

        The "stream", (B, n, d_model), has no heads. If the donor has no such tensor, `tensor` itself is returned.
        """
        if name not in self.tensors:
            return tensor
        new_values, take = self.tensors[name].to(tensor), self.take
        source = target = slice(new_values.shape[-2])
        if take.position is not None:
            first = take.position if take.from_position is None else take.from_position
            source, target = slice(first, first + 1), slice(take.position, take.position + 1)
        heads = [self.heads] if tensor.dim() == 4 else []  # index of the head axis; the stream has none
        tensor = tensor.clone()
        replaced = tensor[(self.rows, *heads, target)]  # a view
        new_values = new_values[(slice(None), *heads, source)]
        num_repeats = len(replaced) // len(new_values)  # the texts repeat over the batch
        replaced.copy_(torch.cat([new_values] * num_repeats))
        return tensor

    @property
    def heads(self) -> slice:
        """The heads whose values are replaced."""
        return slice(None) if self.take.head is None else slice(self.take.head, self.take.head + 1)


@dataclass(frozen=True)
class Resolved(Edits):
    """Edits with tensors from other texts, or with heads that are off per sentence. A link cannot hold them.

    Attributes:
        donors: tensors for each entry of `taken`, and for single sentences of the batch.
        entered: sites whose steps record the input of the whole layer.
        each_off: heads that are off per sentence of the batch, in addition to the heads that are off in all sentences:
            one run over copies of a sentence measures the effect of each head.
    """

    donors: tuple[Donor, ...] = field(default=(), repr=False)
    entered: frozenset[Site] = frozenset()
    each_off: tuple[frozenset[tuple[Site, int]], ...] = ()

    def off_alone(self, site: Site) -> tuple[frozenset[int], ...]:
        """List the heads of a site that are off per sentence, from `each_off`."""
        return tuple(frozenset(head for head_site, head in off if head_site == site) for off in self.each_off)


def donors(edits: Edits, site: Site) -> list[Donor]:
    """List the tensors from other texts that the edits insert at a site; raise InputError if they were not computed."""
    tensors = edits.donors if isinstance(edits, Resolved) else ()
    if edits.taken and not tensors:
        raise InputError(NOT_TAKEN)
    return [donor for donor in tensors if donor.take.site == site]


def with_score_rows(site_donors: list[Donor], query: Tensor, key: Tensor, scoring: Scoring) -> Scoring:
    """Add a bias that replaces the scores of single queries by the scores from another text, before the mask.

    The bias is the "row" of a donor minus the scores of this run.
    """
    row_donors = [donor for donor in site_donors if "row" in donor.tensors]
    if not row_donors:
        return scoring
    dtype = torch.promote_types(query.dtype, torch.float32)
    bias = query.new_zeros(*query.shape[:3], key.shape[2], dtype=dtype)
    for donor in row_donors:
        scores, position = donor.tensors["row"], donor.take.position
        area = Area(donor.rows, donor.heads, slice(position, position + 1), slice(scores.shape[-1]))
        own_scores = scoring.scores(query, key, area)
        scores = scores[:, donor.heads].to(own_scores)
        scores = scores.repeat(len(own_scores) // len(scores), 1, 1, 1)  # the texts repeat over the batch
        bias[area] = (scores - own_scores) * scoring.temperature  # a bias is divided by the temperature
    return replace(scoring, bias=(*scoring.bias, bias))


def input_sites(edits: Edits) -> frozenset[Site]:
    """List the sites of layers whose input a run must record, or replace by another text's input."""
    if not isinstance(edits, Resolved):
        return frozenset()
    return edits.entered | {donor.take.site for donor in edits.donors if "stream" in donor.tensors}


def overlay(output: Tensor, taken: Tensor | None) -> Tensor:
    """Replace the output per head by `taken` wherever `taken` is not NaN."""
    return output if taken is None else torch.where(taken.isnan(), output, taken)
