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
    """Module and stack frames of a call in a model.

    Attributes:
        name: name of the module, "" for the model itself.
        module: innermost module of the model on the stack; torch's own modules, such as nn.Softmax, do not count.
        frame: frame of the outermost method of this module.
        above: calling module and the frame of its method; None if no module of the model is the caller.
        in_pass: whether the forward of the model is on the stack.
    """

    name: str
    module: nn.Module
    frame: FrameType
    above: tuple[nn.Module, FrameType] | None
    in_pass: bool

    @property
    def module_heads(self) -> set[int]:
        """Numbers of heads in attributes of the module; if it has none, in those of the calling module."""
        return head_counts(self.module) or (head_counts(self.above[0]) if self.above else set())

    @property
    def line(self) -> str:
        """File and line of the user's code that makes the call; "" for library code."""
        frames = [self.frame, *([self.above[1]] if self.above else [])]
        user_frames = (frame for frame in frames if "site-packages" not in frame.f_code.co_filename)
        return next((f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" for frame in user_frames), "")

    @property
    def batches(self) -> set[int]:
        """Possible batch sizes: sizes of the first and second axes of the module's inputs."""
        return {size for tensor in inputs(self.frame).values() if tensor.dim() == 3 for size in tensor.shape[:2]}


def inputs(frame: FrameType) -> dict[str, Tensor]:
    """List the tensors that a method was called with, by name, also if its code has reassigned the names since."""
    code, values, caller = frame.f_code, frame.f_locals, frame.f_back
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    if caller is not None and caller.f_code.co_filename in SKIPPED and "args" in caller.f_locals:
        values = dict(zip(names, caller.f_locals["args"], strict=False)) | caller.f_locals["kwargs"]
    return {name: values[name] for name in names if isinstance(values.get(name), Tensor)}


def positions(frame: FrameType) -> tuple[tuple[int, int], ...]:
    """List the numbers of sentences and positions, in either order, of each text among the inputs of a module."""
    tensors = inputs(frame).values()
    texts = [tensor for tensor in tensors if tensor.dim() == 3 and tensor.is_floating_point()]
    texts = texts or [tensor for tensor in tensors if tensor.dim() == 2 and not tensor.is_floating_point()]
    return tuple(tuple(tensor.shape[:2]) for tensor in texts)


class Places:
    """Finds the place of the current call among the modules of a model."""

    def __init__(self, model: nn.Module):
        self.model = model
        self._names = {module: name for name, module in model.named_modules() if _calls_attention(module)}
        self._names.setdefault(model, "")
        self._own = {*model.modules()}

    def now(self) -> CallPlace | None:
        """Find the current call on the call stack; None outside the model, and in another model that it calls."""
        module = outer_frame = above = None
        in_pass = False
        for frame, _ in walk_stack(sys._getframe(1)):
            code = frame.f_code
            owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
            if not isinstance(owner, nn.Module) or code.co_filename in SKIPPED:
                continue
            if owner not in self._names:
                if module is None and owner not in self._own and code.co_name == "forward" and _calls_attention(owner):
                    return None
                continue
            if module is None or (owner is module and above is None):
                is_called = frame.f_back is not None and frame.f_back.f_code.co_filename in SKIPPED
                module, outer_frame = owner, frame if outer_frame is None or is_called else outer_frame
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

    A module that is called twice in one pass counts as two layers, as in ALBERT.
    """

    def __init__(self, names: Mapping[Site, str]):
        self._sites: dict[tuple[str, int], Site] = {}
        self._layers: Counter[str] = Counter()
        for site, name in names.items():
            nth = sum(other == name for other, _ in self._sites)
            self._sites[name, nth], self._layers[site.kind] = site, max(self._layers[site.kind], site.layer + 1)
        self._calls: Counter[str] = Counter()
        self._repeats: Counter[str] = Counter()
        self._read: dict[str, int] = {}
        self.num_passes = 0

    def begin(self) -> None:
        """Start a new forward pass of the model."""
        self.num_passes += bool(self._calls)
        self._calls.clear()

    def first(self, place: CallPlace) -> Site | None:
        """Return the first site of a module if it was already called in this forward pass, else None."""
        return self._sites.get((place.name, 0)) if place.in_pass and self._calls[place.name] else None

    def site(self, place: CallPlace, kind: str, heads: int) -> tuple[Site, str, int | None, int]:
        """Return the site of a call, the module of all its heads, the head of a single-head call, and the forward pass.

        `kind` is used only for the first call of a module.
        """
        calls = self._calls if place.in_pass else self._repeats
        nth, passed = (calls[place.name], self.num_passes) if place.in_pass else (0, calls[place.name])
        calls[place.name] += 1
        name, head = self._head(place) if heads == 1 else (place.name, None)
        if (name, nth) not in self._sites:
            self._sites[name, nth] = Site(kind, self._layers[kind])
            self._layers[kind] += 1
        return self._sites[name, nth], name, head, passed

    def _head(self, place: CallPlace) -> tuple[str, int | None]:
        """Split "blocks.0.heads.2" into the module of all heads and the head; all heads must read the same tensor."""
        match, tensors = ONE_HEAD.fullmatch(place.name), [*inputs(place.frame).values()]
        if match is None or not tensors:
            return place.name, None
        name, head, address = match[1] or "", int(match[2]), tensors[0].data_ptr()
        if head and self._read.get(name) != address:
            return place.name, None
        self._read[name] = address
        return name, head


def kind(place: CallPlace, queries: int, keys: int, is_causal: bool) -> str:
    """Determine the kind of an attention call: "encoder", "decoder" or "cross".

    Whether it is self-attention is decided by "self" in the module name; else by the input texts; without inputs, by
    other parts of the name. `is_causal` means that no query may attend to a later key.
    """
    parts, frame = place.name.lower().split("."), place.frame
    is_named_cross = any(part.startswith(CROSS) for part in parts)
    if next(place.module.parameters(), None) is None and place.above is not None:
        frame = place.above[1]  # the inputs of the module are queries and keys, already projected
    named = {name: tensor for name, tensor in inputs(frame).items() if not any(part in name for part in NO_TEXTS)}
    texts = {name: text for name, text in named.items() if text.dim() == 3 and text.is_floating_point()}
    by_letter = [next((texts[name] for name in texts if name.startswith(letter)), None) for letter in "qk"]
    query_text, *others = by_letter if None not in by_letter else texts.values() or [None]
    key_texts = [text for text in others if any(0 <= keys - size <= 2 for size in text.shape[:2])]  # 2 learned keys
    key_texts = [text for text in key_texts if {*text.shape[:2]} & {*query_text.shape[:2]}]
    if not texts or (any("self" in part for part in parts) and not is_named_cross):
        is_self = not is_named_cross
    elif key_texts:
        same_shape = key_texts[0].shape == query_text.shape
        is_self = key_texts[0] is query_text or (same_shape and torch.equal(key_texts[0], query_text))
    else:  # a single query is that of a recurrent decoder, or learned
        is_self = not (queries == 1 < keys and keys in query_text.shape[:2])
    if not is_self:
        return "cross"
    stacks = [stack for stack in ("decoder", "encoder") if any(part.endswith(stack) for part in parts)]
    return [*stacks, "decoder" if is_causal else "encoder"][0]


def hides_future(mask: Tensor | Mask | None) -> bool:
    """Whether a mask is causal: no query may attend to a later key."""
    if isinstance(mask, Mask):
        return any(rule.startswith(str(Subsequent())) for rule in mask.rules())
    if mask is None or mask.dim() < 2:
        return False
    queries, keys = mask.shape[-2:]
    return queries > 1 and not bool(mask.triu(keys - queries + 1).any())


def head_counts(module: nn.Module) -> set[int]:
    """List the head counts in attributes of a module, without counts of key-value heads, which may be smaller."""
    numbers = {name: value for name, value in vars(module).items() if type(value) is int and value > 0}
    counts = [name for name in numbers if "head" in name and not any(part in name for part in ("dim", "size", "kv"))]
    return {numbers[name] for name in [*counts, "h", "H", "nh"] if name in numbers}
