"""Attribution of a word's logit by gradients: attention relevance by layer, and integrated gradients.

Attention relevance, Chefer, Gur and Wolf 2021, "Generic Attention-model Explainability for Interpreting Bi-Modal and
Encoder-Decoder Transformers". With ∇A = ∂ logit / ∂ A and the mean over heads E_h:

    Ā = E_h max(∇A ⊙ A, 0)                                          equation (5), of one attention call
    R = 1,  R ← R + Ā R                                             (6), from layer to layer of one stack
    R_ti ← R_ti + Ā R_ti                                            (7), a decoder's self-attention, R_ti = 0 at first
    R_ti ← R_ti + N(R_tt)ᵀ Ā N(R_ii)                                (10), its cross-attention
    N(R) = (R - 1) with each row divided by its sum, + 1            (8), (9); rows of zeros stay zero

Integrated gradients, Sundararajan, Taly and Yan 2017, "Axiomatic Attribution for Deep Networks".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import torch
from torch import Tensor

from attnviz.core.edits import Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Record
from attnviz.core.tokens import Token


@dataclass(frozen=True, eq=False, kw_only=True)
class WordLogit:
    """The logit of a predicted word, whose gradients explain the prediction.

    Attributes:
        token, id: the word, and its id in the vocabulary.
        position, sentence, logit: position of the prediction, index in the batch, and the model's logit.
        texts: tokens of each input text of the model, by "encoder" or "decoder"; see `texts_of`.
    """

    token: str
    id: int
    position: int
    sentence: int
    logit: float
    texts: Mapping[str, tuple[Token, ...]]


def texts_of(record: Record, sentence: int) -> dict[str, tuple[Token, ...]]:
    """Return the tokens of the texts that the encoder and the decoder of a model read, without padding, by its kind."""
    texts = {record.sites[-1].kind: record.sentences[sentence]}
    if record.targets:
        texts = {"encoder": record.sentences[sentence], "decoder": record.targets[sentence]}
    return {kind: text.tokens[: text.length] for kind, text in texts.items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class Relevance(WordLogit):
    """Gradient times weight for every head, and the resulting relevance of each token, layer by layer.

    Attributes:
        products: ∇A ⊙ A of each site, (H, Q, K), without padding; the numbers have signs, and a sink is the last key.
        unseen: sentence about attention calls that were not captured and are missing from `products`, or None.
    """

    products: Mapping[Site, Tensor]
    unseen: str | None = None

    def head(self, site: Site, head: int | str, *, signed: bool = False) -> Tensor:
        """Return gradient times weight of a head, or the "mean" (Ā), (Q, K); negatives are 0 unless `signed`."""
        if site not in self.products:
            raise InputError(f"There is no {site}. Available: {', '.join(map(str, self.products))}.")
        heads = self.products[site] if signed else self.products[site].clamp(min=0)
        if head == "mean":
            return heads.mean(0)
        if type(head) is not int or not 0 <= head < len(heads):
            raise InputError(f"There is no head {quoted(head)} of {site}; there are {len(heads)}, counted from 0.")
        return heads[head]

    @cached_property
    def layers(self) -> dict[int, dict[str, Tensor]]:
        """Relevance of each token, (n,), after each layer of the stack that predicts, by "encoder" or "decoder"."""
        if self.unseen:
            raise InputError(f"Relevance goes through all layers, but some layers are not shown here. {self.unseen}")
        relevance = through_layers({site: self.head(site, "mean").double() for site in self.products})
        return {layer: {kind: r[self.position] for kind, r in texts.items()} for layer, texts in relevance.items()}

    @cached_property
    def table(self) -> pd.DataFrame:
        """Table with a row per layer and token: layer, kind, position, token and relevance."""
        rows = [
            (layer, kind, i, token.text, float(values[i]))
            for layer, stacks in self.layers.items()
            for kind, values in stacks.items()
            for i, token in enumerate(self.texts[kind])
        ]
        return pd.DataFrame(rows, columns=["layer", "kind", "position", "token", "relevance"])


def through_layers(maps: Mapping[Site, Tensor]) -> dict[int, dict[str, Tensor]]:
    """Compute R after each layer of the stack that predicts, with the equations above.

    Each R has a row per position of this stack; its columns are the tokens of "encoder" or "decoder".

    Args:
        maps: Ā of each site, (Q, K); in self-attention, a last key beyond the queries is a sink and is left out.
    """
    sites = sorted(maps, key=lambda site: (site.layer, site.kind == "cross"))
    kinds = {site.kind for site in sites}
    last = "decoder" if "decoder" in kinds else "encoder"
    r_ii = None  # encoder tokens in encoder positions, only below a decoder
    for site in sites:
        if last == "decoder" and site.kind == "encoder":
            self_attention = maps[site][:, : len(maps[site])]
            r_ii = torch.eye(len(self_attention), dtype=self_attention.dtype) if r_ii is None else r_ii
            r_ii = r_ii + self_attention @ r_ii
    result: dict[int, dict[str, Tensor]] = {}
    r_tt = r_ti = None  # own tokens, and encoder tokens, in the positions of the last stack
    for site in (site for site in sites if site.kind in (last, "cross")):
        if site.kind == "cross":
            r_ti = r_ti + _normalize(r_tt).mT @ maps[site] @ _normalize(r_ii)
        else:
            self_attention = maps[site][:, : len(maps[site])]
            r_tt = torch.eye(len(self_attention), dtype=self_attention.dtype) if r_tt is None else r_tt
            if r_ti is None and "cross" in kinds:
                r_ti = self_attention.new_zeros(len(self_attention), len(r_ii))
            r_tt = r_tt + self_attention @ r_tt
            r_ti = None if r_ti is None else r_ti + self_attention @ r_ti
        result[site.layer] = {last: r_tt} if r_ti is None else {last: r_tt, "encoder": r_ti}
    return result


def _normalize(relevance: Tensor) -> Tensor:
    """Divide each row of R - 1 by its sum (rows of zeros stay zero) and add 1: N(R) of equations (8) and (9)."""
    identity = torch.eye(len(relevance), dtype=relevance.dtype)
    added = relevance - identity
    sums = added.sum(-1, keepdim=True)
    return added / sums.where(sums != 0, 1) + identity


@dataclass(frozen=True, eq=False, kw_only=True)
class IntegratedGradients(WordLogit):
    """Attribution of a logit to the embedding of each token, integrated from zero vectors to the embeddings.

    Attributes:
        steps: number of integration points.
        baseline: logit with all embeddings of the sentence set to zero.
        attributions: attribution of each token, (n,) float64, in the text of the "encoder" and of the "decoder".
    """

    steps: int
    baseline: float
    attributions: Mapping[str, Tensor]

    @property
    def gap(self) -> float:
        """Completeness gap: the sum of all attributions minus (logit - baseline); 0 for an exact integral."""
        return float(sum(values.sum() for values in self.attributions.values())) - (self.logit - self.baseline)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Table with a row per token: kind, position, token and attribution."""
        rows = [
            (kind, i, token.text, float(self.attributions[kind][i]))
            for kind, tokens in self.texts.items()
            for i, token in enumerate(tokens)
        ]
        return pd.DataFrame(rows, columns=["kind", "position", "token", "attribution"])
