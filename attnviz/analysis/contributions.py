"""Direct contributions of each part of a model to a word's logit, and logit differences carried by each head.

With the divisor of the last norm fixed to its value in this run, the norm is linear, so the logit is a sum over all
vectors added to the residual stream: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits";
nostalgebraist 2020, "interpreting GPT: the logit lens".
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnviz.analysis.predictions import position_of, predicting
from attnviz.core.amounts import in_cell, percent
from attnviz.core.display import visible_text
from attnviz.core.edits import Site
from attnviz.core.errors import InputError, did_you_mean, quoted
from attnviz.core.record import Record
from attnviz.core.stream import Stream, StreamParts

HEAD = ["kind", "layer", "head"]
"""Columns of a table that identify a head."""
BIAS = "bias of values"
"""Name of the part of a head's output that comes from its bias; see `contributions`."""


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions of all parts of a model to a word's logit, or to the difference of two words' logits.

    Attributes:
        table: a row per part: part ("head", "feed-forward", ...), kind, layer, head (for heads only), contribution.
        logit: the logit of the model, or the difference of both logits.
        residual: the logit minus the sum of the contributions: a rounding error.
        position, sentence: position after which the word is predicted, and index in the batch.
        token, minus: the word, and the second word of a difference or None.
    """

    table: pd.DataFrame
    logit: float
    residual: float
    position: int
    sentence: int
    token: str
    minus: str | None = None

    @property
    def heads(self) -> pd.DataFrame:
        """Rows of the heads, the largest contribution first."""
        heads = self.table[self.table["part"] == "head"].astype({"layer": int, "head": int})
        return heads.sort_values("contribution", ascending=False, kind="stable", ignore_index=True)

    @property
    def names(self) -> list[str]:
        """Names of the parts, one per row: "head 0 of decoder layer 1", "feed-forward, layer 1"."""
        names = []
        for part, kind, layer, head in self.table[["part", *HEAD]].itertuples(index=False):
            if pd.notna(head):
                head_name = Site(kind, layer).head(head)
                names.append(head_name if part == "head" else f"{part}, {head_name}")
                continue
            place = [kind] if pd.notna(kind) else []
            place += [f"layer {layer}"] if pd.notna(layer) else []
            names.append(f"{part}, {' '.join(place)}" if place else part)
        return names

    def with_falls(self, falls: pd.DataFrame | None) -> pd.DataFrame:
        """Return the table with the column "fall" of `logit_falls`: fall of the logit with each head off, else NaN."""
        if falls is None:
            return self.table.assign(fall=float("nan"))
        table = self.table.merge(falls[[*HEAD, "fall"]], "left", on=HEAD)
        return table.assign(fall=table["fall"].where(table["part"] == "head"))

    @property
    def strongest_head(self) -> tuple[Site, int] | None:
        """Head with the largest contribution; None if no contribution is positive."""
        if self.heads.empty or not self.heads["contribution"][0] > 0:
            return None
        kind, layer, head = self.heads[HEAD].iloc[0]
        return Site(kind, int(layer)), int(head)

    @property
    def quoted_words(self) -> str:
        """The word in quotes, or both words of a difference: “it” − “she”."""
        return " − ".join(f"“{visible_text(word)}”" for word in (self.token, self.minus) if word is not None)

    def in_words(self, falls: pd.DataFrame | None = None) -> str:
        """Describe the head with the largest contribution and, given `logit_falls`, how far other parts replace it."""
        quantity, logit = "logit" if self.minus is None else "difference", in_cell(self.logit)
        if self.strongest_head is None:
            return f"No head adds to {self.quoted_words} directly; its {quantity} is {logit}."
        (site, head), adds = self.strongest_head, in_cell(self.heads["contribution"][0])
        sentence = f"{site.head(head).capitalize()} adds most to {self.quoted_words}: {adds} of the {quantity} {logit}."
        if falls is None:
            return sentence
        name = (site.kind, site.layer, head)
        by_head = self.table.dropna(subset=HEAD).groupby(HEAD)["contribution"].sum()
        added = float(by_head[name])  # including the head's value bias
        fall = float(falls.set_index(HEAD)["fall"][name])
        share, falls_by = fall / added, f"With this head off, the {quantity} falls by {in_cell(fall)}"
        step = falls.attrs.get("step")
        steps = f" Logits of this model come in steps of {step:.2g}: it computes in half precision." if step else ""
        if fall <= 0:
            rises = f"With this head off, the {quantity} does not fall (it rises by {in_cell(-fall)})"
            return f"{sentence} {rises}: other parts make up for all of it.{steps}"
        if share > 1.1:
            return f"{sentence} {falls_by}, more than the head adds: later parts also use its output.{steps}"
        if share >= 0.9:
            return f"{sentence} {falls_by}, about as much as the head adds: nothing replaces it.{steps}"
        return f"{sentence} {falls_by}: other parts make up for {percent(1 - share, 0)} of what the head adds.{steps}"

    @property
    def summary(self) -> pd.DataFrame:
        """Table "part" and "contribution" with sums: one row for the heads of each layer, and one for all biases."""
        names = []
        for part, layer in self.table[["part", "layer"]].itertuples(index=False):
            names_in_layer = {"head": f"heads of layer {layer}", "feed-forward": f"feed-forward layer {layer}"}
            names_in_layer["layer without attention"] = f"layer {layer}, no attention"
            names.append("biases" if part.startswith("bias") else names_in_layer.get(part, part))
        sums = self.table["contribution"].groupby(np.array(names, object), sort=False).sum()
        last = [name for name in ("biases", "softcap") if name in sums]
        order = [name for name in sums.index if name not in last] + last
        return sums[order].rename_axis("part").reset_index()


def contributions(
    record: Record,
    token: str | int | None = None,
    position: int = -1,
    *,
    minus: str | int | None = None,
    sentence: int = 0,
) -> Contributions:
    """Split the logit of a word after a position into a sum of contributions, one for each head and other part.

    The "bias of values" of a head, (b_V + b_norm W_V) W_O, is the same for all attended tokens, so it has its own row.

    Args:
        record: result of a run with `stream=True`, see `attnviz.analyze`.
        token: the word, or its id; by default the most probable one.
        position: position after which the word is predicted; negative ones count from the end.
        minus: a second word, for contributions to the difference of both logits.

    Raises:
        InputError: if the record has no stream, its parts are not known, or there is no such word or position.
    """
    stream, prediction = parts_of(record), predicting(record)
    position, first, second = position_and_ids(record, token, position, minus=minus, sentence=sentence)
    readout, final = stream.weights.readout, stream.final[sentence, position]
    direction = _minus(readout.unembedding.weight.mT, first, second)  # (d_model,)

    def contribution(vector: Tensor) -> float:
        """Compute the contribution of a vector in the stream, (d_model,), to the logit."""
        normed = vector if readout.norm is None else readout.norm.normalize_part(vector, final)
        return float((normed.double() @ direction.double()) * readout.factor)

    rows: list[tuple] = [("embedding", None, None, None, contribution(stream.embedding[sentence, position]))]
    if stream.position is not None:
        rows.append(("position", None, None, None, contribution(stream.position[sentence, position])))
    for layer in sorted({*stream.feed_forward, *(site.layer for site in stream.weights.sites)}):
        sites = [site for site in stream.weights.sites if site.layer == layer]
        for site in sites:
            vectors, from_bias, bias = written_by_heads(record, site, slice(position, position + 1), sentence=sentence)
            parts = {"head": vectors} if from_bias is None else {"head": vectors - from_bias, BIAS: from_bias}
            for part, part_of_heads in parts.items():  # (H, 1, d_model)
                rows += [(part, site.kind, layer, head, contribution(v[0])) for head, v in enumerate(part_of_heads)]
            if bias is not None:
                rows.append(("bias of W_O", site.kind, layer, None, contribution(bias[0])))
        if layer in stream.feed_forward:
            name = "feed-forward" if sites else "layer without attention"
            rows.append((name, None, layer, None, contribution(stream.feed_forward[layer][sentence, position])))
    biases = []
    if readout.norm is not None and readout.norm.bias is not None:
        biases.append(float(readout.norm.bias.double() @ direction.double()))
    if readout.unembedding.bias is not None:
        biases.append(float(_minus(readout.unembedding.bias.double(), first, second)))
    if biases:
        rows.append(("bias of the unembedding", None, None, None, sum(biases) * readout.factor))
    logit = float(logit_of(record, sentence, position, first, second))
    if readout.softcap is not None:
        before_softcap = float(_minus(readout.unbounded(final).double(), first, second))
        rows.append(("softcap", None, None, None, logit - before_softcap))
    table = pd.DataFrame(rows, columns=["part", "kind", "layer", "head", "contribution"])
    table = table.astype({"layer": "Int64", "head": "Int64"})
    words = [None if id is None else prediction.vocabulary[id] for id in (first, second)]
    return Contributions(table, logit, logit - float(table["contribution"].sum()), position, sentence, *words)


def position_and_ids(
    record: Record, token: str | int | None, position: int, *, minus: str | int | None = None, sentence: int = 0
) -> tuple[int, int, int | None]:
    """Return the position counted from 0, the id of `token` (None: the most probable word), and the id of `minus`."""
    position, vocabulary = position_of(record, position, sentence=sentence), predicting(record).vocabulary
    logits = predicting(record).logits[sentence, position]
    first = int(logits.argmax()) if token is None else id_of(record, token)
    second = None if minus is None else id_of(record, minus)
    for id in (first, second):
        if id is not None and not logits[id].isfinite():
            value = f"The logit of {quoted(vocabulary[id])} at position {position} is {float(logits[id])}"
            raise InputError(f"{value}; choose another word.")
    return position, first, second


def logit_of(record: Record, rows: int | list[int], position: int, first: int, second: int | None) -> Tensor:
    """Return the logit of a word (minus that of a second word, if any) at a position, for texts `rows` of the batch."""
    return _minus(predicting(record).logits[rows, position].double(), first, second)


def _minus(numbers: Tensor, first: int, second: int | None) -> Tensor:
    """Return the entry of a word in a tensor, (..., words), minus the entry of a second word unless it is None."""
    return numbers[..., first] if second is None else numbers[..., first] - numbers[..., second]


def stream_of(record: Record) -> Stream:
    """Return the residual stream of a record, or raise InputError if the run did not keep one."""
    if record.stream is None:
        raise InputError("This record has no residual stream. Make it with attnviz.analyze(text, source, stream=True).")
    return record.stream


def parts_of(record: Record) -> StreamParts:
    """Return what each part of the model adds to the residual stream, or raise InputError if that is not known."""
    stream = stream_of(record)
    if stream.parts is None:
        raise InputError(stream.why_no_parts)
    return stream.parts


def id_of(record: Record, token: str | int) -> int:
    """Look up the id of a word in the vocabulary, where it may have a space before it.

    Raises:
        InputError: if there is no such word or id; the message names words with a similar spelling.
    """
    vocabulary = predicting(record).vocabulary
    if isinstance(token, int):
        if not 0 <= token < len(vocabulary):
            raise InputError(f"There is no word with the id {token}; there are {len(vocabulary):,}, counted from 0.")
        return token
    words = [*vocabulary]
    for word in (token, f" {token}"):
        if word in words:
            return words.index(word)
    hint = did_you_mean(token, {word.strip() for word in words})
    raise InputError(f"'{record.source}' has no token {quoted(token)}.{hint}")


def written_by_heads(
    record: Record, site: Site, rows: slice, *, sentence: int = 0
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute the vectors that the heads of a site write into the residual stream at a slice of n positions.

    Returns:
        The vectors of the heads, (H, n, d_model); the part of these vectors from the value bias, with the same shape;
        and the bias of W_O, (n, d_model), or one row if it is the same at all positions. A missing bias is None.
    """
    step, projections = record.step(site), parts_of(record).weights.sites[site]
    heads, keys = range(step.num_heads), slice(step.shape[3] - step.has_sink)  # a sink has no value
    weight = projections.w_o.weight.unflatten(1, (step.num_heads, -1))  # (d_model, H, d_v)
    outputs = torch.stack([step.output(head, rows, sentence=sentence) for head in heads]).to(weight.dtype)
    vectors, from_bias = torch.einsum("hnd,mhd->hnm", outputs, weight), None
    if projections.value_bias is not None:
        row_sums = torch.stack([step.weights(head, rows, keys, sentence=sentence).sum(-1) for head in heads])
        is_on = torch.tensor([not step.is_off(head, sentence=sentence) for head in heads])
        row_sums = row_sums.to(weight.dtype) * is_on[:, None]
        value_bias = projections.value_bias.unflatten(0, (len(heads), -1))  # (H, d_v)
        from_bias = torch.einsum("hn,hd,mhd->hnm", row_sums, value_bias, weight)
    bias, norm = projections.w_o.bias, projections.after
    bias = None if bias is None else bias.unsqueeze(0)
    if norm is not None:  # a norm after W_O, with the divisor of this run
        norm_input = vectors.sum(0) if bias is None else vectors.sum(0) + bias
        vectors, from_bias, bias = (
            None if part is None else norm.normalize_part(part, norm_input) for part in (vectors, from_bias, bias)
        )
        if norm.bias is not None:
            bias = norm.bias.unsqueeze(0) if bias is None else bias + norm.bias
    return tuple(None if part is None else part * projections.factor for part in (vectors, from_bias, bias))


