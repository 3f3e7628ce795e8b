"""Every head of the model at once, in tabs: as maps, switched off in turn, as numbers, over many texts, and rollout."""

from functools import partial

from attnviz.sources.base import Source
from attnviz.ui.overview import every, numbers, reach, tables, texts
from attnviz.ui.shared import state, toolbar
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import tabs
from attnviz.ui.shared.toolbar import Bar

PANELS = ("All heads", "Switch-off test", "Table", "Over many texts", "Rollout")
PANEL = choice("panel", PANELS)


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines)
    at = bar.at
    bar.predict()
    made = (
        partial(every.panel, bar),
        partial(_switched_off, bar),
        partial(tables.panel, bar),
        partial(texts.over_many_texts, at),
        partial(reach.reach, at),
    )
    tabs(PANEL, dict(zip(PANELS, made, strict=True)), opening=_opening())


def _opening() -> str:
    """The tab that a link without one asks for by what else it holds."""
    asked = {PANELS[4]: (reach.STACK, reach.AFTER), PANELS[2]: (tables.ACROSS, tables.UP)}
    return next((name for name, of_it in asked.items() if any(state.get(one) is not None for one in of_it)), PANELS[0])


def _switched_off(bar: Bar) -> None:
    """What each head changes when it is off, and then the heads in that order."""
    if numbers.switch_each_off(bar.at):
        every.panel(bar, among=tuple(numbers.OFF))
