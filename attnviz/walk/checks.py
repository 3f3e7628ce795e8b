"""The page's numbers beside PyTorch's own attention, on the same tensors."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnviz.core.amounts import rounding
from attnviz.core.edits import Site
from attnviz.core.origin import PROJECTIONS, Origin
from attnviz.core.record import Record, Step
from attnviz.walk.chain import Knowing
from attnviz.walk.rows import checked_step
from attnviz.walk.windows import FIRST, slice_of, window_positions


@dataclass(frozen=True)
class Against:
    """One comparison, over all heads of a call.

    Attributes:
        what: the function or module of PyTorch.
        output: the largest absolute difference of what it gives; None if it cannot be compared.
        weights: the same of the weights.
        message: one sentence; why not, if it cannot be compared.
    """

    what: str
    output: float | None
    weights: float | None
    message: str


@dataclass(frozen=True)
class Check:
    """Both comparisons."""

    function: Against
    module: Against


FUNCTION, MODULE = "F.scaled_dot_product_attention", "nn.MultiheadAttention"


def check(
    record: Record,
    source: Knowing | None,
    site: Site,
    *,
    sentence: int = 0,
    queries: slice = FIRST,
    keys: slice = FIRST,
) -> Check:
    """Compare an attention call with PyTorch's function, and with its module, to which the weights are copied.

    Outputs are compared for the queries of a window, over all keys; weights for the window. Heads that are off are
    compared as if they were on. A query with no key left is left out: there PyTorch has no policy to choose.

    Raises:
        InputError: if there is no such site or sentence, a window is too large, or only the weights are known.
    """
    step = checked_step(record, site, 0, 0, sentence)
    rows, columns = window_positions(queries, step.shape[2], "queries"), window_positions(keys, step.shape[3], "keys")
    call = _Compared(step, sentence, slice_of(rows), slice_of(columns))
    origin = None if source is None else source.origin(record, site)
    return Check(_function(call), _module(call, origin))


class _Compared:
    """Our numbers of all heads, and what PyTorch needs to make the same."""

    def __init__(self, step: Step, sentence: int, rows: slice, columns: slice):
        heads, where = range(step.num_heads), {"sentence": sentence}
        wide = torch.promote_types(step.query.dtype, torch.float32)  # halves are raised, as in our attention
        self.step, self.sentence, self.rows, self.columns = step, sentence, rows, columns
        self.query, self.key, self.value = (t[sentence].to(wide) for t in (step.query, step.key, step.value))
        self.query = self.query[:, rows]
        self.weights = torch.stack([step.weights(head, rows, **where) for head in heads])
        self.output = self.weights.to(wide) @ self.value
        self.open = torch.stack([step.may_attend(head, rows, **where) for head in heads])
        self.has_keys = torch.stack([~step.empty_queries(head, **where)[rows] for head in heads])
        added = torch.stack([self._bias(head) for head in heads]) if step.scoring.bias else None
        self.added = None if added is None else added.to(wide)

    def _bias(self, head: int) -> Tensor:
        """The bias alone as it enters the softmax, (rows, K): the scores of a query of zeros."""
        zeros = replace(self.step, query=torch.zeros_like(self.step.query))
        return zeros.scores(head, self.rows, sentence=self.sentence)

    @property
    def mask(self) -> Tensor:
        """Booleans, or with a bias floats, (H, rows, K)."""
        return self.open if self.added is None else self.added.masked_fill(~self.open, -math.inf)

    def difference(self, ours: Tensor, theirs: Tensor) -> float:
        """The largest, over rows that have a key left, of (H, rows, ...); NaN if one side alone has a NaN."""
        apart = (ours.double() - theirs.double()).abs()
        apart = apart.masked_fill(ours.isnan() & theirs.isnan(), 0)
        rows = apart[self.has_keys]
        return float(rows.max()) if rows.numel() else 0.0

    @property
    def left_out(self) -> str:
        empty = int((~self.has_keys).sum())
        return f" {empty} row(s) with no key left are not compared." if empty else ""


def _function(call: _Compared) -> Against:
    step = call.step
    if step.scoring.softcap is not None:
        return Against(FUNCTION, None, None, f"{FUNCTION} has no softcap, and this call has one.")
    settings = {"attn_mask": call.mask, "scale": step.scoring.scale / step.scoring.temperature}
    output = F.scaled_dot_product_attention(call.query, call.key, call.value, **settings)
    wide = call.columns.stop - call.columns.start
    picks = torch.zeros(step.shape[3], wide, dtype=call.value.dtype)  # values that pick single weights
    picks[call.columns] = torch.eye(wide, dtype=call.value.dtype)
    picks = picks.expand(step.num_heads, *picks.shape)
    weights = F.scaled_dot_product_attention(call.query, call.key, picks, **settings)
    return _against(call, FUNCTION, call.difference(call.output, output), weights, "")


def _module(call: _Compared, origin: Origin | None) -> Against:
    step = call.step
    if reason := _cannot(call, origin):
        return Against(MODULE, None, None, reason)
    linears = [getattr(origin, name) for name in PROJECTIONS]
    heads, bias = step.num_heads, any(linear.bias is not None for linear in linears)
    width = origin.query_input.shape[-1]
    module = nn.MultiheadAttention(width, heads, bias=bias, batch_first=True, device="meta").to_empty(device="cpu")
    biases = [torch.zeros(width) if linear.bias is None else linear.bias for linear in linears]
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([linear.weight for linear in linears[:3]]))
        module.out_proj.weight.copy_(origin.w_o.weight)
        if bias:
            module.in_proj_bias.copy_(torch.cat(biases[:3]))
            module.out_proj.bias.copy_(biases[3])
        query = origin.query_input[call.sentence, call.rows].unsqueeze(0)
        key = origin.key_input[call.sentence].unsqueeze(0)
        mask = ~call.open if call.added is None else call.mask  # True = masked, the opposite of ours
        output, weights = module.eval()(query, key, key, attn_mask=mask, average_attn_weights=False)
        ours = origin.w_o(call.output.transpose(0, 1).flatten(1))
    whole = call.has_keys.all(0)  # a NaN of one head reaches the whole output
    apart = (ours - output[0])[whole].double().abs()
    difference = float(apart.max()) if apart.numel() else 0.0
    return _against(call, MODULE, difference, weights[0][:, :, call.columns], " with the weights copied")


def _cannot(call: _Compared, origin: Origin | None) -> str | None:
    """Why the module cannot be asked."""
    step, d_k = call.step, call.step.query.shape[-1]
    if origin is None:
        return f"{MODULE} needs the projections of the layer, and this model is not taken apart here."
    if step.scoring.softcap is not None:
        return f"{MODULE} has no softcap, and this call has one."
    if not math.isclose(step.scoring.scale / step.scoring.temperature, d_k**-0.5):
        return f"{MODULE} always divides by √d_k and knows no temperature; here one of them is changed."
    if origin.is_adjusted:
        return f"{MODULE} neither normalizes queries and keys nor turns them by their positions, as this model does."
    if origin.w_q.weight.shape[0] != origin.query_input.shape[-1] or origin.w_q.weight.shape != origin.w_v.weight.shape:
        return f"{MODULE} has heads that divide d_model; here they have {d_k} numbers each."
    projected = [origin.w_q(origin.query_input), origin.w_k(origin.key_input), origin.w_v(origin.key_input)]
    have = [tensor.transpose(1, 2).flatten(2) for tensor in (step.query, step.key, step.value)]
    bounds = {"rtol": 1e-4, "atol": 1e-5}
    if not all(torch.allclose(ours, theirs, **bounds) for ours, theirs in zip(projected, have, strict=True)):
        return f"{MODULE} projects queries, keys and values itself, and some of these are set by hand."
    return None


def _against(call: _Compared, what: str, output: float, weights: Tensor, how: str) -> Against:
    apart = call.difference(call.weights[:, :, call.columns], weights)
    differ = f"outputs differ by at most {rounding(output)}, weights by at most {rounding(apart)}"
    return Against(what, output, apart, f"{what}{how}: {differ}.{call.left_out}")
