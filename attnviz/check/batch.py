"""Check of a training batch: what a collator hands to a model, before any model is run.

report = check_batch(collator(examples), pad=tokenizer.pad_token_id)
report.findings, report.question
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.check.arrays import real_tensor
from attnviz.check.findings import Finding, Laid, Report, status_of
from attnviz.core.amounts import counted
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask
from attnviz.core.stack import Stack

IDS = ("input_ids", "ids", "tokens")
"""Names of the token ids, (B, n)."""
IGNORED = -100
"""Label that no loss counts."""
ENDS = ("cu_seqlens", "cu_seq_lens_q", "cu_seq_lens_k", "cu_seqlens_q", "cu_seqlens_k")
"""Names of the places at which packed documents begin, and the last one ends."""
READ = (*IDS, "attention_mask", "position_ids", "labels", *ENDS)


@dataclass(frozen=True)
class BatchReport:
    """Findings about a batch.

    Attributes:
        shapes: of the arrays that were read, by name.
        assumed: what the batch was taken for: "2 texts with padding at their end".
        question: what has to be answered for the rest to be judged; "" if nothing.
        findings: the worst first.
    """

    shapes: dict[str, tuple[int, ...]]
    assumed: str
    question: str
    findings: tuple[Finding, ...]

    def status(self, *, strict: bool = False) -> int:
        """Exit status: 1 for an error (or, if strict, a warning), 3 if a question is open, else 0."""
        return status_of(self.findings, self.question, strict=strict)

    def lines(self) -> list[str]:
        """As text."""
        read = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        blocks = [line for finding in self.findings for line in ("", *finding.lines())]
        question = ["", f"question: {self.question}"] if self.question else []
        verdict = ["", "Nothing wrong was found."] if not (blocks or question) else []
        return [f"batch: {read}", f"  assumed: {self.assumed}", *blocks, *question, *verdict]

    def to_json(self) -> dict[str, Any]:
        findings = [finding.to_json() for finding in self.findings]
        shapes = {name: list(shape) for name, shape in self.shapes.items()}
        return {"shapes": shapes, "assumed": self.assumed, "question": self.question, "findings": findings}


def check_batch(
    batch: Mapping[str, Tensor | np.ndarray],
    *,
    pad: int | None = None,
    padded: bool = True,
    intent: str | Mask | Stack | None = None,
) -> BatchReport:
    """Check that the mask, the positions and the labels of a batch fit its tokens.

    Args:
        batch: `input_ids` (B, n) and any of `attention_mask` (B, n) or of scores, `position_ids` (B, n), `labels`
            (B, n), `cu_seqlens`; others are not read.
        pad: the id of padding; by default the one id that stands wherever the mask blocks.
        padded: False where no token is padding.
        intent: what a mask of scores is meant to be; see `attnviz.check.check`.

    Raises:
        InputError: if there are no token ids, or an array does not fit them.
    """
    arrays = {name: real_tensor(batch[name]) for name in READ if batch.get(name) is not None}
    ids = next((arrays[name] for name in IDS if name in arrays), None)
    if ids is None:
        there = ", ".join(map(quoted, list(batch)[:10])) or "nothing"
        raise InputError(f"The batch has no input_ids; it has {there}.")
    ids = ids[None] if ids.dim() == 1 else ids
    if ids.dim() != 2 or ids.is_floating_point() or not ids.numel():
        raise InputError(f"The input_ids are {tuple(ids.shape)} of {ids.dtype}; they must be whole numbers (B, n).")
    arrays = {name: array[None] if array.dim() == 1 and name not in ENDS else array for name, array in arrays.items()}
    for name in ("position_ids", "labels"):
        if name in arrays and arrays[name].shape[-1] != ids.shape[1]:
            raise InputError(f"The {name} are {tuple(arrays[name].shape)}, the input_ids {tuple(ids.shape)}.")
    return _Batch(ids, arrays, pad, padded).report(intent)


class _Batch:
    """Arrays of a batch, and what is known of its padding and its documents."""

    def __init__(self, ids: Tensor, arrays: dict[str, Tensor], pad: int | None, padded: bool):
        self.ids, self.arrays = ids, arrays
        mask = arrays.get("attention_mask")
        self.flat = mask if mask is not None and mask.dim() == 2 else None  # (B, n)
        if self.flat is not None and self.flat.shape != ids.shape:
            raise InputError(f"The attention_mask is {tuple(mask.shape)}, the input_ids {tuple(ids.shape)}.")
        self.square = mask if mask is not None and mask.dim() > 2 else None
        self.pad = pad if pad is not None or not padded else self._only_id_of(self.flat == 0)
        self.question = ""
        if self.pad is None and padded:
            self._ask()
        is_id = ids == self.pad if self.pad is not None else torch.zeros_like(ids, dtype=torch.bool)
        left, right = is_id.int().cumprod(1).bool(), is_id.flip(1).int().cumprod(1).flip(1).bool()
        self.padding = left | right  # the runs of its id at either end
        beside_text = (left & ~left.roll(-1, 1)) | (right & ~right.roll(1, 1))
        open_ = torch.ones_like(is_id) if self.flat is None else self.flat != 0
        self.may_end_text = beside_text & open_  # where the id of padding also ends a text
        self.is_pad = self.padding & ~self.may_end_text
        self.laid = Laid(ids[:, None, None].float(), ("batch", "key"))

    def _only_id_of(self, places: Tensor | bool) -> int | None:
        """The one id that stands at all of these places, and nowhere inside of a text."""
        if isinstance(places, bool) or not places.any():
            return None
        values = self.ids[places].unique()
        return int(values[0]) if len(values) == 1 else None

    def _ask(self) -> None:
        """Ask for padding where a row ends or begins with one id again and again, and no mask says what that is."""
        for row in self.ids.tolist():
            for end in (row[::-1], row):
                run = next((i for i, id in enumerate(end) if id != end[0]), len(end))
                if run > 1:
                    self.question = f"Is the id {end[0]} padding? Say --pad {end[0]}, or --pad none."
                    return

    def report(self, intent: str | Mask | Stack | None) -> BatchReport:
        if self.flat is not None and self._inverted():
            message = "attention_mask is inverted: it is 0 at the tokens and 1 at padding."
            fix = f"attention_mask = (input_ids != {self.pad}).long()"
            findings = [self._finding("inverted", "error", message, fix, self.flat.bool())]
            self.is_pad = self.flat.bool()
        else:
            findings = [*self._of_mask()]
            if self.flat is not None:
                self.is_pad = self.is_pad | (self.flat == 0)
        findings += [*self._of_positions(), *self._of_documents(), *self._of_labels()]
        findings += self._of_square(intent)
        findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
        shapes = {name: tuple(array.shape) for name, array in self.arrays.items()}
        return BatchReport(shapes, self._assumed(), self.question, tuple(findings))

    def _inverted(self) -> bool:
        """Whether the mask is open at padding alone, by the id of padding or by the one id at all open places."""
        open_ids, blocked = self.ids[self.flat != 0].unique(), self.ids[self.flat == 0].unique()
        if self.pad is not None and not (self.flat == 0).any():
            return False
        is_swapped = self.pad is not None and self.pad in open_ids and self.pad not in blocked
        if is_swapped or (self.pad is None and len(open_ids) == 1 and len(blocked) > 1 and open_ids[0] not in blocked):
            self.pad = int(open_ids[0]) if self.pad is None else self.pad
            self.question = ""
            return True
        return False

    def _of_mask(self) -> Iterator[Finding]:
        """Findings about a mask of (B, n): padding that is seen, tokens that are not, rows without a token."""
        if self.flat is None:
            if self.is_pad.any() and self.square is None:
                message = (
                    f"{counted(int(self.is_pad.sum()), 'token')} of padding and no attention_mask: padding is seen."
                )
                yield self._finding("padding", "error", message, self._mended(), self.is_pad)
            return
        numbers = self.flat.unique().tolist()
        if len(numbers) > 2 and all(float(number).is_integer() and number >= 0 for number in numbers):
            message = "attention_mask numbers documents: code that is not made for that sees across all of them."
            fix = "Pass restarting position_ids and no attention_mask, or a mask of (B, 1, n, n)."
            yield self._finding("documents", "warning", message, fix)
        elif not set(numbers) <= {0, 1}:
            message = f"attention_mask holds {numbers[0]:g} and other numbers; of shape (B, n) it is 1 or 0."
            yield self._finding("values", "error", message, self._mended() or "1 = a token, 0 = padding")
            return
        open_padding = self.is_pad & (self.flat != 0)
        hidden = ~self.padding & (self.flat == 0) if self.pad is not None else torch.zeros_like(self.is_pad)
        for cells, noun, message in (
            (open_padding, "token", "of padding {is_} 1 in attention_mask: padding is seen."),
            (hidden, "token", "that {is_} no padding {is_} 0 in attention_mask: no token sees {it}."),
        ):
            if cells.any():
                is_, it = ("is", "it") if cells.sum() == 1 else ("are", "them")
                message = f"{counted(int(cells.sum()), noun)} {message.format(is_=is_, it=it)}"
                yield self._finding("padding", "error", message, self._mended(), cells)
        ends = self.may_end_text & (self.flat == 0).any(1, keepdim=True)
        if ends.any():
            message = f"The first id {self.pad} beside the text is open in {counted(int(ends.any(1).sum()), 'row')}."
            yield self._finding("padding", "note", message, "That is right where this id also ends a text.", ends)
        empty = ~(self.flat != 0).any(1, keepdim=True)
        if empty.any():
            message = (
                f"{counted(int(empty.sum()), 'row')} of the batch {'has' if empty.sum() == 1 else 'have'} no token."
            )
            yield self._finding("empty-row", "error", message, "Leave such rows out of the batch.", empty)

    def _mended(self) -> str:
        return f"attention_mask = (input_ids != {self.pad}).long()" if self.pad is not None else ""

    def _of_positions(self) -> Iterator[Finding]:
        """Positions of texts that are padded at the left: they count from the first token on."""
        real = ~self.is_pad
        left = self.is_pad[:, 0] & real.any(1)
        if not left.any():
            return
        fix = "position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0)"
        positions = self.arrays.get("position_ids")
        if positions is None:
            message = f"{counted(int(left.sum()), 'text')} padded at the left, and no position_ids: most models then"
            yield self._finding("positions", "warning", f"{message} count padding as positions.", fix, left[:, None])
            return
        first = real.int().argmax(1)
        start = positions.expand_as(self.ids)[torch.arange(len(first)), first]
        wrong = left & (start != 0)
        if wrong.any():
            row = int(wrong.nonzero()[0])
            message = f"Text {row} is padded at the left, and its first token has position {int(start[row])}, not 0."
            yield self._finding("positions", "error", message, fix, wrong[:, None])

    def _of_documents(self) -> Iterator[Finding]:
        """Packed documents: a mask that holds none of them, or lengths that differ from the positions."""
        starts = self._starts()
        if starts is not None and self.flat is not None and set(self.flat.unique().tolist()) <= {0, 1}:
            row = int(starts[:, 1:].any(1).nonzero()[0])
            second = int(starts[row, 1:].int().argmax()) + 1
            message = f"position_ids restart, as of packed documents, but attention_mask divides none: in row {row} the"
            message += f" token at {second} sees all {second} of the document before it."
            fix = "Pass restarting position_ids and no attention_mask, or a mask of (B, 1, n, n)."
            yield self._finding("documents", "error", message, fix, starts & (torch.arange(starts.shape[1]) > 0))
        for name in (name for name in ENDS if name in self.arrays):
            ends = self.arrays[name].flatten()
            total = self.ids.numel()
            if len(ends) < 2 or int(ends[0]) or int(ends[-1]) != total or bool((ends.diff() <= 0).any()):
                message = f"{name} is {ends.tolist()[:8]}; it must rise from 0 to the number of tokens, {total:,}."
                yield self._finding("documents", "error", message, "cu_seqlens = F.pad(lengths.cumsum(0), (1, 0))")
            elif starts is not None and starts.flatten().nonzero().flatten().tolist() != ends[:-1].tolist():
                message = f"{name} and position_ids divide the tokens at different places."
                yield self._finding("documents", "error", message, "Make both of the same lengths.")

    def _starts(self) -> Tensor | None:
        """Begins of documents, boolean (B, n), by positions that restart behind the first token; None if none do."""
        positions = self.arrays.get("position_ids")
        if positions is None or positions.dim() != 2:
            return None
        starts = (positions.expand_as(self.ids) == 0) & ~self.is_pad
        first = (~self.is_pad).int().argmax(1)
        inner = starts.clone()
        inner[torch.arange(len(first)), first] = False
        return starts if inner.any() else None

    def _of_labels(self) -> Iterator[Finding]:
        """Labels of padding that the loss counts, labels that are shifted already, and across documents."""
        labels = self.arrays.get("labels")
        if labels is None or labels.shape != self.ids.shape:
            return
        of_padding = self.is_pad & (labels != IGNORED)
        if of_padding.any():
            message = (
                f"{counted(int(of_padding.sum()), 'label')} of padding: the loss counts them, as they are not -100."
            )
            fix = "labels = labels.masked_fill(attention_mask == 0, -100)"
            yield self._finding("labels", "error", message, fix, of_padding)
        used, following = labels[:, :-1] != IGNORED, labels[:, :-1] == self.ids[:, 1:]
        same = labels[:, :-1] == self.ids[:, :-1]
        if used.any() and bool((following | ~used).all()) and not bool((same | ~used).all()):
            message = "labels hold the next token already; models of transformers shift them themselves."
            fix = "labels = input_ids.clone(), if the model shifts; else leave them."
            yield self._finding("labels", "warning", message, fix)
        starts = self._starts()
        if starts is not None:
            across = starts & (labels != IGNORED) & (torch.arange(starts.shape[1]) > 0)
            if across.any():
                message = (
                    f"{counted(int(across.sum()), 'document')} whose first token is predicted from the one before."
                )
                yield self._finding("labels", "warning", message, "labels[position_ids == 0] = -100", across)

    def _of_square(self, intent: str | Mask | Stack | None) -> list[Finding]:
        """Findings about a mask of (B, H, Q, K), with padding known."""
        if self.square is None:
            return []
        from attnviz.check import check

        padding = {"padding": ~self.is_pad} if self.is_pad.any() else {}
        report: Report = check(self.square, kind="mask", intent=intent, **padding)
        self.question = self.question or report.question
        return [replace(finding, message=f"attention_mask: {finding.message}") for finding in report.findings]

    def _assumed(self) -> str:
        rows = counted(len(self.ids), "text")
        if (starts := self._starts()) is not None:
            return f"{counted(int(starts.sum()), 'document')} packed in {counted(len(self.ids), 'row')}"
        if not self.is_pad.any():
            return f"{rows} without padding"
        left, right = self.is_pad[:, 0].any(), self.is_pad[:, -1].any()
        sides = [side for side, is_there in (("left", left), ("right", right)) if is_there]
        side = f"at the {' and the '.join(sides)}"
        named = f" (id {self.pad})" if self.pad is not None else ""
        return f"{rows} with padding {side}{named}"

    def _finding(self, rule: str, severity: str, message: str, fix: str, cells: Tensor | None = None) -> Finding:
        """A finding whose cells are those of a boolean tensor (B, n), or (B, 1) for rows."""
        if cells is None:
            return Finding(rule, severity, message, fix)
        if cells.shape[1] == 1:
            rows = cells[:, 0].nonzero().flatten().tolist()
            return Finding(rule, severity, message, fix, ("batch",), tuple((row,) for row in rows[:1000]), len(rows))
        return self.laid.finding(rule, severity, message, fix, cells[:, None, None])
