"""Find the module that makes an attention call, and the site of the call, from the call stack, without hooks."""

import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from traceback import walk_stack
from types import FrameType

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.masks import Mask, Subsequent

CROSS = ("cross", "encdecattention", "encoder_attn", "encoder_decoder", "multihead_attn", "src_attn", "attn2")
"""Prefixes of parts of module names that mark cross-attention."""
NO_TEXTS = ("pos", "mask", "bias", "residual", "rot", "freq", "rel", "temb", "cos", "sin")
"""Parts of argument names that mark tensors other than texts, such as masks, which may be as long as a text."""
SKIPPED = (nn.Module.__call__.__code__.co_filename,)
"""Files whose stack frames are ignored, because their functions only call another function."""
ONE_HEAD = re.compile(r"(?:(.+)\.)?\w*head\w*\.(\d+)")
"""Pattern of names of modules that compute one of several heads: "blocks.0.heads.2"."""


@dataclass(frozen=True, eq=False)
class CallPlace:
    """Module and stack frames of a call in a model."""

    name: str  # name of the module, "" for the model itself
    module: nn.Module  # innermost module of the model on the stack, but not torch's own, such as nn.Softmax
    frame: FrameType  # frame of the outermost method of this module
    above: tuple[nn.Module, FrameType] | None  # calling module and the frame of its method, if the model has one
    in_pass: bool  # whether the forward of the model is on the stack

    @property
    def module_heads(self) -> set[int]:
        """Head counts in attributes of the module, or if it has none, in attributes of the calling module."""
        return head_counts(self.module) or (head_counts(self.above[0]) if self.above else set())

    @property
    def line(self) -> str:
        """File and line of the user's code that makes the call; "" for library code."""
        for frame in [self.frame, *([self.above[1]] if self.above else [])]:
            if "site-packages" not in frame.f_code.co_filename:
                return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        return ""

    @property
    def batches(self) -> set[int]:
        """Possible batch sizes: sizes of the first and second axes of the module's inputs."""
        return {size for tensor in inputs(self.frame).values() if tensor.dim() == 3 for size in tensor.shape[:2]}


def inputs(frame: FrameType) -> dict[str, Tensor]:
    """Return the tensors that a method was called with, by the names of its arguments."""
    code, values, caller = frame.f_code, frame.f_locals, frame.f_back
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    if caller is not None and caller.f_code.co_filename in SKIPPED and "args" in caller.f_locals:
        # the method may have assigned other values to its names; `Module.__call__` still has the first ones
        values = dict(zip(names, caller.f_locals["args"], strict=False)) | caller.f_locals["kwargs"]
    return {name: values[name] for name in names if isinstance(values.get(name), Tensor)}


def text_shapes(frame: FrameType) -> tuple[tuple[int, int], ...]:
    """List (B, n) or (n, B), the first two sizes, of each text that a method was called with. Texts are vectors, float
    (B, n, d), or if there are none, token ids (B, n)."""
    tensors = inputs(frame).values()
    texts = [tensor for tensor in tensors if tensor.dim() == 3 and tensor.is_floating_point()]
    texts = texts or [tensor for tensor in tensors if tensor.dim() == 2 and not tensor.is_floating_point()]
    return tuple(tuple(tensor.shape[:2]) for tensor in texts)


class Places:
    """Finds the place of the current call among the modules of a model."""

    def __init__(self, model: nn.Module):
        self.model, self._modules = model, {*model.modules()}
        self._names = {module: name for name, module in model.named_modules() if _calls_attention(module)}
        self._names.setdefault(model, "")

    def now(self) -> CallPlace | None:
        """Find the current call on the call stack; None outside the model, and in another model that it calls."""
        module = outer_frame = above = None
        in_pass = False
        for frame, _ in walk_stack(sys._getframe(1)):  # from the innermost frame outward
            code = frame.f_code
            owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None  # `self` of a method
            if not isinstance(owner, nn.Module) or code.co_filename in SKIPPED:
                continue
            if owner not in self._names:
                is_other_model = owner not in self._modules and code.co_name == "forward" and _calls_attention(owner)
                if module is None and is_other_model:
                    return None
                continue
            if module is None or (owner is module and above is None):
                is_called = frame.f_back is not None and frame.f_back.f_code.co_filename in SKIPPED
                outer_frame = frame if outer_frame is None or is_called else outer_frame
                module = owner
            elif above is None:
                above = owner, frame
            in_pass = in_pass or owner is self.model
        if module is None:
            return None
        return CallPlace(self._names[module], module, outer_frame, above, in_pass)


def _calls_attention(module: nn.Module) -> bool:
    """Whether a module may call attention itself: `nn.MultiheadAttention`, or any module outside of torch.nn."""
    return isinstance(module, nn.MultiheadAttention) or not type(module).__module__.startswith("torch.nn.")


