"""Ways of applying a mask, right and wrong, as exhibits that a leak test tells apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from attnviz.core.attention import attend, scaled_dot_product_attention
from attnviz.core.leaks import LeakTest, leak_test_function
from attnviz.core.masks import Mask
from attnviz.core.tokens import Token


@dataclass(frozen=True)
class Mistake:
    """One layer of attention with a mask.

    Attributes:
        name: how the mask is applied.
        says: what is wrong with that, as one sentence.
        attend: query, key, value, (1, H, n, d), and mask -> output.
    """

    name: str
    says: str
    attend: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _right(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return attend(query, key, value, mask)[0]


def _after(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    _, weights = scaled_dot_product_attention(query, key, value)
    return (weights * mask) @ value


def _inverted(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return attend(query, key, value, ~mask)[0]


def _forgotten(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return attend(query, key, value)[0]


EXHIBITS = {
    one.name: one
    for one in (
        Mistake("as it should be", "Blocked scores are -inf before the softmax: nothing of them is left.", _right),
        Mistake(
            "after the softmax",
            "Weights of blocked keys are set to 0 after the softmax, and their scores stay in its denominator: each "
            "row depends on keys that it must not see, and sums to less than 1.",
            _after,
        ),
        Mistake(
            "inverted", "True and False are swapped: each query sees what it must not, and nothing else.", _inverted
        ),
        Mistake("not at all", "The mask is never handed over: each query sees every key.", _forgotten),
    )
}
"""By their names, the right one first."""


def leak_test_of_exhibit(
    name: str, mask: Mask, queries: Sequence[Token], keys: Sequence[Token], *, sentence: int = 0
) -> LeakTest:
    """Test one layer with random queries, keys and values, in which the mask is applied as an example bug applies it.

    Args:
        name: of `EXHIBITS`.
        mask: what is promised.
        queries, keys: the tokens whose places are tested.
        sentence: of which sentence the mask is.

    Raises:
        InputError: for too many queries or keys.
    """
    test = leak_test_function(EXHIBITS[name].attend, mask, len(queries), keys=len(keys), sentence=sentence)
    return replace(test, queries=tuple(queries), keys=tuple(keys), source=f"mask {name}")
