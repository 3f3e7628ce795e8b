"""Search for the modules of a model of transformers that write into its residual stream, by what they give.

No family is known here by its name. A short run keeps the input and output of every module, and each part is the module
with the expected numbers: W^O reads the outputs of the heads, columns of W^Q are the queries, and a feed-forward layer
is what a layer adds besides its attention.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnviz.core.amounts import size
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Step
from attnviz.core.stream import CLOSE, Linear, ModelWeights, Norm, Projections, Readout, value_bias_of
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.huggingface import faults, memory, running
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.tapped import watching

NAMES = {"w_q": "queries", "w_k": "keys", "w_v": "values"}
LONGEST_HEAD = 6
"""Modules between the last states and the unembedding, at most: BERT has a layer, an activation and a norm there."""
PROBES, LENGTH = 16, 5
"""Texts and their tokens, by whose numbers modules are told apart; few models have 5 heads."""


class Unproven(InputError):
    """A model is not known to be a sum of parts."""


class ModuleCall(NamedTuple):
    """One call of a module in a run: its first input and its output, (B, n, ...)."""

    module: nn.Module
    input: Tensor | None
    output: Tensor


class Projected(NamedTuple):
    """A projection to queries, keys or values.

    Attributes:
        linear: with the outputs of the heads.
        module: that computes it.
        vectors: before they are turned, (B, n, H · d).
        before: the norm whose output it reads; None where there is none.
        read: what that norm reads; without one, what the projection reads.
        normalized: whether a norm follows the layer.
    """

    linear: Linear
    module: nn.Module
    vectors: Tensor
    before: Norm | None
    read: Tensor
    normalized: bool


@dataclass(frozen=True, eq=False)
class CallModules:
    """The weights around one attention call.

    Attributes:
        parts: the projections that are known, of `NAMES`.
        written: what W^O gives, before it is multiplied and added.
        is_turned: whether queries are what their projection gives, or are turned by their positions.
        adds_positions: whether vectors of positions are added to those of tokens.
    """

    projections: Projections
    parts: Mapping[str, Projected]
    written: Tensor
    is_turned: bool = True
    adds_positions: bool = False

    @property
    def normalized(self) -> bool:
        """Whether queries or keys are normalized after their projections."""
        return any(part.normalized for name, part in self.parts.items() if name != "w_v")


@dataclass(frozen=True, eq=False)
class StreamModules:
    """The modules that write into the residual stream, and the weights around them.

    Attributes:
        weights: of the model.
        words: whose output, times `factor`, is the embedding of tokens.
        positions: whose output is added to it; None where there is none.
        last: whose input is the end of the stream: the last norm, or the unembedding.
        feed_forward: of each layer that has one, and the factor that its output is multiplied by.
        has_all_projections: whether those to queries, keys and values were looked for.
    """

    weights: ModelWeights
    words: nn.Module
    factor: float
    positions: nn.Module | None
    last: nn.Module
    feed_forward: Mapping[int, tuple[nn.Module, float]]
    has_all_projections: bool


class Search:
    """A short run of a model, and the search for its parts.

    Attributes:
        calls: of every module, in the order in which they ended.
        states: the residual stream before each layer, (B, n, d_model) each.
    """

    def __init__(self, loaded: Loaded):
        self.loaded, self.within = loaded, bound(loaded)
        count = loaded.vocabulary
        ids = [[(7 + 11 * j + i * count // (PROBES + 3 * j)) % count for j in range(LENGTH)] for i in range(PROBES)]
        end = getattr(loaded.config, "eos_token_id", None)
        if isinstance(end, int) and 0 <= end < count:  # some models look for it
            ids = [[*row[:-1], end] for row in ids]
        texts = [tuple(Token("", id, 0, 0) for id in row) for row in ids]
        read = running.inputs(tuple(Sentence("", tokens, LENGTH) for tokens in texts), loaded)
        both = bool(getattr(loaded.config, "is_encoder_decoder", False))
        if both:
            read["decoder_input_ids"] = read["input_ids"].flip(0)
        with calls_of([*loaded.model.modules()]) as self.calls:
            returned, steps = running.watched(loaded, Edits(), read, (LENGTH,) * PROBES)
        self.steps = steps
        self.of_stream = [step for step in steps if not both or step.site.kind != "encoder"]
        self.states = [floats(state) for state in states_of(returned)]
        self.logits = None if getattr(returned, "logits", None) is None else floats(returned.logits)
        self.names = {module: name for name, module in loaded.model.named_modules()}

    def call(self, site: Site) -> CallModules | None:
        """The modules around a call, if all its projections are known."""
        step = next(step for step in self.steps if step.site == site)
        try:
            modules = self._call(step)
        except InputError:  # its heads are not joined by one matrix
            return None
        if modules.parts.keys() != NAMES.keys() or not modules.is_turned:
            return None
        adds_positions = False
        with suppress(InputError):  # its tokens come from no table
            adds_positions = self._embedding()[2] is not None
        return replace(modules, adds_positions=adds_positions)

    def modules(self, *, all_projections: bool) -> StreamModules:
        self._check_room(4 if all_projections else 1)
        readout, last = self._readout()
        states = [*self.states[:-1], last.input]
        calls = {step.site: self._call(step, all_projections=all_projections) for step in self.of_stream}
        projections = {site: call.projections for site, call in calls.items()}
        feed_forward = {}
        for layer in range(len(states) - 1):
            sites = [site for site in projections if site.layer == layer]
            written = [calls[site].written for site in sites]
            added, factor = self._added(states[layer + 1] - states[layer], written, layer)
            if added is not None:
                feed_forward[layer] = added, factor
            for site in sites:
                projections[site] = replace(projections[site], factor=factor)
        if beyond := [site for site in projections if site.layer >= len(states) - 1]:
            raise self._refuse(f"{beyond[0]} is beyond the layers whose states it tells")
        if all_projections:
            self._check_read(calls)
        words, factor, positions, embedding, table = self._embedding()
        heads = {step.site: step.num_heads for step in self.of_stream}
        weights = ModelWeights(projections, heads, embedding, table, readout)
        return StreamModules(weights, words, factor, positions, last.module, feed_forward, all_projections)

    def _check_read(self, calls: Mapping[Site, CallModules]) -> None:
        """Refuse projections that read other vectors than those that enter their layer, though they may be as wide."""
        for site, name, part in ((site, *item) for site, call in calls.items() for item in call.parts.items()):
            entered = self.states[site.layer]
            same = part.read.numel() == entered.numel() and self._close(part.read.reshape(entered.shape), entered)
            if site.kind != "cross" and not same:
                what = (
                    f"the {NAMES[name]} of {site} are not projected from what enters the layer, as in latent attention"
                )
                raise InputError(f"{self.loaded.name} ({self.loaded.made_of}) has no circuits here: {what}.")

    def _check_room(self, matrices: int) -> None:
        d_model = self.states[0].shape[-1]
        needs = sum(4 * matrices * d_model * step.num_heads * step.value.shape[-1] for step in self.of_stream)
        if needs > (free := memory.free(torch.device("cpu"))) // 2:
            what = f"its projections take {size(needs)} of memory as float32, and {size(free)} are free"
            raise InputError(f"{refused(self.loaded, what)}")

    def lens(self) -> tuple[Readout, tuple[nn.Module, ...]]:
        """How words are read from a hidden state, and modules that it goes through before: head(norm(state)).

        States of a post-norm model are normalized by their layers: they are read by its head alone.
        """
        with suppress(InputError):
            readout, norm = self._readout()
            is_last = any(ratio(self.states[-1], end) == 1 and self._close(end, self.states[-1]) for end in norm[1:])
            if is_last and not self._is_in_layer(norm.module):
                return readout, ()
        (readout, call), end = self._unembedding(), self.states[-1]
        if any(state.shape != end.shape for state in self.states):
            raise self._refuse("its states are not one vector for each token")
        between = self._between(end, call.input)
        if between is None:  # they are inside of a module that makes the logits
            between = self._between(end, self.logits)
        if between is None:
            raise self._refuse("its words are not read from its last states by modules one after the other")
        last = (call for call in reversed(self.calls) if self._gives(call, end, end) and self._norm(call))
        norms = [call.module for call in last if not self._is_in_layer(call.module)]
        return readout, (*norms[:1], *between)

    def _between(self, end: Tensor, wanted: Tensor) -> list[nn.Module] | None:
        """Modules that make some vectors of the last states, one after the other; None if they are not known."""
        modules = []
        while not self._close(wanted, end):
            call = next((call for call in reversed(self.calls) if self._gives(call, wanted, end)), None)
            if call is None or len(modules) > LONGEST_HEAD:
                return None
            modules.insert(0, call.module)
            wanted = call.input
        return modules

    def _gives(self, call: ModuleCall, wanted: Tensor, like: Tensor) -> bool:
        """Whether a module makes some vectors of others."""
        if call.input is None or call.input.shape[:-1] != like.shape[:-1]:
            return False
        return self._close(call.output, wanted) and not self._close(call.input, wanted)

    def _is_in_layer(self, module: nn.Module) -> bool:
        return any(part.isdecimal() for part in self.names[module].split("."))

    def _unembedding(self) -> tuple[Readout, ModuleCall]:
        """How logits are read from the input of the unembedding, and its call."""
        unembedding = self.loaded.model.get_output_embeddings()
        weight = getattr(unembedding, "weight", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2 or not weight.is_floating_point():
            raise self._refuse("it has no matrix that gives words their logits")
        call = next((call for call in reversed(self.calls) if call.module is unembedding), None)
        if call is None or call.input is None or call.input.shape[-1] != weight.shape[1]:
            raise self._refuse("its logits do not come from its output embeddings")
        bias = getattr(unembedding, "bias", None)
        linear = Linear(floats(weight), None if bias is None else floats(bias))
        unbounded, softcap = linear(call.input), getattr(self._config, "final_logit_softcapping", None)
        before = self.logits if softcap is None else softcap * torch.atanh(self.logits / softcap)
        factor = ratio(before, unbounded)
        if factor is None or not self._close(before, unbounded * factor):
            raise self._refuse("its logits are more than a matrix times its last vectors")
        return Readout(None, linear, factor, softcap), call

    def _readout(self) -> tuple[Readout, ModuleCall]:
        """How logits are read from the end of the stream, and the call of the norm that reads that end."""
        readout, call = self._unembedding()
        for norm_call in reversed(self.calls):
            if norm_call.input is None or norm_call.output.shape != call.input.shape:
                continue
            scale = ratio(call.input, norm_call.output)
            if scale is None or not self._close(call.input, norm_call.output * scale):
                continue
            if norm := self._norm(norm_call):
                return replace(readout, norm=_scaled(norm, scale)), norm_call
        raise self._refuse("its logits are not read off a plain norm of what its layers gave")

    def _call(self, step: Step, *, all_projections: bool = True) -> CallModules:
        """The weights around a call."""
        call, w_o = self._w_o(step, step.outputs())
        after = self._after(call)
        written, norm = (call.output, None) if after is None else (after[0].output, after[1])
        vectors = {"w_q": step.query, "w_k": step.key, "w_v": step.value}
        parts = self._parts(call, vectors if all_projections else {"w_v": step.value})
        value, query, rotary, is_turned = parts.get("w_v"), parts.get("w_q"), False, True
        value_bias = value and value_bias_of(value.linear, value.before)
        if not all_projections:
            return CallModules(Projections(None, None, None, w_o, after=norm, value_bias=value_bias), parts, written)
        if query is not None:
            expected, unturned = _joined(step.query)[:, 1], query.vectors[:, 1]
            rotary = not self._close(unturned, expected)
            is_turned = not rotary or self._is_turned(unturned, expected)
        # their product is no bilinear form of the stream where queries or keys are normalized
        is_plain = is_turned and not any(part.normalized for part in parts.values())
        linears = {name: part.linear for name, part in parts.items() if is_plain or name == "w_v"}
        projections = Projections(
            **dict.fromkeys(NAMES) | linears,
            w_o=w_o,
            before=next((part.before for part in parts.values()), None),
            after=norm,
            scale=step.scoring.scale,
            rotary=rotary,
            value_bias=value_bias,
        )
        return CallModules(projections, parts, written, is_turned)

    def _w_o(self, step: Step, outputs: Tensor) -> tuple[ModuleCall, Linear]:
        d_model = self.states[0].shape[-1]
        for call in reversed(self.calls):
            if call.input is None or call.output.shape[-1] != d_model or call.input.numel() != outputs.numel():
                continue
            if call.input.shape[-1] != outputs.shape[-1] or not self._close(call.input.reshape(outputs.shape), outputs):
                continue
            linear = self._linear(call)
            if linear is not None and not (call.input.shape == call.output.shape and call.input is call.output):
                return call._replace(output=call.output.reshape(*outputs.shape[:2], d_model)), linear
        raise self._refuse(f"the outputs of the heads of {step.site} do not go through one matrix")

    def _after(self, written: ModuleCall) -> tuple[ModuleCall, Norm] | None:
        """The norm that reads the output of W^O alone, and its call."""
        for call in self.calls:
            is_given = call.input is not None and call.input.shape == written.output.shape == call.output.shape
            if not is_given or self._close(call.output, written.output):
                continue
            if self._close(call.input, written.output) and (norm := self._norm(call)):
                return call, norm
        return None

    def _parts(self, w_o: ModuleCall, vectors: Mapping[str, Tensor]) -> dict[str, Projected]:
        """The projections to queries, keys and values, by their names; those that are not known are left out."""
        parent, parts = self.names[w_o.module], {}
        for _ in range(2):  # siblings of W^O, or of the part that it is in
            parent = parent.rpartition(".")[0]
            inside = [c for c in self.calls if c.input is not None and self.names[c.module].startswith(f"{parent}.")]
            for name in [name for name in vectors if name not in parts]:
                if part := self._projected(_joined(vectors[name])[:, 0], inside):
                    parts[name] = part
        return {name: parts[name] for name in vectors if name in parts}

    def _projected(self, wanted: Tensor, calls: list[ModuleCall]) -> Projected | None:
        """The layer that gave (B, H · d) vectors at position 0, where rotary positions turn nothing."""
        for call in calls:
            outputs = self._by_position(call.output)
            picked = None if outputs is None else self._columns(outputs[:, 0], wanted)
            if picked is None:
                continue
            vectors = outputs[..., picked[0]] * picked[1]
            if (linear := self._linear(call)) is not None:
                return self._part(linear, call, picked, vectors)
            if self._norm(call) is None:
                continue
            inputs = self._by_position(call.input)[:, 0][:, picked[0]]  # of each head, or of all
            for other in calls:
                rows = None if other is call else self._by_position(other.output)
                before = None if rows is None else self._columns(rows[:, 0], inputs)
                if before is not None and (linear := self._linear(other)) is not None:
                    return self._part(linear, other, before, vectors, normalized=True)
        return None

    def _part(
        self,
        linear: Linear,
        call: ModuleCall,
        picked: tuple[Tensor, float],
        vectors: Tensor,
        *,
        normalized: bool = False,
    ) -> Projected:
        """Some outputs of a layer, multiplied, and the norm that it reads."""
        columns, factor = picked
        bias = None if linear.bias is None else linear.bias[columns] * factor
        linear, before, read = Linear(linear.weight[columns] * factor, bias), None, call.input
        for norm_call in reversed(self.calls):  # a norm of normalized vectors gives them again
            if norm_call.input is None or norm_call.output.shape != call.input.shape:
                continue
            if self._close(norm_call.output, call.input) and (before := self._norm(norm_call)):
                read = norm_call.input
                break
        return Projected(linear, call.module, vectors, before, read, normalized)

    def _by_position(self, tensor: Tensor) -> Tensor | None:
        """(B, n, ...) or (B, H, n, ...) as (B, n, m); None of another shape."""
        if tensor.dim() not in (3, 4) or tensor.shape[0] != PROBES or LENGTH not in tensor.shape[1:-1]:
            return None
        return (tensor if tensor.shape[1] == LENGTH else tensor.transpose(1, 2)).flatten(2)

    def _is_turned(self, before: Tensor, after: Tensor) -> bool:
        """Whether each pair of numbers of a head, (B, H · d), is turned by an angle that all texts and heads share."""
        before, after = (tensor.unflatten(-1, (-1, self._head_width)).flatten(0, 1) for tensor in (before, after))
        width = self._head_width
        for turned in range(width, 0, -2):  # of some models a part of the numbers alone
            for pairs in ((2, -1), (-1, 2)):
                parts = [tensor[:, :turned].unflatten(-1, pairs) for tensor in (before, after)]
                axis = 1 if pairs == (2, -1) else -1
                old, new = (torch.complex(*part.double().unbind(axis)) for part in parts)
                angle = (new * old.conj()).sum(0)
                expected = torch.view_as_real(old * angle / angle.abs().clamp(min=1e-30))
                as_they_were = turned == width or self._close(before[:, turned:], after[:, turned:])
                if as_they_were and self._close(expected, torch.view_as_real(new)):
                    return True
        return False

    def _columns(self, outputs: Tensor, wanted: Tensor) -> tuple[Tensor, float] | None:
        """Which columns of (B, m) outputs are the (B, k) wanted ones, and by which factor; None if one is missing."""
        for factor in (1.0, self._head_width**-0.5):
            near = torch.cdist(wanted.mT, outputs.mT * factor, p=torch.inf).min(-1)
            if float(near.values.max()) <= self.within * max(1.0, float(wanted.abs().max())):
                return near.indices, factor
        return None

    @property
    def _head_width(self) -> int:
        return self.steps[0].query.shape[-1]

    def _added(self, whole: Tensor, written: list[Tensor], layer: int) -> tuple[nn.Module | None, float]:
        """The module that gives a layer's addition besides its attention, and the factor of both."""
        for factor in dict.fromkeys((1.0, float(getattr(self._config, "residual_multiplier", None) or 1.0))):
            rest = whole - factor * sum(written)
            if written and self._close(rest, torch.zeros_like(rest), whole):
                return None, factor
            for call in self.calls:
                if call.output.numel() == rest.numel() and self._close(call.output.reshape(rest.shape) * factor, rest):
                    return call.module, factor
        what = f"layer {layer} adds more than its attention and one other part"
        raise self._refuse(f"{what}, or normalizes their sum, as in a post-norm model" if written else what)

    def _embedding(self) -> tuple[nn.Module, float, nn.Module | None, Tensor | None, Tensor | None]:
        """The module of tokens and its factor, that of positions, the table of tokens, and that of positions."""
        both = getattr(self.loaded.config, "is_encoder_decoder", False)
        owner = self.loaded.model.get_decoder() if both else self.loaded.model
        words, first = owner.get_input_embeddings(), self.states[0]
        call = next((call for call in reversed(self.calls) if call.module is words), None)
        if call is None:
            raise self._refuse("its tokens do not come from its table of vectors")
        for other in (None, *self.calls):
            rest = first
            if other is not None:
                if other.output.dim() not in (2, 3) or other.output.shape[-2:] != first.shape[-2:]:
                    continue
                rest = first - other.output
            factor = ratio(rest, call.output)
            if factor is None or abs(factor) < 1e-3 or not self._close(rest, call.output * factor):
                continue
            table = floats(words.weight)
            return words, factor, other and other.module, self._table(table, call, factor), self._positions(other)
        return words, 1.0, None, None, None

    def _table(self, weight: Tensor, call: ModuleCall, factor: float) -> Tensor | None:
        """The vectors of tokens as they are added; None if the module gives others than its rows."""
        scale = ratio(call.output, weight[call.input.long()]) if call.input is not None else None
        if scale is None:
            return None
        return weight if scale * factor == 1 else weight * (scale * factor)

    def _positions(self, call: ModuleCall | None) -> Tensor | None:
        """The learned vectors of positions from 0 on; None where they are not rows of a table."""
        weight = getattr(call and call.module, "weight", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2:
            return None
        rows = call.output.reshape(-1, *call.output.shape[-2:])[0]
        length = len(rows)
        starts = [
            i for i in range(min(8, len(weight) - length + 1)) if self._close(floats(weight[i : i + length]), rows)
        ]
        return floats(weight[starts[0] :]) if starts else None

    def _linear(self, call: ModuleCall) -> Linear | None:
        """A module as x W + b, by what it gives for the unit vectors: whatever keeps its numbers; None if it is not."""
        width, module = call.input.shape[-1], call.module
        parameter = next(module.parameters(), None)
        kind = {"device": self.loaded.device, "dtype": self.loaded.dtype if parameter is None else torch.float32}
        if parameter is not None and parameter.is_floating_point() and parameter.dtype.itemsize > 1:
            kind["dtype"] = parameter.dtype
        elif parameter is not None:
            kind["dtype"] = self.loaded.dtype
        try:
            with self.loaded.turns.turn():
                bias = floats(module(torch.zeros(1, 1, width, **kind)))[0, 0]
                weight = (floats(module(torch.eye(width, **kind).unsqueeze(0)))[0] - bias).mT
        except Exception as error:  # it is called in another way, so it is no plain layer
            if faults.of_memory(error):
                raise
            return None
        linear = Linear(weight, bias if bool(bias.any()) else None)
        is_linear = weight.shape[0] == call.output.shape[-1] and self._close(linear(call.input), call.output)
        return linear if is_linear else None

    def _norm(self, call: ModuleCall) -> Norm | None:
        """A module as a layer norm or a root-mean-square norm; None if it is neither."""
        module = call.module
        if next(module.children(), None) is not None or call.input.shape != call.output.shape:
            return None
        weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
        sized = [tensor for tensor in (weight, bias) if isinstance(tensor, Tensor)]
        if any(tensor.shape != call.input.shape[-1:] for tensor in sized):
            return None
        weight, bias = (None if tensor is None else floats(tensor) for tensor in (weight, bias))
        names = ("eps", "variance_epsilon", "epsilon", "norm_eps")
        eps = next((float(getattr(module, name)) for name in names if getattr(module, name, None) is not None), 1e-6)
        for is_centered in (True, False):
            for gain in (weight,) if weight is None else (weight, 1 + weight):
                norm = Norm(gain, bias, eps, is_centered)
                if self._close(norm(call.input), call.output):
                    return norm
        return None

    @property
    def _config(self) -> Any:
        return self.loaded.config.get_text_config()

    def _close(self, a: Tensor, b: Tensor, scale: Tensor | None = None) -> bool:
        most = float((b if scale is None else scale).abs().max())
        return a.shape == b.shape and float((a - b).abs().max()) <= self.within * max(most, 1e-3)

    def _refuse(self, why: str) -> Unproven:
        return refused(self.loaded, why)


def refused(loaded: Loaded, why: str) -> Unproven:
    return Unproven(f"{loaded.name} ({loaded.made_of}) is not taken apart into what each head adds: {why}.")


@contextmanager
def calls_of(modules: list[nn.Module]) -> Iterator[list[ModuleCall]]:
    """Keep inputs and outputs of some modules, meanwhile, in this thread alone: others may run the same model."""
    calls = []

    def keep(module: nn.Module, inputs: tuple, output: Any) -> None:
        output = output[0] if isinstance(output, tuple | list) and output else output
        if isinstance(output, Tensor) and output.is_floating_point():
            first = next((one for one in inputs if isinstance(one, Tensor)), None)
            calls.append(ModuleCall(module, None if first is None else _copied(first), _copied(output)))

    with watching(modules, keep):
        yield calls


def _joined(tensor: Tensor) -> Tensor:
    """(B, H, n, d) -> (B, n, H · d)."""
    return floats(tensor).transpose(1, 2).flatten(2)


def states_of(returned: Any) -> tuple[Tensor, ...]:
    """The residual stream before each layer, and what the model makes of its end."""
    states = getattr(returned, "decoder_hidden_states", None) or returned.hidden_states
    if not states:
        raise AttnvizError("The model tells no hidden states.")
    return states


def _copied(tensor: Tensor) -> Tensor:
    """A copy, as models write into their tensors."""
    return tensor.detach().to("cpu", torch.float32, copy=True)


def floats(tensor: Tensor) -> Tensor:
    return tensor.detach().float().cpu()


def bound(loaded: Loaded) -> float:
    """Largest difference that is rounding, for the largest number."""
    return max(CLOSE, 4 * torch.finfo(loaded.dtype).eps)


def ratio(a: Tensor, b: Tensor) -> float | None:
    """By which factor b comes nearest to a; 1 where that is rounding; None where they have other shapes."""
    if a.shape != b.shape or not bool(b.any()):
        return None
    ratio = float((a.double() * b.double()).sum() / b.double().square().sum())
    return 1.0 if abs(ratio - 1) < 1e-4 else ratio


def _scaled(norm: Norm, factor: float) -> Norm:
    """A norm and a factor as one norm."""
    if factor == 1.0:
        return norm
    weight = torch.tensor(factor) if norm.weight is None else norm.weight * factor
    return replace(norm, weight=weight, bias=None if norm.bias is None else norm.bias * factor)
