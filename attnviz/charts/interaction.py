"""Selections and tooltips of charts, and marks that the pointer does not meet."""

from collections.abc import Mapping, Sequence

import altair as alt

QUIET_MARK = {"aria": False, "tooltip": None}


def clicked(name: str, *fields: str) -> alt.Parameter:
    """A click, as a selection; Escape clears it. A counter `rev` in the data lets the same thing be clicked again."""
    escape = "window:keydown[event.key === 'Escape']"
    return alt.selection_point(name=name, fields=list(fields), on="click", toggle=False, clear=escape)


def share(names: Sequence[str], *parameters: alt.Parameter) -> list[alt.TopLevelSelectionParameter]:
    """Selections of the layers with these names, as parameters of a whole chart."""
    return [alt.TopLevelSelectionParameter(**parameter.param._kwds | {"views": [*names]}) for parameter in parameters]


def tooltip(fields: Mapping[str, str]) -> list[alt.Tooltip]:
    """Fields of the data as hovering names them."""
    return [alt.Tooltip(f"{field}:N", title=name) for field, name in fields.items()]
