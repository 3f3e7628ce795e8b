"""The tap: an ordinary argument that a model passes to its attention calls, and that records one step per call.

It needs no globals, hooks or attributes on modules, so two users of one model do not affect each other.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.core.attention import BLOCK, attend, attention_output, attention_weights, window
from attnviz.core.edits import Donor, Edits, Site, donors, input_sites, overlay, with_score_rows
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.masks.base import Wrapper
from attnviz.core.progress import tell
from attnviz.core.record import Step
from attnviz.core.scoring import ALL, Area, Bias, Scoring
from attnviz.linear import LinearMap


class Tap:
    """Applies edits to every attention call and records the inputs of each call.

    Args:
        edits: changes to apply.
        keep: whether to record steps; if not, PyTorch's fused kernel computes the output.

    Attributes:
        steps: recorded steps, in the order of the calls.
        attention: weights per site, (B, H, Q, K), in the autograd graph; only in a `GradientTap`, else None.
        recomputes: whether linear attention returns weights @ value even without edits, which tests its maps.
    """

    attention: dict[Site, Tensor] | None = None
    recomputes = False

    def __init__(self, edits: Edits = Edits(), *, keep: bool = True):
        self.edits, self.keep = edits, keep
        self.steps: list[Step] = []
        self._entered: dict[Site, Tensor] = {}

    def enter(self, x: Tensor, *, site: Site) -> Tensor:
        """Return a layer's input, (B, n, d_model), with vectors of other texts inserted; record it if requested."""
        for donor in donors(self.edits, site):
            x = donor.put("stream", x)
        if site in input_sites(self.edits):
            self._entered[site] = x.clone()
        return x

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        site: Site,
        mask: Tensor | Mask | None = None,
        scoring: Scoring = Scoring(),
        sinks: Tensor | None = None,
        dropout_p: float = 0.0,
    ) -> Tensor:
        """Compute one attention call with the edits applied; shapes as in `scaled_dot_product_attention`.

        Args:
            sinks: score of an additional last key that is never masked, as in GPT-OSS, (H,) or (B, H, Q, 1). Its value
                is zero, so that weight on it adds nothing to the output.

        Returns:
            The output per head, (B, H, Q, d_v), with zeros for heads that are off. Dropout needs ``keep=False``: a
            record shows weights without dropout.
        """
        off, off_alone = self.edits.off(site), self.edits.off_alone(site)  # heads: in all sentences, and per sentence
        site_donors = donors(self.edits, site)
        for donor in site_donors:
            query, key, value = donor.put("query", query), donor.put("key", key), donor.put("value", value)
        key, value, mask, scoring = self._edited_inputs(query, key, value, site, mask, scoring, sinks)
        new_output = _output_of_donors(site_donors, query, value)
        if self.keep:
            output, logsumexp = attend(query, key, value, mask, scoring)
            step = Step(site, query, key, value, mask, logsumexp, scoring, off, sinks is not None, off_alone)
            self.steps.append(replace(step, taken=new_output, entered=self._entered.get(site)))
        elif self.attention is not None:
            weights = attention_weights(query, key, mask, scoring)[0].to(value.dtype)
            self.attention[site] = weights if weights.requires_grad else weights.requires_grad_()
            tell(1.0)  # the call is done; the other functions report this themselves
            output = weights @ value
        else:
            output = attention_output(query, key, value, mask, scoring, dropout_p=dropout_p)
        return silence(overlay(output, new_output), off, off_alone)

    def mix(
        self,
        output: Tensor | None,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        linear: LinearMap,
        *,
        site: Site,
        mask: Tensor | Mask = Subsequent(),
    ) -> Tensor:
        """Record a call of linear attention, and return its output with the edits applied, (B, H, n, d_v).

        Args:
            output: output of the model's own code, which is used unless an edit changes the mask or the values; None
                to compute it as weights @ value.
            query: scaled queries, (B, H, n, d_k).
            key, value: (B, H, n, d_k) and (B, H, n, d_v).
        """
        site_donors = donors(self.edits, site)
        self._check_linear(site, site_donors)
        new_value = value
        for donor in site_donors:
            new_value = donor.put("value", new_value)
        new_output = _output_of_donors(site_donors, query, value)
        new_mask = self._edited_mask(mask, site, query.shape[2], key.shape[2])
        off, off_alone, scoring = self.edits.off(site), self.edits.off_alone(site), Scoring(scale=1.0)
        logsumexp = torch.zeros(1, 1, 1, dtype=torch.float64, device=query.device).expand(query.shape[:3])
        step = Step(site, query, key, new_value, new_mask, logsumexp, scoring, off, off_alone=off_alone, linear=linear)
        is_changed = new_mask is not mask or new_value is not value
        if output is None or is_changed or self.recomputes or self.attention is not None:
            output, logsumexp = self._compute_linear(step)
        else:
            tell(1.0)
        if self.keep:
            self.steps.append(replace(step, logsumexp=logsumexp, taken=new_output, entered=self._entered.get(site)))
        return silence(overlay(output, new_output), off, off_alone)

    def _check_linear(self, site: Site, site_donors: list[Donor]) -> None:
        """Raise InputError if an edit changes the scores, the built-in mask or the pattern of linear attention."""
        impossible = [setting for setting, _ in self.edits.at(site, Scoring()).phrases()]
        impossible += [] if self.edits.own_mask else ["built-in mask"]
        has_pattern = any("query" in donor.tensors or "row" in donor.tensors for donor in site_donors)
        impossible += ["pattern"] if has_pattern else []
        if impossible:
            reason = f"{site} is linear attention, without scores and softmax"
            hint = "Switch heads off, add a mask, or choose a layer with softmax attention."
            raise InputError(f"{reason}: {' and '.join(impossible)} cannot change there. {hint}")

    def _compute_linear(self, step: Step) -> tuple[Tensor, Tensor]:
        """Compute weights @ value of linear attention, and its log-sum-exp: 0, or -inf for a query with no key left."""
        queries, keys = step.shape[2:]
        keeps_weights = self.attention is not None  # of all rows, as one tensor
        block_size = queries if keeps_weights else max(1, BLOCK // max(1, keys))
        outputs, logsumexps = [], []
        for start in range(0, queries, block_size):
            rows = slice(start, min(start + block_size, queries))
            weights = step.linear.weights(step.query, step.key, Area(rows=rows))
            logsumexp = weights.new_zeros(weights.shape[:3], dtype=torch.float64)
            allowed = window(step.mask, rows, queries=queries, keys=keys)
            if allowed is not None:
                weights = weights.masked_fill(~allowed, 0)
                logsumexp = logsumexp.masked_fill(~allowed.any(-1), -torch.inf)
            if keeps_weights:
                self.attention[step.site] = weights if weights.requires_grad else weights.requires_grad_()
            outputs.append((weights @ step.value.to(weights.dtype)).to(step.value.dtype))
            logsumexps.append(logsumexp)
            tell(rows.stop / queries)
        return torch.cat(outputs, 2), torch.cat(logsumexps, 2)

    def repeat(self, step: Step) -> Tensor:
        """Compute the call of a recorded step again, with its edits and those of this tap; record it and return it."""
        key, value, mask, scoring, sinks = step.key, step.value, step.mask, step.scoring, None
        if step.has_sink:
            key, value, mask, scoring, sinks = _without_sink(step)
        if step.linear:
            output = self.mix(None, step.query, key, value, step.linear, site=step.site, mask=mask)
        else:
            output = self.attend(step.query, key, value, site=step.site, mask=mask, scoring=scoring, sinks=sinks)
        off = self.steps[-1].heads_off | step.heads_off
        step_edits = {"off_alone": step.off_alone, "taken": step.taken}
        self.steps[-1] = replace(self.steps[-1], heads_off=off, name=step.name, **step_edits)
        return silence(overlay(output, step.taken), off, step.off_alone)

    def weights(
        self,
        query: Tensor,
        key: Tensor,
        *,
        site: Site,
        mask: Tensor | Mask | None = None,
        scoring: Scoring = Scoring(),
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Compute the weights of `attend` with the edits, (B, H, Q, K); zeros for heads off. Records no step."""
        key, _, mask, scoring = self._edited_inputs(query, key, key, site, mask, scoring, sinks)
        weights, _, _ = attention_weights(query, key, mask, scoring)
        return silence(weights, self.edits.off(site), self.edits.off_alone(site))

    def _edited_inputs(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        site: Site,
        mask: Tensor | Mask | None,
        scoring: Scoring,
        sinks: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | Mask | None, Scoring]:
        """Apply the edits to mask and scoring, append the sink as a key, and return key, value, mask and scoring."""
        mask = self._edited_mask(mask, site, query.shape[2], key.shape[2])
        scoring = self.edits.at(site, scoring)
        scoring.check((*query.shape[:3], key.shape[2]))
        if scoring.scale is None:
            scoring = replace(scoring, scale=query.shape[-1] ** -0.5)
        scoring = with_score_rows(donors(self.edits, site), query, key, scoring)
        return (key, value, mask, scoring) if sinks is None else _with_sink(key, value, mask, scoring, sinks)

    def _edited_mask(self, mask: Tensor | Mask | None, site: Site, queries: int, keys: int) -> Tensor | Mask | None:
        """Join a model's mask, or None, with the mask of the edits."""
        edit_mask = self.edits.mask_at(site.kind)
        if mask is None or not self.edits.own_mask:
            return edit_mask
        if edit_mask is None:
            return mask
        return mask & (edit_mask if isinstance(mask, Mask) else edit_mask.tensor(queries, keys))


def _output_of_donors(site_donors: list[Donor], query: Tensor, value: Tensor) -> Tensor | None:
    """Collect the outputs of other texts, (B, H, Q, d_v): NaN where nothing is replaced; None if there are none."""
    output = None
    for donor in site_donors:
        if "output" in donor.tensors:
            unset = value.new_full((*query.shape[:3], value.shape[-1]), torch.nan)
            output = donor.put("output", unset if output is None else output)
    return output


def silence(output: Tensor, heads_off: frozenset[int], off_alone: tuple[frozenset[int], ...] = ()) -> Tensor:
    """Zero the outputs, (B, H, Q, d_v), of `heads_off` in all sentences, and of the heads `off_alone` per sentence."""
    if not heads_off and not off_alone:
        return output
    if off_alone and len(off_alone) != len(output):
        raise ShapeError(f"Heads are off for each of {len(off_alone)} sentence(s); the batch has {len(output)}.")
    off = torch.zeros(max(1, len(off_alone)), output.shape[1], dtype=torch.bool, device=output.device)
    for sentence, heads in enumerate(off_alone or [frozenset()]):  # one row stands for all sentences
        off[sentence, [head for head in heads_off | heads if head < output.shape[1]]] = True
    return output.masked_fill(off[:, :, None, None], 0)


@dataclass(frozen=True)
class BiasBesideSink(Bias):
    """A bias extended by one key, the sink, for which the bias is 0; `sink` is the index of that key, the last one."""

    bias: Bias
    sink: int

    def tensor(self, heads, queries, keys, *, head_slice=ALL, rows=ALL, columns=ALL, dtype=torch.float32):
        """Compute the bias without the sink, and append a column of zeros if the block has the sink."""
        columns = slice(*columns.indices(keys))
        has_sink = self.sink in range(keys)[columns]
        block = {"head_slice": head_slice, "rows": rows, "columns": columns, "dtype": dtype}
        return pad(self.bias.tensor(heads, queries, self.sink, **block), (0, int(has_sink)))

    def __str__(self) -> str:
        return str(self.bias)


@dataclass(frozen=True)
class MaskBesideSink(Wrapper):
    """A mask extended by one key, the sink, to which every query may attend; `sink` is the index of that key."""

    sink: int

    def allows(self, query, key, sentence):
        return (key == self.sink) | self.mask.allows(query, key, sentence)

    def blockers(self, query, key, sentence):
        blockers = self.mask.blockers(query, key, sentence)
        return {rule: blocked & (key != self.sink) for rule, blocked in blockers.items()}

    def __str__(self) -> str:
        return str(self.mask)


def _with_sink(
    key: Tensor, value: Tensor, mask: Tensor | Mask | None, scoring: Scoring, sinks: Tensor
) -> tuple[Tensor, Tensor, Tensor | Mask | None, Scoring]:
    """Append the sink, a zero key and value with a bias as its score; return key, value, mask and scoring."""
    keys, heads = key.shape[2], key.shape[1]
    if isinstance(mask, Mask):
        mask = MaskBesideSink(mask, keys)
    elif mask is not None:
        mask = pad(mask.expand(*mask.shape[:-1], keys), (0, 1), value=True)
    biases = [
        BiasBesideSink(bias, keys) if isinstance(bias, Bias) else pad(bias.expand(*bias.shape[:-1], keys), (0, 1))
        for bias in scoring.bias
    ]
    sink_bias = pad(sinks if sinks.dim() == 4 else sinks.reshape(1, heads, 1, 1), (keys, 0))  # 0 for all other keys
    scoring = replace(scoring, bias=(*biases, sink_bias))
    return pad(key, (0, 0, 0, 1)), pad(value, (0, 0, 0, 1)), mask, scoring


def _without_sink(step: Step) -> tuple[Tensor, Tensor, Tensor | Mask | None, Scoring, Tensor]:
    """Undo `_with_sink`; return key, value, mask, scoring and sinks."""
    keys = step.shape[3] - 1
    *biases, sink_bias = step.scoring.bias
    biases = [bias.bias if isinstance(bias, BiasBesideSink) else bias[..., :keys] for bias in biases]
    mask = step.mask
    if mask is not None:
        mask = mask.mask if isinstance(mask, MaskBesideSink) else mask[..., :keys]
    scoring = replace(step.scoring, bias=tuple(biases))
    return step.key[:, :, :keys], step.value[:, :, :keys], mask, scoring, sink_bias[..., keys:]


class GradientTap(Tap):
    """Tap that keeps the weights of each call, so that gradients with respect to the weights can be computed.

    It also keeps the weights of heads that are off. It records no steps and ignores dropout.
    """

    def __init__(self, edits: Edits = Edits()):
        if edits.taken:
            problem = "Parts of this run are replaced by those of another text, which have no gradient"
            raise InputError(f"{problem}; remove these changes.")
        super().__init__(edits, keep=False)
        self.attention = {}
