"""Circuits of the weights, without a text: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".

Rows are vectors: a head adds A x W_V W_O to the stream x, and its scores are x W_Q W_Kᵀ xᵀ · scale. W_E has a row for
each token, W_U a column. Matrices of vocabulary x vocabulary are never formed: AB and BA have the same non-zero
eigenvalues, so W_E W_V W_O W_U has the eigenvalues of the (d_v, d_v) matrix W_O (W_U W_E) W_V.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnviz.core.attention import attend
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent
from attnviz.core.progress import tell
from attnviz.core.scoring import Scoring
from attnviz.core.stream import ModelWeights, Norm, Projections

KINDS = ("q", "k", "v")
"""Inputs of a later head that an earlier head can change: queries, keys or values."""
HEAD = ("kind", "layer", "head")
"""Columns that identify a head."""
NUMBERS = ("copying", "previous_token", "induction", "eigenvalue")
"""Columns with the scores of a head."""
LACKING = {
    "copying": "No copying score and no eigenvalues: W_V is not a plain projection of the input of its layer, no "
    "head writes into the stream that the unembedding reads, or the embeddings are not a table.",
    "previous_token": "No previous-token score: the model adds no position vectors (for example, its positions are "
    "rotary), and no published score measures other positions by the weights alone.",
    "induction": "No induction score: no keys read what an earlier head writes, queries and keys are more than a "
    "projection, or the embeddings are not a table.",
    "composition": "No composition scores: there is one layer, or queries, keys and values are more than a projection "
    "of the stream.",
}
"""Sentence for each number that is missing for all heads, with the possible reasons."""
ROWS = 4096
"""Rows of the vocabulary per matrix product."""
POSITIONS = 1024
"""Maximum number of position vectors used for `previous_token`."""


@dataclass(frozen=True, eq=False)
class Circuits:
    """Scores of every head, and of every pair of an earlier and a later head; `circuits` defines them.

    Attributes:
        heads: a row per head: kind, layer, head, copying, previous_token, induction, eigenvalue (real part of the
            largest eigenvalue of its OV circuit), through (earlier head of the induction score: "decoder 0.0").
        eigenvalues: a row per eigenvalue of an OV circuit: kind, layer, head, real, imaginary; the largest first.
        composition: a row per pair: kind, layer, head, then later_layer, later_head, and the q, k and v scores.
        left_out: sites of cross-attention, whose keys come from another text.
    """

    heads: pd.DataFrame
    eigenvalues: pd.DataFrame
    composition: pd.DataFrame
    left_out: tuple[Site, ...] = ()

    @property
    def lacking(self) -> tuple[str, ...]:
        """Sentences with the reasons why numbers are missing for all heads."""
        columns = {name: self.heads[name] for name in LACKING if name in self.heads}
        columns["composition"] = self.composition[[*KINDS]].stack()
        return tuple(LACKING[name] for name, numbers in columns.items() if numbers.isna().all())

    def matrix(self, kind: str) -> np.ndarray:
        """Return the "q", "k" or "v" composition scores of earlier heads (rows) with later ones (columns), else NaN."""
        if kind not in KINDS:
            raise InputError(f"There is no composition {kind!r}. Available: {', '.join(KINDS)}.")
        heads = pd.MultiIndex.from_frame(self.heads[["layer", "head"]])
        earlier = heads.get_indexer(pd.MultiIndex.from_frame(self.composition[["layer", "head"]]))
        later = heads.get_indexer(pd.MultiIndex.from_frame(self.composition[["later_layer", "later_head"]]))
        matrix = np.full((len(heads), len(heads)), np.nan)
        matrix[earlier, later] = self.composition[kind]
        return matrix


def circuits(weights: ModelWeights, *, fold_norms: bool = True) -> Circuits:
    """Compute four scores for all heads of self-attention, from the weights of the model alone, without a text.

    - copying: Σλ / Σ|λ| of the eigenvalues λ of W_E W_V W_O W_U. At 1 a token that is attended to raises its own
      logit, at -1 it lowers it. Without an unembedding W_U is W_Eᵀ.
    - previous_token: mean weight on the previous position, over all rows but the first. Queries and keys are made from
      the learned position vectors alone, with the model's scale and without its windows; a decoder has a causal mask.
    - induction: Σλ / Σ|λ| of W_E W_Q W_Kᵀ (W_V W_O of an earlier head)ᵀ W_Eᵀ, for the earlier head with the largest
      K-composition. At 1 a query matches keys that attended to the query's token in the earlier head.
    - composition, for q, k and v: ‖W_V W_O M‖ / (‖W_V W_O‖ ‖M‖), Frobenius norms; M = W_Q W_Kᵀ, W_K W_Qᵀ, W_V W_O.

    M is a matrix of the later head. Biases are used for previous_token alone, rotary queries and keys at distance 0. A
    number is missing if its weights are unknown or no later part reads the output of the head, and previous_token also
    if the model has no learned position vectors: there is no published measure for rotary weights.

    Args:
        fold_norms: whether to multiply the weights by the gain and centering of norms: W_Q, W_K and W_V by the norm
            before the layer, W_U by the last norm, W_O by a norm after it. A norm's divisor depends on the text, so it
            is left out. For `previous_token` the norm is applied to the position vectors.

    Raises:
        InputError: if the model has no self-attention, or embedding and unembedding have different vocabularies.
    """
    all_projections = {site: projections for site, projections in weights.sites.items() if site.kind != "cross"}
    if not all_projections:
        raise InputError("This model has no self-attention whose weights are known, so there are no circuits.")
    sites = {site: _heads(p, weights.num_heads[site], fold_norms) for site, p in all_projections.items()}
    composition = _composition(sites)
    words_product = None if weights.embedding is None else _product(weights.embedding, weights.embedding)  # W_Eᵀ W_E
    through_words = words_product  # W_U W_E, (d_model, d_model)
    if words_product is not None and weights.readout is not None:
        unembedding, embedding, norm = weights.readout.unembedding.weight, weights.embedding, weights.readout.norm
        if len(unembedding) != len(embedding):
            sizes = f"The embedding has {len(embedding):,} words, and the unembedding {len(unembedding):,}"
            raise InputError(f"{sizes}; copying is from words to the same words, so both must be of one vocabulary.")
        is_tied = unembedding.data_ptr() == embedding.data_ptr() and unembedding.shape == embedding.shape
        product = words_product if is_tied else _product(embedding, unembedding)
        through_words = _fold_norm(norm if fold_norms else None, product).mT * weights.readout.factor
    rows, eigenvalues = [], []
    for site, heads in sites.items():
        num_heads = weights.num_heads[site]
        ov_values = torch.zeros(num_heads, 0, dtype=torch.complex128)  # eigenvalues of the OV circuit of each head
        if heads.value is not None and through_words is not None:
            ov_values = torch.linalg.eigvals(heads.output @ through_words @ heads.value)  # (H, d_v)
        copying, previous = _positivity(ov_values), _previous_token(all_projections[site], weights, site, fold_norms)
        pairs = composition[composition["later_layer"] == site.layer]
        for head in range(num_heads):
            sorted_values = sorted(ov_values[head].tolist(), key=abs, reverse=True)
            eigenvalues += [(site.kind, site.layer, head, value.real, value.imag) for value in sorted_values]
            induction, through = np.nan, None
            k_scores = pairs[pairs["later_head"] == head]["k"].dropna().astype(float)
            if k_scores.max() > 0:
                strongest = composition.loc[k_scores.idxmax()]
                earlier_site, earlier_head = Site(site.kind, int(strongest["layer"])), int(strongest["head"])
                through = earlier_site.brief(earlier_head)
                if words_product is not None:
                    earlier = sites[earlier_site]
                    value, output = earlier.value[earlier_head], earlier.output[earlier_head]
                    product = (output @ heads.key[head]).mT @ (value.mT @ words_product @ heads.query[head])
                    (induction,) = _positivity(torch.linalg.eigvals(product)[None])
            real = sorted_values[0].real if sorted_values else np.nan
            rows.append((site.kind, site.layer, head, copying[head], previous[head], induction, real, through))
    left_out = tuple(site for site in weights.sites if site not in all_projections)
    table = pd.DataFrame(rows, columns=[*HEAD, *NUMBERS, "through"])
    return Circuits(table, pd.DataFrame(eigenvalues, columns=[*HEAD, "real", "imaginary"]), composition, left_out)


def seconds(weights: ModelWeights) -> float:
    """Estimate the seconds that `circuits` takes, from the number of multiplications in its large matrix products."""
    multiplications = 0 if weights.embedding is None else 2 * weights.embedding.numel() * weights.embedding.shape[1]
    earlier_width = 0  # H · d_v, summed over the earlier layers
    for d_model, width in (p.w_o.weight.shape for site, p in weights.sites.items() if site.kind != "cross"):
        multiplications += 3 * d_model * width * earlier_width  # q, k and v composition
        earlier_width += width
    return multiplications / 2e10  # multiply-adds per second of one core


def bytes_of(weights: ModelWeights) -> int:
    """Estimate the memory of `circuits` in bytes: seven matrices per attention call in double precision."""
    return sum(7 * 8 * projections.w_o.weight.numel() for projections in weights.sites.values())


@dataclass(frozen=True, eq=False)
class _Heads:
    """Weights of the heads of a site, float64: query, key and value (H, d_model, d), output (H, d_v, d_model)."""

    query: Tensor | None
    key: Tensor | None
    value: Tensor | None
    output: Tensor

    @cached_property
    def writes(self) -> Tensor | None:
        """R W_O with R = `_square_root(W_V)`, (H, d_v, d_model), normalized: ‖R W_O M‖ = ‖W_V W_O M‖ for every M."""
        return None if self.value is None else _normalize(_square_root(self.value) @ self.output)

    @cached_property
    def reads(self) -> dict[str, Tensor | None]:
        """Small matrices in place of W_Q W_Kᵀ ("q"), W_K W_Qᵀ ("k") and W_V W_O ("v"), for the same Frobenius norms.

        They are W_Q Rᵀ, W_K Rᵀ and W_V Rᵀ, (H, d_model, d), normalized. For "q", R is `_square_root(W_K)`, and
        ‖X W_Q Rᵀ‖ = ‖X W_Q W_Kᵀ‖ for every X. None if a factor is unknown.
        """
        factors = {"q": (self.query, self.key), "k": (self.key, self.query), "v": (self.value, self.output.mT)}
        matrices = dict.fromkeys(factors)
        for kind, (left, right) in factors.items():
            if left is not None and right is not None:
                matrices[kind] = _normalize(left @ _square_root(right).mT)
        return matrices


def _square_root(matrices: Tensor) -> Tensor:
    """Compute R with Rᵀ R = Mᵀ M for each matrix, (H, d_model, d) -> (H, d, d), so that ‖R X‖ = ‖M X‖."""
    values, vectors = torch.linalg.eigh(matrices.mT @ matrices)
    return values.clamp(min=0).sqrt().unsqueeze(-1) * vectors.mT


def _normalize(matrices: Tensor) -> Tensor:
    """Divide matrices by their Frobenius norms; NaN where the norm is 0."""
    return matrices / torch.linalg.matrix_norm(matrices, keepdim=True)


def _heads(projections: Projections, num_heads: int, fold_norms: bool) -> _Heads:
    """Split the weights of a site into heads; with `fold_norms`, multiply them by the norms around attention."""
    norm_before, norm_after = (projections.before, projections.after) if fold_norms else (None, None)
    output = projections.w_o.weight.double().mT * projections.factor  # (H · d_v, d_model)
    if norm_after is not None:
        output = output - output.mean(-1, keepdim=True) if norm_after.is_centered else output
        output = output if norm_after.weight is None else output * norm_after.weight
    inputs = []  # W_Q, W_K and W_V
    for linear in (projections.w_q, projections.w_k, projections.w_v):
        folded = None if linear is None else _fold_norm(norm_before, linear.weight.double())
        inputs.append(None if folded is None else folded.unflatten(0, (num_heads, -1)).mT)
    return _Heads(*inputs, output.unflatten(0, (num_heads, -1)))


def _fold_norm(norm: Norm | None, weight: Tensor) -> Tensor:
    """Multiply a matrix, (..., d_model), by the gain and centering of the norm whose output it is applied to."""
    if norm is None:
        return weight
    scaled = weight if norm.weight is None else weight * norm.weight
    return scaled - scaled.mean(-1, keepdim=True) if norm.is_centered else scaled


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Compute leftᵀ right, (d_model, d_model), float64, for two matrices (words, d_model), in blocks of words."""
    return sum(a.double().mT @ b.double() for a, b in zip(left.split(ROWS), right.split(ROWS), strict=True))


