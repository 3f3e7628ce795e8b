"""Results of `attnviz.same_run`: for each way of running a model, whether its answer is the same, and why not."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from attnviz.core.amounts import counted, percent, rounding

RUNS = ("packed", "left", "right", "cached", "chunked", "batched")
"""Ways to run a text, beside running it alone."""
CAUSES = ("", "rounding", "mask", "positions", "cache", "window", "dropout", "other", "not tried")
"""Causes of a `RunResult`: the first two are of the same answer, the last is of none."""


@dataclass(frozen=True)
class RunResult:
    """One way of running the texts, compared with each text alone.

    Attributes:
        run: one of `RUNS`.
        same: whether every output is the same, but for rounding. False where it was not tried.
        cause: one of `CAUSES`; "" where no number differs at all.
        layer: of the first attention call that differs; None where no call differs, or none could be read.
        position: of the first token whose output differs, in its own text, counted from 0.
        text: the first text that differs, counted from 0.
        difference: the largest difference of an output, as a share of its length; NaN where it was not tried.
        bound: a larger difference is more than rounding.
        message: one or two sentences.
        fix: a remedy; "" where there is nothing to do.
    """

    run: str
    same: bool
    cause: str
    layer: int | None = None
    position: int | None = None
    text: int | None = None
    difference: float = math.nan
    bound: float = math.nan
    message: str = ""
    fix: str = ""


@dataclass(frozen=True)
class SameRun:
    """All ways in which the texts were run.

    Attributes:
        results: one for each way, in the order in which they were asked for.
        model: its name.
        tokens: how many tokens each text has.
        reference: the type of numbers in which each text was run alone.
        dtype: the type of numbers of all other runs.
        noise: how far rounding moves the outputs of the texts alone, from `dtype` to `reference`; as a share of their
            length.
        bound: a larger difference is more than rounding: `attnviz.core.leaks.SAFETY` times the noise, at least
            `ROUNDINGS` rounding errors of `dtype`; where the noise could not be measured, that for each layer.
    """

    results: tuple[RunResult, ...]
    model: str
    tokens: tuple[int, ...]
    reference: str
    dtype: str
    noise: float
    bound: float

    @property
    def ok(self) -> bool:
        """Whether no way differs, and at least one was tried."""
        return all(result.same for result in self.tried) and bool(self.tried)

    @property
    def tried(self) -> tuple[RunResult, ...]:
        """The results of ways that were tried."""
        return tuple(result for result in self.results if result.cause != "not tried")

    def lines(self) -> list[str]:
        """The report, for people: what was compared, and a line or two for each way."""
        texts = f"{counted(len(self.tokens), 'text')} of {', '.join(map(str, self.tokens))} tokens"
        lines = [
            f"{self.model}: {texts}, each run alone in {self.reference} and compared with runs in {self.dtype}.",
            f"Rounding: differences up to {rounding(self.bound)} of an output's length are ignored.",
        ]
        for result in self.results:
            verdict = "same" if result.same else result.cause
            if result in self.tried and not result.same:
                verdict = f"DIFFERS by up to {percent(result.difference)}: {result.cause}"
            lines.append(f"{result.run}: {verdict}")
            lines += [f"  {result.message}"] if result.message else []
            lines += [f"  fix: {result.fix}"] if result.fix else []
        return lines

    def to_json(self) -> dict[str, Any]:
        """All fields, for `json.dumps`; a number that is not finite becomes None."""
        results = [{name: _finite(value) for name, value in asdict(result).items()} for result in self.results]
        rest = {name: _finite(value) for name, value in asdict(self).items() if name != "results"}
        return {"ok": self.ok, **rest, "results": results}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
