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

from attnviz.core.amounts import size
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Step
from attnviz.core.stream import CLOSE, Linear, ModelWeights, Norm, Projections, Readout, value_bias_of
from attnviz.core.tokens import Sentence, Token
from attnviz.sources import estimate
from attnviz.sources.huggingface import faults, running
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.tapped import watching

NAMES = {"w_q": "queries", "w_k": "keys", "w_v": "values"}
LONGEST_HEAD = 7
"""Maximum number of modules from the last states to the logits; BERT has a layer, an activation and a norm."""
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
        module: module that computes it.
        before: norm in front of the projection; None if there is none.
        read: input of this norm, or of the projection if there is no norm.
        rotary: whether the vectors are rotated by their positions afterwards.
        normalized: whether a norm follows the projection.
    """

    linear: Linear
    module: nn.Module
    before: Norm | None
    read: Tensor
    rotary: bool
    normalized: bool = False


class AttentionCall(NamedTuple):
    """The weights around an attention call, its projections by name, and what it adds to the stream, (B, n, d_model)."""

    weights: Projections
    projected: Mapping[str, Projected]
    written: Tensor


class StreamModules(NamedTuple):
    """Weights of a model, and the modules that write into its residual stream.

    Attributes:
        last: last norm, whose input is the end of the stream.
        feed_forward: module of each layer that has one, and the factor of its output.
        words: module whose output, times a factor, is the token embeddings, and the factor; None if nothing is added
            to them, so that they are the first states.
    """

    weights: ModelWeights
    last: nn.Module
    feed_forward: Mapping[int, tuple[nn.Module, float]]
    words: tuple[nn.Module, float] | None


class Search:
    """A probe run of a model, and the search for its parts.

    Attributes:
        calls: calls of all modules, in the order in which they ended.
        states: hidden states of the model, (B, n, d_model): the stream before each layer, and the final states.
    """

    def __init__(self, loaded: Loaded):
        self.loaded, self.within, self.config = loaded, bound(loaded), loaded.config.get_text_config()
        self.names = {module: name for name, module in loaded.model.named_modules()}
        count, ids = loaded.vocabulary, torch.arange(LENGTH)
        ids = [((7 + 11 * ids + text * count // (TEXTS + 3 * ids)) % count).tolist() for text in range(TEXTS)]
        # no padding, as some models count no positions for it; an end token, as others read only its vector
        pad, end = (getattr(loaded.config, name, None) for name in ("pad_token_id", "eos_token_id"))
        last = [end] if isinstance(end, int) and 0 <= end < count else []
        ids = [[(id + 1) % count if id == pad else id for id in row][: LENGTH - len(last)] + last for row in ids]
        sentences = tuple(Sentence("", tuple(Token("", id, 0, 0) for id in row), LENGTH) for row in ids)
        model_inputs = running.inputs(sentences, loaded)
        self.has_encoder = bool(getattr(loaded.config, "is_encoder_decoder", False))
        if self.has_encoder:
            model_inputs["decoder_input_ids"] = model_inputs["input_ids"].flip(0)
        with calls_of(loaded.model.modules()) as self.calls:
            returned, self.steps = running.run_model(loaded, Edits(), model_inputs, (LENGTH,) * TEXTS)
        self.states = [floats(state) for state in states_of(returned)]
        self.logits = getattr(returned, "logits", None)
        self.logits = None if self.logits is None else floats(self.logits)

    def modules(self, *, all_projections: bool) -> StreamModules:
        """Find the modules that write into the stream; see `streams.modules_of`."""
        steps = [step for step in self.steps if not self.has_encoder or step.site.kind != "encoder"]
        width, names = self.states[0].shape[-1], tuple(NAMES) if all_projections else ("w_v",)
        needs = sum(4 * (len(names) + all_projections) * width * s.num_heads * s.value.shape[-1] for s in steps)
        if needs > (free := estimate.free_bytes(torch.device("cpu"))) // 2:
            what = f"its projections take {size(needs)} of memory as float32, and {size(free)} are free"
            raise InputError(str(refusal(self.loaded, what)))
        readout, last = self._readout()
        attention = {step.site: self.attention(step, names) for step in steps}
        sites, feed_forward = {}, {}
        for layer, (before, after) in enumerate(pairwise([*self.states[:-1], last.input])):
            in_layer = {site: call for site, call in attention.items() if site.layer == layer}
            module, factor = self._addition(after - before, [call.written for call in in_layer.values()], layer)
            if module is not None:
                feed_forward[layer] = module, factor
            for site, call in in_layer.items():
                sites[site] = replace(call.weights, factor=factor)
                for name, part in call.projected.items():
                    if all_projections and site.kind != "cross" and not self._is_close(part.read, before):
                        what = f"the {NAMES[name]} of {site} are not projected from what enters the layer"
                        who = f"{self.loaded.name} ({self.loaded.made_of})"
                        raise InputError(f"{who} has no circuits here: {what}, as in latent attention.")
        if beyond := [site for site in attention if site not in sites]:
            raise refusal(self.loaded, f"{beyond[0]} is beyond the layers whose states it returns")
        words, factor, positions = self.embedding()
        table = learned = None
        if all_projections and words is not None:
            ids = torch.arange(self.loaded.vocabulary, device=self.loaded.device)
            table = floats(words(ids)) * factor
            learned = None if positions is None else self._position_table(positions)
        weights = ModelWeights(sites, {step.site: step.num_heads for step in steps}, table, learned, readout)
        return StreamModules(weights, last.module, feed_forward, None if positions is None else (words, factor))

    def attention(self, step: Step, names: tuple[str, ...] = tuple(NAMES)) -> AttentionCall:
        """Find W_O of an attention call, a norm after it, and the projections with these names.

        Raises:
            Unproven: if there is no W_O. Other projections that are not found are left out.
        """
        outputs, width = step.outputs(), self.states[0].shape[-1]
        given = [call for call in self.calls if self._is_close(call.input, outputs) and call.output.shape[-1] == width]
        pairs = ((call, self._linear(call)) for call in reversed(given))
        call, w_o = next((pair for pair in pairs if pair[1] is not None), (None, None))
        if call is None:
            raise refusal(self.loaded, f"the outputs of the heads of {step.site} do not go through one matrix")
        readers = [other for other in self.calls if self._is_close(other.input, call.output)]
        norms = ((norm, other.output) for other in readers if (norm := self._norm(other)))
        after, written = next(norms, (None, call.output))
        outer = self.names[call.module].rsplit(".", 2)[0]  # W_O may be within a module beside that of W_Q
        inside = [other for other in self.calls if self.names[other.module].startswith(f"{outer}.")]
        vectors = {"w_q": step.query, "w_k": step.key, "w_v": step.value}
        projected = {name: self._projected(first_two(vectors[name]), inside) for name in names}
        projected = {name: part for name, part in projected.items() if part is not None}
        # the product of normalized queries and keys is not a bilinear form of the stream
        known = {"w_v"} if any(part.normalized for part in projected.values()) else {*NAMES}
        linears = {name: part.linear for name, part in projected.items() if name in known and names != ("w_v",)}
        value = projected.get("w_v")
        weights = Projections(
            **dict.fromkeys(NAMES) | linears,
            w_o=w_o,
            before=next((part.before for part in projected.values()), None),
            after=after,
            scale=step.scoring.scale,
            rotary="w_q" in projected and projected["w_q"].rotary,
            value_bias=value and value_bias_of(value.linear, value.before),
        )
        return AttentionCall(weights, projected, written.reshape(*outputs.shape[:2], width))

    def embedding(self) -> tuple[nn.Module | None, float, Tensor | None]:
        """Find the module that embeds tokens, the factor of its output, and the vectors added for positions.

        First states of two texts differ only by the embeddings of tokens, so the rest comes from positions.

        Returns:
            The module, or None if its output is not added; its factor; and the vectors of the first positions,
            (n, d_model), or None if there are none.
        """
        owner, first = self.loaded.model.get_decoder() if self.has_encoder else self.loaded.model, self.states[0]
        module = owner.get_input_embeddings()
        words = next((call.output for call in reversed(self.calls) if call.module is module), torch.empty(0))
        factor = ratio(first - first[:1], words - words[:1])
        if factor is None or not self._is_close((words - words[:1]) * factor, first - first[:1]):
            return None, 1.0, None
        positions = (first - words * factor)[0]
        return module, factor, None if self._is_close(words * factor, first) else positions

    def lens(self) -> tuple[Readout, tuple[nn.Module, ...]]:
        """Find the readout of a model that is no sum of parts: the unembedding, and modules from last states to logits.

        A norm at the end of the last layer is a part of this layer, as in a post-norm model.
        """
        readout, unembedding = self._unembedding()
        head, vectors = [], [unembedding.output]
        candidates = [call for call in self.calls if call.input is not None and not self._is_in_or_around_layers(call)]
        while len(head) <= LONGEST_HEAD:
            givers = [call for call in candidates if self._is_close(call.output, vectors[0])]
            call = next((call for call in reversed(givers) if not self._is_close(call.input, vectors[0])), None)
            if call is None:
                break
            head.insert(0, call.module)
            vectors.insert(0, call.input)
        if not any(self._is_close(self.states[-1], part) for part in vectors):
            raise refusal(self.loaded, "its logits do not come from its last states through a chain of modules")
        return readout, tuple(head)

    def _is_in_or_around_layers(self, call: ModuleCall) -> bool:
        """Whether a module belongs to a numbered layer, or contains a list of layers."""
        is_numbered = any(part.isdecimal() for part in self.names[call.module].split("."))
        return is_numbered or any(isinstance(part, nn.ModuleList) for part in call.module.modules())

    def _unembedding(self) -> tuple[Readout, ModuleCall]:
        """Find the readout of the logits from the input of the unembedding, and the call of the unembedding."""
        if self.loaded.task not in ("next", "fill", "write") or self.logits is None:
            raise refusal(self.loaded, "it gives no word a logit")
        module = self.loaded.model.get_output_embeddings()
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2 or not weight.is_floating_point():
            raise refusal(self.loaded, "it has no matrix that gives words their logits")
        call = next((call for call in reversed(self.calls) if call.module is module), None)
        if call is None or call.input is None or call.input.shape[-1] != weight.shape[1]:
            raise refusal(self.loaded, "its logits do not come from its output embeddings")
        linear = Linear(floats(weight), None if bias is None else floats(bias))
        softcap = getattr(self.config, "final_logit_softcapping", None)
        logits = self.logits if softcap is None else softcap * torch.atanh(self.logits / softcap)
        factor = ratio(logits, unbounded := linear(call.input))
        if factor is None or not self._is_close(unbounded * factor, logits):
            raise refusal(self.loaded, "its logits are more than a matrix times its last vectors")
        return Readout(None, linear, factor, softcap), call

    def _readout(self) -> tuple[Readout, ModuleCall]:
        """Find the readout of the logits from the end of the stream, and the call of its norm."""
        readout, unembedding = self._unembedding()
        for call in reversed(self.calls):
            factor = None if call.input is None else ratio(unembedding.input, call.output)
            if factor is None or not self._is_close(call.output * factor, unembedding.input):
                continue
            if norm := self._norm(call):
                if factor != 1:
                    gain = torch.tensor(1.0) if norm.weight is None else norm.weight
                    norm = replace(norm, weight=gain * factor, bias=None if norm.bias is None else norm.bias * factor)
                return replace(readout, norm=norm), call
        raise refusal(self.loaded, "its logits do not come from a plain norm of the output of its layers")

    def _projected(self, vectors: Tensor, calls: list[ModuleCall]) -> Projected | None:
        """Find a projection, perhaps with a norm after it, that gives vectors at position 0, where none is rotated.

        Args:
            vectors: queries, keys or values at positions 0 and 1 of each text, (2, B, H · d).
            calls: calls of the modules to search.
        """
        for call in calls:
            outputs = first_two(call.output)
            columns, factor = (None, 1.0) if outputs is None else self._columns(outputs[0], vectors[0])
            if columns is None or call.input is None:
                continue
            rotary = not self._is_close(outputs[1][:, columns] * factor, vectors[1])
            if linear := self._linear(call):
                bias = None if linear.bias is None else linear.bias[columns] * factor
                before, read = self._norm_before(call.input)
                return Projected(Linear(linear.weight[columns] * factor, bias), call.module, before, read, rotary)
            if self._norm(call):  # a norm of each head, or of all heads
                others = [other for other in calls if other is not call]
                if part := self._projected(first_two(call.input)[:, :, columns], others):
                    return part._replace(rotary=rotary, normalized=True)
        return None

    def _columns(self, outputs: Tensor, vectors: Tensor) -> tuple[Tensor | None, float]:
        """Find the columns of outputs, (B, m), that are vectors, (B, k), and the factor, as some models scale queries.

        Returns:
            Indices of the columns, (k,), or None if there are none; and the factor.
        """
        for factor in (1.0, self.steps[0].query.shape[-1] ** -0.5):
            nearest = torch.cdist(vectors.mT, outputs.mT * factor, p=torch.inf).min(-1)
            if float(nearest.values.max()) <= self.within * max(1.0, float(vectors.abs().max())):
                return nearest.indices, factor
        return None, 1.0

    def _norm_before(self, vectors: Tensor) -> tuple[Norm | None, Tensor]:
        """Find the norm that gives vectors, and its input; None and the vectors if there is no such norm."""
        for call in reversed(self.calls):  # the last one, as a norm leaves normalized vectors unchanged
            if call.input is not None and self._is_close(call.output, vectors) and (norm := self._norm(call)):
                return norm, call.input
        return None, vectors

    def _addition(self, whole: Tensor, written: list[Tensor], layer: int) -> tuple[nn.Module | None, float]:
        """Find a module, or None, and a factor with `whole` = factor · (sum of `written` + output of the module)."""
        for factor in dict.fromkeys((1.0, float(getattr(self.config, "residual_multiplier", None) or 1.0))):
            if written and self._is_close(sum(written), whole / factor):
                return None, factor
            rest = whole / factor - sum(written)
            for call in self.calls:
                if self._is_close(call.output, rest):
                    return call.module, factor
        what = f"layer {layer} adds more than its attention and one other part"
        raise refusal(self.loaded, f"{what}, or normalizes their sum, as in a post-norm model" if written else what)

    def _position_table(self, rows: Tensor) -> Tensor | None:
        """Find the table that starts with the vectors of the first positions, (n, d_model); None if there is none."""
        for module in self.names:
            table = getattr(module, "weight", None)
            if isinstance(table, Tensor) and table.dim() == 2:
                for start in range(min(8, len(table) - LENGTH + 1)):
                    if self._is_close(floats(table[start : start + LENGTH]), rows):
                        return floats(table[start:])
        return None

    def _linear(self, call: ModuleCall) -> Linear | None:
        """Measure x W + b by a module's outputs for zeros and unit vectors, also with packed weights or adapters.

        None if the call of the module was not this map.
        """
        width, module, device = call.input.shape[-1], call.module, self.loaded.device
        dtypes = [p.dtype for p in module.parameters() if p.is_floating_point() and p.dtype.itemsize > 1]
        vectors = torch.cat([torch.zeros(1, width), torch.eye(width)]).to(device, next(iter(dtypes), self.loaded.dtype))
        try:
            with self.loaded.turns.turn():
                outputs = floats(module(vectors.unsqueeze(0)))[0]
        except Exception as error:  # the module takes other arguments, so it is not a plain layer
            if faults.of_memory(error):
                raise
            return None
        bias = outputs[0]
        linear = Linear((outputs[1:] - bias).mT, bias if bool(bias.any()) else None)
        is_linear = len(bias) == call.output.shape[-1] and self._is_close(linear(call.input), call.output)
        return linear if is_linear else None

    def _norm(self, call: ModuleCall) -> Norm | None:
        """Recognize a module as a layer norm or a root-mean-square norm; None if it is neither."""
        module = call.module
        if next(module.children(), None) is not None or call.input.shape != call.output.shape:
            return None
        weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
        if any(tensor is not None and tensor.shape != call.input.shape[-1:] for tensor in (weight, bias)):
            return None
        weight, bias = (None if tensor is None else floats(tensor) for tensor in (weight, bias))
        names = ("eps", "variance_epsilon", "epsilon", "norm_eps")
        eps = next((float(getattr(module, name)) for name in names if getattr(module, name, None) is not None), 1e-6)
        for is_centered in (True, False):
            for gain in (None,) if weight is None else (weight, 1 + weight):
                norm = Norm(gain, bias, eps, is_centered)
                if self._is_close(norm(call.input), call.output):
                    return norm
        return None

    def _is_close(self, a: Tensor | None, b: Tensor) -> bool:
        """Whether a equals b but for rounding; positions may be flattened, (B · n, d) for (B, n, d)."""
        if a is None or a.numel() != b.numel() or a.shape[-1] != b.shape[-1]:
            return False
        return float((a.reshape(b.shape) - b).abs().max()) <= self.within * max(float(b.abs().max()), 1e-3)


def refusal(loaded: Loaded, why: str) -> Unproven:
    """Make the error for a model that is not taken apart, with the reason."""
    return Unproven(f"{loaded.name} ({loaded.made_of}) is not taken apart into what each head adds: {why}.")


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
    """Vectors at positions 0 and 1 of each text of a probe run, (2, B, m), of (B, n, ...) or (B, H, n, d), else None."""
    if vectors.dim() not in (3, 4) or len(vectors) != TEXTS or LENGTH not in vectors.shape[1:-1]:
        return None
    axis = vectors.shape.index(LENGTH, 1)
    return floats(vectors.movedim(axis, 0)[:2].flatten(2))


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
