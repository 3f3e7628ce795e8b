"""Every color, size, font and word of caution that the pictures share, for light and dark."""

from dataclasses import dataclass

FONT = "Inter, 'Source Sans 3', 'Source Sans Pro', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
MONO = "'JetBrains Mono', 'Source Code Pro', ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

TITLE_SIZE = 15
TEXT_SIZE = 12
CHARACTER = 7.3
"""Pixels: titles; everything else; the width of one monospaced character at TEXT_SIZE."""

WORD_CHARACTER = 6.4
"""Average width in pixels of a character of a subtitle at TEXT_SIZE."""


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
    ramp: tuple[str, ...]


LIGHT = Theme(
    background="#ffffff",
    text="#1c2430",
    quiet="#667085",
    accent="#c2410c",
    line="#d0d5dd",
    blocked="#f4f3f1",
    hatch="#a8a29e",
    open="#bde5f3",
    dot="#28549e",
    warning="#a21caf",
    ramp=(
        "#f0f7fa", "#bde5f3", "#84d4e7", "#5fbcdc", "#3ea3d1", "#2589c4",
        "#266fb2", "#28549e", "#273c82", "#202863", "#171645",
    ),
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
    ramp=(
        "#20242f", "#283456", "#2f457e", "#315a9d", "#2c72b7", "#1c8cd0",
        "#1ea7da", "#3bc1e1", "#62dae6", "#9fede9", "#d4fef4",
    ),
)  # fmt: skip

STOPS = tuple(i / (len(LIGHT.ramp) - 1) for i in range(len(LIGHT.ramp)))

CAUTIONS = {
    "random": "random weights: shows the mechanics, not meaning",
    "constructed": "weights set by hand, to show a mechanism",
    "trained here": "weights of a small model trained for this project",
    "pretrained": "pretrained weights",
}
"""What is said on a picture about where its weights come from, by `Record.provenance`."""


def theme(dark: bool) -> Theme:
    return DARK if dark else LIGHT


def config(colors: Theme) -> dict:
    """The Vega-Lite configuration of every picture."""
    text = {"font": FONT, "fontSize": TEXT_SIZE}
    return {
        "background": colors.background,
        "font": FONT,
        "padding": 12,
        "view": {"stroke": None, "fill": None},
        "title": {
            "anchor": "start",
            "frame": "bounds",
            "color": colors.text,
            "font": FONT,
            "fontSize": TITLE_SIZE,
            "fontWeight": 600,
            "subtitleColor": colors.quiet,
            "subtitleFont": FONT,
            "subtitleFontSize": TEXT_SIZE,
            "subtitlePadding": 5,
            "offset": 14,
            "limit": 4000,
            "lineHeight": TITLE_SIZE + 4,
            "subtitleLineHeight": TEXT_SIZE + 4,
        },
        "axis": {
            "labelColor": colors.text,
            "labelFont": MONO,
            "labelFontSize": TEXT_SIZE,
            "labelLimit": 0,
            "labelPadding": 6,
            "titleColor": colors.quiet,
            "titleFont": FONT,
            "titleFontSize": TEXT_SIZE,
            "titleFontWeight": 500,
            "titlePadding": 10,
            "domain": False,
            "ticks": False,
            "grid": False,
        },
        "legend": {
            "orient": "bottom",
            "direction": "horizontal",
            "labelColor": colors.text,
            "titleColor": colors.quiet,
            "labelFont": FONT,
            "titleFont": FONT,
            "labelFontSize": TEXT_SIZE,
            "titleFontSize": TEXT_SIZE,
            "titleFontWeight": 500,
            "titleLimit": 0,
            "labelLimit": 0,
            "offset": 16,
            "titlePadding": 6,
            "rowPadding": 6,
            "columnPadding": 18,
            "gradientStrokeColor": colors.line,
            "gradientStrokeWidth": 1,
        },
        "text": text | {"color": colors.text},
    }
