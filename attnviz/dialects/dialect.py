"""Mask conventions of other libraries: each with its tensor, its printout, its code, and what it cannot say."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnviz.core.conventions import to_additive, to_true_is_masked, to_zero_is_masked
from attnviz.core.errors import MaskError, quoted
from attnviz.core.masks import Mask, Subsequent
from attnviz.dialects import code
from attnviz.dialects.printout import printed


def _says_all(mask: Mask, queries: int, keys: int) -> str:
    return ""


@dataclass(frozen=True)
class Dialect:
    """A convention of masks.

    Attributes:
        name: how it is asked for.
        title: the function or library that speaks it.
        says: what its values mean.
        empty_rows: what a query with no key left gets: "zero", "nan" or "uniform", as in `attnviz.core.attention`.
    """

    name: str
    title: str
    says: str
    empty_rows: str
    _tensor: Callable[[Tensor], Tensor] = field(repr=False, compare=False)
    _code: Callable[[Mask, int, int], str] = field(repr=False, compare=False)
    _refuses: Callable[[Mask, int, int], str] = field(default=_says_all, repr=False, compare=False)

    def refuses(self, mask: Mask, queries: int, keys: int) -> str:
        """Why this mask cannot be said in this dialect, as one sentence; empty if it can."""
        return self._refuses(mask, queries, keys)

    def tensor(self, mask: Mask, queries: int, keys: int, *, heads: int = 1) -> Tensor | None:
        """The mask as this dialect holds it, or None if it cannot say it.

        Args:
            heads: of the module that takes it; only `nn.MultiheadAttention` wants to know.

        Returns:
            (Q, K), or (B, 1, Q, K) if it differs between sentences; (B · heads, Q, K) for `attn_mask` of
            `nn.MultiheadAttention`; (B, K) where it says padding, with B = 1 if all sentences are alike.
        """
        if self.refuses(mask, queries, keys):
            return None
        ours = mask.tensor(queries, keys)
        if self.name == "key_padding_mask" or (self.name == "huggingface" and code.padding_only(mask, queries, keys)):
            return to_zero_is_masked(ours[:, 0, 0]) if self.name == "huggingface" else self._tensor(ours[:, 0, 0])
        if self.name == "attn_mask" and mask.batch_size:
            return self._tensor(ours.expand(-1, heads, -1, -1).flatten(0, 1))
        return self._tensor(ours if mask.batch_size or self.name == "huggingface" else ours[0, 0])

    def printout(self, mask: Mask, queries: int, keys: int) -> str:
        """The tensor as PyTorch would print it, elided where it is long; empty if it cannot be said."""
        tensor = self.tensor(mask, queries, keys)
        return "" if tensor is None else printed(tensor)

    def code(self, mask: Mask, queries: int, keys: int) -> str:
        """Lines to paste, which build the mask and hand it over; empty if it cannot be said.

        They hold for the lengths given here; where no number in them was made for these, for all.

        Raises:
            MaskError: for a mask without a formula that is too large to be written out cell by cell.
        """
        return "" if self.refuses(mask, queries, keys) else self._code(mask, queries, keys)


def _not_causal(mask: Mask, queries: int, keys: int) -> str:
    differs = (mask.tensor(queries, keys) != Subsequent().tensor(queries, keys)).nonzero()
    if not len(differs):
        return ""
    _, _, query, key = differs[0].tolist()
    does = "blocks" if key <= query else "opens"
    return (
        f"is_causal blocks the future aligned top-left, and nothing else; this mask {does} key {key} for query {query}."
    )


def _no_padding(mask: Mask, queries: int, keys: int) -> str:
    if code.padding_only(mask, queries, keys):
        return ""
    grid = mask.tensor(queries, keys)
    sentence, _, query, key = (grid != grid[:, :, :1]).nonzero()[0].tolist()
    where = f" of sentence {sentence}" if mask.batch_size else ""
    sees, other = (query, 0) if grid[sentence, 0, query, key] else (0, query)
    return (
        "key_padding_mask says the same of every query, and queries differ here: "
        f"query {sees}{where} may attend to key {key}, and query {other} may not."
    )


def _lowest(mask: Tensor) -> Tensor:
    return to_additive(mask, fill=torch.finfo(torch.float32).min)


def _as_it_is(mask: Tensor) -> Tensor:
    return mask


SDPA, MULTIHEAD = "F.scaled_dot_product_attention", "nn.MultiheadAttention"
ADDED, CAUSAL = "0 = may attend, -inf = blocked; added to the scores", "the future is blocked, aligned top-left"
TOKENS = (
    "1 = token, 0 = padding (a decoder blocks the future by itself); with four axes 0 = may attend, the lowest "
    "number = blocked, added to the scores"
)

DIALECTS = (
    Dialect("sdpa", SDPA, "True = may attend", "zero", _as_it_is, code.sdpa),
    Dialect("sdpa_additive", SDPA, ADDED, "zero", to_additive, code.sdpa_additive),
    Dialect("is_causal", SDPA, CAUSAL, "zero", _as_it_is, code.is_causal, _not_causal),
    Dialect("attn_mask", MULTIHEAD, "True = blocked", "nan", to_true_is_masked, code.multihead),
    Dialect(
        "key_padding_mask",
        MULTIHEAD,
        "True = padding, for every query",
        "nan",
        to_true_is_masked,
        code.key_padding_mask,
        _no_padding,
    ),
    Dialect("flex_attention", "FlexAttention", "mask_mod: True = may attend", "zero", _as_it_is, code.flex),
    Dialect("huggingface", "Hugging Face", TOKENS, "uniform", _lowest, code.huggingface),
    Dialect(
        "zero_is_masked",
        "mask == 0, as in The Annotated Transformer",
        "0 = masked, 1 = may attend",
        "uniform",
        to_zero_is_masked,
        code.zero_is_masked,
    ),
    Dialect(
        "true_is_masked",
        "mask == True, as in other tutorials",
        "True = masked",
        "nan",
        to_true_is_masked,
        code.true_is_masked,
    ),
)
"""Every dialect, in the order in which they are shown."""


def dialect(name: str) -> Dialect:
    """The dialect of a name.

    Raises:
        MaskError: names those there are.
    """
    for candidate in DIALECTS:
        if candidate.name == name:
            return candidate
    names = ", ".join(candidate.name for candidate in DIALECTS)
    raise MaskError(f"There is no dialect {quoted(name)}. There are: {names}.")
