"""The masks of published models, by name: what each is made of, where it is from, and which of them a grid may be.

A kind proposes masks for a grid (`Observed`), read off it by the rules that it is made of; whoever asks compares them.
Padding stands beside every kind and is not among them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from attnviz.core.masks import fitting  # noqa: F401
from attnviz.core.masks.base import Mask
from attnviz.core.masks.observed import Observed
from attnviz.core.masks.rules import (  # type: ignore[attr-defined]
    BlockDiffusion,
    Blocks,
    Dilated,
    Documents,
    Fixed,
    Full,
    Global,
    Media,
    Neighborhood,
    Padding,
    Prefix,
    Strided,
    Subsequent,
    Window,
)

SPAN = 3
"""Tokens of the shortest stretch within a causal mask that is taken to see itself both ways, such as an image; one open
cell more, between two tokens, is rather a slip."""


@dataclass(frozen=True)
class Kind:
    """A kind of mask.

    Attributes:
        name: how it is asked for.
        title: what it is called in a sentence, after "a" or "an".
        source: a paper; empty where none is known that is the first.
        bits: how surprising it is: the binary logarithm of how many masks there are for each of this kind.
        numbers: how many numbers it takes at least.
        masks: those that a grid may be.
        is_causal: whether it hides the future; None where it hides all of it but some.
        random: whether each query sees some random keys besides.
    """

    name: str
    title: str
    source: str
    bits: int
    numbers: int
    masks: Callable[[Observed], Iterable[Mask]]
    is_causal: bool | None = False
    random: bool = False


def _full(observed: Observed) -> Iterator[Mask]:
    yield Full()


def _causal(observed: Observed) -> Iterator[Mask]:
    yield Subsequent()


def _lookahead(observed: Observed) -> Iterator[Mask]:
    """Two keys of the future or more; with one it is rather off by one, and beside a cache in the wrong place."""
    if observed.first + observed.queries != observed.keys:
        return
    yield from (mask for mask in Subsequent.fits(observed) if 1 < mask.offset < observed.keys - 1)


def _others(observed: Observed) -> Iterator[Mask]:
    yield ~Window(0, 0)


def _causal_window(observed: Observed) -> Iterator[Mask]:
    yield from (Window(mask.before, 0) for mask in Window.fits(observed) if mask.before < observed.keys - 1)


def _window(observed: Observed) -> Iterator[Mask]:
    """To both sides, and not further ahead than back."""
    yield from (mask for mask in Window.fits(observed) if 0 < mask.after <= mask.before < observed.keys - 1)


def _dilated(observed: Observed) -> Iterator[Mask]:
    yield from (mask for mask in Dilated.fits(observed) if mask.after <= mask.before)


def _near(observed: Observed) -> Iterator[Mask]:
    """Windows to both sides, as they stand beside global tokens."""
    yield from (mask for windows in (_window, _dilated) for mask in windows(observed) if mask.after == mask.before)


def _prefix_lm(observed: Observed) -> Iterator[Mask]:
    ahead = observed.without(cells=~observed.future)
    yield from (Subsequent() | mask for mask in Prefix.fits(ahead) if mask.length < observed.keys)


def _sinks(observed: Observed) -> Iterator[Mask]:
    """Beyond the window: the first keys, open to all."""
    past = observed.without(cells=observed.future)
    for window in Window.fits(past):
        far = past.without(cells=observed.distance >= -window.before)
        yield from (Subsequent() & (Window(window.before) | first) for first in Prefix.fits(far))


def _longformer(observed: Observed) -> Iterator[Mask]:
    for everyone in Global.fits(observed):
        rest = _beside(observed, everyone)
        yield from (near | everyone for near in _near(rest))


def _bigbird(observed: Observed) -> Iterator[Mask]:
    yield from _window(observed)
    yield from _longformer(observed)
    yield from (mask for mask in Blocks.among_random(observed) if mask.before == mask.after)


def _causal_global(observed: Observed) -> Iterator[Mask]:
    past = observed.without(cells=observed.future)
    for everyone in Global.fits(past):
        for window in Window.fits(_beside(past, everyone)):
            yield Subsequent() & (Window(window.before) | everyone)


def _beside(observed: Observed, everyone: Global) -> Observed:
    return observed.without(cells=everyone.shifted(observed.first).grid(observed.queries, observed.keys))


def _block_causal(observed: Observed) -> Iterator[Mask]:
    yield from (Blocks(mask.size, observed.keys, 0) for mask in Blocks.fits(observed) if 1 < mask.size < observed.keys)


def _blocks(observed: Observed) -> Iterator[Mask]:
    yield from (mask for mask in Blocks.fits(observed) if mask.size > 1 and mask.after in (0, mask.before))


def _causal_blocks(observed: Observed) -> Iterator[Mask]:
    past = observed.without(cells=observed.future)
    for mask in Blocks.fits(past):
        if mask.size > 1:
            yield Subsequent() & Blocks(mask.size, mask.before, 0, mask.first)


def _documents(observed: Observed) -> Iterator[Mask]:
    yield from (mask for mask in Documents.fits(observed) if 1 < len(mask.lengths) < observed.keys)


def _causal_documents(observed: Observed) -> Iterator[Mask]:
    """Also with a window in each."""
    past = observed.without(cells=observed.future)
    for documents in _documents(past):
        yield Subsequent() & documents
        inside = past.without(cells=~documents.shifted(observed.first).grid(observed.queries, observed.keys))
        for window in Window.fits(inside):
            if window.before < max(documents.lengths) - 1:
                yield Window(window.before) & documents


def _spans(observed: Observed) -> Iterator[Mask]:
    """Stretches whose tokens all see up to the last of them."""
    if observed.first or observed.queries != observed.keys:
        return
    ahead, lengths, start = (observed.known_open & observed.future), [], 0
    furthest = (observed.keys - 1 - ahead.int().flip(1).argmax(1)).where(ahead.any(1), -1).tolist()
    while start < observed.keys:
        end = max(start, furthest[start]) + 1
        lengths.append(end - start)
        start = end
    spans = [length for length in lengths if length > 1]
    if spans and min(spans) >= SPAN and len(lengths) > 1:
        yield Subsequent() | Documents(tuple(lengths))


def _padding(observed: Observed, left: bool) -> Iterator[Mask]:
    """On one side; or none, where nothing was taken for padding before."""
    yield from (mask for mask in Padding.fits(observed) if (mask.left is not None) is left)
    if observed.known.all():
        yield Full()


PUBLISHED = (
    Kind("full", "mask that blocks nothing", "Vaswani et al. 2017", 1, 0, _full),
    Kind("causal", "causal mask", "Vaswani et al. 2017, section 3.1", 1, 0, _causal, True),
    Kind("causal-window", "causal sliding window", "Mistral 7B, Jiang et al. 2023", 3, 1, _causal_window, True),
    Kind("window", "sliding window", "Longformer, Beltagy et al. 2020", 4, 1, _window),
    Kind("prefix-lm", "prefix-LM mask", "T5, Raffel et al. 2020, section 3.2.1", 3, 1, _prefix_lm, None),
    Kind("documents", "mask of packed documents", "Krell et al. 2021", 4, 2, _documents),
    Kind(
        "causal-documents",
        "causal mask of packed documents",
        "Llama 3, Grattafiori et al. 2024",
        4,
        2,
        _causal_documents,
        True,
    ),
    Kind("sinks", "causal window with sinks", "StreamingLLM, Xiao et al. 2023", 5, 2, _sinks, True),
    Kind("longformer", "window with global tokens", "Longformer, Beltagy et al. 2020", 5, 2, _longformer),
    Kind("causal-global", "causal window with global tokens", "", 7, 2, _causal_global, True),
    Kind("dilated", "dilated window", "Longformer, Beltagy et al. 2020, section 3.1", 6, 2, _dilated),
    Kind("strided", "strided mask", "Sparse Transformer, Child et al. 2019, section 4.2", 6, 1, Strided.fits, True),
    Kind("fixed", "fixed mask", "Sparse Transformer, Child et al. 2019, section 4.2", 6, 1, Fixed.fits, True),
    Kind("blocks", "block-sparse mask", "BigBird, Zaheer et al. 2020, appendix D", 6, 1, _blocks),
    Kind("bigbird", "mask with random keys", "BigBird, Zaheer et al. 2020, section 2", 7, 1, _bigbird, random=True),
    Kind("block-causal", "block-causal mask", "BD3-LM, Arriola et al. 2025", 6, 1, _block_causal, None),
    Kind("causal-blocks", "causal block-sparse mask", "", 7, 1, _causal_blocks, True),
    Kind("neighborhood", "neighborhood mask", "NATTEN, Hassani et al. 2023", 6, 2, Neighborhood.fits),
    Kind("media", "media mask", "Flamingo, Alayrac et al. 2022, section 2.3", 6, 1, Media.fits),
    Kind("block-diffusion", "block diffusion mask", "BD3-LM, Arriola et al. 2025", 6, 2, BlockDiffusion.fits),
    Kind("images", "causal mask with stretches open both ways", "Gemma 3, 2025", 7, 2, _spans, None),
    Kind(
        "look-ahead",
        "causal mask that looks some keys ahead",
        "Transformer Transducer, Zhang et al. 2020",
        7,
        1,
        _lookahead,
    ),
    Kind("others", "mask that blocks each query's own key alone", "Reformer, Kitaev et al. 2020", 7, 0, _others),
)
"""Every kind, the usual ones first."""

PADDING = (
    Kind("padding", "mask of padding on the right", "", 2, 0, lambda observed: _padding(observed, left=False)),
    Kind("left-padding", "mask of padding on the left", "", 3, 0, lambda observed: _padding(observed, left=True)),
)
"""Padding alone; it may also stand beside every other kind."""

BY_NAME = {kind.name: kind for kind in (*PUBLISHED, *PADDING)}
