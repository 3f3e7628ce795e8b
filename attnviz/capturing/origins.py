"""The texts that tensors come from: whether queries and keys are of one text, whatever their lengths.

A text is a tensor that a module is given, or the output of an attention call. A function hands the texts of its inputs
on to its result; parameters and constants are none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from torch import Tensor
from torch.nn import Module, Parameter

from attnviz.capturing.layout import Tracked

JOINS = frozenset(
    "cat concat concatenate stack hstack vstack index_copy index_copy_ index_put index_put_ scatter scatter_ "
    "slice_scatter select_scatter copy_ __setitem__ where masked_scatter masked_scatter_".split()
)
"""Functions whose inputs all reach the result, large or small."""
STOPS = frozenset("matmul bmm mm einsum __matmul__ layer_norm group_norm conv1d conv2d sum mean amax max norm".split())
"""Functions whose result is no longer of queries and keys."""
LONGEST = 512
"""Texts of one tensor, at most, the newest ones: a cache holds those of all passes."""


@dataclass(frozen=True)
class TextOrigin:
    """The texts that a tensor was computed from.

    Attributes:
        texts: a number for each.
        is_known: whether a tensor without texts is made of parameters alone, not of something that was not watched.
        is_projected: whether something besides these texts is in it.
        lost: of what comes from a product of queries and keys, the function after which it was not followed.
    """

    texts: frozenset[int] = frozenset()
    is_known: bool = True
    is_projected: bool = False
    lost: str = ""


LEARNED, UNKNOWN = TextOrigin(is_projected=True), TextOrigin(is_known=False, is_projected=True)


class TextOrigins:
    """The origin of each tensor, for as long as it is there.

    Args:
        model: whose buffers are constants.
        is_given: whether a tensor is an argument of a module that is at work.
    """

    def __init__(self, model: Module, is_given: Callable[[Tensor], bool]):
        self._origins, self._numbers, self._is_given = Tracked(), count(), is_given
        self._constants = {id(buffer): buffer for buffer in model.buffers()}

    def follow(self, name: str, args: tuple, kwargs: dict[str, Any], output: Any, lost: str = "") -> None:
        """Hand the texts of the inputs of a function on to what it gave.

        Args:
            lost: the name of the function, if it was given scores that are not followed any further.
        """
        if name == "__setitem__":
            output, args = args[0], (args[0], args[2])
        results = list(_tensors((output,)))
        if not results:
            return
        inputs = [*_tensors(args), *_tensors(kwargs.values())]
        origin = self._joined(inputs, 0 if name in JOINS else results[0].numel()) if inputs else UNKNOWN
        if name not in STOPS and (name != "linear" or results[0].shape == inputs[0].shape):
            lost = lost or next(
                (source.lost for source in map(self._origins.get, inputs) if source and source.lost), ""
            )
        if lost:
            origin = replace(origin, lost=lost)
        for result in results:
            self._origins.put(result, None if origin == UNKNOWN else origin)
            if any(result is tensor for tensor in inputs) and result._base is not None:  # written through a view
                self._origins.put(result._base, self._joined([result._base, result], 0))

    def begin(self, output: Tensor) -> None:
        """The output of an attention call is a text of its own."""
        self._origins.put(output, TextOrigin(frozenset({next(self._numbers)}), is_projected=True))

    def has(self, tensor: Tensor) -> bool:
        return self._origins.get(tensor) is not None

    def of(self, tensor: Tensor) -> TextOrigin:
        origin = self._origins.get(tensor)
        if origin is not None:
            return origin
        if isinstance(tensor, Parameter) or isinstance(tensor._base, Parameter) or id(tensor) in self._constants:
            return LEARNED
        if not self._is_given(tensor):
            return UNKNOWN
        origin = TextOrigin(frozenset({next(self._numbers)}))
        self._origins.put(tensor, origin)
        return origin

    def are_same(self, query: Tensor, key: Tensor, *, is_weights: bool = False) -> bool | None:
        """Whether two tensors come from one text; None if that is not known.

        Keys may come from more, as a cache does, or from an earlier layer.

        Args:
            is_weights: whether these are weights, of queries and keys, and values.
        """
        if query is key:
            return True
        query_origin, key_origin = self.of(query), self.of(key)
        if is_weights and not query_origin.is_projected:
            return None  # weights that no product was seen of, only a module that is given them
        if query_origin.texts and key_origin.texts:
            if query_origin.texts <= key_origin.texts or (key_origin.texts <= query_origin.texts and not is_weights):
                return True
            return False if query_origin.is_projected or key_origin.is_projected else None
        if not query_origin.texts and not key_origin.texts:
            return None
        return False if query_origin.is_known and key_origin.is_known else None

    def _joined(self, inputs: list[Tensor], size: int) -> TextOrigin:
        """The texts of some inputs: of floats if these have any.

        Args:
            size: of the result. Beside inputs that are as large, smaller ones only change each position; 0 if all
                inputs reach the result.
        """
        origins = [self.of(tensor) for tensor in inputs]
        with_texts = [(tensor, origin) for tensor, origin in zip(inputs, origins, strict=True) if origin.texts]
        if not with_texts:
            return TextOrigin(is_known=all(origin.is_known for origin in origins), is_projected=True)
        floats = [pair for pair in with_texts if pair[0].is_floating_point()]
        with_texts = floats or with_texts
        largest = max(tensor.numel() for tensor, _ in with_texts)
        largest = largest if largest >= size > 0 else 0
        texts = frozenset().union(*(origin.texts for tensor, origin in with_texts if tensor.numel() >= largest))
        if len(texts) > LONGEST:
            texts = frozenset(sorted(texts)[-LONGEST:])
        return TextOrigin(texts, is_projected=any(origin.is_projected for origin in origins))


def _tensors(values: Any) -> Iterator[Tensor]:
    """The tensors among some values, and in lists of them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
