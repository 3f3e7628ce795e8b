"""Check a training batch as a collator returns it (ids, mask, positions and labels), without running a model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad as pad_ends

from attnviz.check.arrays import real_tensor, to_may_attend
from attnviz.check.findings import SEVERITIES, Array, Finding, Report
from attnviz.core.amounts import counted
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Mask

IDS = ("input_ids", "ids", "tokens")
"""Names of the token ids, (B, n)."""
IGNORED = -100
"""Label that the loss ignores."""
TARGET = ("decoder_input_ids", "decoder_attention_mask")
"""Names of the ids and the mask of the decoder in a batch of an encoder-decoder."""
DIVIDE = "Pass restarting position_ids and no {mask}, or a mask of (B, 1, n, n)."
"""Repair where packed documents have a mask (B, n)."""


@dataclass(frozen=True)
class BatchReport(Report):
    """Findings about a batch, with the `shapes` of its arrays by name."""

    shapes: dict[str, tuple[int, ...]]

    def heading(self) -> list[str]:
        """Write the names and shapes of the arrays, and what is assumed about the texts."""
        listed = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        return [f"batch: {listed}", f"  assumed: {self.assumed}"]


def check_batch(
    batch: Mapping[str, Tensor | np.ndarray],
    *,
    pad: int | None = None,
    padded: bool = True,
    intent: str | Mask | None = None,
) -> BatchReport:
    """Check that the mask, the positions and the labels of a batch fit its tokens.

    Args:
        batch: `input_ids` (B, n) and any of `position_ids` and `labels` (B, n) and `attention_mask`, (B, n) or
            (B, H, Q, K); for an encoder-decoder `decoder_input_ids`, `decoder_attention_mask` and `labels`, (B, m).
            Other entries are ignored.
        pad: id of padding; by default the only id at positions that the mask blocks.
        padded: False if no token is padding.
        intent: intended mask, for a mask (B, H, Q, K); see `attnviz.check.check`.

    Raises:
        InputError: if there are no token ids, or an array does not fit them.
    """
    known_names = (*IDS, "attention_mask", "position_ids", "labels", *TARGET)
    arrays = {name: real_tensor(batch[name]) for name in known_names if batch.get(name) is not None}
    arrays = {name: array.view(1, -1) if array.dim() == 1 else array for name, array in arrays.items()}
    name = next((name for name in IDS if name in arrays), None)
    if name is None:
        names = ", ".join(map(quoted, list(batch)[:10])) or "nothing"
        raise InputError(f"The batch has no input_ids; it has {names}.")
    ids, labels, target_ids = arrays[name], arrays.get("labels"), arrays.get(TARGET[0])
    has_decoder = any(target in arrays for target in TARGET) or (labels is not None and _is_target(ids, labels))
    encoder_arrays = {key: array for key, array in arrays.items() if key != "labels" or not has_decoder}
    texts = _Texts(ids, encoder_arrays, (name, "attention_mask"), pad, padded)
    findings, assumed = [*texts.findings(intent)], texts.assumed
    pad = texts.pad  # as given, or as found in the batch
    if has_decoder and target_ids is None and labels is not None:  # the decoder reads the labels, shifted by one
        target_ids = labels.masked_fill(labels == IGNORED, -1 if pad is None else pad).roll(1, 1)
    if target_ids is not None:
        decoder_arrays = {"attention_mask": arrays.get(TARGET[1]), "labels": labels}
        target = _Texts(target_ids, decoder_arrays, TARGET, pad, padded)
        findings += target.findings(None)
        assumed += f", and a decoder that reads {target.assumed}"
    findings.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    return BatchReport(shapes, findings=tuple(findings), question=texts.question, assumed=assumed)


def _is_target(ids: Tensor, labels: Tensor) -> bool:
    """Whether labels belong to another text than the ids, both (B, n): they have another length, or most are not
    ignored and none equals the id at its own or the next position."""
    if labels.dim() != 2 or labels.shape != ids.shape:
        return labels.dim() == 2 and len(labels) == len(ids)
    used = labels != IGNORED
    is_related = (labels == ids)[used].any() | (labels[:, :-1] == ids[:, 1:])[used[:, :-1]].any()
    return 2 * int(used.sum()) > used.numel() and not bool(is_related)


class _Texts:
    """Input of an encoder or a decoder, ids (B, n), with the padding and the packed documents found in it. `arrays` may
    have `attention_mask`, (B, n) or (B, H, Q, K), `position_ids` and `labels`. `names`: of the ids and of the mask."""

    def __init__(
        self, ids: Tensor, arrays: dict[str, Tensor | None], names: tuple[str, str], pad: int | None, padded: bool
    ):
        (self.name, self.mask_name), self.is_target, self.ids = names, names == TARGET, ids
        self.positions, self.labels, mask = (arrays.get(name) for name in ("position_ids", "labels", "attention_mask"))
        self.pad, self.question, ids_and_shape = pad, "", f"{self.name} are {tuple(ids.shape)}"
        if ids.dim() != 2 or ids.is_floating_point() or not ids.numel():
            raise InputError(f"The {ids_and_shape} of {ids.dtype}; they must be whole numbers (B, n).")
        self.mask_2d, self.mask_4d = (mask, None) if mask is None or mask.dim() == 2 else (None, mask)
        for other, array in (("position_ids", self.positions), ("labels", self.labels), (self.mask_name, self.mask_2d)):
            axes = slice(None) if array is self.mask_2d else slice(-1, None)  # positions may be (1, n), for all texts
            if array is not None and array.shape[axes] != ids.shape[axes]:
                raise InputError(f"The {other} are {tuple(array.shape)}, but the {ids_and_shape}.")
        is_open = torch.ones_like(ids, dtype=torch.bool) if self.mask_2d is None else self.mask_2d != 0
        blocked_ids, open_ids = ids[~is_open].unique().tolist(), ids[is_open].unique().tolist()
        if pad is None and padded and len(blocked_ids) == 1:
            self.pad = blocked_ids[0]
        self.is_inverted = bool(blocked_ids) and self.pad in open_ids and self.pad not in blocked_ids
        if self.pad is None and len(open_ids) == 1 and len(blocked_ids) > 1 and open_ids[0] not in blocked_ids:
            self.pad, self.is_inverted = open_ids[0], True  # only padding is open, and all tokens are blocked
        if self.pad is None and padded and ids.shape[1] > 1:
            ends = [end for row in ids.tolist() for end in (row[-2:], row[:2])]  # padding repeats its id at an end
            if repeated := [first for first, second in ends if first == second]:
                self.question = f"Is the id {repeated[0]} padding? Say --pad {repeated[0]}, or --pad none."
        is_pad_id = ids == self.pad if self.pad is not None else torch.zeros_like(is_open)
        if self.is_target:  # in many models, the decoder input begins with the id of padding
            is_pad_id = pad_ends(is_pad_id[:, 1:], (1, 0))
        left, right = is_pad_id.int().cumprod(1).bool(), is_pad_id.flip(1).int().cumprod(1).flip(1).bool()
        self.padding = left | right  # padding ids at both ends of a row
        beside_text = (left & ~left.roll(-1, 1)) | (right & ~right.roll(1, 1))
        self.may_end_text = beside_text & is_open & (not self.is_inverted)  # the padding id may also be the end token
        self.is_pad = self.mask_2d.bool() if self.is_inverted else (self.padding & ~self.may_end_text) | ~is_open
        numbers = set() if self.mask_2d is None else {*self.mask_2d.unique().tolist()}
        self.are_flags = numbers <= {0, 1}
        self.is_numbered = {1, 2} <= numbers and all(number >= 0 and number % 1 == 0 for number in numbers)
        self._find_documents()

    def _find_documents(self) -> None:
        """Set `restarts`, True at tokens where positions restart, and `starts`, True at the first token of a document,
        both (B, n) or None: where the number in a mask of document numbers changes, else the same as `restarts`."""
        self.restarts, is_token = None, ~self.is_pad
        if self.positions is not None and self.positions.dim() == 2:
            restarts = (self.positions.expand_as(self.ids) == 0) & is_token
            is_after_first = is_token.int().cumsum(1) > 1
            self.restarts = restarts if (restarts & is_after_first).any() else None
        self.starts = self.restarts
        if self.is_numbered:
            self.starts = pad_ends(self.mask_2d.diff(dim=1) != 0, (1, 0), value=True) & (self.mask_2d != 0)

    def findings(self, intent: str | Mask | None) -> Iterator[Finding]:
        """Check mask, positions, documents and labels. A message such as "of padding ..." follows "3 tokens"."""
        name, mask, fix = self.mask_name, self.mask_2d, "1 = a token, 0 = padding"
        fix = fix if self.pad is None else f"{name} = ({self.name} != {self.pad}).long()"
        if self.is_inverted:
            message = f"{name} is inverted: it is 0 at the tokens and 1 at padding."
            yield from self._find("inverted", "error", message, fix, mask.bool())
        elif mask is None and self.mask_4d is None and not self.is_target:
            message = f"of padding and no {name}: padding is seen."
            yield from self._find("padding", "error", message, fix, self.is_pad, "token")
        elif mask is not None and not self.are_flags and not self.is_numbered:
            message = f"{name} holds {float(mask.min()):g} and other numbers; a mask (B, n) holds 1 and 0."
            yield from self._find("values", "error", message, fix)
        elif mask is not None:
            if self.is_numbered:
                message = f"{name} numbers documents: code that does not expect this sees all of them as one text."
                yield from self._find("documents", "warning", message, DIVIDE.format(mask=name))
            message = f"of padding that {name} opens: padding is seen."
            yield from self._find("padding", "error", message, fix, self.is_pad & (mask != 0), "token")
            message = f"of a text at which {name} is 0: no token sees them."
            hidden = ~self.padding & (mask == 0) & (self.pad is not None)
            yield from self._find("padding", "error", message, fix, hidden, "token")
            message, is_empty = "of the batch without a token.", (mask == 0).all(1)
            yield from self._find("empty-row", "error", message, "Leave such rows out of the batch.", is_empty, "row")
        yield from self._check_positions()
        if self.labels is not None:
            yield from self._check_labels(self.labels.expand_as(self.ids))
        if self.mask_4d is not None:
            yield from self._check_mask_4d(intent)

    def _find(
        self, rule: str, severity: str, message: str, fix: str, cells: Tensor | None = None, noun: str = ""
    ) -> list[Finding]:
        """Make a finding as `Array.findings` does; `cells` is boolean, (B, n), or (B,) for rows."""
        grid = Array(self.ids[:, None, None], ("batch", "key"))
        return grid.findings(rule, severity, message, fix, None if cells is None else cells[:, None, None], noun)

    def _check_positions(self) -> Iterator[Finding]:
        """Check the positions of left-padded texts and of packed documents."""
        is_token, name, restarts = ~self.is_pad, self.mask_name, self.restarts
        is_left_padded = self.is_pad[:, 0] & is_token.any(1)
        fix = f"position_ids = ({name}.cumsum(-1) - 1).clamp(min=0)"
        if self.positions is None:
            message = "padded at the left, and no position_ids: most models then count padding as positions."
            yield from self._find("positions", "warning", message, fix, is_left_padded, "text")
            return
        first_token = is_token.int().argmax(1, keepdim=True)
        first_position = self.positions.expand_as(self.ids).gather(1, first_token)[:, 0]
        wrong = is_left_padded & (first_position != 0)
        row = int(wrong.int().argmax())
        position = int(first_position[row])
        message = f"Text {row} is padded at the left, and its first token has position {position}, not 0."
        yield from self._find("positions", "error", message, fix, wrong)
        if self.is_numbered and restarts is None:
            message = f"{name} numbers documents, and position_ids go on from one to the next."
            fix = "Begin position_ids at 0 in each document."
            yield from self._find("documents", "warning", message, fix, self.starts)
        elif self.mask_2d is not None and self.are_flags and restarts is not None:
            later_starts = pad_ends(restarts[:, 1:], (1, 0))
            row, position = later_starts.nonzero()[0].tolist()
            message = f"position_ids restart, as for packed documents, but {name} does not separate them: in row {row} "
            message += f"the token at {position} sees the document before it."
            yield from self._find("documents", "error", message, DIVIDE.format(mask=name), later_starts)

    def _check_labels(self, labels: Tensor) -> Iterator[Finding]:
        """Check for labels, (B, n), at padding, ignored end tokens, and labels that are shifted wrongly."""
        used = labels != IGNORED
        padding_labels = self.is_pad & used
        if self.is_target and self.pad is not None:  # the first padding id at the end may be the end token
            is_pad_id = labels == self.pad
            is_at_end = is_pad_id.flip(1).int().cumprod(1).flip(1).bool()
            padding_labels = pad_ends(is_at_end[:, 1:] & is_pad_id[:, :-1], (1, 0))
        fix = f"labels = labels.masked_fill({'labels == pad' if self.is_target else 'attention_mask == 0'}, -100)"
        message = "of padding: the loss counts them, as they are not -100."
        yield from self._find("labels", "error", message, fix, padding_labels, "label")
        if self.mask_2d is not None and not self.is_target:
            is_end_token = self.may_end_text & ~self.may_end_text[:, :1]
            unlearned = pad_ends((is_end_token & ~used)[:, 1:] & used[:, :-1], (1, 0))  # after the last used label
            rows = counted(int(unlearned.any(1).sum()), "row")
            message = f"The end token, id {self.pad}, has the label -100 in {rows}, because it is also the id of "
            message += "padding: the model never learns to end."
            fix = f"labels = {self.name}.masked_fill({self.mask_name} == 0, -100), or pad with another id."
            yield from self._find("labels", "error", message, fix, unlearned)
        is_next = ((labels[:, :-1] == self.ids[:, 1:]) | ~used[:, :-1]).all()
        is_own = (labels == self.ids) | ~used
        if self.is_target and used.any() and is_own.all() and not is_next:
            message = f"{self.name} hold the label of their own position: the decoder reads what it has to predict."
            fix = f"Begin {self.name} with the start token, followed by the labels without the last one."
            yield from self._find("labels", "error", message, fix)
        elif not self.is_target and used[:, :-1].any() and is_next and not is_own[:, :-1].all():
            message = "labels hold the next token already; models of transformers shift them themselves."
            fix = "labels = input_ids.clone(), if the model shifts; else leave them."
            yield from self._find("labels", "warning", message, fix)

    def _check_mask_4d(self, intent: str | Mask | None) -> Iterator[Finding]:
        """Check a mask (B, H, Q, K) against padding, and against documents that restarting positions mark."""
        from attnviz.check import check

        padding = ~self.is_pad if self.is_pad.any() else None
        report = check(self.mask_4d, kind="mask", intent=intent, padding=padding)
        restarts, (queries, keys) = self.restarts, report.shape[2:]
        if restarts is not None and queries == keys and not report.rules("error"):
            document = (restarts.int().cumsum(1) + 1) * ~self.is_pad  # index of the document, from 1; 0 at padding
            query_document, key_document = document[:, None, :, None], document[:, None, None]
            is_other_document = (query_document != key_document) & (query_document > 0) & (key_document > 0)
            crossing = to_may_attend(self.mask_4d, report.convention) & is_other_document
            if crossing.any():
                _, _, query, key = crossing.nonzero()[0].tolist()
                message = f"position_ids restart, as for packed documents, but {self.mask_name} joins documents: "
                message += f"the token at {query} sees the token at {key}."
                fix = "Block other documents: mask & (document[:, None, :, None] == document[:, None, None])."
                yield Finding("documents", "error", message, fix)
                return
        self.question = self.question or report.question
        yield from (replace(finding, message=f"{self.mask_name}: {finding.message}") for finding in report.findings)

    @property
    def assumed(self) -> str:
        """Description of the texts: their number, and their padding or their packed documents."""
        if self.starts is not None:
            return f"{counted(int(self.starts.sum()), 'document')} packed in {counted(len(self.ids), 'row')}"
        sides = [side for side, column in (("left", 0), ("right", -1)) if self.is_pad[:, column].any()]
        named = f" (id {self.pad})" if self.pad is not None else ""
        padding = f"with padding at the {' and the '.join(sides)}{named}" if self.is_pad.any() else "without padding"
        return f"{counted(len(self.ids), 'text')} {padding}"
