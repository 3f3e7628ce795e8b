"""The residual stream of a model of transformers: which modules write into it, found by what they give, and proven.

No family is known here by its name. In a short run every module's input and output are kept, and each part is the
module whose numbers are those that are looked for: W^O is what is given the outputs of the heads, the columns of W^Q
are those that are the queries, a feed-forward layer is what a layer adds besides its attention.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.origin import Linear
from attnviz.core.record import Record, Step
from attnviz.core.stream import CLOSE, ModelWeights, Norm, Projections, Readout, Stream
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.huggingface import running
from attnviz.sources.huggingface.loaded import Loaded

PROBES = 16
"""Texts of two tokens each, by whose numbers modules are told apart."""


class Call(NamedTuple):
    """One call of a module in a run: its first input and its output, (B, n, ...)."""

    module: nn.Module
    input: Tensor | None
    output: Tensor


@dataclass(frozen=True, eq=False)
class StreamModules:
    """The modules that write into the residual stream, and the weights around them.

    Attributes:
        weights: of the model.
        words: whose output, times `factor`, is the embedding of tokens.
        positions: whose output is added to it; None where there is none.
        last: whose input is the end of the stream: the last norm, or the unembedding.
        feed_forward: of each layer that has one, and the factor that its output is multiplied by.
    """

    weights: ModelWeights
    words: nn.Module
    factor: float
    positions: nn.Module | None
    last: nn.Module
    feed_forward: Mapping[int, tuple[nn.Module, float]]


_models: WeakKeyDictionary[nn.Module, StreamModules] = WeakKeyDictionary()


def modules_of(loaded: Loaded) -> StreamModules:
    """The modules that write into the residual stream of a model, found once.

    Raises:
        InputError: which part of it is not the sum of modules' outputs, so that the model is not taken apart.
    """
    if loaded.keeps_own_attention and not loaded.trial.is_captured:
        raise _refused(loaded, "its attention is its own, and what its heads give is not known")
    if loaded.task not in ("next", "fill", "write"):
        raise _refused(loaded, "it gives no word a logit")
    if loaded.model not in _models:
        with torch.inference_mode():
            _models[loaded.model] = _Search(loaded).modules()
    return _models[loaded.model]


def stream_of(loaded: Loaded, record: Record) -> Stream:
    """The residual stream of a record, by another run of its model.

    Raises:
        InputError: as `modules_of`; or if the parts do not sum to the whole.
    """
    parts = modules_of(loaded)
    read = running.inputs(record.sentences, loaded)
    if record.targets:
        read["decoder_input_ids"] = running.inputs(record.targets, loaded)["input_ids"]
    lengths = tuple(sentence.length for sentence in record.sentences)
    wanted = [parts.words, parts.last, *(module for module, _ in parts.feed_forward.values())]
    with _calls(wanted) as calls:
        returned, _ = running.watched(loaded, record.edits, read, lengths)
    by_module = {call.module: call for call in calls}
    first = _floats(_states(returned)[0])
    words = _floats(by_module[parts.words].output) * parts.factor
    position = first - words
    if parts.positions is None:  # pictures stand in the place of words, or nothing is added
        words, position = first, None
    stream = Stream(
        weights=parts.weights,
        embedding=words,
        position=position,
        feed_forward={
            layer: _floats(by_module[module].output).reshape(first.shape) * factor
            for layer, (module, factor) in parts.feed_forward.items()
        },
        final=_floats(by_module[parts.last].input).reshape(first.shape),
    )
    attention = sum(
        projections.writes(record.step(site).outputs()) for site, projections in parts.weights.sites.items()
    )
    real = torch.zeros(first.shape[:2], dtype=torch.bool)
    for row, sentence in zip(real, record.read, strict=True):
        row[: sentence.length] = True
    stream.check(attention, record.prediction.logits, record.source, real=real, within=_bound(loaded))
    return stream


class _Search:
    """A short run of a model, and what is found in it.

    Attributes:
        calls: of every module, in the order in which they ended.
        states: the residual stream before each layer, (B, n, d_model) each.
    """

    def __init__(self, loaded: Loaded):
        self.loaded, self.within = loaded, _bound(loaded)
        count = loaded.vocabulary
        pairs = [((7 + i * count // PROBES) % count, (11 + i * count // (PROBES + 3)) % count) for i in range(PROBES)]
        tokens = [tuple(Token("", id, 0, 0) for id in pair) for pair in pairs]
        read = running.inputs(tuple(Sentence("", pair, 2) for pair in tokens), loaded)
        if loaded.task == "write":
            read["decoder_input_ids"] = read["input_ids"].flip(0)
        with _calls([*loaded.model.modules()]) as self.calls:
            returned, steps = running.watched(loaded, Edits(), read, (2,) * PROBES)
        both = bool(getattr(loaded.config, "is_encoder_decoder", False))
        self.steps = [step for step in steps if not both or step.site.kind != "encoder"]
        self.states = [_floats(state) for state in _states(returned)]
        self.logits = _floats(returned.logits)
        self.names = {module: name for name, module in loaded.model.named_modules()}

    def modules(self) -> StreamModules:
        readout, last, final = self._readout()
        states = [*self.states[:-1], final]
        projections, written = {}, {}
        for step in self.steps:
            projections[step.site], written[step.site] = self._projections(step)
        feed_forward = {}
        for layer in range(len(states) - 1):
            sites = [site for site in projections if site.layer == layer]
            added, factor = self._added(states[layer + 1] - states[layer], sites, projections, written, layer)
            if added is not None:
                feed_forward[layer] = added, factor
            for site in sites:
                projections[site] = replace(projections[site], factor=factor)
        if beyond := [site for site in projections if site.layer >= len(states) - 1]:
            raise self._refuse(f"{beyond[0]} is beyond the layers whose states it tells")
        words, factor, positions, embedding, table = self._embedding()
        heads = {step.site: step.num_heads for step in self.steps}
        weights = ModelWeights(projections, heads, embedding, table, readout)
        return StreamModules(weights, words, factor, positions, last, feed_forward)

    def _readout(self) -> tuple[Readout, nn.Module, Tensor]:
        """How logits are read, the module whose input is the end of the stream, and that end."""
        unembedding = self.loaded.model.get_output_embeddings()
        weight = getattr(unembedding, "weight", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2 or not weight.is_floating_point():
            raise self._refuse("it has no matrix that gives words their logits")
        call = next((call for call in reversed(self.calls) if call.module is unembedding), None)
        if call is None or call.input is None:
            raise self._refuse("its logits do not come from its output embeddings")
        linear = Linear(_floats(weight), None if unembedding.bias is None else _floats(unembedding.bias))
        unbounded, softcap = linear(call.input), getattr(self._config, "final_logit_softcapping", None)
        before = self.logits if softcap is None else softcap * torch.atanh(self.logits / softcap)
        factor = _ratio(before, unbounded)
        if factor is None or not self._close(before, unbounded * factor):
            raise self._refuse("its logits are more than a matrix times its last vectors")
        for norm_call in reversed(self.calls):
            if norm_call.input is None or norm_call.output.shape != call.input.shape:
                continue
            scale = _ratio(call.input, norm_call.output)
            if scale is None or not self._close(call.input, norm_call.output * scale):
                continue
            if norm := self._norm(norm_call):
                return Readout(_scaled(norm, scale), linear, factor, softcap), norm_call.module, norm_call.input
        raise self._refuse("its logits are not read off a plain norm of what its layers gave")

    def _projections(self, step: Step) -> tuple[Projections, Tensor]:
        """The projections of a call, and what it gives before it is multiplied and added."""
        outputs = step.outputs()
        call, w_o = self._w_o(step, outputs)
        after = self._after(call)
        written, norm = (call.output, None) if after is None else (after[0].output, after[1])
        module, before, found = self._inputs(step, call)
        return Projections(**found, w_o=w_o, before=before, after=norm, rotary=module), written

    def _w_o(self, step: Step, outputs: Tensor) -> tuple[Call, Linear]:
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

    def _after(self, written: Call) -> tuple[Call, Norm] | None:
        """The norm that is given just what W^O gives, and its call."""
        for call in self.calls:
            is_given = call.input is not None and call.input.shape == written.output.shape == call.output.shape
            if not is_given or self._close(call.output, written.output):
                continue
            if self._close(call.input, written.output) and (norm := self._norm(call)):
                return call, norm
        return None

    def _inputs(self, step: Step, w_o: Call) -> tuple[bool, Norm | None, dict[str, Linear | None]]:
        """Whether queries are turned by their position; the norm before the projections; and these, where known."""
        parent = self.names[w_o.module].rpartition(".")[0]
        inside = [c for c in self.calls if c.input is not None and self.names[c.module].rpartition(".")[0] == parent]
        found: dict[str, Linear | None] = {"w_q": None, "w_k": None, "w_v": None}
        rotary, before = False, None
        for name, tensor in (("w_q", step.query), ("w_k", step.key), ("w_v", step.value)):
            wanted = tensor[:, :, :2].transpose(1, 2).flatten(2)  # (B, 2, H · d)
            for call in (call for call in inside if call.module is not w_o.module and call.output.dim() == 3):
                picked = self._columns(call.output[:, 0], wanted[:, 0])
                linear = None if picked is None else self._linear(call)
                if linear is None:
                    continue
                columns, factor = picked
                bias = None if linear.bias is None else linear.bias[columns] * factor
                found[name] = Linear(linear.weight[columns] * factor, bias)
                if name == "w_q":
                    rotary = not self._close(found[name](call.input[:, 1]), wanted[:, 1])
                before = before or self._before(call)
                break
        return rotary, before, found

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

    def _before(self, call: Call) -> Norm | None:
        """The norm whose output a projection is given."""
        for norm_call in self.calls:
            if norm_call.input is None or norm_call.output.shape != call.input.shape:
                continue
            if self._close(norm_call.output, call.input) and (norm := self._norm(norm_call)):
                return norm
        return None

    def _added(
        self,
        whole: Tensor,
        sites: list[Site],
        projections: Mapping[Site, Projections],
        written: Mapping[Site, Tensor],
        layer: int,
    ) -> tuple[nn.Module | None, float]:
        """What a layer adds besides its attention, as the module that gives it, and the factor of both."""
        for factor in dict.fromkeys((1.0, float(getattr(self._config, "residual_multiplier", None) or 1.0))):
            rest = whole - factor * sum(written[site] for site in sites)
            if sites and self._close(rest, torch.zeros_like(rest), whole):
                return None, factor
            for call in self.calls:
                if call.output.numel() == rest.numel() and self._close(call.output.reshape(rest.shape) * factor, rest):
                    return call.module, factor
        what = f"layer {layer} adds more than its attention and one other part"
        raise self._refuse(f"{what}, or normalizes their sum, as in a post-norm model" if sites else what)

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
            factor = _ratio(rest, call.output)
            if factor is None or abs(factor) < 1e-3 or not self._close(rest, call.output * factor):
                continue
            table = _floats(words.weight)
            return words, factor, other and other.module, self._table(table, call, factor), self._positions(other)
        return words, 1.0, None, None, None

    def _table(self, weight: Tensor, call: Call, factor: float) -> Tensor | None:
        """The vectors of tokens as they are added; None if the module gives others than its rows."""
        scale = _ratio(call.output, weight[call.input.long()]) if call.input is not None else None
        return None if scale is None else weight * (scale * factor)

    def _positions(self, call: Call | None) -> Tensor | None:
        """The learned vectors of positions from 0 on; None where they are not rows of a table."""
        weight = getattr(call and call.module, "weight", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2:
            return None
        rows = call.output.reshape(-1, *call.output.shape[-2:])[0]
        starts = [i for i in range(min(8, len(weight) - 1)) if self._close(_floats(weight[i : i + 2]), rows)]
        return _floats(weight[starts[0] :]) if starts else None

    def _linear(self, call: Call) -> Linear | None:
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
                bias = _floats(module(torch.zeros(1, 1, width, **kind)))[0, 0]
                weight = (_floats(module(torch.eye(width, **kind).unsqueeze(0)))[0] - bias).mT
        except Exception:  # it is called in another way, so it is no plain layer
            return None
        linear = Linear(weight, bias if bool(bias.any()) else None)
        is_linear = weight.shape[0] == call.output.shape[-1] and self._close(linear(call.input), call.output)
        return linear if is_linear else None

    def _norm(self, call: Call) -> Norm | None:
        """A module as a layer norm or a root-mean-square norm; None if it is neither."""
        module = call.module
        if next(module.children(), None) is not None or call.input.shape != call.output.shape:
            return None
        weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
        if isinstance(weight, Tensor) and weight.dim() != 1:
            return None
        weight, bias = (None if one is None else _floats(one) for one in (weight, bias))
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

    def _refuse(self, why: str) -> InputError:
        return _refused(self.loaded, why)


def _refused(loaded: Loaded, why: str) -> InputError:
    return InputError(f"{loaded.name} ({loaded.made_of}) is not taken apart into what each head adds: {why}.")


@contextmanager
def _calls(modules: list[nn.Module]) -> Iterator[list[Call]]:
    """Keep what some modules are given and give, meanwhile. Who runs the model has it alone."""
    calls: list[Call] = []

    def keep(module: nn.Module, given: tuple, output: Any) -> None:
        output = output[0] if isinstance(output, tuple | list) and output else output
        if isinstance(output, Tensor) and output.is_floating_point():
            first = next((one for one in given if isinstance(one, Tensor)), None)
            calls.append(Call(module, None if first is None else _copied(first), _copied(output)))

    hooks = [module.register_forward_hook(keep) for module in dict.fromkeys(modules)]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _states(returned: Any) -> tuple[Tensor, ...]:
    """The residual stream before each layer, and what the model makes of its end."""
    states = getattr(returned, "decoder_hidden_states", None) or returned.hidden_states
    if not states:
        raise AttnvizError("The model tells no hidden states.")
    return states


def _copied(tensor: Tensor) -> Tensor:
    """A copy, as models write into their tensors."""
    return tensor.detach().to("cpu", torch.float32, copy=True)


def _floats(tensor: Tensor) -> Tensor:
    return tensor.detach().float().cpu()


def _bound(loaded: Loaded) -> float:
    """Largest difference that is rounding, for the largest number."""
    return max(CLOSE, 4 * torch.finfo(loaded.dtype).eps)


def _ratio(a: Tensor, b: Tensor) -> float | None:
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
