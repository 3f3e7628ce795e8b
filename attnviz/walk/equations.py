"""The equations of the chain, in parts, so that the one which a stage works out can be marked."""

import math
from dataclasses import dataclass

from attnviz.core.record import Step
from attnviz.walk.knobs import Knobs


@dataclass(frozen=True)
class Part:
    """A piece of an equation.

    Attributes:
        text: as plain text.
        latex: as LaTeX.
        is_current: whether the stage works it out.
    """

    text: str
    latex: str
    is_current: bool


Piece = tuple[str, str, str]
"""The stage that works it out, plain text, LaTeX."""


def equation(pieces: list[Piece], key: str) -> tuple[Part, ...]:
    """The pieces with those of one stage marked."""
    return tuple(Part(text, latex, stage == key) for stage, text, latex in pieces)


def embed(positions: bool) -> list[Piece]:
    """What stands before an attention call."""
    added = [("position", " + P", " + P")] if positions else []
    tokens = [("embedding", "E[tokens]", r"E[\mathrm{tokens}]"), *added]
    return [("", "X = ", "X = "), *_around("input", "Before", tokens)]


def project(num_heads: int) -> list[Piece]:
    """The projections, then the heads: they are projected first and split after."""
    last = num_heads - 1
    pieces: list[Piece] = []
    for name in "QKV":
        pieces += [
            ("split", f"[{name}_0 … {name}_{last}] = ", rf"[{name}_0 \dots {name}_{{{last}}}] = "),
            ("project", f"X W_{name}", f"X W_{name}"),
            ("", ", " if name != "V" else "", r",\; " if name != "V" else ""),
        ]
    return pieces


def attend(step: Step, knobs: Knobs) -> list[Piece]:
    """What a head computes; only what this call does stands in it."""
    inner: list[Piece] = [("products", "Q Kᵀ", r"Q K^{\top}"), _scale(step)]
    if step.softcap is not None:
        cap = f"{step.softcap:g}"
        inner = [
            ("softcap", f"{cap} · tanh((", rf"{cap} \cdot \tanh(("),
            *inner,
            ("softcap", f") / {cap})", f") / {cap})"),
        ]
    if step.bias is not None:
        inner = [*inner, ("bias", " + B", " + B")]
    if step.temperature != 1:
        inner = [
            ("temperature", "(", "("),
            *inner,
            ("temperature", f") / {step.temperature:g}", f") / {step.temperature:g}"),
        ]
    is_masked = step.mask is not None
    if is_masked and not knobs.mask_after_softmax:
        inner = _around("mask", "mask", inner) if knobs.masking == "replace" else [*inner, ("mask", " + M", " + M")]
    inner = _around("softmax", "softmax", inner)
    if is_masked and knobs.mask_after_softmax:
        inner = _around("mask", "mask", inner)
    if knobs.dropout_p:
        inner = _around("dropout", "dropout", inner)
    return [("", "O = ", "O = "), *inner, ("values", " V", r" \, V")]


def join(num_heads: int) -> list[Piece]:
    """What is done with the outputs of all heads."""
    heads = ("concat", f"Concat(O_0 … O_{num_heads - 1})", rf"\operatorname{{Concat}}(O_0 \dots O_{{{num_heads - 1}}})")
    return [("", "Y = ", "Y = "), heads, ("output", " W_O", r" \, W_O")]


def _scale(step: Step) -> Piece:
    if math.isclose(step.scale, step.query.shape[-1] ** -0.5):
        return "scale", " / √d_k", r" / \sqrt{d_k}"
    return "scale", f" · {step.scale:.4g}", rf" \cdot {step.scale:.4g}"


def _around(stage: str, name: str, inner: list[Piece]) -> list[Piece]:
    return [(stage, f"{name}(", rf"\operatorname{{{name}}}("), *inner, (stage, ")", ")")]
