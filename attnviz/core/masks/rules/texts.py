"""Rules that depend on where texts and images begin and end in a sequence."""

from dataclasses import dataclass

from attnviz.core.errors import MaskError
from attnviz.core.masks.base import Mask
from attnviz.core.masks.spans import item_of, num_ends, num_up_to, size
from attnviz.core.parameters import parameter


@dataclass(frozen=True)
class Padding(Mask):
    """Padding mask: sentence b keeps its first lengths[b] keys, or its last lengths[b] keys if padded on the left.

    Attributes:
        lengths: number of tokens per sentence.
        left: padded length for padding on the left; None for padding on the right.
    """

    rule = "padding"
    meaning = "blocks the padding of each sentence, given its length"
    words = "padding"
    of_keys = True
    lengths: tuple[int, ...] = parameter("lengths", kind="numbers")
    left: int | None = parameter("left-padded to", default=None, needed=False)

    def __post_init__(self):
        super().__post_init__()
        if not self.lengths:
            raise MaskError("Padding needs the length of at least one sentence.")

    @property
    def batch_size(self):
        return len(self.lengths)

    def allows(self, query, key, sentence):
        lengths = item_of(sentence, self.lengths)
        return key < lengths if self.left is None else key >= self.left - lengths

    def of_sentence(self, sentence):
        self._check_sentence(sentence)
        return Padding((self.lengths[sentence],), self.left)


@dataclass(frozen=True)
class Documents(Mask):
    """Packed documents: a query sees only the keys of its own document.

    Positions after the last document, and before 0, belong to no document.
    """

    rule = "documents"
    meaning = "packed documents: a query sees its own document only"
    words = "documents of {lengths}"
    lengths: tuple[int, ...] = parameter("lengths", kind="numbers")

    def allows(self, query, key, sentence):
        query_document, key_document = num_ends(query, self.lengths), num_ends(key, self.lengths)
        return (query_document == key_document) & (key_document < size(self.lengths)) & (query >= 0)


@dataclass(frozen=True)
class Media(Mask):
    """Cross-attention from text to images: a query sees only the last image before it.

    Queries are text. The <image> token of image m is at position `places[m]` of the text, and its keys are m · size to
    (m + 1) · size - 1. Text before the first image sees no key. Flamingo (Alayrac et al. 2022, section 2.3,
    "Multi-visual input support").
    """

    rule = "media"
    meaning = "text sees the image just before it, in cross-attention (Flamingo)"
    words = "media at {places} ({size} keys each)"
    places: tuple[int, ...] = parameter("image places", kind="numbers")
    size: int = parameter("keys per image", default=1, least=1)

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "places", tuple(sorted(self.places)))

    def allows(self, query, key, sentence):
        return key // self.size == num_up_to(query, self.places) - 1
