"""The tap: it goes down a model as an ordinary argument and comes back with one step per attention call.

No globals, no hooks, no attributes on modules, so two users of one model never meet.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.core import attention
from attnviz.core.attention import attend, attention_output
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import ShapeError
from attnviz.core.masks import Mask
from attnviz.core.modifiers import ALL, Bias
from attnviz.core.record import Step


class Tap:
    """Applies edits to every attention call that is handed to it, and keeps what each was computed from.

    Args:
        edits: what to change.
        keep: whether to keep the steps; without them the output comes from PyTorch's fused kernel.
    """

    def __init__(self, edits: Edits = Edits(), *, keep: bool = True):
        self.edits = edits
        self.keep = keep
        self.steps: list[Step] = []

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        site: Site,
        mask: Tensor | Mask | None = None,
        bias: Tensor | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
        dropout_p: float = 0.0,
    ) -> Tensor:
        """One attention call with the edits applied; shapes as in `scaled_dot_product_attention`.

        Args:
            sinks: (H,), for each head the score of one more key that holds nothing and is never masked, as in GPT-OSS:
                what a query gives to it reaches no output. It is the last key of the step.

        Returns:
            The output per head, (B, H, Q, d_v); heads that are off give zeros. Dropout needs ``keep=False``, because a
            record shows the weights of an evaluation.
        """
        off, alone = self.edits.off(site), self.edits.off_alone(site)
        scale = scale if self.edits.scale is None else self.edits.scale
        own = mask if self.edits.own_mask else None
        mask = _both(own, self.edits.mask, query.shape[2], key.shape[2])
        keys = key.shape[2]
        if sinks is not None:
            key, value, mask, bias = _with_sink(key, value, mask, bias, sinks)
        if self.edits.bias and site.kind != "cross":
            attention.check_bias(bias, (*query.shape[:3], key.shape[2]))
            bias = _Sum(bias, self.edits.bias, keys)
        settings = {
            "bias": bias,
            "scale": query.shape[-1] ** -0.5 if scale is None else scale,
            "softcap": softcap if self.edits.softcap is None else self.edits.softcap,
            "temperature": self.edits.temperature,
            "empty_rows": self.edits.empty_rows,
        }
        if self.keep:
            output, logsumexp = attend(query, key, value, mask, **settings)
            kept = {"heads_off": off, "off_alone": alone, "has_sink": sinks is not None} | settings
            self.steps.append(Step(site, query, key, value, mask, logsumexp, **kept))
        else:
            output = attention_output(query, key, value, mask, dropout_p=dropout_p, **settings)
        return silence(output, off, alone)


def silence(output: Tensor, heads_off: frozenset[int], alone: tuple[frozenset[int], ...] = ()) -> Tensor:
    """The output per head, (B, H, Q, d_v), with some heads replaced by zeros; those of `alone` in one sentence each.

    Raises:
        ShapeError: if `alone` is not for as many sentences as there are.
    """
    if not heads_off and not alone:
        return output
    if alone and len(alone) != len(output):
        raise ShapeError(f"Heads are off for each of {len(alone)} sentence(s); the batch has {len(output)}.")
    each = [heads_off | one for one in alone] or [heads_off]
    off = torch.tensor([[head in one for head in range(output.shape[1])] for one in each], device=output.device)
    return output.masked_fill(off[:, :, None, None], 0)


def _both(own: Tensor | Mask | None, edit: Mask | None, queries: int, keys: int) -> Tensor | Mask | None:
    """The model's own mask and the edit's, joined by "and"; named if both are."""
    if own is None or edit is None:
        return edit if own is None else own
    if isinstance(own, Mask):
        return own & edit
    return own & edit.tensor(queries, keys)


@dataclass(frozen=True, eq=False)
class _Sum(Bias):
    """The model's own bias and those of the edits, added where they are asked for; a sink, after `keys`, keeps its own.

    The own bias has 2 axes, or 4.
    """

    own: Tensor | None
    biases: tuple[Bias, ...]
    keys: int

    def tensor(self, heads, queries, keys, *, only=ALL, rows=ALL, columns=ALL, dtype=torch.float32):
        within = slice(*columns.indices(keys))
        beyond = len(range(keys)[within]) - len(range(self.keys)[within])
        where = {"only": only, "rows": rows, "columns": within, "dtype": dtype}
        total = pad(sum(bias.tensor(heads, queries, self.keys, **where) for bias in self.biases), (0, beyond))
        if self.own is None:
            return total
        own = attention.window(self.own.reshape((1,) * (4 - self.own.dim()) + self.own.shape), rows, columns)
        return total + (own[:, only] if own.shape[1] > 1 else own).to(dtype)


@dataclass(frozen=True)
class _BesideSink(Mask):
    """The keys of a mask, and one after them that every query may attend to."""

    mask: Mask
    sink: int

    @property
    def batch_size(self):
        return self.mask.batch_size

    def allows(self, query, key, sentence):
        return (key == self.sink) | self.mask.allows(query, key, sentence)

    def blockers(self, query, key, sentence):
        blockers = self.mask.blockers(query, key, sentence)
        return {rule: blocked & (key != self.sink) for rule, blocked in blockers.items()}

    def __str__(self) -> str:
        return str(self.mask)


def _with_sink(
    key: Tensor, value: Tensor, mask: Tensor | Mask | None, bias: Tensor | None, sinks: Tensor
) -> tuple[Tensor, Tensor, Tensor | Mask | None, Tensor]:
    """Keys, values, mask and bias with one more key, whose score is the bias alone."""
    keys, heads = key.shape[2], key.shape[1]
    if isinstance(mask, Mask):
        mask = _BesideSink(mask, keys)
    elif mask is not None:
        mask = pad(mask.expand(*mask.shape[:-1], keys), (0, 1), value=True)
    bias = bias if bias is not None else sinks.new_zeros(1, heads, 1, keys)
    bias = bias.expand(bias.shape[0], heads, bias.shape[2], keys)
    sink = sinks.to(bias.dtype).reshape(1, heads, 1, 1).expand(*bias.shape[:-1], 1)
    return pad(key, (0, 0, 0, 1)), pad(value, (0, 0, 0, 1)), mask, torch.cat([bias, sink], -1)
