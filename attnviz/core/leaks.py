"""Results of a leak test: outputs that moved when one token was changed, and those that a mask promised to hide.

`leak_test_function` tests any function that computes attention; `attnviz.leak_test` tests a whole model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnviz.core.amounts import counted
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError, ShapeError, UnsteadyError, quoted
from attnviz.core.masks import Mask
from attnviz.core.tokens import Token

STATES = ("not tested", "blocked, no effect", "allowed", "allowed, no effect", "saw what it must not")
"""States of a cell; see `LeakTest.states`. The last is a leak."""
NOT_TESTED, CLOSED, SAW, UNUSED, LEAK = range(5)

MOST = 64
"""Tokens changed unless more are asked for: each costs a run."""

SAFETY = 10
"""Factor of the largest numerical noise beyond which an output has moved."""

ROUNDINGS = 32
"""Rounding errors of one number beyond which an output has moved, where no noise was measured."""

LOUD = 1000.0
"""Factor by which two of three probes lengthen the changed key. Where a mask comes after the softmax and the weights
are normalized again, only a score far above the others shows it: the weights that are left round to zero."""

UNSTEADY = 0.01
"""Outputs that differ by more than this for the very same input are no base for a comparison."""


@dataclass(frozen=True, eq=False)
class LeakTest:
    """Outputs that moved, and the promised mask. Rows are positions of compared outputs, columns changed tokens.

    Attributes:
        moved: (Q, K), float64: how far the output of query q moved when the token at j was changed, as a share of its
            length: ||after - before|| / ||before||; infinite where it became a number or ceased to be one. NaN in the
            columns that were not tested, and in the rows of outputs that are no numbers.
        promised: (Q, K), boolean: whether query q may depend on key j.
        noise: how far the very same input moved an output at most, from one place in a batch to another.
        tolerance: what moved further than this is taken to have moved: `SAFETY` times the noise, at least `ROUNDINGS`
            rounding errors.
        queries, keys: the tokens.
        where: what was compared: "decoder layer 0", "decoder, 2 layers".
        promise: the mask that was promised, in words.
        source, provenance, edits, text: what ran, with weights from where, with what changed, on which sentence.
        notes: what was left out, and why; each a phrase.
        findings: what is unusual about the attention of the untouched model, such as its scale; each a sentence.
        is_faulty: whether a check of the model found an error, such as a wrong mask: then nothing says "no leak".
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
    findings: tuple[str, ...] = ()
    is_faulty: bool = False

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
        states[self.moved.isnan()] = NOT_TESTED
        return states

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

    @property
    def strongest(self) -> tuple[tuple[int, int], ...]:
        """The (query, key) of each output that moved: leaks before the rest, and of each what moved most.

        That a word moves its own output, as it may, is no news and is left out.
        """
        own = self.promised.float().tril().triu() > 0 if self.queries == self.keys else torch.zeros_like(self.promised)
        cells = ((query, key) for query, key in (self.saw & ~own).nonzero().tolist())
        return tuple(sorted(cells, key=lambda cell: (bool(self.promised[cell]), -float(self.moved[cell]))))


