"""Promises of masks: on which changed tokens an output may depend, through as many layers as there are."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.edits import Edits, Site
from attnviz.core.leaks import through
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.record import Record, Step
from attnviz.leaks.look import LeakTarget


@dataclass(frozen=True)
class _OfSentence(Mask):
    """Mask of one sentence, for a batch of copies of it."""

    mask: Mask
    sentence: int

    def allows(self, query, key, sentence):
        return self.mask.allows(query, key, torch.full_like(sentence, self.sentence))

    def blockers(self, query, key, sentence):
        return self.mask.blockers(query, key, torch.full_like(sentence, self.sentence))

    def __str__(self) -> str:
        return str(self.mask)


def alone(mask: Mask | None, sentence: int) -> Mask | None:
    """A mask of a batch for one of its sentences, however many copies of it are run."""
    if mask is None or mask.batch_size is None:
        return mask
    mask.grid(1, sentence=sentence)  # raises if the batch has no such sentence
    return _OfSentence(mask, sentence)


def reach(own: Record, look: LeakTarget, edits: Edits, promised: Mask | None) -> Tensor:
    """Which changed tokens each output may depend on, (Q, K), boolean.

    Args:
        own: a run of the untouched model: its masks are promised also where edits switch them off.
        edits: their mask is promised besides, where it acts.
        promised: of the kind that is tested, promised instead of both.
    """
    allowed = {
        step.site: _allowed(step, edits.mask_at(step.site.kind), promised, look, own.read_only) for step in own.steps
    }
    if look.kind != "cross":
        return _self_attention(allowed, look)
    memory = _self_attention(allowed, LeakTarget("encoder", None))
    reached = torch.zeros(len(allowed[Site("decoder", 0)]), len(memory), dtype=torch.bool)
    for site, open in allowed.items():
        if site.kind != "encoder":
            reached = through(reached, open, memory if site.kind == "cross" else None)
        if (site.kind, site.layer) == ("cross", look.layer):
            break
    return reached


def _self_attention(allowed: dict[Site, Tensor], look: LeakTarget) -> Tensor:
    layers = [open for site, open in allowed.items() if look.holds(site)]
    reached = torch.eye(len(layers[0]), dtype=torch.bool)
    for open in layers:
        reached = through(reached, open)
    return reached


def _allowed(step: Step, edit: Mask | None, promised: Mask | None, look: LeakTarget, read_only: bool) -> Tensor:
    """Who may attend to whom in one layer, (Q, K)."""
    queries, keys = step.shape[2], step.shape[3] - step.has_sink
    if promised is not None and step.site.kind == look.kind:
        return promised.grid(queries, keys)
    heads = [step.may_attend(head, columns=slice(0, keys)) for head in range(step.num_heads)]
    allowed = torch.stack(heads).any(0).cpu()
    if step.site.kind == "decoder" and not read_only:  # the mask of a read-only model is read off its weights
        causal = Subsequent().grid(queries, keys)
        allowed = causal if _opens_future(step) else allowed & causal
    return allowed if edit is None else allowed & edit.grid(queries, keys)


def _opens_future(step: Step) -> bool:
    """Whether a mask of numbers leaves a later key open: then nothing that it says is a promise of a decoder."""
    if not isinstance(step.mask, Tensor):
        return False
    heads = (step.may_attend(head, columns=slice(0, step.shape[3] - step.has_sink)) for head in range(step.num_heads))
    return any(bool(head.triu(1).any()) for head in heads)


def in_words(own: Record, look: LeakTarget, edit: Mask | None, promised: Mask | None) -> str:
    """Mask that each layer is to keep, and number of layers: "window (1 before, 0 after), through 2 layers"."""
    steps = [step for step in own.steps if look.holds(step.site)]
    through = f", through {len(steps)} layers" if len(steps) > 1 else ""
    if promised is not None:
        return f"{promised}{through}"
    mine = " or ".join(dict.fromkeys(map(_named, steps)))
    if edit is None or mine == str(edit):
        return f"{mine}{through}"
    return f"{edit if mine == 'full' else f'{mine} and {edit}'}{through}"


def _named(step: Step) -> str:
    if step.mask is not None and not any(step.may_attend(head).any() for head in range(step.num_heads)):
        return "every key blocked"
    if isinstance(step.mask, Mask):
        return str(step.mask)
    if step.mask is not None:
        return "causal" if step.site.kind == "decoder" and _opens_future(step) else "the built-in mask"
    return "causal" if step.site.kind == "decoder" else "full"