class Sites:
    """Numbers the attention calls of a model by kind, in the order of the first forward pass; later passes reuse them.
    A module that is called twice in one pass counts as two layers, as in ALBERT."""

    def __init__(self, names: Mapping[Site, str]):
        self._sites: dict[tuple[str, int], Site] = {}  # by the name of the module and its earlier calls in the pass
        self._layers: Counter[str] = Counter()  # number of layers of each kind
        for site, name in names.items():
            nth = sum(other == name for other, _ in self._sites)
            self._sites[name, nth], self._layers[site.kind] = site, max(self._layers[site.kind], site.layer + 1)
        self._calls: Counter[str] = Counter()  # calls of each module in this forward pass
        self._calls_alone: Counter[str] = Counter()  # calls of each module outside of the forward of the model
        self._inputs: dict[str, int] = {}  # address of the input of head 0, by the name of the module of all heads
        self.num_passes = 0

    def begin(self) -> None:
        """Start a new forward pass of the model."""
        self.num_passes += bool(self._calls)
        self._calls.clear()

    def first(self, place: CallPlace) -> Site | None:
        """Return the first site of a module if it was already called in this forward pass, else None."""
        was_called = place.in_pass and self._calls[place.name]
        return self._sites.get((place.name, 0)) if was_called else None

    def site(self, place: CallPlace, kind: str, heads: int) -> tuple[Site, str, int | None, int]:
        """Return the site of a call, the name of the module of all heads, the index of the head (None unless the module
        has one head), and the index of the forward pass. `kind` is used only for the first call of a module."""
        if place.in_pass:
            nth, forward_pass = self._calls[place.name], self.num_passes
            self._calls[place.name] += 1
        else:  # a module that is called alone begins a pass of its own
            nth, forward_pass = 0, self._calls_alone[place.name]
            self._calls_alone[place.name] += 1
        name, head = self._head(place) if heads == 1 else (place.name, None)
        if (name, nth) not in self._sites:
            self._sites[name, nth] = Site(kind, self._layers[kind])
            self._layers[kind] += 1
        return self._sites[name, nth], name, head, forward_pass

    def _head(self, place: CallPlace) -> tuple[str, int | None]:
        """Split the module name "blocks.0.heads.2" into "blocks.0" and head 2, if head 0 reads the same tensor."""
        match, tensors = ONE_HEAD.fullmatch(place.name), [*inputs(place.frame).values()]
        if match is None or not tensors:
            return place.name, None
        name, head, address = match[1] or "", int(match[2]), tensors[0].data_ptr()
        if head > 0 and self._inputs.get(name) != address:
            return place.name, None
        self._inputs[name] = address
        return name, head


def kind(place: CallPlace, queries: int, keys: int, is_causal: bool) -> str:
    """Determine the kind of an attention call: "encoder", "decoder" or "cross". "self" in the module name, else the
    input texts, else other parts of the name decide whether it is self-attention. `is_causal`: with a causal mask."""
    parts, frame = place.name.lower().split("."), place.frame
    is_named_cross = any(part.startswith(CROSS) for part in parts)
    is_named_self = any("self" in part for part in parts)
    if next(place.module.parameters(), None) is None and place.above is not None:
        frame = place.above[1]  # the inputs of the module are queries and keys, already projected
    named = {name: tensor for name, tensor in inputs(frame).items() if not any(part in name for part in NO_TEXTS)}
    texts = {name: text for name, text in named.items() if text.dim() == 3 and text.is_floating_point()}
    if not texts or (is_named_self and not is_named_cross):
        is_self = not is_named_cross
    else:
        for_queries = [text for name, text in texts.items() if name.startswith("q")]
        for_keys = [text for name, text in texts.items() if name.startswith("k")]
        query_text, *others = [for_queries[0], for_keys[0]] if for_queries and for_keys else texts.values()
        key_texts = [text for text in others if any(0 <= keys - size <= 2 for size in text.shape[:2])]  # 2 learned keys
        key_texts = [text for text in key_texts if {*text.shape[:2]} & {*query_text.shape[:2]}]  # a size in common
        if key_texts:
            same_shape = key_texts[0].shape == query_text.shape
            is_self = key_texts[0] is query_text or (same_shape and torch.equal(key_texts[0], query_text))
        else:  # one query for many keys: of a step of a recurrent decoder, or learned
            is_self = not (queries == 1 < keys and keys in query_text.shape[:2])
    if not is_self:
        return "cross"
    named_stacks = [stack for stack in ("decoder", "encoder") if any(part.endswith(stack) for part in parts)]
    by_mask = "decoder" if is_causal else "encoder"
    return named_stacks[0] if named_stacks else by_mask


def hides_future(mask: Tensor | Mask | None) -> bool:
    """Whether a mask is causal: no query may attend to a later key."""
    if isinstance(mask, Mask):
        return any(rule.startswith(str(Subsequent())) for rule in mask.rules())
    if mask is None or mask.dim() < 2:
        return False
    queries, keys = mask.shape[-2:]
    return queries > 1 and not bool(mask.triu(keys - queries + 1).any())


def head_counts(module: nn.Module) -> set[int]:
    """Find the head counts in attributes of a module, without counts of key-value heads, which may be smaller."""
    numbers = {name: value for name, value in vars(module).items() if type(value) is int and value > 0}
    names = {name for name in numbers if "head" in name and not any(part in name for part in ("dim", "size", "kv"))}
    return {numbers[name] for name in names | ({"h", "H", "nh"} & numbers.keys())}  # short names that models use
