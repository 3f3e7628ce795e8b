"""Search for the modules of a model that write into its residual stream.

No model family is looked up by its name. A probe run stores the input and output of every module, and each part is
recognized by its numbers: W^O reads the outputs of the heads, the output of W^Q contains the queries, and the output of
a feed-forward network is what a layer adds to the stream besides its attention.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnviz.core.amounts import size
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Step
from attnviz.core.stream import (
    CLOSE,
    Linear,
    ModelWeights,
    Norm,
    Projections,
    Readout,
    value_bias_of,
)
from attnviz.core.tokens import Sentence, Token
from attnviz.sources import estimate
from attnviz.sources.huggingface import faults, running
from attnviz.sources.huggingface.hooks import watching
from attnviz.sources.huggingface.loaded import Loaded

NAMES = {"w_q": "queries", "w_k": "keys", "w_v": "values"}
LONGEST_CHAIN = 6
"""Maximum number of modules between the last states and the logits; BERT has a layer, an activation and a norm."""
PROBES, LENGTH = 16, 5
"""Number of texts in the probe run, and of tokens in each; few models have 5 heads, so the sizes identify the axes."""


class Unproven(InputError):
    """Error for a model whose residual stream is not proven to be a sum of parts."""


class ModuleCall(NamedTuple):
    """One call of a module in a run: its first input and its output, (B, n, ...)."""

    module: nn.Module
    input: Tensor | None
    output: Tensor


class Projected(NamedTuple):
    """A projection to queries, keys or values.

    Attributes:
        linear: map from the normalized stream to the vectors of all heads.
        module: module that computes it.
        vectors: result before rotary positions, (B, n, H · d).
        before: norm in front of the projection; None if there is none.
        read: input of this norm, or of the projection if there is no norm.
        normalized: whether a norm follows the projection.
    """

    linear: Linear
    module: nn.Module
    vectors: Tensor
    before: Norm | None
    read: Tensor
    normalized: bool


class StreamModules(NamedTuple):
    """Weights of a model, and the modules that write into its residual stream.

    Attributes:
        words: module whose output, times `factor`, is the embedding of tokens.
        adds_positions: whether vectors of positions are added to this embedding.
        last: last norm, whose input is the end of the stream.
        feed_forward: module of each layer that has one, and the factor of its output.
    """

    weights: ModelWeights
    words: nn.Module
    factor: float
    adds_positions: bool
    last: nn.Module
    feed_forward: Mapping[int, tuple[nn.Module, float]]


class Search:
    """A probe run of a model, and the search for its parts.

    Attributes:
        calls: calls of all modules, in the order in which they ended.
        states: hidden states of the model, (B, n, d_model): the stream before each layer, and the final states.
    """

    def __init__(self, loaded: Loaded):
        self.loaded, self.within, self.config = loaded, bound(loaded), loaded.config.get_text_config()
        self.names = {module: name for name, module in loaded.model.named_modules()}
        count, end_id = loaded.vocabulary, getattr(loaded.config, "eos_token_id", None)
        ids = [[(7 + 11 * j + i * count // (PROBES + 3 * j)) % count for j in range(LENGTH)] for i in range(PROBES)]
        # no padding, as some models count no positions for it; an end token, as others read only its vector
        pad = getattr(loaded.config, "pad_token_id", None)
        ids = [[(id + 1) % count if id == pad else id for id in row] for row in ids]
        if isinstance(end_id, int) and 0 <= end_id < count:
            ids = [[*row[:-1], end_id] for row in ids]
        sentences = tuple(Sentence("", tuple(Token("", id, 0, 0) for id in row), LENGTH) for row in ids)
        model_inputs = running.inputs(sentences, loaded)
        self.has_encoder = bool(getattr(loaded.config, "is_encoder_decoder", False))
        if self.has_encoder:
            model_inputs["decoder_input_ids"] = model_inputs["input_ids"].flip(0)
        with calls_of([*loaded.model.modules()]) as self.calls:
            returned, self.steps = running.run_model(loaded, Edits(), model_inputs, (LENGTH,) * PROBES)
        self.states = [floats(state) for state in states_of(returned)]
        self.logits = None if getattr(returned, "logits", None) is None else floats(returned.logits)

    def call(self, site: Site) -> tuple[Projections, dict[str, Projected], bool] | None:
        """Projections around an attention call, and whether positions are added to tokens; None if some are unknown."""
        step, adds_positions = next(step for step in self.steps if step.site == site), False
        try:
            projections, parts, _ = self._call(step, all_projections=True)
        except InputError:  # no single matrix reads the outputs of the heads
            return None
        with suppress(InputError):  # the tokens do not come from a table of vectors
            adds_positions = self._embedding()[2] is not None
        return (projections, parts, adds_positions) if parts.keys() == NAMES.keys() else None

    def modules(self, *, all_projections: bool) -> StreamModules:
        """Modules that write into the stream; see `modules_of`."""
        steps = [step for step in self.steps if not self.has_encoder or step.site.kind != "encoder"]
        width, matrices = self.states[0].shape[-1], len(NAMES) + 1 if all_projections else 1
        needs = sum(4 * matrices * width * step.num_heads * step.value.shape[-1] for step in steps)
        if needs > (free := estimate.free_bytes(torch.device("cpu"))) // 2:
            what = f"its projections take {size(needs)} of memory as float32, and {size(free)} are free"
            raise InputError(str(refusal(self.loaded, what)))
        readout, last = self._readout()
        states = [*self.states[:-1], last.input]
        calls = {step.site: self._call(step, all_projections=all_projections) for step in steps}
        sites, feed_forward = {site: projections for site, (projections, _, _) in calls.items()}, {}
        for layer in range(len(states) - 1):
            layer_sites = [site for site in sites if site.layer == layer]
            written = [calls[site][2] for site in layer_sites]
            module, factor = self._addition(states[layer + 1] - states[layer], written, layer)
            if module is not None:
                feed_forward[layer] = module, factor
            sites |= {site: replace(sites[site], factor=factor) for site in layer_sites}
        if beyond := [site for site in sites if site.layer >= len(states) - 1]:
            raise refusal(self.loaded, f"{beyond[0]} is beyond the layers whose states it returns")
        if all_projections:
            for site, (_, parts, _) in calls.items():
                self._check_read(site, parts)
        words, factor, positions, embedding = self._embedding()
        table = None if positions is None else self._position_table(positions)
        weights = ModelWeights(sites, {step.site: step.num_heads for step in steps}, embedding, table, readout)
        return StreamModules(weights, words, factor, positions is not None, last.module, feed_forward)

    def _check_read(self, site: Site, parts: Mapping[str, Projected]) -> None:
        """Raise InputError if a projection does not read the vectors that enter its layer, as in latent attention."""
        entered = self.states[site.layer]
        for name, part in parts.items():
            same = part.read.numel() == entered.numel() and self._is_close(part.read.reshape(entered.shape), entered)
            if site.kind != "cross" and not same:
                what = f"the {NAMES[name]} of {site} are not projected from what enters the layer"
                who = f"{self.loaded.name} ({self.loaded.made_of})"
                raise InputError(f"{who} has no circuits here: {what}, as in latent attention.")

    def lens(self) -> tuple[Readout, tuple[nn.Module, ...]]:
        """Readout from a hidden state to words, unembedding(norm(state)), and the modules to apply before it.

        The layers of a post-norm model normalize its states, so its readout has no norm.
        """
        end = self.states[-1]
        if any(state.shape != end.shape for state in self.states):
            raise refusal(self.loaded, "its states are not one vector for each token")
        with suppress(InputError):
            readout, norm = self._readout()
            if any(self._is_close(part, end) for part in norm[1:]) and not self._is_in_layer(norm.module):
                return readout, ()
        readout, unembedding = self._unembedding()
        modules, vectors = [], unembedding.output
        while not self._is_close(vectors, end):
            call = next((call for call in reversed(self.calls) if self._gives(call, vectors, end)), None)
            if call is None or len(modules) > LONGEST_CHAIN:
                raise refusal(self.loaded, "its logits do not come from its last states through a chain of modules")
            modules.insert(0, call.module)
            vectors = call.input
        for call in reversed(self.calls):
            if self._gives(call, end, end) and not self._is_in_layer(call.module) and self._norm(call):
                return readout, (call.module, *modules)
        return readout, tuple(modules)

    def _is_in_layer(self, module: nn.Module) -> bool:
        """Whether a module belongs to a numbered layer."""
        return any(part.isdecimal() for part in self.names[module].split("."))

    def _gives(self, call: ModuleCall, wanted: Tensor, like: Tensor) -> bool:
        """Whether a call turns other vectors, one for each token like `like`, into the wanted vectors."""
        if call.input is None or call.input.shape[:-1] != like.shape[:-1]:
            return False
        return self._is_close(call.output, wanted) and not self._is_close(call.input, wanted)

    def _unembedding(self) -> tuple[Readout, ModuleCall]:
        """Readout of the logits from the input of the unembedding, and the call of the unembedding."""
        unembedding = self.loaded.model.get_output_embeddings()
        weight = getattr(unembedding, "weight", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2 or not weight.is_floating_point():
            raise refusal(self.loaded, "it has no matrix that gives words their logits")
        call = next((call for call in reversed(self.calls) if call.module is unembedding), None)
        if call is None or call.input is None or call.input.shape[-1] != weight.shape[1]:
            raise refusal(self.loaded, "its logits do not come from its output embeddings")
        bias = getattr(unembedding, "bias", None)
        linear = Linear(floats(weight), None if bias is None else floats(bias))
        unbounded, softcap = linear(call.input), getattr(self.config, "final_logit_softcapping", None)
        before = self.logits if softcap is None else softcap * torch.atanh(self.logits / softcap)
        factor = ratio(before, unbounded)
        if factor is None or not self._is_close(before, unbounded * factor):
            raise refusal(self.loaded, "its logits are more than a matrix times its last vectors")
        return Readout(None, linear, factor, softcap), call

    def _readout(self) -> tuple[Readout, ModuleCall]:
        """Readout of the logits from the end of the stream, and the call of its norm."""
        readout, call = self._unembedding()
        for norm_call in reversed(self.calls):
            scale = None if norm_call.input is None else ratio(call.input, norm_call.output)
            if scale is None or not self._is_close(call.input, norm_call.output * scale):
                continue
            if norm := self._norm(norm_call):
                gain = torch.tensor(scale) if norm.weight is None else norm.weight * scale
                scaled = replace(norm, weight=gain, bias=None if norm.bias is None else norm.bias * scale)
                return replace(readout, norm=norm if scale == 1 else scaled), norm_call
        raise refusal(self.loaded, "its logits do not come from a plain norm of the output of its layers")

    def _call(self, step: Step, *, all_projections: bool) -> tuple[Projections, dict[str, Projected], Tensor]:
        """Weights around an attention call, its projections by name, and the vectors that the call adds to the stream.

        Without `all_projections`, the weights are only W^O and the constant part of the values.
        """
        call, w_o = self._w_o(step)
        written, after = call.output, None
        for other in self.calls:  # find a norm after W^O
            reads = other.input is not None and self._is_close(other.input, call.output)
            if reads and not self._is_close(other.output, call.output) and (after := self._norm(other)):
                written = other.output
                break
        vectors = {"w_q": step.query, "w_k": step.key, "w_v": step.value}
        parts = self._parts(call.module, vectors if all_projections else {"w_v": step.value})
        value, query = parts.get("w_v"), parts.get("w_q")
        # the product of normalized queries and keys is not a bilinear form of the stream
        is_plain = not any(part.normalized for part in parts.values())
        linears = {name: part.linear for name, part in parts.items() if all_projections and (is_plain or name == "w_v")}
        projections = Projections(
            **dict.fromkeys(NAMES) | linears,
            w_o=w_o,
            before=next((part.before for part in parts.values()), None),
            after=after,
            scale=step.scoring.scale,
            rotary=query is not None and not self._is_close(query.vectors[:, 1], _join_heads(step.query)[:, 1]),
            value_bias=value and value_bias_of(value.linear, value.before),
        )
        return projections, parts, written

    def _w_o(self, step: Step) -> tuple[ModuleCall, Linear]:
        """Find W^O, the projection that reads the concatenated outputs of all heads."""
        outputs, width = step.outputs(), self.states[0].shape[-1]
        for call in reversed(self.calls):
            if call.input is None or call.output.shape[-1] != width or call.input.numel() != outputs.numel():
                continue
            reads = call.input.shape[-1] == outputs.shape[-1] and self._is_close(
                call.input.reshape(outputs.shape), outputs
            )
            if reads and (linear := self._linear(call)):
                return call._replace(output=call.output.reshape(*outputs.shape[:2], width)), linear
        raise refusal(self.loaded, f"the outputs of the heads of {step.site} do not go through one matrix")

    def _parts(self, w_o: nn.Module, vectors: Mapping[str, Tensor]) -> dict[str, Projected]:
        """Find the projections to queries, keys and values, by name; unknown projections are left out."""
        parent, parts = self.names[w_o], {}
        for _ in range(2):  # search the siblings of W^O, then the siblings of the module that contains it
            parent = parent.rpartition(".")[0]
            inside = [c for c in self.calls if c.input is not None and self.names[c.module].startswith(f"{parent}.")]
            for name in [name for name in vectors if name not in parts]:
                if part := self._projection(_join_heads(vectors[name])[:, 0], inside):
                    parts[name] = part
        return {name: parts[name] for name in vectors if name in parts}

    def _projection(self, wanted: Tensor, calls: list[ModuleCall]) -> Projected | None:
        """Find the projection that gives (B, H · d) vectors at position 0, where rotary positions change nothing."""
        for call in calls:
            if (match := self._columns(call.output, wanted)) is None:
                continue
            vectors, linear, layer = _by_position(call.output)[..., match[0]] * match[1], self._linear(call), call
            is_norm = linear is None and self._norm(call) is not None
            if is_norm:  # a norm of each head, or of all heads, after the projection
                inputs = _by_position(call.input)[:, 0][:, match[0]]
                for layer in (other for other in calls if other is not call):
                    match = self._columns(layer.output, inputs)
                    if match is not None and (linear := self._linear(layer)):
                        break
            if linear is None:
                continue
            columns, factor = match
            bias = None if linear.bias is None else linear.bias[columns] * factor
            before, read = None, layer.input
            for norm_call in reversed(self.calls):  # a norm leaves vectors that are already normalized unchanged
                feeds_layer = norm_call.input is not None and self._is_close(norm_call.output, layer.input)
                if feeds_layer and (before := self._norm(norm_call)):
                    read = norm_call.input
                    break
            linear = Linear(linear.weight[columns] * factor, bias)
            return Projected(linear, layer.module, vectors, before, read, is_norm)
        return None

    def _columns(self, output: Tensor, wanted: Tensor) -> tuple[Tensor, float] | None:
        """Find the columns of an output that are the wanted ones, (B, k), at position 0, and their factor; or None."""
        outputs = _by_position(output)
        for factor in () if outputs is None else (1.0, self.steps[0].query.shape[-1] ** -0.5):
            near = torch.cdist(wanted.mT, outputs[:, 0].mT * factor, p=torch.inf).min(-1)
            if float(near.values.max()) <= self.within * max(1.0, float(wanted.abs().max())):
                return near.indices, factor
        return None

    def _addition(self, whole: Tensor, written: list[Tensor], layer: int) -> tuple[nn.Module | None, float]:
        """Find a module, or None, and a factor with `whole` = factor · (sum of `written` + output of the module)."""
        for factor in dict.fromkeys((1.0, float(getattr(self.config, "residual_multiplier", None) or 1.0))):
            rest = whole - factor * sum(written)
            if written and self._is_close(rest, torch.zeros_like(rest), whole):
                return None, factor
            for call in self.calls:
                if call.output.numel() == rest.numel() and self._is_close(
                    call.output.reshape(rest.shape) * factor, rest
                ):
                    return call.module, factor
        what = f"layer {layer} adds more than its attention and one other part"
        raise refusal(self.loaded, f"{what}, or normalizes their sum, as in a post-norm model" if written else what)

    def _embedding(self) -> tuple[nn.Module, float, Tensor | None, Tensor | None]:
        """Find the embedding of tokens, its factor, the vectors added for positions, (n, d_model), and its table.

        First states of two texts differ only by the embeddings of tokens, so the rest comes from positions.
        """
        owner = self.loaded.model.get_decoder() if self.has_encoder else self.loaded.model
        module, first = owner.get_input_embeddings(), self.states[0]
        call = next((call for call in reversed(self.calls) if call.module is module), None)
        if call is None:
            raise refusal(self.loaded, "its tokens do not come from its table of vectors")
        words = call.output
        factor = ratio(first - first[:1], words - words[:1])
        if factor is None or not self._is_close((words - words[:1]) * factor, first - first[:1]):
            return module, 1.0, None, None
        positions, weight = (first - words * factor)[0], floats(module.weight)
        scale = None if call.input is None else ratio(words, weight[call.input.long()])
        if scale is not None and scale * factor != 1:
            weight = weight * (scale * factor)
        is_zero = self._is_close(positions, torch.zeros_like(positions), first)
        return module, factor, None if is_zero else positions, None if scale is None else weight

    def _position_table(self, rows: Tensor) -> Tensor | None:
        """Find the table that starts with the vectors of the first positions; None if there is no such table."""
        for module in self.names:
            weight = getattr(module, "weight", None)
            if isinstance(weight, Tensor) and weight.dim() == 2 and weight.shape[1] == rows.shape[1]:
                for start in range(min(8, len(weight) - LENGTH + 1)):
                    if self._is_close(floats(weight[start : start + LENGTH]), rows):
                        return floats(weight[start:])
        return None

    def _linear(self, call: ModuleCall) -> Linear | None:
        """Measure x W + b from a module's outputs for unit vectors, also for packed weights; None if not linear."""
        width, module = call.input.shape[-1], call.module
        types = (parameter.dtype for parameter in module.parameters())
        dtype = next((t for t in types if t.is_floating_point and t.itemsize > 1), self.loaded.dtype)
        kind = {"device": self.loaded.device, "dtype": dtype}
        try:
            with self.loaded.turns.turn():
                bias = floats(module(torch.zeros(1, 1, width, **kind)))[0, 0]
                weight = (floats(module(torch.eye(width, **kind).unsqueeze(0)))[0] - bias).mT
        except Exception as error:  # the module takes other arguments, so it is not a plain layer
            if faults.of_memory(error):
                raise
            return None
        linear = Linear(weight, bias if bool(bias.any()) else None)
        is_linear = weight.shape[0] == call.output.shape[-1] and self._is_close(linear(call.input), call.output)
        return linear if is_linear else None

    def _norm(self, call: ModuleCall) -> Norm | None:
        """Recognize a module as a layer norm or a root-mean-square norm; None if it is neither."""
        module = call.module
        if next(module.children(), None) is not None or call.input.shape != call.output.shape:
            return None
        tensors = (getattr(module, name, None) for name in ("weight", "bias"))
        weight, bias = (floats(tensor) if isinstance(tensor, Tensor) else None for tensor in tensors)
        if any(tensor is not None and tensor.shape != call.input.shape[-1:] for tensor in (weight, bias)):
            return None
        names = ("eps", "variance_epsilon", "epsilon", "norm_eps")
        eps = next((float(getattr(module, name)) for name in names if getattr(module, name, None) is not None), 1e-6)
        for is_centered in (True, False):
            for gain in (weight,) if weight is None else (weight, 1 + weight):
                norm = Norm(gain, bias, eps, is_centered)
                if self._is_close(norm(call.input), call.output):
                    return norm
        return None

    def _is_close(self, a: Tensor, b: Tensor, scale: Tensor | None = None) -> bool:
        """Whether tensors have one shape and differ by rounding, relative to the largest number of `scale`, or of b."""
        most = float((b if scale is None else scale).abs().max())
        return a.shape == b.shape and float((a - b).abs().max()) <= self.within * max(most, 1e-3)


