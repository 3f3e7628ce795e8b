"""Which module makes an attention call, and which attention of the model that is, read off the stack of calls.

Stateless and of one thread: no module is changed, and no hook is needed on the parts of a model.
"""

import inspect
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.masks import Mask, Subsequent

CROSS = ("cross", "encdecattention", "encoder_attn", "encoder_decoder", "multihead_attn", "src_attn", "attn2")
"""How the parts of a module's name begin whose keys stand in another text."""
SKIPPED = (nn.Module.__call__.__code__.co_filename,)
"""Files whose frames only hand a call on."""
CHECKPOINT = os.path.join("torch", "utils", "checkpoint.py")
"""The file whose functions run parts of a model, and run them again for the gradients."""
ONE_HEAD = re.compile(r"(?:(.+)\.)?\w*head\w*\.(\d+)")
"""Name of a module that computes one head of several: "blocks.0.heads.2"."""


@dataclass(frozen=True, eq=False)
class CallPlace:
    """Module and frames of a call in a model.

    Attributes:
        name: of the module, "" for the model itself.
        module: the innermost one of the model that is at work; parts of torch, such as nn.Softmax, do not count.
        frame: of its forward.
        call: the innermost frame of its own `forward`: another one in each call.
        above: the module that called it and the frame of its forward; None if nothing of the model did.
        in_pass: whether the model's own forward is at work.
        in_checkpoint: whether a checkpoint runs it.
    """

    name: str
    module: nn.Module
    frame: FrameType
    above: tuple[nn.Module, FrameType] | None
    in_pass: bool
    in_checkpoint: bool
    call: FrameType

    @property
    def said_heads(self) -> set[int]:
        """How many heads the module says that it has; if it says nothing, the one that called it."""
        return head_counts(self.module) or (head_counts(self.above[0]) if self.above else set())

    @property
    def batches(self) -> set[int]:
        """How many sentences its inputs may have: their first axis, or the second."""
        return {size for tensor in inputs(self.frame) if tensor.dim() == 3 for size in tensor.shape[:2]}


def inputs(frame: FrameType) -> tuple[Tensor, ...]:
    """The tensors among the arguments of a method."""
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    return tuple(values[name] for name in names if isinstance(values.get(name), Tensor))


def positions(frame: FrameType) -> tuple[tuple[int, int], ...]:
    """Sentences and positions, in either order, of each text that a module was given."""
    tensors = inputs(frame)
    texts = [tensor for tensor in tensors if tensor.dim() == 3 and tensor.is_floating_point()]
    texts = texts or [tensor for tensor in tensors if tensor.dim() == 2 and not tensor.is_floating_point()]
    return tuple(tuple(tensor.shape[:2]) for tensor in texts)


class Places:
    """The modules of one model."""

    def __init__(self, model: nn.Module):
        self.model = model
        self._names = {id(module): (name, module) for name, module in model.named_modules() if _calls_attention(module)}
        self._names.setdefault(id(model), ("", model))
        self._own = {id(module) for module in model.modules()}

    def now(self) -> CallPlace | None:
        """Place of the current call; None outside the model."""
        frame, innermost, above, in_pass, in_checkpoint, call = sys._getframe(2), None, None, False, False, None
        while frame is not None:
            owner = self._owner(frame)
            if owner is None and innermost is None and self._is_of_another(frame):
                return None
            if owner is not None and (innermost is None or (owner[1] is innermost[1] and above is None)):
                innermost = (*owner, frame)
                call = frame if call is None and frame.f_code.co_name == "forward" else call
            elif owner is not None and above is None:
                above = owner[1], frame
            in_pass = in_pass or (owner is not None and owner[1] is self.model)
            in_checkpoint = in_checkpoint or frame.f_code.co_filename.endswith(CHECKPOINT)
            frame = frame.f_back
        return innermost and CallPlace(*innermost, above, in_pass, in_checkpoint, call or innermost[2])

    def is_given(self, tensor: Tensor) -> bool:
        """Whether a tensor is an argument of a method of a module that is at work, or stands in one of them."""
        frame = sys._getframe(1)
        while frame is not None:
            code, values = frame.f_code, frame.f_locals
            if code.co_argcount and isinstance(values.get(code.co_varnames[0]), nn.Module):
                more = sum(bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS))
                names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount + more]
                if any(_holds(values.get(name), tensor) for name in names):
                    return True
            frame = frame.f_back
        return False

    def _is_of_another(self, frame: FrameType) -> bool:
        """Whether a frame is the forward of a module of another model, such as the assistant of a generation."""
        code = frame.f_code
        if code.co_name != "forward" or not code.co_argcount or code.co_filename in SKIPPED:
            return False
        module = frame.f_locals.get(code.co_varnames[0])
        return isinstance(module, nn.Module) and id(module) not in self._own and _calls_attention(module)

    def _owner(self, frame: FrameType) -> tuple[str, nn.Module] | None:
        """The module of the model that is the first argument of a frame's function."""
        code = frame.f_code
        if not code.co_argcount or code.co_filename in SKIPPED:
            return None
        return self._names.get(id(frame.f_locals.get(code.co_varnames[0])))