def _positivity(eigenvalues: Tensor) -> list[float]:
    """Compute Σλ / Σ|λ| for each row of eigenvalues λ: 1 if all are positive, -1 if all negative, NaN if all are 0."""
    return (eigenvalues.sum(-1).real / eigenvalues.abs().sum(-1)).tolist()


def _previous_token(projections: Projections, weights: ModelWeights, site: Site, fold_norms: bool) -> list[float]:
    """Compute the score `previous_token` of each head, see `circuits`; NaN without learned position vectors."""
    num_heads, linears = weights.num_heads[site], (projections.w_q, projections.w_k)
    if None in linears or projections.rotary or weights.positions is None or len(weights.positions) < 2:
        return [np.nan] * num_heads
    x = weights.positions[:POSITIONS]
    x = projections.before(x) if fold_norms and projections.before is not None else x
    query, key = (linear(x).double().unflatten(-1, (num_heads, -1)).transpose(0, 1) for linear in linears)
    mask = None if site.kind == "encoder" else Subsequent()
    scale = query.shape[-1] ** -0.5 if projections.scale is None else projections.scale
    _, logsumexp = attend(query[None], key[None], key[None], mask, Scoring(scale=scale))
    scores = (query[:, 1:] * key[:, :-1]).sum(-1) * scale  # of each position with the previous one
    return (scores - logsumexp[0, :, 1:]).exp().mean(-1).tolist()