def refusal(loaded: Loaded, why: str) -> Unproven:
    """Make the error for a model that is not taken apart, with the reason."""
    return Unproven(f"{loaded.name} ({loaded.made_of}) is not taken apart into what each head adds: {why}.")


@contextmanager
def calls_of(modules: list[nn.Module]) -> Iterator[list[ModuleCall]]:
    """Context manager that copies the inputs and outputs of modules, in this thread alone: others may run the model."""
    calls = []

    def keep(module: nn.Module, inputs: tuple, output: Any) -> None:
        """Copy the first input and the output of a call."""
        output = output[0] if isinstance(output, tuple | list) and output else output
        if isinstance(output, Tensor) and output.is_floating_point():
            first = next((value for value in inputs if isinstance(value, Tensor)), None)
            copies = (None if tensor is None else floats(tensor).clone() for tensor in (first, output))
            calls.append(ModuleCall(module, *copies))  # models write into their tensors

    with watching(modules, keep):
        yield calls


def _by_position(tensor: Tensor) -> Tensor | None:
    """Reshape (B, n, ...) or (B, H, n, ...) to (B, n, m); None for another shape."""
    if tensor.dim() not in (3, 4) or tensor.shape[0] != PROBES or LENGTH not in tensor.shape[1:-1]:
        return None
    return (tensor if tensor.shape[1] == LENGTH else tensor.transpose(1, 2)).flatten(2)


def _join_heads(tensor: Tensor) -> Tensor:
    """Concatenate heads, (B, H, n, d) -> (B, n, H · d), as float32."""
    return floats(tensor).transpose(1, 2).flatten(2)


def states_of(returned: Any) -> tuple[Tensor, ...]:
    """Hidden states that a model returned: the residual stream before each layer, and the final states."""
    states = getattr(returned, "decoder_hidden_states", None) or returned.hidden_states
    if not states:
        raise AttnvizError("The model returns no hidden states.")
    return states


def floats(tensor: Tensor) -> Tensor:
    """Convert a tensor to float32 on the CPU, without gradients."""
    return tensor.detach().float().cpu()


def bound(loaded: Loaded) -> float:
    """Largest difference that counts as rounding, as a share of the largest number."""
    return max(CLOSE, 4 * torch.finfo(loaded.dtype).eps)


def ratio(a: Tensor, b: Tensor) -> float | None:
    """Factor with which b is closest to a, or 1 if it nearly is 1; None for different shapes or b = 0."""
    if a.shape != b.shape or not bool(b.any()):
        return None
    ratio = float((a.double() * b.double()).sum() / b.double().square().sum())
    return 1.0 if abs(ratio - 1) < 1e-4 else ratio
