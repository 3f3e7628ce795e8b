"""A picture is a specification that seldom changes and tables that change with every click.

Building a specification takes Altair a tenth of a second, so it is built once for each form a picture can have. On the
screen it stays while its tables are replaced in place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

LOADED = "{url: datum.uri, src: datum.uri, complete: true, width: 1, height: 1}"
"""A Vega expression for the image at the address in the field uri, as Vega has it once it is loaded.

Else Vega draws a picture a second time, a hundredth of a second after the first, with its images in it. They are data
URIs, and in SVG alone nothing but their address is asked for: for the screen, which draws SVG, and not for files.
"""

Table = dict[str, list]
"""Columns of plain values: numbers that are finite, strings, bytes, True, False and None."""


@dataclass(frozen=True, eq=False)
class Form:
    """A Vega-Lite chart without its data."""

    spec: dict[str, Any]

    @classmethod
    def of(cls, chart: alt.LayerChart) -> "Form":
        return cls(chart.to_dict(validate=False))

    @cached_property
    def draws_images(self) -> bool:
        return _has_image(self.spec)


def _has_image(view: dict[str, Any]) -> bool:
    parts = (part for name in ("layer", "hconcat", "vconcat") for part in view.get(name, ()))
    return view.get("mark", {}).get("type") == "image" or any(map(_has_image, parts))


def formed(most: int) -> Callable[[Callable[..., Form]], Callable[..., Form]]:
    """Keeps the last forms that a function builds.

    Altair holds nothing against its schema meanwhile, which takes as long again: the tests do, for each form.
    """
    return lambda build: lru_cache(most)(debug_mode(False)(build))


def records(table: Table) -> list[dict]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def columns(names: Sequence[str], rows: Sequence[dict]) -> Table:
    """Rows as a table; None where one has no such column."""
    table: Table = {name: [None] * len(rows) for name in names}
    for i, row in enumerate(rows):
        for name, value in row.items():
            if name in table:
                table[name][i] = value
    return table


def stacked(names: Sequence[str], parts: Sequence[Table]) -> Table:
    """Tables under each other; None where one has no such column."""
    lengths = [len(next(iter(part.values()))) for part in parts]
    both = [*zip(parts, lengths, strict=True)]
    return {name: [value for part, long in both for value in part.get(name) or [None] * long] for name in names}


INDEPENDENT = alt.Resolve(
    scale=alt.ScaleResolveMap(
        color="independent", fill="independent", stroke="independent", shape="independent", strokeWidth="independent"
    )
)


def together(
    views: Sequence, params: Sequence[alt.TopLevelSelectionParameter], title: alt.TitleParams | None
) -> alt.HConcatChart | alt.VConcatChart:
    """Views in a row under one title, or a column of rows, whose parts may be columns again; each view has own scales.

    They are handed over written out: Altair would copy every part of a chart five times, to look for parameters.
    """
    is_row = all(isinstance(view, alt.LayerChart) for view in views)
    parts = [_spec_of(view, is_row=True) for view in views]
    if is_row:
        chart = alt.HConcatChart(hconcat=parts, resolve=INDEPENDENT, spacing=24)
    else:
        chart = alt.VConcatChart(vconcat=parts, resolve=INDEPENDENT, spacing=16)
    chart.params, chart.autosize = [*params] or alt.Undefined, "pad"
    chart.title = title or alt.Undefined
    return chart


def _spec_of(view: alt.LayerChart | Sequence, *, is_row: bool) -> alt.SchemaBase:
    if isinstance(view, alt.LayerChart):
        return alt.LayerSpec(**view.to_dict(validate=False, context={"top_level": False}))
    parts = [_spec_of(part, is_row=not is_row) for part in view]
    if is_row:
        return alt.HConcatSpecGenericSpec(hconcat=parts, resolve=INDEPENDENT)
    return alt.VConcatSpecGenericSpec(vconcat=parts, resolve=INDEPENDENT)
