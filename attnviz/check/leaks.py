"""Result of a leak test: how outputs changed with each token, compared with the mask that should hide the token."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attnviz.core.amounts import percent
from attnviz.core.display import isolated, visible_text
from attnviz.core.edits import Edits
from attnviz.core.errors import UnsteadyError
from attnviz.core.tokens import Token

STATES = ("not tested", "blocked, no effect", "allowed", "allowed, no effect", "saw what it must not")
"""States of a cell in `LeakTest.states`; the last is a leak."""
NOT_TESTED, CLOSED, SAW, UNUSED, LEAK = range(5)
MOST = 64
"""Maximum number of tokens that are changed, because each costs a forward pass."""
ROUNDINGS = 32
"""Number of rounding errors (eps) above which a change of an output counts, if no noise was measured."""


@dataclass(frozen=True, eq=False)
class LeakTest:
    """Result of a leak test: changes of outputs, and the mask that should hide tokens from them.

    Attributes:
        moved: (Q, K), float64: relative change of the output at query q when token j changes, ||after - before|| /
            ||before||; infinite if only one of the two outputs is finite. NaN in columns that were not tested, and in
            rows of outputs that are not finite.
        promised: (Q, K), boolean: whether the output at query q may depend on token j.
        noise: largest relative difference between outputs for the same input at different places of a batch.
        tolerance: relative change above which an output counts as changed: 10 times the noise, at least `ROUNDINGS`
            rounding errors.
        queries, keys: tokens of the rows and of the columns.
        where: compared outputs: "decoder, 2 layers".
        promise: description of the promised mask.
        source, provenance, edits, text: model, origin of its weights, changes to the attention, and sentence.
        notes: phrases that say what was left out and why.
        is_faulty: whether a check of the model found an error, such as a wrong mask, so that "no leak" is not reported.
        opened: (Q, K), boolean: whether token j reaches output q through the masks of the forward pass.
    """

    moved: Tensor
    promised: Tensor
    noise: float
    tolerance: float
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    where: str
    promise: str
    source: str
    provenance: str
    edits: Edits = Edits()
    text: str = ""
    notes: tuple[str, ...] = ()
    is_faulty: bool = False
    opened: Tensor | None = None

    @cached_property
    def tested(self) -> Tensor:
        """Whether each key was changed, boolean (K,)."""
        return ~self.moved.isnan().all(0)

    @cached_property
    def saw(self) -> Tensor:
        """Whether each output changed by more than the tolerance, boolean (Q, K)."""
        return self.moved > self.tolerance

    @property
    def leaks(self) -> Tensor:
        """Leaks: outputs that changed with a hidden token, boolean (Q, K)."""
        return self.saw & ~self.promised

    @property
    def hidden(self) -> Tensor:
        """Tested cells that the promised mask blocks, boolean (Q, K)."""
        return ~self.promised & ~self.moved.isnan()

    @property
    def unused(self) -> Tensor:
        """Allowed cells without a change, boolean (Q, K): no error, because a head may attend to other keys."""
        return self.promised & ~self.saw & ~self.moved.isnan()

    @cached_property
    def states(self) -> Tensor:
        """State of each cell, (Q, K), as an index into `STATES`."""
        states = torch.full(self.moved.shape, CLOSED)
        for state, cells in ((SAW, self.saw & self.promised), (UNUSED, self.unused), (LEAK, self.leaks)):
            states[cells] = state
        return states.masked_fill(self.moved.isnan(), NOT_TESTED)

    @cached_property
    def is_blind(self) -> bool:
        """Whether no output changed with any token other than its own, so that the test shows nothing."""
        is_own_token = torch.eye(*self.saw.shape, dtype=torch.bool) & (self.queries == self.keys)
        return not self.tested.any() or (len(self.keys) > 1 and not (self.saw & ~is_own_token).any())

    @cached_property
    def is_tested(self) -> bool:
        """Whether a leak could be detected: a token is hidden from an output, and the test is not blind."""
        return bool(self.hidden.any()) and not self.is_blind

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pair (query, key) of each leak, row by row."""
        return tuple((query, key) for query, key in self.leaks.nonzero().tolist())

    def in_words(self, query: int, key: int) -> str:
        """Describe one cell: "position 3 “sat” saw position 7 “mat”: its output moved by 12.0%"."""
        tokens = self.queries[query], self.keys[key]
        query_text, key_text = (isolated(f"“{visible_text(token.text)}”") for token in tokens)
        query_name, key_name = f"position {query} {query_text}", f"position {key} {key_text}"
        state, change = int(self.states[query, key]), float(self.moved[query, key])
        if state == NOT_TESTED:
            why = f"the output of {query_name} is not a number" if self.tested[key] else f"{key_name} was not changed"
            return f"{why}, so nothing is known about {query_name}"
        if state in (CLOSED, UNUSED):
            return f"{query_name} did not see {key_name}, {'though it may' if state == UNUSED else 'as expected'}"
        effect = f"moved by {percent(change)}" if change < torch.inf else "changed between a number and NaN or infinity"
        return f"{query_name} saw {key_name}{', as it may' if state == SAW else ''}: its output {effect}"


def distance(before: Tensor, after: Tensor) -> Tensor:
    """Compute the relative change of vectors (..., d), ||after - before|| / ||before||, float64, (...). NaN or infinity
    both before and after counts as no change; NaN or infinity on one side only makes the distance infinite."""
    before, after = before.double(), after.double()
    only_one_finite = before.isfinite() != after.isfinite()
    is_unchanged = (before == after) | ~before.isfinite() | only_one_finite
    change = (after - before).masked_fill(is_unchanged, 0).norm(dim=-1)
    length = before.masked_fill(~before.isfinite(), 0).norm(dim=-1)
    share = torch.where(change == 0, torch.zeros_like(change), change / length)
    return share.masked_fill(only_one_finite.any(-1), torch.inf)


def tolerance(noise: float, dtype: torch.dtype) -> float:
    """Return the relative change above which an output counts as changed; `noise` is the largest difference between
    runs on the same input, in numbers of `dtype`. Raise UnsteadyError if the noise exceeds 0.01."""
    if not noise <= 0.01:  # also if it is NaN
        size = f"by {noise:.0%} of their length" if noise < torch.inf else "in which numbers are finite"
        raise UnsteadyError(f"The same input gives outputs that differ {size}; switch off randomness, such as dropout.")
    return max(10 * noise, ROUNDINGS * torch.finfo(dtype).eps)
