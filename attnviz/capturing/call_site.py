"""Which module makes an attention call, and which attention of the model that is, read off the stack of calls.

Stateless and of one thread: no module is changed, and no hook is needed on the parts of a model.
"""

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
"""How the parts of a module's name begin whose keys stand in another text."""
NO_TEXTS = ("pos", "mask", "bias", "residual", "rot", "freq", "rel", "temb", "cos", "sin")
"""Parts of the names of arguments that are no texts, though they may be as long as one."""
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
        frame: of its outermost method.
        above: the module that called it and the frame of its method; None if nothing of the model did.
        in_pass: whether the model's own forward is at work.
        in_checkpoint: whether a checkpoint runs it.
    """

    name: str
    module: nn.Module
    frame: FrameType
    above: tuple[nn.Module, FrameType] | None
    in_pass: bool
    in_checkpoint: bool

    @property
    def module_heads(self) -> set[int]:
        """How many heads the module says that it has; if it says nothing, the one that called it."""
        return head_counts(self.module) or (head_counts(self.above[0]) if self.above else set())

    @property
    def line(self) -> str:
        """File and line of a person's code at which the call is made; "" of a library's."""
        frames = [self.frame, *([self.above[1]] if self.above else [])]
        lines = [(frame.f_code.co_filename, frame.f_lineno) for frame in frames]
        own = [f"{os.path.basename(file)}:{line}" for file, line in lines if "site-packages" not in file]
        return own[0] if own else ""

    @property
    def batches(self) -> set[int]:
        """How many sentences its inputs may have: their first axis, or the second."""
        return {size for tensor in inputs(self.frame).values() if tensor.dim() == 3 for size in tensor.shape[:2]}


def inputs(frame: FrameType) -> dict[str, Tensor]:
    """The tensors among the arguments of a method, by name, as it was given them: code often uses their names again."""
    code, values, caller = frame.f_code, frame.f_locals, frame.f_back
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    if caller is not None and caller.f_code.co_filename in SKIPPED and "args" in caller.f_locals:
        values = dict(zip(names, caller.f_locals["args"], strict=False)) | caller.f_locals["kwargs"]
    return {name: values[name] for name in names if isinstance(values.get(name), Tensor)}


def positions(frame: FrameType) -> tuple[tuple[int, int], ...]:
    """Sentences and positions, in either order, of each text that a module was given."""
    tensors = inputs(frame).values()
    texts = [tensor for tensor in tensors if tensor.dim() == 3 and tensor.is_floating_point()]
    texts = texts or [tensor for tensor in tensors if tensor.dim() == 2 and not tensor.is_floating_point()]
    return tuple(tuple(tensor.shape[:2]) for tensor in texts)


class Places:
    """The modules of one model."""

    def __init__(self, model: nn.Module):
        self.model = model
        self._names = {module: name for name, module in model.named_modules() if _calls_attention(module)}
        self._names.setdefault(model, "")
        self._own = {*model.modules()}

    def now(self) -> CallPlace | None:
        """Place of the current call; None outside the model, also in another model that it calls."""
        module = outer = above = None
        in_pass = in_checkpoint = False
        for frame, _ in walk_stack(sys._getframe(1)):
            code = frame.f_code
            in_checkpoint = in_checkpoint or code.co_filename.endswith(CHECKPOINT)
            owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
            if not isinstance(owner, nn.Module) or code.co_filename in SKIPPED:
                continue
            if owner not in self._names:
                if module is None and owner not in self._own and code.co_name == "forward" and _calls_attention(owner):
                    return None
                continue
            if module is None or (owner is module and above is None):
                is_called = frame.f_back is not None and frame.f_back.f_code.co_filename in SKIPPED
                module, outer = owner, frame if outer is None or is_called else outer
            elif above is None:
                above = owner, frame
            in_pass = in_pass or owner is self.model
        if module is None:
            return None
        return CallPlace(self._names[module], module, outer, above, in_pass, in_checkpoint)


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
        self.passed = 0

    def begin(self) -> None:
        """A forward pass of the model begins."""
        self.passed += bool(self._calls)
        self._calls.clear()

    def first(self, place: CallPlace) -> Site | None:
        """The first site of a module that was called before in this pass of the model."""
        return self._sites.get((place.name, 0)) if place.in_pass and self._calls[place.name] else None

    def site(self, place: CallPlace, kind: str, heads: int) -> tuple[Site, str, int | None, int]:
        """The site of a call, the name of what computes all its heads, its head if it is of one alone, and its pass.

        `kind` counts where the call is made for the first time.
        """
        calls = self._calls if place.in_pass else self._repeats
        nth, passed = (calls[place.name], self.passed) if place.in_pass else (0, calls[place.name])
        calls[place.name] += 1
        name, head = self._head(place) if heads == 1 else (place.name, None)
        if (name, nth) not in self._sites:
            self._sites[name, nth] = Site(kind, self._layers[kind])
            self._layers[kind] += 1
        return self._sites[name, nth], name, head, passed

    def _head(self, place: CallPlace) -> tuple[str, int | None]:
        """The name of what has several heads, and which of them a module is; they all read the same tensor."""
        match, read = ONE_HEAD.fullmatch(place.name), [*inputs(place.frame).values()]
        if match is None or not read:
            return place.name, None
        name, head, address = match[1] or "", int(match[2]), read[0].data_ptr()
        if head and self._read.get(name) != address:
            return place.name, None
        self._read[name] = address
        return name, head


def kind(place: CallPlace, queries: int, keys: int, is_causal: bool) -> str:
    """The kind of an attention call of so many queries and keys.

    A name with "self" tells, then the texts that its module is given, and where it is given none, other names. Where
    it is causal, no query may attend to a later key.
    """
    parts, frame = place.name.lower().split("."), place.frame
    is_cross = any(part.startswith(CROSS) for part in parts)
    if next(place.module.parameters(), None) is None and place.above is not None:
        frame = place.above[1]  # the module is given queries and keys that are projected already
    texts = {
        name: tensor
        for name, tensor in inputs(frame).items()
        if tensor.dim() == 3 and tensor.is_floating_point() and not any(part in name for part in NO_TEXTS)
    }
    by_letter = [next((texts[name] for name in texts if name.startswith(letter)), None) for letter in "qk"]
    first, *others = by_letter if None not in by_letter else texts.values() or [None]
    others = [
        other
        for other in others
        if any(0 <= keys - size <= 2 for size in other.shape[:2]) and {*other.shape[:2]} & {*first.shape[:2]}
    ]  # as many as there are keys, of which up to two may be learned
    if not texts or (any("self" in part for part in parts) and not is_cross):
        same = not is_cross
    elif others:
        same = others[0] is first or (others[0].shape == first.shape and torch.equal(others[0], first))
    else:
        same = not (queries == 1 < keys and keys in first.shape[:2])  # one query of a recurrent decoder, or learned
    if not same:
        return "cross"
    named = [stack for stack in ("decoder", "encoder") if any(part.endswith(stack) for part in parts)]
    return [*named, "decoder" if is_causal else "encoder"][0]


def causal(mask: Tensor | Mask | None) -> bool:
    """Whether a mask hides the future."""
    if isinstance(mask, Mask):
        return any(rule.startswith(str(Subsequent())) for rule in mask.rules())
    if mask is None or mask.dim() < 2:
        return False
    queries, keys = mask.shape[-2:]
    return queries > 1 and not bool(mask.triu(keys - queries + 1).any())


def head_counts(module: nn.Module) -> set[int]:
    """How many heads a module says that it has; numbers of keys' heads, of which there may be fewer, do not count."""
    numbers = {name: value for name, value in vars(module).items() if type(value) is int and value > 0}
    counts = [name for name in numbers if "head" in name and not any(part in name for part in ("dim", "size", "kv"))]
    return {numbers[name] for name in [*counts, "h", "H", "nh"] if name in numbers}
