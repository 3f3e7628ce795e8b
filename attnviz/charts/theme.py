"""Colors, sizes, fonts and warnings that all pictures share, in light and dark, and the style of a picture."""

from dataclasses import dataclass

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Noto Sans Mono', 'DejaVu Sans Mono', monospace"

TITLE_SIZE = 15
TEXT_SIZE = 12
LINE = 17
"""Pixels: type size of titles, type size of other text, and line height of other text."""
TINT = "#ff2d8a"
"""Tint over a picture: a color that few pictures contain, and of a lightness unlike most pictures."""
CHARACTER = 7.25
"""Pixels of one monospaced character at TEXT_SIZE."""
TITLE_CHARACTER = 8.5
WORD_CHARACTER = 6.7
"""Pixels of an average character of a title and of other proportional text, estimated slightly too large."""
CAUTIONS = {
    "random": "random weights: shows the mechanics, not meaning",
    "constructed": "constructed: weights set by hand to show a mechanism",
    "trained here": "trained here: a small model on made-up sentences",
    "pretrained": "pretrained weights",
    "from a folder": "weights from a folder",
    "your own": "your own model",
}
"""Notes on the origin of the weights, by `Record.provenance`."""


@dataclass(frozen=True)
class Theme:
    """Colors of a light or dark page, as "#rrggbb"; `ramp` goes from weight 0 to 1 in even steps of lightness."""

    background: str
    text: str
    quiet: str
    """Secondary text, such as special tokens and subtitles; contrast at least 4.5:1 on the background."""
    accent: str
    line: str
    """Frames and ticks."""
    blocked: str
    """Fill of a blocked cell."""
    hatch: str
    """Strokes on a blocked cell."""
    open: str
    """Fill of an open cell of a mask."""
    dot: str
    warning: str
    """NaN and empty rows."""
    leak: str
    """Fill of a cell with a leak; a sign in the background color is readable on it."""
    ramp: tuple[str, ...]
    diverging: tuple[str, ...]
    """Colors from the most negative number to the most positive, with 0 in the middle."""
    hues: tuple[str, ...]
    """Hues that people with color blindness can tell apart (after Okabe and Ito), unlike the accent; contrast 3:1."""

    @property
    def moved(self) -> str:
        """Color of a changed prediction."""
        return self.hues[1]


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


def rgb(color: str) -> tuple[int, int, int]:
    """Convert "#rrggbb" to red, green and blue, 0 to 255."""
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


def gray_ramp(colors: Theme) -> tuple[str, ...]:
    """Return the color ramp in grays of the same brightness (ITU-R BT.601), for a head that is switched off."""
    grays = (round(0.299 * red + 0.587 * green + 0.114 * blue) for red, green, blue in map(rgb, colors.ramp))
    return tuple(f"#{gray:02x}{gray:02x}{gray:02x}" for gray in grays)


def config(colors: Theme) -> dict:
    """Return the Vega-Lite configuration of all pictures."""
    label = {"labelColor": colors.text, "labelFontSize": TEXT_SIZE, "labelLimit": 0}
    title = {"titleColor": colors.quiet, "titleFont": FONT, "titleFontSize": TEXT_SIZE, "titleFontWeight": "normal"}
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
    """Style of a picture.

    Attributes:
        dark: whether the picture has the colors of a dark page.
        selected: cell to outline, as (query, key), or row to outline.
        focused: head to frame, by its number or as (site, head).
        rev: counter that the app raises after each click, so that the same item can be clicked again.
        domain: color domain of weights, one of `charts.signs.DOMAINS`.
        row_sums: whether the sum of each row is at its end, with a warning if the sum is not 1.
        side: maximum side of a map in pixels; None for the default.
        width: maximum width of the picture in pixels, including its labels; None for no limit.
        aside: whether the legend is right of the map, as on a slide.
        paired: whether thumbnails of heads are beside a large map on a page, and therefore smaller.
        explained: whether a mask beside the map has a legend of its rules, which the map then leaves out.
        heading: text in place of the title and the lines below it; None to show title and lines.
        on_screen: whether the picture is on a page, which lists the edits elsewhere.
    """

    dark: bool = False
    selected: tuple[int, int] | int | None = None
    focused: object = None
    rev: int = 0
    domain: str = "adapts"
    row_sums: bool = False
    side: int | None = None
    width: int | None = None
    aside: bool = False
    paired: bool = False
    explained: bool = False
    heading: str | None = None
    on_screen: bool = False

    @property
    def colors(self) -> Theme:
        return DARK if self.dark else LIGHT
