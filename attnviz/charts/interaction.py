"""Selections and tooltips of charts, and marks that the pointer does not meet."""

from collections.abc import Mapping, Sequence

import altair as alt

from attnviz.charts.theme import Theme

QUIET_MARK = {"aria": False, "tooltip": None}


def clicked(name: str, *fields: str) -> alt.Parameter:
    """A click, as a selection; Escape clears it. A counter `rev` in the data lets the same thing be clicked again."""
    escape = "window:keydown[event.key === 'Escape']"
    return alt.selection_point(name=name, fields=list(fields), on="click", toggle=False, clear=escape)


def pointed() -> alt.Parameter:
    """The cell under the pointer, as a selection."""
    return alt.selection_point(name="pointed", fields=["query", "key"], on="pointerover", clear="pointerout")


def share(names: Sequence[str], *parameters: alt.Parameter) -> list[alt.TopLevelSelectionParameter]:
    """Selections of the layers with these names, as parameters of a whole chart."""
    return [alt.TopLevelSelectionParameter(**parameter.param._kwds | {"views": [*names]}) for parameter in parameters]


def dragged(name: str, colors: Theme) -> alt.Parameter:
    """A drag over cells, as a selection of stretches of the row and column axes: {"row": [1.2, 3.4], "column": ...}.

    It clears itself a moment after the drag, when it has been sent: cells under it could not be clicked. Only after one
    that began on the picture: otherwise a click elsewhere would clear the start of the next drag.
    """
    mark = alt.BrushConfig(fill=colors.accent, fillOpacity=0.12, stroke=colors.accent, strokeOpacity=0.6)
    ended = "[pointerdown, window:pointermove[!event.buttons]] > window:pointerup{0, 300}"
    return alt.selection_interval(name=name, encodings=["x", "y"], mark=mark, clear=ended, zoom=False, translate=False)


def tooltip(fields: Mapping[str, str]) -> list[alt.Tooltip]:
    """Fields of the data as hovering names them."""
    return [alt.Tooltip(f"{field}:N", title=name) for field, name in fields.items()]
