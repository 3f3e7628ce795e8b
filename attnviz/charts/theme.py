"""Every color, size, font and word of caution that the pictures share, for light and dark, and a picture's style."""

from dataclasses import dataclass

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Noto Sans Mono', 'DejaVu Sans Mono', monospace"

TITLE_SIZE = 15
TEXT_SIZE = 12
LINE = 17
"""Pixels: type of titles and of all else, and the distance of lines of the latter."""

TINT = "#ff2d8a"
"""Color over a picture, which few pictures have and which is told from most of theirs by its lightness, too."""

CHARACTER = 7.25
"""Pixels of one monospaced character at TEXT_SIZE."""

TITLE_CHARACTER = 8.5
WORD_CHARACTER = 6.7
"""Pixels of an average character of a title and of other words; a little too much rather than too little."""


@dataclass(frozen=True)
class Theme:
    """One set of colors. `ramp` goes from weight 0 to weight 1, even in lightness."""

    background: str
    text: str
    quiet: str
    """Text that stands back: special tokens, subtitles; at least 4.5:1 on the background."""
    accent: str
    line: str
    """Frames and ticks."""
    blocked: str
    """Ground of a blocked cell."""
    hatch: str
    """Strokes on it."""
    open: str
    """A cell of a mask that may be attended to."""
    dot: str
    warning: str
    """NaN and empty rows."""
    leak: str
    """A cell that saw what it must not; the background stands out on it."""
    ramp: tuple[str, ...]
    diverging: tuple[str, ...]
    """From the most negative over 0 in the middle to the most positive."""
    hues: tuple[str, ...]
    """Told apart also by those who see few colors (after Okabe and Ito) and from the accent; 3:1 on the background."""


LIGHT = Theme(
    background="#ffffff",
    text="#1c2430",
    quiet="#667085",
    accent="#a8380b",
    line="#d0d5dd",
    blocked="#f4f3f1",
    hatch="#a8a29e",
    open="#bde5f3",
    dot="#28549e",
    warning="#a21caf",
    leak="#c62828",
    ramp=(
        "#f0f7fa", "#bde5f3", "#84d4e7", "#5fbcdc", "#3ea3d1", "#2589c4",
        "#266fb2", "#28549e", "#273c82", "#202863", "#171645",
    ),
    diverging=(
        "#7a2604", "#ad4310", "#d87a3c", "#efb189", "#f9dfcd", "#f6f7f9",
        "#d3e8f4", "#92c8e6", "#459ad2", "#2068b0", "#143c78",
    ),
    hues=("#0063a8", "#9a6f00", "#b0508a", "#00805d", "#2f95cf", "#4a4f57"),
)  # fmt: skip

DARK = Theme(
    background="#0e1117",
    text="#e6e9ef",
    quiet="#98a2b3",
    accent="#fb923c",
    line="#3a4150",
    blocked="#17191e",
    hatch="#6b6762",
    open="#2f457e",
    dot="#9fede9",
    warning="#e879f9",
    leak="#ff6b5e",
    ramp=(
        "#20242f", "#283456", "#2f457e", "#315a9d", "#2c72b7", "#1c8cd0",
        "#1ea7da", "#3bc1e1", "#62dae6", "#9fede9", "#d4fef4",
    ),
    diverging=(
        "#ffc08f", "#f3924a", "#c4641f", "#84451c", "#4a3022", "#1f232c",
        "#203650", "#285d94", "#3489cc", "#6cb9eb", "#bde4ff",
    ),
    hues=("#4aa3e0", "#f0c64a", "#e08abf", "#2fbf95", "#8fd3ff", "#d0d4dc"),
)  # fmt: skip

CAUTIONS = {
    "random": "random weights: shows the mechanics, not meaning",
    "constructed": "constructed: weights set by hand to show a mechanism",
    "trained here": "trained here: a small model on made-up sentences",
    "pretrained": "pretrained weights",
    "from a folder": "weights from a folder",
    "your own": "your own model",
}
"""Notes on the origin of the weights of a picture, by `Record.provenance`, which they name."""


def theme(dark: bool) -> Theme:
    return DARK if dark else LIGHT


def config(colors: Theme) -> dict:
    """The Vega-Lite configuration of every picture."""  # fmt: skip
    label = {"labelColor": colors.text, "labelFontSize": TEXT_SIZE, "labelLimit": 0}
    title = {
        "titleColor": colors.quiet,
        "titleFont": FONT,
        "titleFontSize": TEXT_SIZE,
        "titleFontWeight": "normal",
    }
    axis = {"labelFont": MONO, "labelPadding": 6, "titlePadding": 10, "domain": False, "ticks": False, "grid": False}
    return {
        "background": colors.background,
        "font": FONT,
        "padding": 12,
        "view": {"stroke": None, "fill": None},
        "axis": label | title | axis,
        "legend": label | title | {"orient": "bottom", "titleLimit": 0, "labelFont": FONT},
        "title": {
            "font": FONT,
            "fontSize": TITLE_SIZE,
            "fontWeight": 600,
            "color": colors.text,
            "subtitleFont": FONT,
            "subtitleFontSize": TEXT_SIZE,
            "subtitleColor": colors.quiet,
            "subtitleLineHeight": LINE,
            "subtitlePadding": 4,
        },
        "text": {"font": FONT, "fontSize": TEXT_SIZE, "color": colors.text},
    }


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a picture is drawn.

    Attributes:
        dark: in the colors of a dark page.
        selected: what is outlined: the (query, key) of a cell, or a row.
        focused: the head that is framed, by its number or as (site, head).
        rev: a counter to raise after each click, so that the same thing can be clicked again.
        domain: what the color of a weight says, one of `charts.domain.DOMAINS`.
        row_sums: whether each row's sum is written at its end, and those that are not 1 are marked.
        side: how wide a map may be, in pixels; None for as wide as is good.
        width: pixels that the picture may take with all that stands around it; None for as many as it needs.
        zooms: whether a drag over a large map on a page asks to see a part of it.
        aside: whether the legend of a map stands right of it, as on a slide.
        paired: whether thumbnails stand beside their map on a page, with words at their right: they are smaller then.
        explained: whether the legend of the mask beside a map holds for its strokes, too.
        heading: what stands over the picture in place of its title and the lines under it; None for those.
        on_screen: whether the picture stands on a page, which says itself what was changed.
    """

    dark: bool = False
    selected: tuple[int, int] | int | None = None
    focused: object = None
    rev: int = 0
    domain: str = "adapts"
    row_sums: bool = False
    side: int | None = None
    width: int | None = None
    zooms: bool = False
    aside: bool = False
    paired: bool = False
    explained: bool = False
    heading: str | None = None
    on_screen: bool = False

    @property
    def colors(self) -> Theme:
        return DARK if self.dark else LIGHT
