"""Search for the modules of a model that write into its residual stream, by the numbers of a probe run.

No model family is looked up by its name. The run stores the input and output of every module: W_O is the module that is
given the outputs of the heads, the output of W_Q contains the queries, and the output of a feed-forward network is what
a layer adds to the stream besides its attention.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.stream import CLOSE, Linear, ModelWeights, Norm, Projections, Readout, value_bias_of
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.huggingface import faults, loading, running
from attnviz.sources.huggingface.hooks import watching
from attnviz.sources.huggingface.loaded import Loaded

NAMES = {"w_q": "queries", "w_k": "keys", "w_v": "values"}
TEXTS, LENGTH = 16, 5
"""Number of texts in the probe run, and of tokens in each; few models have 5 heads, so the sizes identify the axes."""
Embedding = tuple[nn.Module | None, float, Tensor | None]
"""Module that embeds tokens, a factor of its output, and the vectors added for the first positions, (n, d_model).

The vectors are None if none are added; the module is None if the first layer reads more than this sum.
"""


class ModuleCall(NamedTuple):
    """One call of a module in a run: its first input and its output, (B, n, ...), as float32."""

    module: nn.Module
    input: Tensor | None
    output: Tensor


class Projected(NamedTuple):
    """A projection to the queries, keys or values of all heads.

    Attributes:
        module: module that computes the projection.
        before: norm in front of it, or None.
        read: input of this norm, or of the projection if there is no norm.
        is_rotary, is_normalized: whether rotary positions, and a norm, follow the projection.
    """

    linear: Linear
    module: nn.Module
    before: Norm | None
    read: Tensor
    is_rotary: bool
    is_normalized: bool = False


class StreamModules(NamedTuple):
    """Weights of a model, and the modules that write into its residual stream.

    Attributes:
        last: last norm, whose input is the end of the stream.
        feed_forward: module of each layer that has one.
        factor: factor of the outputs of attention and of these modules before they are added.
    """

    weights: ModelWeights
    embedding: Embedding
    last: nn.Module
    feed_forward: Mapping[int, nn.Module]
    factor: float


class Search:
    """A probe run of a model, and the search for its parts.

    Attributes:
        calls: calls of all modules, in the order in which they ended.
        norms: the calls among them that compute a norm, with its parameters.
        states: hidden states of the model, (B, n, d_model): the stream before each layer, and the final states.
    """

    def __init__(self, loaded: Loaded):
        self.loaded, self.within, self.config = loaded, bound(loaded), loaded.config.get_text_config()
        self.factor = float(getattr(self.config, "residual_multiplier", None) or 1.0)
        self.names = {module: name for name, module in loaded.model.named_modules()}
        count, pad, end = loaded.vocabulary, *(getattr(loaded.config, f"{n}_token_id", None) for n in ("pad", "eos"))
        ids = [[(7 + 11 * j + i * count // (TEXTS + 3 * j)) % count for j in range(LENGTH)] for i in range(TEXTS)]
        # no padding, as some models count no positions for it; an end token, as others read only its vector
        ids = [[(id + 1) % count if id == pad else id for id in row] for row in ids]
        if isinstance(end, int) and 0 <= end < count:
            ids = [[*row[:-1], end] for row in ids]
        sentences = tuple(Sentence("", tuple(Token("", id, 0, 0) for id in row), LENGTH) for row in ids)
        model_inputs = running.inputs(sentences, loaded)
        self.has_encoder = bool(getattr(loaded.config, "is_encoder_decoder", False))
        if self.has_encoder:
            model_inputs["decoder_input_ids"] = model_inputs["input_ids"].flip(0)
        with calls_of(loaded.model.modules()) as self.calls:
            self.returned, self.steps = running.run_model(loaded, Edits(), model_inputs, (LENGTH,) * TEXTS)
        self.norms = [(norm, call) for call in self.calls if (norm := self._norm(call))]
        self.states = [floats(state) for state in states_of(self.returned)]

    def modules(self, names: tuple[str, ...]) -> StreamModules:
        """Find the modules that write into the stream; see `streams.modules_of`.

        Args:
            names: projections to include; with those of queries and keys, also the tables of embeddings.
        """
        steps = [step for step in self.steps if not self.has_encoder or step.site.kind != "encoder"]
        numbers = sum(step.num_heads * step.value.shape[-1] for step in steps) * self.states[0].shape[-1]
        needs = 2 * 4 * (1 + len(names)) * numbers  # float32, and copies while they are measured
        model, cpu = f"{self.loaded.name} ({self.loaded.made_of})", torch.device("cpu")
        loading.make_room(needs, cpu, f"The projections of {model} need", loading.SMALLER, self.loaded.size)
        readout, last = self._readout()
        sites, feed_forward, others = {}, {}, []
        for layer, (entered, left) in enumerate(pairwise([*self.states[:-1], last.input])):
            written = torch.zeros_like(left)
            for step in (step for step in steps if step.site.layer == layer):
                sites[step.site], parts = self.attention(step.site, names)
                written = written + sites[step.site].writes(floats(step.outputs()))
                for name, part in parts.items() if step.site.kind != "cross" else ():
                    if not self._is_close(part.read, entered):
                        others.append(f"the {NAMES[name]} of {step.site}")
            if not self._is_close(written, left - entered):
                rest = (left - entered - written) / self.factor
                module = next((call.module for call in self.calls if self._is_close(call.output, rest)), None)
                if module is None:
                    what = f"layer {layer} adds more than its attention and one other part, or normalizes their sum"
                    raise self._refusal(f"{what}, as in a post-norm model")
                feed_forward[layer] = module
        if len(sites) < len(steps):
            raise self._refusal("it computes attention beyond the layers whose states it returns")
        if others and len(names) > 1:
            why = f"{others[0]} are not projected from what enters the layer, as in latent attention"
            raise InputError(f"{model} has no circuits here: {why}.")
        (module, factor, vectors), words, positions = self.embedding("decoder"), None, None
        if module is not None and len(names) > 1:
            with self.loaded.turns.turn():
                words = floats(module(torch.arange(self.loaded.vocabulary, device=self.loaded.device))) * factor
            positions = None if vectors is None else self._position_table(vectors)
        weights = ModelWeights(sites, {step.site: step.num_heads for step in steps}, words, positions, readout)
        return StreamModules(weights, (module, factor, vectors), last.module, feed_forward, self.factor)

    def call(self, site: Site) -> tuple[Projections, dict[str, Projected], dict[str, Embedding]]:
        """Find the weights around an attention call, its projections, and the embeddings of the encoder and decoder."""
        return *self.attention(site, NAMES), {kind: self.embedding(kind) for kind in ("encoder", "decoder")}

    def attention(self, site: Site, names: Iterable[str]) -> tuple[Projections, dict[str, Projected]]:
        """Find the weights around an attention call, and its projections with these names, without unknown ones.

        Raises:
            InputError: if there is no W_O, the linear module that is given the outputs of all heads.
        """
        step = next(step for step in self.steps if step.site == site)
        outputs, width = floats(step.outputs()), self.states[0].shape[-1]
        for call in reversed(self.calls):
            is_given = self._is_close(call.input, outputs) and call.output.shape[-1] == width
            if is_given and (w_o := self._linear(call)):
                break
        else:
            raise self._refusal(f"the outputs of the heads of {site} do not go through one matrix")
        outer = self.names[call.module].rsplit(".", 2)[0]  # W_O may be within a module beside W_Q
        inside = [other for other in self.calls if self.names[other.module].startswith(f"{outer}.")]
        vectors = {"w_q": step.query, "w_k": step.key[:, :, :LENGTH], "w_v": step.value[:, :, :LENGTH]}  # no sinks
        parts = {name: part for name in names if (part := self._projected(first_two(vectors[name]), inside))}
        value, first = parts.get("w_v"), next(iter(parts.values()), None)
        # the product of normalized queries and keys is not a bilinear form of the stream
        is_plain = not any(part.is_normalized for part in parts.values())
        known = [name for name in parts if "w_q" in names and (is_plain or name == "w_v")]
        weights = Projections(
            **{name: parts[name].linear if name in known else None for name in NAMES},
            w_o=w_o,
            before=first and first.before,
            factor=self.factor,
            after=next((norm for norm, other in self.norms if self._is_close(other.input, call.output)), None),
            scale=step.scoring.scale,
            rotary="w_q" in parts and parts["w_q"].is_rotary,
            value_bias=value and value_bias_of(value.linear, value.before),
        )
        return weights, parts

    def embedding(self, kind: str) -> Embedding:
        """Find what the first layer of the "encoder" or the "decoder" reads; a model that is only one of them is both.

        First states of two texts differ only by the embeddings of tokens, so the rest comes from positions.
        """
        model, first = self.loaded.model, self.states[0]
        if self.has_encoder:
            model = model.get_encoder() if kind == "encoder" else model.get_decoder()
            first = floats(self.returned.encoder_hidden_states[0]) if kind == "encoder" else first
        module = model.get_input_embeddings()
        calls = self.calls if kind == "encoder" else reversed(self.calls)  # the encoder runs first
        words = next((call.output for call in calls if call.module is module), torch.empty(0))
        factor = ratio(first - first[:1], words - words[:1])
        if factor is None or not self._is_close((words - words[:1]) * factor, first - first[:1]):
            return None, 1.0, None
        positions = None if self._is_close(words * factor, first) else (first - words * factor)[0]
        return module, factor, positions

    def lens(self) -> tuple[Readout, list[tuple[nn.Module, float]]]:
        """Find the unembedding, and the modules between a state and the logits, each with a factor of its output.

        A norm at the end of a layer belongs to the layer, as in a post-norm model.
        """
        readout, unembedding = self._unembedding()
        head, vectors, is_reached = [], unembedding.output, False
        for call in reversed(self.calls):
            is_in_layer = any(part.isdecimal() for part in self.names[call.module].split("."))
            has_layers = any(isinstance(part, nn.ModuleList) for part in call.module.modules())
            factor = ratio(vectors, call.output)
            if is_in_layer or has_layers or call.input is None or factor is None:
                continue
            gives = self._is_close(call.output * factor, vectors) and not self._is_close(call.input, vectors)
            if gives and (self._norm(call) or not is_reached):
                head.insert(0, (call.module, factor))
                vectors = call.input
                is_reached |= any(self._is_close(part, self.states[-1]) for part in (call.input, call.output))
        if not is_reached or vectors.shape != self.states[0].shape:
            raise self._refusal("its logits do not come from its last states through a chain of modules")
        return readout, head

    def _unembedding(self) -> tuple[Readout, ModuleCall]:
        """Find the readout of the logits from the input of the unembedding, and the call of the unembedding."""
        logits = getattr(self.returned, "logits", None)
        if self.loaded.task not in ("next", "fill", "write") or logits is None:
            raise self._refusal("it gives no word a logit")
        logits = floats(logits)
        module = self.loaded.model.get_output_embeddings()
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        call = next((call for call in reversed(self.calls) if call.module is module and call.input is not None), None)
        if call is None or getattr(weight, "shape", None) != (logits.shape[-1], call.input.shape[-1]):
            raise self._refusal("its logits do not come from a matrix of output embeddings")
        linear = Linear(floats(weight), None if bias is None else floats(bias))
        softcap = getattr(self.config, "final_logit_softcapping", None)
        factor = 1.0 if softcap else ratio(logits, linear(call.input))
        readout = Readout(None, linear, factor or 1.0, softcap)
        if not self._is_close(readout.logits(call.input), logits):
            raise self._refusal("its logits are more than a matrix times its last vectors")
        return readout, call

    def _readout(self) -> tuple[Readout, ModuleCall]:
        """Find the readout of the logits from the end of the stream, and the call of its norm."""
        readout, unembedding = self._unembedding()
        for norm, call in reversed(self.norms):
            factor = ratio(unembedding.input, call.output)  # T5 scales the output of its last norm
            is_known = factor == 1 or (factor is not None and readout.unembedding.bias is None)
            if is_known and self._is_close(call.output * factor, unembedding.input):
                return replace(readout, norm=norm, factor=readout.factor * factor), call
        raise self._refusal("its logits do not come from a plain norm of the output of its layers")

    def _projected(self, vectors: Tensor, calls: list[ModuleCall]) -> Projected | None:
        """Find the projection to vectors by its outputs at position 0, where none is rotated; a norm may follow it.

        Args:
            vectors: queries, keys or values at positions 0 and 1 of each text, (2, B, H · d).
            calls: calls of the modules to search.
        """
        largest = max(1.0, float(vectors[0].abs().max()))
        for call in (call for call in calls if call.input is not None):
            outputs = first_two(call.output)
            for factor in () if outputs is None else (1.0, self.steps[0].query.shape[-1] ** -0.5):  # scaled queries
                distances, columns = torch.cdist(vectors[0].mT, outputs[0].mT * factor, p=torch.inf).min(-1)
                if float(distances.max()) > self.within * largest:
                    continue
                is_rotary = not self._is_close(outputs[1][:, columns] * factor, vectors[1])
                if linear := self._linear(call):
                    bias = None if linear.bias is None else linear.bias[columns] * factor
                    linear = Linear(linear.weight[columns] * factor, bias)
                    norms = [(norm, c.input) for norm, c in self.norms if self._is_close(c.output, call.input)]
                    before, read = norms[-1] if norms else (None, call.input)
                    return Projected(linear, call.module, before, read, is_rotary)
                if self._norm(call):  # a norm of each head, or of all heads
                    others = [other for other in calls if other is not call]
                    if part := self._projected(first_two(call.input)[:, :, columns], others):
                        return part._replace(is_rotary=is_rotary, is_normalized=True)
        return None

    def _position_table(self, vectors: Tensor) -> Tensor | None:
        """Find the table that starts with the vectors of the first positions, (n, d_model); None if there is none."""
        for module in self.names:
            if isinstance(module, nn.Embedding) and module.weight.shape[1] == vectors.shape[1]:
                start = int((floats(module.weight[:8]) - vectors[0]).abs().amax(-1).argmin())  # after rows for padding
                if self._is_close(floats(module.weight[start : start + LENGTH]), vectors):
                    return floats(module.weight[start:])
        return None

    def _linear(self, call: ModuleCall) -> Linear | None:
        """Measure x W + b by a module's outputs for zeros and unit vectors, also with packed weights or adapters.

        Returns:
            The map, or None if it does not give the output of the call.
        """
        width, module = call.input.shape[-1], call.module
        dtypes = (p.dtype for p in module.parameters() if p.is_floating_point() and p.dtype.itemsize > 1)
        kind = {"device": self.loaded.device, "dtype": next(dtypes, self.loaded.dtype)}
        try:
            with self.loaded.turns.turn():
                outputs = floats(module(torch.eye(width + 1, width, **kind).roll(1, 0).unsqueeze(0)))[0]
        except Exception as error:  # the module takes other arguments, so it is not a plain layer
            if faults.of_memory(error):
                raise
            return None
        if outputs.shape != (width + 1, call.output.shape[-1]):
            return None
        linear = Linear((outputs[1:] - outputs[0]).mT, outputs[0] if bool(outputs[0].any()) else None)
        return linear if self._is_close(linear(call.input), call.output) else None

    def _norm(self, call: ModuleCall) -> Norm | None:
        """Recognize a module as a layer norm or a root-mean-square norm; None if it is neither."""
        module, width = call.module, call.output.shape[-1:]
        if call.input is None or call.input.shape != call.output.shape or [*module.children()]:
            return None
        weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
        if any(tensor is not None and tensor.shape != width for tensor in (weight, bias)):
            return None
        weight, bias = (None if tensor is None else floats(tensor) for tensor in (weight, bias))
        epsilons = (getattr(module, name, None) for name in ("eps", "variance_epsilon", "epsilon", "norm_eps"))
        eps = next((float(eps) for eps in epsilons if eps is not None), 1e-6)
        gains = (None,) if weight is None else (weight, 1 + weight)  # Gemma adds 1
        norms = (Norm(gain, bias, eps, is_centered) for is_centered in (True, False) for gain in gains)
        return next((norm for norm in norms if self._is_close(norm(call.input), call.output)), None)

    def _is_close(self, a: Tensor | None, b: Tensor) -> bool:
        """Whether a equals b but for rounding; positions may be flattened, (B · n, d) for (B, n, d)."""
        if a is None or a.numel() != b.numel() or a.shape[-1:] != b.shape[-1:]:
            return False
        return float((a.reshape(b.shape) - b).abs().max()) <= self.within * max(float(b.abs().max()), 1e-3)

    def _refusal(self, why: str) -> InputError:
        """Make the error for a model that is not taken apart, with the reason."""
        model = f"{self.loaded.name} ({self.loaded.made_of})"
        return InputError(f"{model} is not taken apart into what each head adds: {why}.")


@contextmanager
def calls_of(modules: Iterable[nn.Module]) -> Iterator[list[ModuleCall]]:
    """Context manager that copies the inputs and outputs of modules, in this thread alone: others may run the model."""
    calls = []

    def keep(module: nn.Module, inputs: tuple, output: Any) -> None:
        """Copy the first input and the output of a call."""
        output = output[0] if isinstance(output, tuple | list) and output else output
        if isinstance(output, Tensor) and output.is_floating_point():
            first = next((value for value in inputs if isinstance(value, Tensor)), None)
            first = None if first is None else floats(first).clone()  # models write into their tensors
            calls.append(ModuleCall(module, first, floats(output).clone()))

    with watching(modules, keep):
        yield calls


def first_two(vectors: Tensor) -> Tensor | None:
    """Positions 0 and 1 of each text of the probe run, (2, B, m), of (B, n, ...) or (B, H, n, d); None of others."""
    if vectors.dim() not in (3, 4) or len(vectors) != TEXTS or LENGTH not in vectors.shape[1:-1]:
        return None
    return floats(vectors.movedim(vectors.shape.index(LENGTH, 1), 0)[:2].flatten(2))


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
