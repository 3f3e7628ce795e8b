"""Token axes, titles and outlines that the maps share.

No text of a user stands in an expression, a field name or a tooltip's name: labels are data, as band keys
(`attnviz.core.display.band_keys`), and the expressions here are constants.
"""

import textwrap
from collections.abc import Sequence

import altair as alt

from attnviz.charts.size import Size
from attnviz.charts.theme import CHARACTER, WORD_CHARACTER, Theme
from attnviz.core.display import band_keys
from attnviz.core.tokens import Token

QUERY, KEY = "Query (looks)", "Key (is looked at)"

LONGEST_LABEL = 16
"""Code points of a token shown on an axis."""

_LABEL = "substring(datum.label, 5)"
_IS_QUIET = "substring(datum.label, 4, 5) === '-'"


def bands(tokens: Sequence[Token | str]) -> list[str]:
    """Band keys of tokens; special tokens and padding are marked to be drawn lighter."""
    labels = [token if isinstance(token, str) else token.text for token in tokens]
    quiet = [i for i, token in enumerate(tokens) if not isinstance(token, str) and token.special]
    return band_keys(labels, quiet, LONGEST_LABEL)


def token_axes(
    queries: Sequence[str], keys: Sequence[str], size: Size, colors: Theme, titles: tuple[str, str] = (QUERY, KEY)
) -> tuple[alt.Y, alt.X]:
    """The row and column encodings of a map whose bands are called `queries` and `keys`; labels of columns stand on top."""
    longest = max((len(key) - 5 for key in keys), default=1) * CHARACTER
    angle = 0 if longest <= size.cell - 4 else -90
    top = {
        "orient": "top",
        "labelAngle": angle,
        "labelAlign": "left" if angle else "center",
        "labelBaseline": "middle" if angle else "bottom",
    }
    scale = alt.Scale(paddingInner=0, paddingOuter=0)
    return (
        alt.Y("query_band:N", title=titles[0], axis=label_axis(colors, size.every), scale=scale),
        alt.X("key_band:N", title=titles[1], axis=label_axis(colors, size.every, **top), scale=scale),
    )


def label_axis(colors: Theme, every: int = 1, **settings) -> alt.Axis:
    """An axis of band keys that shows the tokens, each `every`-th of them."""
    label = _LABEL if every == 1 else f"toNumber(substring(datum.label, 0, 4)) % {int(every)} ? '' : {_LABEL}"
    quiet = {"condition": {"test": _IS_QUIET, "value": colors.quiet}, "value": colors.text}
    return alt.Axis(labelExpr=label, labelOverlap=False, labelColor=quiet, **settings)


def width_of(size: Size, queries: Sequence[str]) -> float:
    """About how wide a map is with its row labels."""
    return size.width + max((len(key) - 5 for key in queries), default=1) * CHARACTER + 40


def title(text: str, lines: Sequence[str], width: float) -> alt.TitleParams:
    """A title with lines under it, broken to the width of the picture. The text must begin with a constant word."""
    characters = int(max(width, 320) / WORD_CHARACTER)
    broken = [part for line in lines if line for part in textwrap.wrap(line, characters)]
    return alt.TitleParams(text=textwrap.wrap(text, int(characters * 0.8)), subtitle=broken)