def leak_test_function(
    attend: Callable[[Tensor, Tensor, Tensor, Any], Any],
    mask: Mask,
    n: int,
    *,
    keys: int | None = None,
    hand: Callable[[Tensor], Any] = lambda allowed: allowed,
    heads: int | None = 2,
    d_k: int = 8,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    sentence: int = 0,
) -> LeakTest:
    """Test one's own attention: change the key and the value at each position, and compare the output of each query.

    Each key is changed three times: into another, into one that is `LOUD` times as long, and into its opposite. What
    moved is the largest of the three.

        leak_test_function(my_attention, Subsequent(), 8).leaks
        leak_test_function(F.scaled_dot_product_attention, Subsequent(), 8, hand=to_true_is_masked).pairs

    Args:
        attend: takes query (1, heads, n, d_k), key and value (1, heads, keys, d_k), and the mask; gives the output, or
            a tuple that begins with it.
        mask: what is promised.
        n: how many queries; and keys, unless `keys` says how many.
        hand: turns the mask, boolean (n, keys), True = may attend, into what `attend` takes: a function of
            `attnviz.core.conventions`, or one that makes a mistake on purpose.
        heads: None gives query, key and value without an axis of heads.

    Raises:
        ShapeError: if the output is no tensor with a vector for each query.
        InputError: if the same input gives two outputs.
        NotFiniteError: if an output is no number, though its query has a key left.
    """
    keys = n if keys is None else keys
    if not (type(n) is type(keys) is int and 1 <= n <= MOST and 1 <= keys <= MOST):
        raise InputError(f"A function is tested on 1 to {MOST} queries and keys; given {quoted(n)} and {quoted(keys)}.")
    generator = torch.Generator().manual_seed(seed)
    lengths, middle = (n, keys, keys, keys, keys), () if heads is None else (heads,)
    query, *sides = [torch.randn(1, *middle, size, d_k, generator=generator, dtype=dtype) for size in lengths]
    allowed = mask.grid(n, keys, sentence=sentence)

    def output(key: Tensor, value: Tensor) -> Tensor:
        result = attend(query.clone(), key.clone(), value.clone(), hand(allowed.clone()))
        return _rows(result[0] if isinstance(result, tuple | list) else result, n)

    before = output(*sides[:2])
    odd = ~before.isfinite().all(-1)
    noise = float(distance(before, output(*sides[:2])).max())
    moved = _moved(output, before, *sides).masked_fill(odd[:, None], torch.nan)
    numbers = [tuple(Token(str(i), i, 0, 0) for i in range(length)) for length in (n, keys)]
    name = getattr(attend, "__name__", type(attend).__name__)
    rows, threshold = odd.nonzero().flatten().tolist(), tolerance(noise, dtype)
    notes = (f"the output of query {rows[0]} is no number, so nothing can be said of it",) if rows else ()
    test = LeakTest(moved, allowed, noise, threshold, *numbers, "one layer", str(mask), name, "random", notes=notes)
    if not test.pairs:
        _check_finite(odd, allowed)
    return test


def _moved(
    output: Callable[[Tensor, Tensor], Tensor],
    before: Tensor,
    key: Tensor,
    value: Tensor,
    other_key: Tensor,
    other_value: Tensor,
) -> Tensor:
    """How far each output moved at most when the key and the value at a position were changed, (n, keys)."""
    columns = []
    for position in range(key.shape[-2]):
        here = (torch.arange(key.shape[-2]) == position).unsqueeze(-1)
        changed = other_value.where(here, value)
        probes = [output((factor * other_key).where(here, key), changed) for factor in (1, LOUD, -LOUD)]
        columns.append(torch.stack([distance(before, probe) for probe in probes]).amax(0))
    return torch.stack(columns, 1)


def _check_finite(odd: Tensor, allowed: Tensor) -> None:
    """Refuse outputs that are no numbers though their query has a key: a softmax over no key is NaN, and no surprise.

    Raises:
        NotFiniteError: with the first such query, and the likely cause.
    """
    if bool((wrong := odd & allowed.any(-1)).any()):
        place = int(wrong.nonzero()[0])
        keys_left = counted(int(allowed[place].sum()), "key")
        raise NotFiniteError(
            f"The output of query {place} is no number, though it may attend to {keys_left}. Was the mask made by "
            "multiplying with -inf? 0 * -inf is NaN: use torch.where or masked_fill."
        )


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


def through(reached: Tensor, allowed: Tensor, memory: Tensor | None = None) -> Tensor:
    """Which inputs positions may depend on after one more layer, (Q, inputs), boolean.

    The residual connection keeps what was `reached`, (Q, inputs); the layer adds what the keys of its mask `allowed`,
    (Q, K), had reached: of the same positions, or of a `memory`, (K, inputs).
    """
    source = reached if memory is None else memory
    return reached | ((allowed.float() @ source.float()) > 0)


def _rows(output: Any, n: int) -> Tensor:
    """The output per query, (n, d), with the heads beside each other."""
    if not isinstance(output, Tensor) or output.dim() < 2 or output.shape[-2] != n:
        what = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ShapeError(f"The function gave {what}; it must give (1, heads, n, d_v) or (1, n, d_v) with n = {n}.")
    if not output.is_floating_point():
        raise AttnvizError(f"The function gave {output.dtype}; an output holds floating-point numbers.")
    return output.detach().movedim(-2, 0).flatten(1)
