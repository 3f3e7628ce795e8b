"""Text that sees one image at a time."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import in_same
from attnviz.core.masks.observed import Observed, counts
from attnviz.core.masks.pen import Expression, Pen
from attnviz.core.parameters import check_numbers, numbers_of, parameter


@dataclass(frozen=True)
class Media(Mask):
    """Cross-attention of text to images: a query sees the image that stands last before it, and no other.

    Queries are text; image m has its <image> token at `places[m]` of the text, and its keys are m · size to
    (m + 1) · size - 1. Text before the first image sees nothing. Flamingo (Alayrac et al. 2022, section 2.3, "Multi-
    visual input support").
    """

    rule = "media"
    meaning = "text sees the image just before it, in cross-attention (Flamingo)"
    places: tuple[int, ...] = parameter("image places", kind="numbers")
    size: int = parameter("keys per image", default=1, least=1)

    def __post_init__(self):
        object.__setattr__(self, "places", tuple(sorted(numbers_of(self, "places", item="place"))))
        check_numbers(self, ("size",), size=1)

    @classmethod
    def started(cls, keys, lengths):
        return cls((0, max(1, keys // 2)), max(1, keys // 2))

    def allows(self, query, key, sentence):
        places = torch.tensor(self.places, dtype=torch.int64)
        return key // self.size == torch.searchsorted(places, query.contiguous(), right=True) - 1

    def is_open(self, queries, keys):
        images = tuple(bisect_right(self.places, place) - 1 for place in (queries[0], queries[-1]))
        return in_same(images, (keys[0] // self.size, keys[-1] // self.size))

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """As many keys as most queries see, and where each stretch of them is seen first."""
        size = observed.usual
        one_image = size == observed.keys == observed.queries  # which may as well be anything else
        if not size or observed.first or observed.keys % size or one_image:
            return
        images = counts(observed.known_open.view(observed.queries, -1, size), 2) * 2 > size
        if images.any(0).all():
            yield cls(tuple(images.int().argmax(0).tolist()), size)

    def code(self, pen: Pen) -> Expression:
        places = pen.numbers("places", self.places)
        image = pen.of_queries("image", lambda queries: f"torch.bucketize({queries}, {places}, right=True) - 1")
        return Expression(f"{(pen.key // self.size).text} == {image}", frozenset("QK"), True)

    def __str__(self) -> str:
        return f"media at {', '.join(map(str, self.places)) or 'none'} ({self.size} keys each)"