def _composition(sites: dict[Site, _Heads]) -> pd.DataFrame:
    """Make the table `Circuits.composition`, with a row per pair of a head and a head of a later layer."""
    tables = []
    for done, (later, later_heads) in enumerate(sites.items()):
        tell(done / len(sites))
        for earlier, earlier_heads in sites.items():
            if earlier.layer >= later.layer:
                continue
            head, later_head = np.indices((len(earlier_heads.output), len(later_heads.output))).reshape(2, -1)
            columns = {"kind": later.kind, "layer": earlier.layer, "head": head, "later_layer": later.layer}
            columns["later_head"] = later_head
            writes = earlier_heads.writes
            for kind, reads in later_heads.reads.items():
                columns[kind] = np.full(len(head), np.nan)
                if writes is not None and reads is not None:  # all products of two heads in one matrix product
                    products = writes.flatten(0, 1) @ reads.transpose(0, 1).flatten(1)  # (H · d_v, H' · d)
                    by_heads = products.unflatten(0, writes.shape[:2]).unflatten(-1, (len(reads), -1))
                    columns[kind] = torch.linalg.matrix_norm(by_heads, dim=(1, 3)).flatten().numpy()
            tables.append(pd.DataFrame(columns))
    columns = [*HEAD, "later_layer", "later_head", *KINDS]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)
