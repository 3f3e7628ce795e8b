"""Result of a leak test: outputs that moved when a token was changed, beside the mask that promised to hide it.

`leak_test_function` tests any function that computes attention; `attnviz.leak_test` tests a whole model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnviz.core.amounts import counted, percent
from attnviz.core.display import isolated, visible_text
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError, ShapeError, UnsteadyError, quoted
from attnviz.core.masks import Mask
from attnviz.core.tokens import Token

STATES = ("not tested", "blocked, no effect", "allowed", "allowed, no effect", "saw what it must not")
"""States of a cell; see `LeakTest.states`. The last is a leak."""
NOT_TESTED, CLOSED, SAW, UNUSED, LEAK = range(5)
MOST = 64
"""Most tokens of a text that are changed: each costs a run."""
SAFETY = 10
"""Factor of the largest numerical noise beyond which an output has moved."""
ROUNDINGS = 32
"""Rounding errors of one number beyond which an output has moved, where no noise was measured."""
LOUD = 1000.0
"""Factor by which two of three probes lengthen the changed key. Where a mask comes after the softmax and the weights
are normalized again, only a score far above the others shows it: the weights that are left round to zero."""
UNSTEADY = 0.01
"""Share of their length by which outputs of the very same input may differ and still be compared."""
SHAPE, D_K = (1, 2), 8
"""Texts and heads, and numbers of a key and a value, with which a function is tested."""


@dataclass(frozen=True, eq=False)
class LeakTest:
    """Outputs that moved, and the promised mask. Rows are positions of compared outputs, columns changed tokens.

    Attributes:
        moved: (Q, K), float64: how far the output of query q moved when the token at j was changed, as a share of its
            length: ||after - before|| / ||before||; infinite where it became a number or ceased to be one. NaN in the
            columns that were not tested, and in the rows of outputs that are no numbers.
        promised: (Q, K), boolean: whether query q may depend on key j.
        noise: how far the very same input moved an output at most, from one place in a batch to another.
        tolerance: share of its length beyond which an output has moved: `SAFETY` times the noise, at least `ROUNDINGS`
            rounding errors.
        queries, keys: the tokens.
        where: what was compared: "decoder, 2 layers".
        promise: the mask that was promised, in words.
        source, provenance, edits, text: what ran, with weights from where, with what changed, on which sentence.
        notes: what was left out, and why; each a phrase.
        is_faulty: whether a check of the model found an error, such as a wrong mask: then nothing says "no leak".
        opened: (Q, K), boolean: tokens that reach an output through the masks that acted, whatever was promised.
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
        """Which keys were changed, (K,), boolean."""
        return ~self.moved.isnan().all(0)

    @cached_property
    def saw(self) -> Tensor:
        """Which outputs moved further than the tolerance, (Q, K), boolean."""
        return self.moved > self.tolerance

    @property
    def leaks(self) -> Tensor:
        """Cells that moved and must not, (Q, K), boolean."""
        return self.saw & ~self.promised

    @property
    def hidden(self) -> Tensor:
        """Cells that must not move and were tried, (Q, K), boolean."""
        return ~self.promised & ~self.moved.isnan()

    @property
    def unused(self) -> Tensor:
        """Cells that may move and did not, (Q, K), boolean: no mistake, as where a head looks elsewhere."""
        return self.promised & ~self.saw & ~self.moved.isnan()

    @cached_property
    def states(self) -> Tensor:
        """(Q, K), an index of `STATES` for each cell."""
        states = torch.full(self.moved.shape, CLOSED)
        for state, cells in ((SAW, self.saw & self.promised), (UNUSED, self.unused), (LEAK, self.leaks)):
            states[cells] = state
        return states.masked_fill(self.moved.isnan(), NOT_TESTED)

    @cached_property
    def is_blind(self) -> bool:
        """Whether no output moved with another token than its own, though there are such: then nothing was tested."""
        own = torch.eye(len(self.queries), dtype=torch.bool) if self.queries == self.keys else self.saw.new_zeros(())
        return not self.tested.any() or (len(self.keys) > 1 and not (self.saw & ~own).any())

    @cached_property
    def is_tested(self) -> bool:
        """Whether there was anything to find: some token is hidden from some output, and the test is not blind."""
        return bool(self.hidden.any()) and not self.is_blind

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The (query, key) of each leak, row by row."""
        return tuple((query, key) for query, key in self.leaks.nonzero().tolist())

    def in_words(self, query: int, key: int) -> str:
        """One cell as a phrase: "position 3 “sat” saw position 7 “mat”: its output moved by 12.0%"."""
        ends = (query, self.queries[query]), (key, self.keys[key])
        looker, looked = (f"position {i} {isolated(f'“{visible_text(token.text)}”')}" for i, token in ends)
        state, moved = int(self.states[query, key]), float(self.moved[query, key])
        if state == NOT_TESTED and self.tested[key]:
            return f"the output of {looker} is no number, so nothing is known of it"
        if state == NOT_TESTED:
            return f"{looked} was not changed, so nothing is known of {looker}"
        if state in (CLOSED, UNUSED):
            return f"{looker} did not see {looked}, {'though it may' if state == UNUSED else 'as expected'}"
        far = f"moved by {percent(moved)}" if moved < torch.inf else "became a number or ceased to be one"
        return f"{looker} saw {looked}{', as it may' if state == SAW else ''}: its output {far}"


def leak_test_function(
    attend: Callable[[Tensor, Tensor, Tensor, Any], Any],
    mask: Mask,
    n: int,
    *,
    keys: int | None = None,
) -> LeakTest:
    """Test an attention function: change the key and the value at each position, and compare the output of each query.

    Each key is changed three times: into another, into one that is `LOUD` times as long, and into its opposite. What
    moved is the largest of the three.

        leak_test_function(F.scaled_dot_product_attention, Subsequent(), 8).pairs

    Args:
        attend: function of query (1, heads, n, d_k), key and value (1, heads, keys, d_k), float64, and the mask,
            boolean (n, keys), True = may attend; it gives the output, or a tuple that begins with it.
        mask: promised mask.
        n: number of queries; and of keys, unless `keys` gives it.

    Raises:
        ShapeError: if the output is no tensor with a vector for each query.
        InputError: if the same input gives two outputs.
        NotFiniteError: if an output is no number, though its query has a key left.
    """
    keys = n if keys is None else keys
    if not (type(n) is type(keys) is int and 1 <= n <= MOST and 1 <= keys <= MOST):
        raise InputError(f"A function is tested on 1 to {MOST} queries and keys; given {quoted(n)} and {quoted(keys)}.")
    options = {"generator": torch.Generator().manual_seed(0), "dtype": torch.float64}
    query, key, value, other_key, other_value = (torch.randn(*SHAPE, i, D_K, **options) for i in (n, *[keys] * 4))
    allowed = mask.grid(n, keys)

    def output(key: Tensor, value: Tensor) -> Tensor:
        """The output per query, (n, d), with the heads beside each other."""
        output = attend(query.clone(), key.clone(), value.clone(), allowed.clone())
        output = output[0] if isinstance(output, tuple | list) else output
        if not isinstance(output, Tensor) or output.dim() < 2 or output.shape[-2] != n:
            what = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ShapeError(f"The function gave {what}; it must give (1, heads, n, d_v) or (1, n, d_v) with n = {n}.")
        if not output.is_floating_point():
            raise AttnvizError(f"The function gave {output.dtype}; an output holds floating-point numbers.")
        return output.detach().movedim(-2, 0).flatten(1)

    before, columns = output(key, value), []
    noise = float(distance(before, output(key, value)).max())
    bound = tolerance(noise, torch.float64)
    for position in range(keys):
        here = (torch.arange(keys) == position)[:, None]
        changed = other_value.where(here, value)
        probes = [output((factor * other_key).where(here, key), changed) for factor in (1, LOUD, -LOUD)]
        columns.append(torch.stack([distance(before, probe) for probe in probes]).amax(0))
    odd = ~before.isfinite().all(-1)
    moved = torch.stack(columns, 1).masked_fill(odd[:, None], torch.nan)
    numbers = [tuple(Token(str(i), i, 0, 0) for i in range(length)) for length in (n, keys)]
    name, rows = getattr(attend, "__name__", type(attend).__name__), odd.nonzero().flatten().tolist()
    notes = (f"the output of query {rows[0]} is no number, so nothing can be said of it",) if rows else ()
    test = LeakTest(moved, allowed, noise, bound, *numbers, "one layer", str(mask), name, "random", notes=notes)
    wrong = (odd & allowed.any(-1)).nonzero().flatten().tolist()  # a softmax over no key is NaN, and no surprise
    if wrong and not test.pairs:
        raise NotFiniteError(
            f"The output of query {wrong[0]} is no number, though it may attend to "
            f"{counted(int(allowed[wrong[0]].sum()), 'key')}. Was the mask made by multiplying with -inf? 0 * -inf is "
            "NaN: use torch.where or masked_fill."
        )
    return test


def distance(before: Tensor, after: Tensor) -> Tensor:
    """How far vectors (..., d) moved, as a share of their length before, float64, (...).

    Numbers that are not finite in both count as still; where only one of the two has them, the distance is infinite.
    """
    before, after = before.double(), after.double()
    odd = before.isfinite() != after.isfinite()
    same = (before == after) | ~before.isfinite()
    far = (after - before).masked_fill(same | odd, 0).norm(dim=-1)
    length = before.masked_fill(~before.isfinite(), 0).norm(dim=-1)
    share = torch.where(far == 0, torch.zeros_like(far), far / length)
    return share.masked_fill(odd.any(-1), torch.inf)


def tolerance(noise: float, dtype: torch.dtype) -> float:
    """How far an output must move to count as moved.

    Raises:
        UnsteadyError: if the same input gave outputs too far apart to compare.
    """
    if not noise <= UNSTEADY:
        far = f"{noise:.0%}" if noise < torch.inf else "more than all"
        raise UnsteadyError(
            f"The same input gives outputs that differ by {far} of their length; switch off what draws random "
            "numbers, such as dropout."
        )
    return max(SAFETY * noise, ROUNDINGS * torch.finfo(dtype).eps)
