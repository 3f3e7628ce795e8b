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
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.tapped import watching

NAMES = {"w_q": "queries", "w_k": "keys", "w_v": "values"}
TEXTS, LENGTH = 16, 5
"""Number of texts in the probe run, and of tokens in each; few models have 5 heads, so the sizes identify the axes."""


class Unproven(InputError):
    """Error for a model whose residual stream is not proven to be a sum of parts."""


class ModuleCall(NamedTuple):
    """One call of a module in a run: its first input and its output, (B, n, ...), as float32."""

    module: nn.Module
    input: Tensor | None
    output: Tensor


class Projected(NamedTuple):
    """A projection to queries, keys or values.

    Attributes:
        linear: map from the input of the projection to the vectors of all heads.
        call: call of the module that computes it.
        is_rotary: whether the vectors are rotated by their positions afterwards.
        is_normalized: whether a norm follows the projection.
    """

    linear: Linear
    call: ModuleCall
    is_rotary: bool
    is_normalized: bool = False


class StreamModules(NamedTuple):
    """Weights of a model, and the modules that write into its residual stream.

    Attributes:
        last: last norm, whose input is the end of the stream.
        feed_forward: module of each layer that has one, and the factor of its output.
        words: module that embeds tokens, and the factor of its output, if vectors of positions are added to it; else
            None, and the first states are the embedding.
    """

    weights: ModelWeights
    last: nn.Module
    feed_forward: Mapping[int, tuple[nn.Module, float]]
    words: tuple[nn.Module, float] | None


