"""The equations of the chain, in parts, so that the one which a stage works out can be marked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.core.record import Step
from attnviz.walk.knobs import Knobs


@dataclass(frozen=True)
class EquationPart:
    """A piece of an equation.

    Attributes:
        text: as plain text.
        is_current: whether the stage works it out.
    """

    text: str
    is_current: bool


Piece = tuple[str, str]
"""The stage that works it out, and plain text."""


def equation(pieces: list[Piece], key: str) -> tuple[EquationPart, ...]:
    """The pieces with those of one stage marked."""
    return tuple(EquationPart(text, stage == key) for stage, text in pieces if text)


def embed(positions: bool, between: Sequence[str]) -> list[Piece]:
    """Equation of the input of an attention call.

    Args:
        between: what is done with the embedded tokens until the call reads them, the last first.
    """
    tokens = [("embedding", "E[tokens]"), *([("position", " + P")] if positions else [])]
    opening, closing = ("".join(f"{name}(" for name in between), ")" * len(between))
    return [("input", "X"), ("", " = "), ("input", opening), *tokens, ("input", closing)]


def project(num_heads: int) -> list[Piece]:
    """The projections, then the heads: they are projected first and split after."""
    last = num_heads - 1
    pieces: list[Piece] = []
    for name in "QKV":
        between = ", " if name != "V" else ""
        pieces += [("split", f"[{name}_0 … {name}_{last}] = "), ("project", f"X W_{name}"), ("", between)]
    return pieces


def adjust(*, norm: bool, turn: bool) -> list[Piece]:
    """Equation of queries and keys as they meet; R turns by the position."""
    pieces: list[Piece] = []
    for name in "QK":
        inner = f"norm({name})" if norm else name
        pieces += [("", f"{name} ← "), ("adjust", f"R {inner}" if turn else inner), ("", ", " if name == "Q" else "")]
    return pieces


def attend(step: Step, knobs: Knobs) -> list[Piece]:
    """Equation of a head, with the steps that this call has."""
    scoring = step.scoring
    inner: list[Piece] = [("products", "Q Kᵀ"), _scale(step)]
    if scoring.softcap is not None:
        cap = f"{scoring.softcap:g}"
        inner = [("softcap", f"{cap} · tanh(("), *inner, ("softcap", f") / {cap})")]
    if scoring.bias:
        inner = [*inner, ("bias", " + B")]
    if scoring.temperature != 1:
        inner = [("temperature", "("), *inner, ("temperature", f") / {scoring.temperature:g}")]
    is_masked = step.mask is not None
    if is_masked and not knobs.mask_after_softmax:
        inner = _around("mask", "mask", inner) if knobs.masking == "replace" else [*inner, ("mask", " + M")]
    inner = _around("softmax", "softmax", inner)
    if is_masked and knobs.mask_after_softmax:
        inner = _around("mask", "mask", inner)
    if knobs.dropout_p:
        inner = _around("dropout", "dropout", inner)
    return [("", "O = "), *inner, ("values", " V")]


def join(num_heads: int) -> list[Piece]:
    """Equation that joins the outputs of all heads."""
    return [("", "Y = "), ("concat", f"Concat(O_0 … O_{num_heads - 1})"), ("output", " W_O")]


def _scale(step: Step) -> Piece:
    if math.isclose(step.scoring.scale, step.query.shape[-1] ** -0.5):
        return "scale", " / √d_k"
    return "scale", f" · {step.scoring.scale:.4g}"


def _around(stage: str, name: str, inner: list[Piece]) -> list[Piece]:
    return [(stage, f"{name}("), *inner, (stage, ")")]