@dataclass(frozen=True, eq=False)
class Carried:
    """Result of `ablation.carried`: logit difference of two words in text A, with one head at a time patched from B.

    Attributes:
        texts, part: texts A and B, and the part of a head that is patched: "output", "pattern" or "values".
        position: position after which the words are predicted, or position of a blank.
        words: the word of A and the word of B; the difference is the logit of the first minus that of the second.
        same_prediction: whether A and B predict the same word; `words` are then those whose logits change most.
        before, other: logit difference in A, and logit difference in B.
        table: a row per head: site, kind, layer, head, difference (with the head patched) and carried, which is
            (difference - before) / (other - before): 0 as in A, 1 as in B; less than 0 or more than 1 is possible.
    """

    texts: tuple[str, str]
    part: str
    position: int
    words: tuple[str, str]
    same_prediction: bool
    before: float
    other: float
    table: pd.DataFrame

    @property
    def strongest(self) -> tuple[Site, int]:
        """Head that carries the largest share of the difference."""
        row = self.table.loc[self.table["carried"].idxmax()]
        return Site(row["kind"], int(row["layer"])), int(row["head"])

    def in_words(self) -> str:
        """Describe the two words, their logit differences in A and B, and the head that carries the largest share."""
        first, second = (f"“{visible_text(word)}”" for word in self.words)
        (site, head), share = self.strongest, self.table["carried"].max()
        difference = f"Logit of {first} minus logit of {second} after position {self.position}"
        text = f"{difference}: {in_cell(self.before)} in A and {in_cell(self.other)} in B."
        if self.same_prediction:
            text += " A and B predict the same word, so these are the two whose logits change most."
        carries = f"{site.head(head).capitalize()} carries the largest share of the way from A to B"
        return f"{text} {carries} by its {self.part} alone: {share:.0%}."
