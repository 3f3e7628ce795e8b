"""What one token gives to the others, or gets of them: the weights by which a text is shaded."""

from dataclasses import dataclass, replace

import numpy as np

from attnviz.charts.domain import colored
from attnviz.core.display import as_sentence
from attnviz.core.errors import InputError
from attnviz.figures.figure import text_array
from attnviz.figures.strands import window
from attnviz.metrics import Cells
from attnviz.views import Groups, Seen
from attnviz.words import MOST_NAMED, OFF, named, predicting

MOST_TOKENS = 400
"""Queries or keys drawn at most; of more, a window."""

SIDES = ("from", "to")
"""Whose attention is shown: what the chosen token gives to each key, or what each query gives to it."""


@dataclass(frozen=True, eq=False)
class Shade:
    """What one token gives to others, or gets of them; arrays are of the other ends, (tokens,).

    Attributes:
        seen: the window that is drawn.
        side: one of `SIDES`.
        index: which query, or which key, of the window.
        states, weights, blocked, reasons: as of `metrics.Cells`; `colored` is where a weight is to be shown.
        cells: the cells of the window.
        each: of every token on the chosen one's side, where its strongest weight stands, and that weight.
        off: whether it is of one head, which is switched off.
        notes: that a window is drawn, where it is.
    """

    seen: Seen
    side: str
    index: int
    weights: np.ndarray
    states: np.ndarray
    blocked: np.ndarray
    colored: np.ndarray
    reasons: tuple[str, ...]
    cells: Cells
    each: tuple[np.ndarray, np.ndarray]
    off: bool
    notes: tuple[str, ...]

    @property
    def ends(self) -> tuple[Groups, Groups]:
        """The tokens of which one is chosen, and those that are shaded."""
        parts = self.seen.queries, self.seen.keys
        return parts if self.side == "from" else parts[::-1]

    @property
    def strongest(self) -> tuple[int, int]:
        """The query and the key of the largest of these weights."""
        chosen, others = self.ends
        pair = int(chosen.starts[self.index]), int(others.starts[np.nan_to_num(self.weights, nan=-1.0).argmax()])
        return pair if self.side == "from" else pair[::-1]

    @property
    def one_text(self) -> bool:
        """Whether both are the same tokens."""
        same = np.array_equal(self.seen.queries.starts, self.seen.keys.starts)
        return self.seen.site.kind != "cross" and same and self.seen.queries.labels == self.seen.keys.labels


def shade_of(
    every: Seen, head: int | str, *, chosen: int | None = None, side: str = "from", most: int = MOST_TOKENS
) -> Shade:
    """The attention from one token, or to it; of more than `most` tokens a window.

    Raises:
        InputError: if there is no such side, or the token is not there.
    """
    if side not in SIDES:
        raise InputError(f"Attention cannot be shown {side!r} a token; there are {', '.join(SIDES)}.")
    part = every.queries if side == "from" else every.keys
    if chosen is None:
        chosen = every.strongest_cell(head)[SIDES.index(side)]
    if part.at(chosen) is None:
        raise InputError(f"There is no token {chosen} to show attention {side}; there are {len(part)}, from 0.")
    pin = frozenset({(("query", "key")[SIDES.index(side)], chosen)})
    seen = window(every, head, None, pin, most)
    notes = [] if len(seen.queries) == len(every.queries) and len(seen.keys) == len(every.keys) else [_window(seen)]
    index = (seen.queries if side == "from" else seen.keys).at(chosen)
    found = seen.cells([head])[0]
    pick = (index, slice(None)) if side == "from" else (slice(None), index)
    cells = (array[pick] for array in (found.weights, found.states, found.blocked, colored(found)))
    weights = np.where(colored(found), found.weights, 0.0)
    weights = weights if side == "from" else weights.T
    each = weights.argmax(1), weights.max(1)
    return Shade(
        seen, side, index, *cells, found.reasons, _row(found, pick), each, head in seen.step.heads_off, tuple(notes)
    )


def _row(found: Cells, pick: tuple) -> Cells:
    """The cells of one token alone, as one row."""
    parts = {name: np.atleast_2d(getattr(found, name)[pick]) for name in ("weights", "states", "blocked")}
    return replace(found, **parts)


def _window(seen: Seen) -> str:
    spans = (f"{part.starts[0]} to {part.stops[-1] - 1}" for part in (seen.queries, seen.keys))
    return "too many tokens for one strip: queries {} and keys {}; the map shows all".format(*spans)


def in_words(shade: Shade) -> str:
    """Which tokens get most of one token's attention, or give it most."""
    token, weights = named(shade.ends[0], shade.index), np.nan_to_num(shade.weights)
    order = [i for i in np.argsort(-weights, kind="stable")[:MOST_NAMED].tolist() if weights[i] >= 0.005]
    listed = ", ".join(f"{named(shade.ends[1], i)} {weights[i]:.2f}" for i in order)
    if not listed:
        return f"{token} gives nobody attention." if shade.side == "from" else f"{token} gets no attention."
    ends = OFF if shade.off else "."
    if shade.side == "to":
        return f"{token} is looked at most by {listed}{ends}"
    return f"{token}{predicting(shade.seen, shade.index)} looks most at {listed}{ends}"


def described(what: str, shade: Shade) -> str:
    """What a picture is, which tokens get most, what the view did, and what was changed."""
    changed = shade.seen.record.edits.in_words()
    parts = [
        f"{what} {in_words(shade)}",
        *map(as_sentence, (*shade.seen.notes, *shade.notes)),
        *([f"Changed: {', '.join(changed)}."] if changed else []),
    ]
    return " ".join(parts)


def arrays(shade: Shade) -> dict[str, np.ndarray]:
    """The attention of one token, as arrays over those at its other end."""
    return {
        "weights": shade.weights,
        "may_attend": shade.blocked == 0,
        "tokens": text_array(shade.ends[1].labels),
        "positions": shade.ends[1].starts,
    }
