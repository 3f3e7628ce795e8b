"""Descriptions of the models in the list: a line under each name, which the script of the page puts there."""

from collections.abc import Iterable
from functools import cache

from attnviz import api
from attnviz.sources import cards
from attnviz.ui.shared import files, words
from attnviz.ui.text import plain


@cache
def line(name: str) -> str:
    """The line of a model, by its name in the list."""
    if files.is_file(name):
        return words.OPENED_FILE
    if text := words.MODELS.get(name):
        return text.format(size=_size(name)) if "{size}" in text else text
    source = api.SOURCES.get(name)
    return getattr(source, "does", "") or getattr(source, "title", "") or words.OWN_MODEL


def _size(name: str) -> str:
    sizes = cards.card(name).sizes
    return words.MODEL_SIZE.format(millions=sizes.get("parameters", sizes.get("weights")) / 1e6)


def lines(names: Iterable[str]) -> str:
    """The lines as HTML that nobody sees."""
    return "".join(
        f'<i class="model-line" data-name="{plain(files.title(name))}" data-line="{plain(line(name))}"></i>'
        for name in names
    )