class Search:
    """A probe run of a model, and the search for its parts.

    Attributes:
        calls: calls of all modules, in the order in which they ended.
        norms: the calls among them that compute a norm, with its parameters.
        states: hidden states of the model, (B, n, d_model): the stream before each layer, and the final states.
    """

    def __init__(self, loaded: Loaded):
        self.loaded, self.within, self.config = loaded, bound(loaded), loaded.config.get_text_config()
        self.names = {module: name for name, module in loaded.model.named_modules()}
        count, pad = loaded.vocabulary, getattr(loaded.config, "pad_token_id", None)
        ids = [[(7 + 11 * j + i * count // (TEXTS + 3 * j)) % count for j in range(LENGTH)] for i in range(TEXTS)]
        for row in ids:  # no padding, as some models count no positions for it; an end, as others read only its vector
            row[:] = [(id + 1) % count if id == pad else id for id in row]
            row[-1] = end if isinstance(end := getattr(loaded.config, "eos_token_id", None), int) else row[-1]
        sentences = tuple(Sentence("", tuple(Token("", id % count, 0, 0) for id in row), LENGTH) for row in ids)
        model_inputs = running.inputs(sentences, loaded)
        self.has_encoder = bool(getattr(loaded.config, "is_encoder_decoder", False))
        if self.has_encoder:
            model_inputs["decoder_input_ids"] = model_inputs["input_ids"].flip(0)
        with calls_of(loaded.model.modules()) as self.calls:
            returned, self.steps = running.run_model(loaded, Edits(), model_inputs, (LENGTH,) * TEXTS)
        self.norms = [(norm, call) for call in self.calls if (norm := self._norm(call))]
        self.states = [floats(state) for state in states_of(returned)]
        self.logits = None if getattr(returned, "logits", None) is None else floats(returned.logits)

    def modules(self, names: tuple[str, ...]) -> StreamModules:
        """Find the modules that write into the stream; see `streams.modules_of`.

        Args:
            names: names of the projections to include; with those of queries and keys, also the tables of embeddings.
        """
        steps = [step for step in self.steps if not self.has_encoder or step.site.kind != "encoder"]
        numbers = sum(step.num_heads * step.value.shape[-1] for step in steps) * self.states[0].shape[-1]
        needs = 2 * 4 * (1 + len(names)) * numbers  # with copies that are made while they are measured
        what = f"The projections of {self.loaded.name} as float32 need"
        loading.make_room(needs, torch.device("cpu"), what, loading.SMALLER, self.loaded.size)
        readout, last = self._readout()
        states = [*self.states[:-1], last.input]
        if beyond := [step.site for step in steps if step.site.layer >= len(states) - 1]:
            raise self._refusal(f"{beyond[0]} is beyond the layers whose states it returns")
        sites, feed_forward = {}, {}
        for layer, (entered, left) in enumerate(pairwise(states)):
            in_layer = {step: self.attention(step.site, names) for step in steps if step.site.layer == layer}
            written = [weights.writes(step.outputs()) for step, (weights, _) in in_layer.items()]
            module, factor = self._addition(left - entered, written, layer)
            if module is not None:
                feed_forward[layer] = module, factor
            for step, (weights, projected) in in_layer.items():
                sites[step.site] = replace(weights, factor=factor)
                for name, part in projected.items():
                    read = self._norm_before(part.call.input)[1]
                    if len(names) > 1 and step.site.kind != "cross" and not self._is_close(read, entered):
                        what = f"the {NAMES[name]} of {step.site} are not projected from what enters the layer"
                        who = f"{self.loaded.name} ({self.loaded.made_of})"
                        raise InputError(f"{who} has no circuits here: {what}, as in latent attention.")
        words, factor, positions = self.embedding()
        table = position_table = None
        if words is not None and len(names) > 1:
            table = floats(words(torch.arange(self.loaded.vocabulary, device=self.loaded.device))) * factor
            position_table = None if positions is None else self._position_table(positions)
        heads = {step.site: step.num_heads for step in steps}
        weights = ModelWeights(sites, heads, table, position_table, readout)
        return StreamModules(weights, last.module, feed_forward, None if positions is None else (words, factor))

    def call(self, site: Site) -> tuple[Projections, dict[str, Projected], bool]:
        """Find the weights around an attention call, its projections, and whether positions are added to tokens."""
        return *self.attention(site, tuple(NAMES)), self.embedding()[2] is not None

    def attention(self, site: Site, names: tuple[str, ...]) -> tuple[Projections, dict[str, Projected]]:
        """Find the weights around an attention call, and its projections with these names, without unknown ones.

        Raises:
            Unproven: if there is no W_O, the linear module that is given the outputs of all heads.
        """
        step = next(step for step in self.steps if step.site == site)
        outputs, width = step.outputs(), self.states[0].shape[-1]
        given = [call for call in reversed(self.calls) if self._is_close(call.input, outputs)]
        given = ((call, self._linear(call)) for call in given if call.output.shape[-1] == width)
        call, w_o = next((pair for pair in given if pair[1] is not None), (None, None))
        if call is None:
            raise self._refusal(f"the outputs of the heads of {site} do not go through one matrix")
        outer = self.names[call.module].rsplit(".", 2)[0]  # W_O may be within a module beside W_Q
        inside = [other for other in self.calls if self.names[other.module].startswith(f"{outer}.")]
        vectors = {"w_q": step.query, "w_k": step.key, "w_v": step.value}
        projected = {name: self._projected(first_two(vectors[name]), inside) for name in names}
        projected = {name: part for name, part in projected.items() if part is not None}
        first, value = next(iter(projected.values()), None), projected.get("w_v")
        # the product of normalized queries and keys is not a bilinear form of the stream
        is_plain = not any(part.is_normalized for part in projected.values())
        known = [name for name in projected if len(names) > 1 and (is_plain or name == "w_v")]
        weights = Projections(
            **dict.fromkeys(NAMES) | {name: projected[name].linear for name in known},
            w_o=w_o,
            before=first and self._norm_before(first.call.input)[0],
            after=next((norm for norm, other in self.norms if self._is_close(other.input, call.output)), None),
            scale=step.scoring.scale,
            rotary="w_q" in projected and projected["w_q"].is_rotary,
            value_bias=value and value_bias_of(value.linear, self._norm_before(value.call.input)[0]),
        )
        return weights, projected

    def embedding(self) -> tuple[nn.Module | None, float, Tensor | None]:
        """Find the module that embeds tokens, a factor of its output, and the vectors added for positions.

        First states of two texts differ only by the embeddings of tokens, so the rest comes from positions.

        Returns:
            The module, or None if the first states are more than such a sum; the factor; and the vectors of the first
            positions, (n, d_model), or None if there are none.
        """
        owner, first = self.loaded.model.get_decoder() if self.has_encoder else self.loaded.model, self.states[0]
        module = owner.get_input_embeddings()
        words = next((call.output for call in reversed(self.calls) if call.module is module), torch.empty(0))
        factor = ratio(first - first[:1], words - words[:1])
        if factor is None or not self._is_close((words - words[:1]) * factor, first - first[:1]):
            return None, 1.0, None
        return module, factor, None if self._is_close(words * factor, first) else (first - words * factor)[0]

    def lens(self) -> tuple[Readout, tuple[nn.Module, ...]]:
        """Find the unembedding, and all modules from the states between layers to the logits, in order."""
        readout, unembedding = self._unembedding()
        head, chain = [], [unembedding.output]
        outside = []  # calls of modules that belong to no numbered layer and contain no layers
        for call in reversed(self.calls):
            is_in_layer = any(part.isdecimal() for part in self.names[call.module].split("."))
            if not is_in_layer and not any(isinstance(part, nn.ModuleList) for part in call.module.modules()):
                outside.append(call)
        for call in outside:
            changes = call.input is not None and not self._is_close(call.input, chain[0])
            if changes and self._is_close(call.output, chain[0]):
                head.insert(0, call.module)
                chain.insert(0, call.input)
        if not any(self._is_close(self.states[-1], vectors) for vectors in chain):
            raise self._refusal("its logits do not come from its last states through a chain of modules")
        return readout, tuple(head)

    def _unembedding(self) -> tuple[Readout, ModuleCall]:
        """Find the readout of the logits from the input of the unembedding, and the call of the unembedding."""
        if self.loaded.task not in ("next", "fill", "write") or self.logits is None:
            raise self._refusal("it gives no word a logit")
        module = self.loaded.model.get_output_embeddings()
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2 or not weight.is_floating_point():
            raise self._refusal("it has no matrix that gives words their logits")
        call = next((call for call in reversed(self.calls) if call.module is module), None)
        if call is None or call.input is None or call.input.shape[-1] != weight.shape[1]:
            raise self._refusal("its logits do not come from its output embeddings")
        linear = Linear(floats(weight), None if bias is None else floats(bias))
        softcap = getattr(self.config, "final_logit_softcapping", None)
        factor = 1.0 if softcap else ratio(self.logits, linear(call.input))
        readout = Readout(None, linear, factor or 1.0, softcap)
        if not self._is_close(readout.logits(call.input), self.logits):
            raise self._refusal("its logits are more than a matrix times its last vectors")
        return readout, call

    def _readout(self) -> tuple[Readout, ModuleCall]:
        """Find the readout of the logits from the end of the stream, and the call of its norm."""
        readout, unembedding = self._unembedding()
        for norm, call in reversed(self.norms):
            factor = ratio(unembedding.input, call.output)  # T5 scales the output of its last norm
            if factor is not None and self._is_close(call.output * factor, unembedding.input):
                weight = torch.tensor(1.0) if norm.weight is None else norm.weight
                bias = None if norm.bias is None else norm.bias * factor
                return replace(readout, norm=replace(norm, weight=weight * factor, bias=bias)), call
        raise self._refusal("its logits do not come from a plain norm of the output of its layers")

    def _projected(self, vectors: Tensor, calls: list[ModuleCall]) -> Projected | None:
        """Find the projection that gives vectors at position 0, where none is rotated; a norm may follow it.

        Args:
            vectors: queries, keys or values at positions 0 and 1 of each text, (2, B, H · d).
            calls: calls of the modules to search.
        """
        for call in calls:
            outputs = first_two(call.output)
            columns, factor = (None, 1.0) if outputs is None else self._columns(outputs[0], vectors[0])
            if columns is None or call.input is None:
                continue
            is_rotary = not self._is_close(outputs[1][:, columns] * factor, vectors[1])
            if linear := self._linear(call):
                bias = None if linear.bias is None else linear.bias[columns] * factor
                return Projected(Linear(linear.weight[columns] * factor, bias), call, is_rotary)
            if any(other is call for _, other in self.norms):  # a norm of each head, or of all heads
                others = [other for other in calls if other is not call]
                if part := self._projected(first_two(call.input)[:, :, columns], others):
                    return part._replace(is_rotary=is_rotary, is_normalized=True)
        return None

    def _columns(self, outputs: Tensor, vectors: Tensor) -> tuple[Tensor | None, float]:
        """Find which columns of outputs, (B, m), are those of vectors, (B, k), perhaps times a scale of queries.

        Returns:
            Indices of the columns, (k,), or None if they are not there; and the factor of the outputs.
        """
        for factor in (1.0, self.steps[0].query.shape[-1] ** -0.5):
            nearest = torch.cdist(vectors.mT, outputs.mT * factor, p=torch.inf).min(-1)
            if float(nearest.values.max()) <= self.within * max(1.0, float(vectors.abs().max())):
                return nearest.indices, factor
        return None, 1.0

    def _norm_before(self, vectors: Tensor) -> tuple[Norm | None, Tensor]:
        """Find the last norm that gives vectors, and its input; None and the vectors if there is no such norm."""
        pairs = ((norm, call.input) for norm, call in reversed(self.norms) if self._is_close(call.output, vectors))
        return next(pairs, (None, vectors))

    def _addition(self, whole: Tensor, written: list[Tensor], layer: int) -> tuple[nn.Module | None, float]:
        """Find a module, or None, and a factor with `whole` = factor · (sum of `written` + output of the module)."""
        for factor in (1.0, float(getattr(self.config, "residual_multiplier", None) or 1.0)):
            if written and self._is_close(sum(written), whole / factor):
                return None, factor
            rest = whole / factor - sum(written)
            for call in self.calls:
                if self._is_close(call.output, rest):
                    return call.module, factor
        what = f"layer {layer} adds more than its attention and one other part"
        raise self._refusal(f"{what}, or normalizes their sum, as in a post-norm model" if written else what)

    def _position_table(self, vectors: Tensor) -> Tensor | None:
        """Find the table that starts with the vectors of the first positions, (n, d_model); None if there is none."""
        for module in self.names:
            if isinstance(module, nn.Embedding) and module.weight.shape[1] == vectors.shape[1]:
                distances = (floats(module.weight[:8]) - vectors[0]).abs().amax(-1)
                start = int(distances.argmin())  # some tables begin with rows for padding
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
        linear = Linear((outputs[1:] - outputs[0]).mT, outputs[0] if bool(outputs[0].any()) else None)
        is_whole = outputs.shape[-1] == call.output.shape[-1]
        return linear if is_whole and self._is_close(linear(call.input), call.output) else None

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
        for is_centered in (True, False):
            for gain in (None,) if weight is None else (weight, 1 + weight):  # Gemma adds 1
                norm = Norm(gain, bias, eps, is_centered)
                if self._is_close(norm(call.input), call.output):
                    return norm
        return None

    def _is_close(self, a: Tensor | None, b: Tensor) -> bool:
        """Whether a equals b but for rounding; positions may be flattened, (B · n, d) for (B, n, d)."""
        if a is None or a.numel() != b.numel() or a.shape[-1:] != b.shape[-1:]:
            return False
        return float((a.reshape(b.shape) - b).abs().max()) <= self.within * max(float(b.abs().max()), 1e-3)

    def _refusal(self, why: str) -> Unproven:
        """Make the error for a model that is not taken apart, with the reason."""
        model = f"{self.loaded.name} ({self.loaded.made_of})"
        return Unproven(f"{model} is not taken apart into what each head adds: {why}.")


@contextmanager
def calls_of(modules: Iterable[nn.Module]) -> Iterator[list[ModuleCall]]:
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