def _holds(value: object, tensor: Tensor) -> bool:
    """Whether a value is a tensor, or a list or mapping that has it."""
    if isinstance(value, list | tuple):
        return any(_holds(item, tensor) for item in value)
    if isinstance(value, Mapping):
        return any(_holds(item, tensor) for item in value.values())
    return value is tensor


def _calls_attention(module: nn.Module) -> bool:
    return isinstance(module, nn.MultiheadAttention) or not type(module).__module__.startswith("torch.nn.")


class Sites:
    """Numbers the attention calls of a model by kind, in the order of its first pass; later passes find them again.

    A module that is called again in one pass is another layer, as in ALBERT; in another pass it is the same one.
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
        self.passed = -1

    def begin(self, *, in_loop: bool = False) -> None:
        """A forward pass of the model begins; in a loop of its own code another one has gone before it."""
        self.passed = max(self.passed, 0 if in_loop else -1) + 1
        self._calls.clear()

    def first(self, place: CallPlace) -> Site | None:
        """The first site of a module that was called before in this pass of the model."""
        return self._sites.get((place.name, 0)) if place.in_pass and self._calls[place.name] else None

    def site(self, place: CallPlace, kind: str, heads: int) -> tuple[Site, str, int | None, int]:
        """The site of a call that is made now; `kind` counts where it is made for the first time.

        Returns:
            The site, the name of what computes all its heads, which head this call is of if it is of one, and the pass.
        """
        if place.in_pass:
            nth, passed = self._calls[place.name], max(0, self.passed)
            self._calls[place.name] += 1
        else:
            nth, passed = 0, self._repeats[place.name]
            self._repeats[place.name] += 1
        name, head = self._head(place) if heads == 1 else (place.name, None)
        if (name, nth) not in self._sites:
            self._sites[name, nth] = Site(kind, self._layers[kind])
            self._layers[kind] += 1
        return self._sites[name, nth], name, head, passed

    def _head(self, place: CallPlace) -> tuple[str, int | None]:
        """The name of what has several heads, and which of them a module is; they all read the same tensor."""
        match, read = ONE_HEAD.fullmatch(place.name), inputs(place.frame)
        if match is None or not read:
            return place.name, None
        name, head, address = match[1] or "", int(match[2]), read[0].data_ptr()
        if head and self._read.get(name) != address:
            return place.name, None
        self._read[name] = address
        return name, head


def kind(place: CallPlace, is_causal: bool, same: bool | None = None) -> str:
    """The kind of an attention call: by the texts that queries and keys come from, then its module's name and its mask.

    Args:
        is_causal: whether no query may attend to a later key.
        same: whether queries and keys come from one text; None if not known: then the name tells, and last lengths.
    """
    parts = place.name.lower().split(".")
    if same is None:
        is_named = any(part.startswith(CROSS) for part in parts)
        same = any("self" in part for part in parts) or not (is_named or _has_two_texts(place))
    if not same:
        return "cross"
    for stack in ("decoder", "encoder"):
        if any(part.endswith(stack) for part in parts):
            return stack
    return "decoder" if is_causal else "encoder"


def _has_two_texts(place: CallPlace) -> bool:
    """Whether the forward got two inputs of other lengths; alike in all else, so that ALiBi is none of them.

    They may be cut into heads already: code that is written by hand often uses their names again.
    """
    wide = [tensor.shape for tensor in inputs(place.frame) if tensor.dim() >= 3 and tensor.is_floating_point()]
    pairs = [(a, b) for a in wide for b in wide if len(a) == len(b) and a[0] == b[0] and a[-1] == b[-1]]
    for a, b in pairs:
        unlike = [{size, other} for size, other in zip(a, b, strict=True) if size != other]
        if len(unlike) == 1 and (len(a) == 3 or 1 not in unlike[0]):  # a mask is 1 wide where a bias has heads
            return True
    return False


def causal(mask: Any, is_causal: bool = False) -> bool:
    """Whether a mask, as PyTorch's SDPA takes it or of rules, hides the future."""
    if isinstance(mask, Mask):
        return any(rule.startswith(str(Subsequent())) for rule in mask.rules())
    if is_causal or not isinstance(mask, Tensor) or mask.dim() < 2:
        return is_causal
    is_open = mask if mask.dtype is torch.bool else mask > -9e3
    queries, keys = mask.shape[-2:]
    return queries > 1 and not bool(is_open.triu(keys - queries + 1).any())


def head_counts(module: nn.Module) -> set[int]:
    """How many heads a module says that it has; numbers of keys' heads, of which there may be fewer, do not count."""
    counts = {
        value
        for name, value in vars(module).items()
        if "head" in name and "dim" not in name and "size" not in name and "kv" not in name and type(value) is int
    }
    counts |= {value for name, value in vars(module).items() if name in ("h", "H", "nh") and type(value) is int}
    return {value for value in counts if value > 0}
