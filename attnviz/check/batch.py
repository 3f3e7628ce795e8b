"""Check of a training batch: what a collator hands to a model, before any model is run.

report = check_batch(collator(examples), pad=tokenizer.pad_token_id)
report.findings, report.question
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad as pad_ends

from attnviz.check.arrays import opened, real_tensor
from attnviz.check.findings import SEVERITIES, Finding, Laid, Report
from attnviz.core.amounts import counted
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask
from attnviz.core.stack import Stack

IDS = ("input_ids", "ids", "tokens")
"""Names of the token ids, (B, n)."""
IGNORED = -100
"""Label that no loss counts."""
OF_TOKENS = ("position_ids", "labels")
"""Names of arrays with a number for each token."""
TARGET = ("decoder_input_ids", "decoder_attention_mask")
"""Names of the ids that a decoder reads, and of their mask, beside those of an encoder."""
DIVIDE = "Pass restarting position_ids and no {mask}, or a mask of (B, 1, n, n)."
"""Repair of a mask of (B, n) beside packed documents."""


@dataclass(frozen=True)
class BatchReport(Report):
    """Findings about a batch.

    Attributes:
        shapes: of the arrays that were read, by name.
    """

    shapes: dict[str, tuple[int, ...]]

    def heading(self) -> list[str]:
        read = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        return [f"batch: {read}", f"  assumed: {self.assumed}"]


def check_batch(
    batch: Mapping[str, Tensor | np.ndarray],
    *,
    pad: int | None = None,
    padded: bool = True,
    intent: str | Mask | Stack | None = None,
) -> BatchReport:
    """Check that the mask, the positions and the labels of a batch fit its tokens.

    Args:
        batch: `input_ids` (B, n) and any of `attention_mask` (B, n) or of scores, `position_ids` and `labels` (B, n);
            of an encoder-decoder `decoder_input_ids`, `decoder_attention_mask` and `labels`, (B, m). Others are not
            read.
        pad: the id of padding; by default the one id that stands wherever the mask blocks.
        padded: False where no token is padding.
        intent: what a mask of scores is meant to be; see `attnviz.check.check`.

    Raises:
        InputError: if there are no token ids, or an array does not fit them.
    """
    read = (*IDS, "attention_mask", *OF_TOKENS, *TARGET)
    arrays = {name: real_tensor(batch[name]) for name in read if batch.get(name) is not None}
    arrays = {name: array.view(1, -1) if array.dim() == 1 else array for name, array in arrays.items()}
    name = next((name for name in IDS if name in arrays), None)
    if name is None:
        there = ", ".join(map(quoted, list(batch)[:10])) or "nothing"
        raise InputError(f"The batch has no input_ids; it has {there}.")
    ids, labels, source = arrays[name], arrays.get("labels"), dict(arrays)
    has_target = any(target in arrays for target in TARGET) or (labels is not None and _is_target(ids, labels))
    if has_target:
        source.pop("labels", None)
    whole = _Batch(ids, source, pad, padded, name)
    findings, assumed = whole.findings(intent), whole.assumed
    pad = whole.pad if whole.pad is not None else pad
    read_by_decoder = arrays.get(TARGET[0])
    if has_target and read_by_decoder is None and labels is not None:
        read_by_decoder = labels.masked_fill(labels == IGNORED, -1 if pad is None else pad).roll(1, 1)
    if read_by_decoder is not None:
        target = {"attention_mask": arrays.get(TARGET[1]), "labels": labels}
        target = {key: array for key, array in target.items() if array is not None}
        decoder = _Batch(read_by_decoder, target, pad, padded, TARGET[0])
        findings += decoder.findings(None)
        assumed += f", and a decoder that reads {decoder.assumed}"
    findings.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    return BatchReport(shapes, findings=tuple(findings), question=whole.question, assumed=assumed)


def _is_target(ids: Tensor, labels: Tensor) -> bool:
    """Whether labels are those of another text: of another length, or most of them used and none a token beside it."""
    if labels.dim() != 2 or labels.shape != ids.shape:
        return labels.dim() == 2 and len(labels) == len(ids)
    used = labels != IGNORED
    alike = (labels == ids)[used].any() | (labels[:, :-1] == ids[:, 1:])[used[:, :-1]].any()
    return 2 * int(used.sum()) > used.numel() and not bool(alike)


class _Batch:
    """Arrays of a batch, and what is known of its padding and its documents."""

    def __init__(self, ids: Tensor, arrays: dict[str, Tensor], pad: int | None, padded: bool, name: str):
        self.ids, self.name, self.is_target = ids, name, name == TARGET[0]
        self.mask_name = mask_name = TARGET[1] if self.is_target else "attention_mask"
        if ids.dim() != 2 or ids.is_floating_point() or not ids.numel():
            raise InputError(f"The {name} are {tuple(ids.shape)} of {ids.dtype}; they must be whole numbers (B, n).")
        for other in OF_TOKENS:
            if other in arrays and arrays[other].shape[-1] != ids.shape[1]:
                raise InputError(f"The {other} are {tuple(arrays[other].shape)}, the {name} {tuple(ids.shape)}.")
        mask = arrays.get("attention_mask")
        self.flat, self.square = (mask, None) if mask is None or mask.dim() == 2 else (None, mask)  # (B, n), or scores
        if self.flat is not None and self.flat.shape != ids.shape:
            raise InputError(f"The {mask_name} is {tuple(mask.shape)}, the {name} {tuple(ids.shape)}.")
        self.labels, self.positions = arrays.get("labels"), arrays.get("position_ids")
        self.pad, self.question, self.failures = pad, "", []
        is_open = torch.ones_like(ids, dtype=torch.bool) if self.flat is None else self.flat != 0
        blocked, open_ids = ids[~is_open].unique().tolist(), ids[is_open].unique().tolist()
        if pad is None and padded and len(blocked) == 1:
            self.pad = blocked[0]
        self.is_inverted = self.pad is not None and bool(blocked) and self.pad in {*open_ids} - {*blocked}
        if self.pad is None and len(open_ids) == 1 and len(blocked) > 1 and open_ids[0] not in blocked:
            self.pad, self.is_inverted = open_ids[0], True
        ends = [end for row in ids.tolist() for end in (row[::-1], row)] if self.pad is None and padded else []
        if twice := [end[0] for end in ends if len(end) > 1 and end[0] == end[1]]:
            self.question = f"Is the id {twice[0]} padding? Say --pad {twice[0]}, or --pad none."
        is_id = ids == self.pad if self.pad is not None else torch.zeros_like(is_open)
        if self.is_target:  # which begins with that id in many models
            is_id = torch.cat([is_id[:, :1] & False, is_id[:, 1:]], 1)
        left, right = is_id.int().cumprod(1).bool(), is_id.flip(1).int().cumprod(1).flip(1).bool()
        self.padding = left | right  # the runs of its id at either end
        beside_text = (left & ~left.roll(-1, 1)) | (right & ~right.roll(1, 1))
        self.may_end_text = beside_text & is_open & (not self.is_inverted)  # where the id of padding also ends a text
        self.is_pad = self.flat.bool() if self.is_inverted else self.padding & ~self.may_end_text
        numbers = [] if self.flat is None else self.flat.unique().tolist()
        is_whole = all(float(number).is_integer() and number >= 0 for number in numbers)
        self.is_numbered, self.are_flags = is_whole and {1, 2} <= {*numbers}, {*numbers} <= {0, 1}
        self.mended = f"{mask_name} = ({name} != {self.pad}).long()" if self.pad is not None else ""

    def findings(self, intent: str | Mask | Stack | None) -> list[Finding]:
        """Findings about the mask, positions, documents and labels, in this order."""
        if self.is_inverted:
            message = f"{self.mask_name} is inverted: it is 0 at the tokens and 1 at padding."
            self._fail("inverted", "error", message, self.mended, self.flat.bool())
        elif self.flat is not None:
            self._check_mask(self.flat)
            self.is_pad = self.is_pad | (self.flat == 0)
        elif self.square is None and not self.is_target:
            message = f"of padding and no {self.mask_name}: padding is seen."
            self._fail("padding", "error", message, self.mended, self.is_pad, "token")
        self._check_positions()
        self._check_documents()
        if self.labels is not None:
            self._check_labels(self.labels.expand_as(self.ids))
        if self.square is not None:
            self.failures += self._of_square(intent)
        return self.failures

    def _fail(
        self, rule: str, severity: str, message: str, fix: str, cells: Tensor | None = None, noun: str = ""
    ) -> None:
        """Note a finding, whose cells are those of a boolean tensor (B, n), or (B, 1) for rows, if there are any.

        Args:
            noun: what is counted; the sentence then begins with the number.
        """
        axes = ("batch",) if cells is not None and cells.shape[1] == 1 else ("batch", "key")
        cells = None if cells is None else cells[:, None, None]
        self.failures += Laid(self.ids[:, None, None], axes).findings(rule, severity, message, fix, cells, noun)

    def _check_mask(self, mask: Tensor) -> None:
        """Check a mask of (B, n): padding that is seen, tokens that are not, rows without a token."""
        if self.is_numbered:
            message = f"{self.mask_name} numbers documents: code that is not made for that sees across all of them."
            self._fail("documents", "warning", message, DIVIDE.format(mask=self.mask_name))
        elif not self.are_flags:
            message = f"{self.mask_name} holds {float(mask.min()):g} and other numbers; (B, n) is of 1 and 0."
            self._fail("values", "error", message, self.mended or "1 = a token, 0 = padding")
            return
        message = f"of padding that {self.mask_name} opens: padding is seen."
        self._fail("padding", "error", message, self.mended, self.is_pad & (mask != 0), "token")
        message = f"of a text at which {self.mask_name} is 0: no token sees them."
        hidden = ~self.padding & (mask == 0) & (self.pad is not None)
        self._fail("padding", "error", message, self.mended, hidden, "token")
        empty = ~(mask != 0).any(1, keepdim=True)
        message, fix = "of the batch without a token.", "Leave such rows out of the batch."
        self._fail("empty-row", "error", message, fix, empty, "row")

    def _check_positions(self) -> None:
        """Check positions of texts that are padded at the left: they count from the first token on."""
        real = ~self.is_pad
        left = (self.is_pad[:, 0] & real.any(1))[:, None]
        fix = f"position_ids = ({self.mask_name}.cumsum(-1) - 1).clamp(min=0)"
        if self.positions is None:
            message = "padded at the left, and no position_ids: most models then count padding as positions."
            self._fail("positions", "warning", message, fix, left, "text")
            return
        start = self.positions.expand_as(self.ids).gather(1, real.int().argmax(1, keepdim=True))
        wrong = left & (start != 0)
        row = int(wrong.int().argmax())
        message = f"Text {row} is padded at the left, and its first token has position {int(start[row])}, not 0."
        self._fail("positions", "error", message, fix, wrong)

    def _check_documents(self) -> None:
        """Check packed documents: a mask that holds none of them; numbers and positions that disagree."""
        starts, restarts = self.starts, self._restarts()
        later = None if starts is None else pad_ends(starts[:, 1:], (1, 0))
        if later is not None and self.flat is not None and self.are_flags:
            row, second = later.nonzero()[0].tolist()
            message = f"position_ids restart, as of packed documents, but {self.mask_name} divides none: in row {row} "
            message += f"the token at {second} sees all {second} of the document before it."
            self._fail("documents", "error", message, DIVIDE.format(mask=self.mask_name), later)
        if self.is_numbered and self.positions is not None and restarts is None:
            message = f"{self.mask_name} numbers documents, and position_ids go on from one to the next."
            self._fail("documents", "warning", message, "Begin position_ids at 0 in each document.", starts)

    def _restarts(self) -> Tensor | None:
        """Begins of documents, boolean (B, n), by positions that restart behind the first token; None if none do."""
        if self.positions is None or self.positions.dim() != 2:
            return None
        starts = (self.positions.expand_as(self.ids) == 0) & ~self.is_pad
        is_first = (~self.is_pad).int().cumsum(1) == 1
        return starts if (starts & ~is_first).any() else None

    @property
    def starts(self) -> Tensor | None:
        """Begins of documents by the numbers of the mask, else by positions that restart; None if there are none."""
        if not self.is_numbered:
            return self._restarts()
        return pad_ends(self.flat.diff(dim=1) != 0, (1, 0), value=True) & (self.flat != 0)

    def _check_labels(self, labels: Tensor) -> None:
        """Check labels of padding and of the end of a text, labels that are shifted wrongly, and across documents."""
        used = labels != IGNORED
        of_padding = self.is_pad & used
        if self.is_target and self.pad is not None:  # the first of them may end the text
            at_end = (labels == self.pad).flip(1).int().cumprod(1).flip(1).bool()
            of_padding = pad_ends((at_end & (labels == self.pad).roll(1, 1))[:, 1:], (1, 0))
        fix = f"labels = labels.masked_fill({'labels == pad' if self.is_target else 'attention_mask == 0'}, -100)"
        message = "of padding: the loss counts them, as they are not -100."
        self._fail("labels", "error", message, fix, of_padding, "label")
        unlearned = self.may_end_text & ~self.may_end_text[:, :1] & ~used & used.roll(1, 1)
        if self.flat is not None and not self.is_target and unlearned[:, 1:].any():
            rows = counted(int(unlearned.any(1).sum()), "row")
            message = f"The end of the text, id {self.pad}, has the label -100 in {rows}: it is the id of padding, "
            message += "too, so that the model never learns to end."
            fix = f"labels = {self.name}.masked_fill({self.mask_name} == 0, -100), or pad with another id."
            self._fail("labels", "error", message, fix, unlearned)
        shift = (labels[:, :-1] == self.ids[:, 1:]) | ~used[:, :-1]
        same = (labels == self.ids) | ~used
        if self.is_target and used.any() and same.all() and not shift.all():
            message = f"{self.name} hold the label of their own position: the decoder reads what it has to predict."
            fix = f"{self.name} begin with the start token, and then have the labels without the last one."
            self._fail("labels", "error", message, fix)
        elif not self.is_target and used[:, :-1].any() and shift.all() and not same[:, :-1].all():
            message = "labels hold the next token already; models of transformers shift them themselves."
            self._fail(
                "labels", "warning", message, "labels = input_ids.clone(), if the model shifts; else leave them."
            )
        if self.starts is not None:
            across = pad_ends((self.starts & used)[:, 1:], (1, 0))
            message = "whose first token is predicted from the one before."
            self._fail("labels", "warning", message, "labels[position_ids == 0] = -100", across, "document")

    def _of_square(self, intent: str | Mask | Stack | None) -> Iterator[Finding]:
        """Findings about a mask of (B, H, Q, K), with padding known, and documents by positions that restart."""
        from attnviz.check import check

        report = check(self.square, kind="mask", intent=intent, padding=~self.is_pad if self.is_pad.any() else None)
        restarts, (queries, keys) = self._restarts(), report.shape[2:]
        if restarts is not None and queries == keys and not report.rules("error"):
            owner, is_text = restarts.int().cumsum(1), ~self.is_pad
            across = owner[:, None, :, None] != owner[:, None, None]
            crossing = opened(self.square, report.convention).broadcast_to(report.shape) & across
            crossing = crossing & is_text[:, None, :, None] & is_text[:, None, None]
            if crossing.any():
                _, _, query, key = crossing.nonzero()[0].tolist()
                message = f"position_ids restart, as of packed documents, and {self.mask_name} opens one to the next: "
                message += f"the token at {query} sees the one at {key}."
                fix = "Block other documents: mask & (document[:, None, :, None] == document[:, None, None])."
                yield Finding("documents", "error", message, fix)
                return
        self.question = self.question or report.question
        yield from (replace(finding, message=f"{self.mask_name}: {finding.message}") for finding in report.findings)

    @property
    def assumed(self) -> str:
        rows, starts = counted(len(self.ids), "text"), self.starts
        if starts is not None:
            return f"{counted(int(starts.sum()), 'document')} packed in {counted(len(self.ids), 'row')}"
        if not self.is_pad.any():
            return f"{rows} without padding"
        sides = [side for side, place in (("left", 0), ("right", -1)) if self.is_pad[:, place].any()]
        named = f" (id {self.pad})" if self.pad is not None else ""
        return f"{rows} with padding at the {' and the '.join(sides)}{named}"
