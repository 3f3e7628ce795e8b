"""Attention of a model that is not shown, and what its other layers compute, in words."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from torch import Tensor, nn

from attnviz.core.edits import Site

MIXERS = {
    "delta": "linear attention (gated delta rule)",
    "lightning": "linear attention (lightning attention)",
    "mamba": "state-space mixing (Mamba)",
    "recurrentblock": "linear recurrence (RG-LRU)",
    "conv": "short convolution",
}
"""Words for what a layer computes in place of attention, by a part of the name or the class of one of its modules."""
BESIDE = "mamba"
"""The one that a layer may have beside attention, too."""
FEED_FORWARD = re.compile("norm|mlp|moe")
"""Part of the names and classes of all modules of a layer that is feed-forward alone."""


def not_shown(
    output: Any, layer_numbers: dict[Site, int], how: str, lists: Sequence[nn.ModuleList] = ()
) -> tuple[dict[Site, int], str | None]:
    """Attention that is not shown, by how many layers gave hidden states.

    Args:
        layer_numbers: the number that the layer of each site has in the model.
        how: what the other layers do, where their modules do not say it.
        lists: modules among which the layers are, where the numbers are theirs.

    Returns:
        The numbers, of kinds of which some layers are not shown; and the sentence, None if all of them are.
    """
    if hasattr(output, "decoder_hidden_states"):
        layers = {kind: _count(getattr(output, f"{kind}_hidden_states", None)) for kind in ("encoder", "decoder")}
        layers["cross"], lists = layers["decoder"], ()
    else:
        layers = {next(iter(layer_numbers)).kind: _count(getattr(output, "hidden_states", None))}
    counts, partly, sentences = Counter(site.kind for site in layer_numbers), {}, []
    for kind, total in layers.items():
        numbers = {site: number for site, number in layer_numbers.items() if site.kind == kind}
        if counts[kind] > total > 0:
            sentences.append(
                f"{total} {kind} layers compute attention {counts[kind]} times; each counts as a layer here"
            )
        elif total and not counts[kind]:
            sentences.append(f"the {kind} attention is not shown: its layers {how}")
        elif others := _others(lists, total, {*numbers.values()}):
            sentences.append(f"of {total} {kind} layers, counted from 0, {others}")
        elif counts[kind] < total:
            listed = ", ".join(str(number) for number in numbers.values())
            sentences.append(f"shown of {total} {kind} layers, counted from 0: {listed}; the others {how}")
        if 0 < counts[kind] < total and len({*numbers.values()}) == len(numbers):
            partly |= numbers
    text = "; ".join(sentences)
    return partly, f"{text[0].upper()}{text[1:]}." if text else None


def _count(hidden: tuple[Tensor, ...] | None) -> int:
    return max(0, len(hidden or ()) - 1)


def _others(lists: Sequence[nn.ModuleList], total: int, shown: set[int]) -> str:
    """Parts of a hybrid model that are not the attention shown, by layer; "" if there are none, or unknown ones.

    Args:
        total: how many layers there are.
        shown: numbers of those whose attention is shown.
    """
    found: dict[str, list[int]] = {}
    for number, layer in enumerate(next((part for part in lists if len(part) == total), ())):
        parts = [f"{name} {type(part).__name__}".lower() for name, part in layer.named_children()]
        mixer = next((words for sign, words in MIXERS.items() if any(sign in part for part in parts)), "")
        if number not in shown and not mixer and not all(map(FEED_FORWARD.search, parts)):
            return ""
        if number not in shown:
            found.setdefault(f"{mixer or 'feed-forward alone'}, not shown", []).append(number)
        elif any(BESIDE in part for part in parts):
            found.setdefault(f"attention beside {MIXERS[BESIDE]}, and the latter is not shown", []).append(number)
    return "; ".join(f"{_layers(numbers)} {words}" for words, numbers in found.items())


def _layers(numbers: Sequence[int]) -> str:
    """Layers by their ascending numbers, and a verb: "layer 3 is", "layers 0 to 2, 4 to 6 are"."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    listed = ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"layers {listed} are" if len(numbers) > 1 else f"layer {listed} is"
