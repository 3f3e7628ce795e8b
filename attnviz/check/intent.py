"""The intended mask: stated as rules, or a kind whose number is read off the array."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from attnviz.core.errors import InputError, MaskError, did_you_mean, quoted
from attnviz.core.masks import Documents, Full, Mask, Prefix, Subsequent, Window, mask_from_text
from attnviz.core.masks.base import KEYWORDS
from attnviz.core.stack import Stack

MEANT = {"causal": "causal mask", "two-way": "mask that blocks nothing but padding"}
"""Titles of the masks that have a name as an intent; all others are stated as text."""

ASSUMED = {
    "two-way": "a two-way encoder",
    "causal": "a causal decoder",
    "causal-window": "a causal decoder with a window ({number} before)",
    "prefix-lm": "a prefix-LM (prefix of {number})",
    "causal-documents": "a causal decoder of packed documents",
    "documents": "a two-way encoder of packed documents",
}
"""Masks that are known without an intent, in the order in which they are tried; numbers are read off the mask."""


@dataclass(frozen=True)
class PerText(Mask):
    """A mask of a batch: each text has its own."""

    masks: tuple[Mask, ...]

    @property
    def batch_size(self) -> int:
        return len(self.masks)

    def allows(self, query: Tensor, key: Tensor, sentence: Tensor) -> Tensor:
        cells = [self.masks[text].allows(query, key, sentence[:1]) for text in sentence.flatten().tolist()]
        return torch.cat(torch.broadcast_tensors(*cells))

    def of_sentence(self, sentence: int) -> Mask:
        self._check_sentence(sentence)
        return self.masks[sentence]


@dataclass(frozen=True)
class Intent:
    """Intended mask.

    Attributes:
        title: in words, with an article.
        mask: what it must be, cell by cell but for padding; None if it follows from the kind.
        kind: a name of `ASSUMED`; "" where a mask was stated.
    """

    title: str
    mask: Mask | None = None
    kind: str = ""

    @classmethod
    def of(cls, meant: str | Mask | Stack) -> "Intent":
        """Intent of a name of `MEANT`, a mask, its text or a stack.

        Raises:
            AttnvizError: if there is no such name, and it is not the text of a mask.
        """
        if isinstance(meant, Stack):
            meant = meant.mask() or Full()
        kind = meant if isinstance(meant, Mask) else kind_or_mask(meant)
        if isinstance(kind, Mask):
            return cls(f"the mask that is meant ({kind})", kind)
        return cls(f"a {MEANT[kind]}", kind=kind)

    def rules(self, may_attend: Tensor, tokens: Tensor | None, offset: int) -> Mask | None:
        """The mask that is meant, without padding; None if the kind has a number that the array does not show.

        Args:
            may_attend: (B, H, Q, K), True = may attend.
            tokens: (B, K), True at tokens; None without padding.
            offset: position of the first query.
        """
        if self.mask is not None or self.kind in MEANT:
            return self.mask or (Full() if self.kind == "two-way" else Subsequent())
        queries, keys = may_attend.shape[2:]
        rows, last, first = may_attend.any(1), queries - 1 + offset, 0
        if tokens is not None and queries == keys:  # of the longest text
            longest = int(tokens.sum(1).argmax())
            places = tokens[longest].nonzero().flatten().tolist() or [0]
            first, last = places[0], places[-1]
            rows = rows[longest : longest + 1]
        match self.kind:
            case "causal-window":
                before = last - _first_open(rows[:, last - offset])
                return Subsequent() & Window(before) if 0 <= before < last - first else None
            case "prefix-lm":
                length = keys - _first_open(rows[:, first].flip(1))
                return Subsequent() | Prefix(length) if first + offset + 1 < length < keys else None
        documents = _documents(may_attend.any(1), tokens, offset)
        return documents and (Subsequent() & documents if self.kind == "causal-documents" else documents)


def kind_or_mask(text: str) -> str | Mask:
    """The name of `MEANT` that a text is, or the mask that it writes.

    Raises:
        AttnvizError: names what there is, or what in the text cannot be read.
    """
    if text == "full":
        return "two-way"
    if not isinstance(text, str) or (text.replace("-", "").isidentifier() and text not in (*MEANT, *KEYWORDS)):
        near = did_you_mean(str(text), MEANT)
        message = f"No mask is called {quoted(text)}.{near} Say causal or two-way, or write a mask, such as "
        raise InputError(f"{message}'causal & window(4)', 'causal | prefix(3)' or 'causal & documents(3, 4)'.")
    return text if text in MEANT else mask_from_text(text)


def check_fits(intended: Mask, batch: int) -> None:
    """Refuse, by an `InputError`, an intended mask of fewer texts."""
    try:
        intended.of_sentence(batch - 1)
    except MaskError as error:
        raise InputError(f"What is meant does not fit: {error}") from None


def _first_open(rows: Tensor) -> int:
    """First key that is open in one of the rows, (B, K); beyond the last if none is."""
    is_open = rows.any(0)
    return int(is_open.int().argmax()) if is_open.any() else rows.shape[1]


def _documents(rows: Tensor, tokens: Tensor | None, offset: int) -> Mask | None:
    """Documents, each of which begins where a query does not see the key before its own; None if there is one only."""
    if not 1 < rows.shape[1] <= rows.shape[2]:
        return None
    begins, first, masks = ~rows.diagonal(offset - 1, 1, 2), max(1, offset), []
    if tokens is not None:  # padding belongs to the document beside it
        begins = begins & (tokens[:, 1:] & tokens[:, :-1])[:, first - 1 : first - 1 + begins.shape[1]]
    for text in begins:
        starts = (text.nonzero().flatten() + first).tolist()
        masks.append(Documents(tuple(end - start for start, end in pairwise([0, *starts, rows.shape[2]]))))
    if all(len(mask.lengths) == 1 for mask in masks):
        return None
    return masks[0] if len(set(masks)) == 1 else PerText(tuple(masks))
