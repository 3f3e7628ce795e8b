"""What each model in the list is: a line under its name, which the script of the page puts there."""

from collections.abc import Iterable
from functools import cache

from attnviz import api
from attnviz.sources import cards
from attnviz.ui.shared import files, pretrained
from attnviz.ui.shared.text import plain

LINES = {
    "translator": "Translates English to French: see which word comes from which. Trained here, {size}.",
    "story": "Predicts the next word of a small story: see what “it” refers to. Trained here, {size}.",
    "induction": "Repeats what it has read before: see two heads copy together. Trained here, {size}.",
    "constructed": "Heads set by hand: see what clear patterns look like. Not trained, {size}.",
    "scratch": "Random weights of any size: see how masks and softmax work. They mean nothing.",
    pretrained.NAME: "A model that people use, such as BERT or GPT-2, from the Hub or a folder of yours.",
}
"""What a model does, what it is good for, and how large it is."""


@cache
def line(name: str) -> str:
    """The line of a model, by its name in the list."""
    if files.is_file(name):
        return "A file that you opened: one run, with its text."
    if name in LINES:
        return LINES[name].format(size=_size(name)) if "{size}" in LINES[name] else LINES[name]
    source = api.SOURCES.get(name)
    return getattr(source, "does", "") or getattr(source, "title", "") or "Your own model."


def _size(name: str) -> str:
    sizes = cards.card(name).sizes
    return f"{sizes.get('parameters', sizes.get('weights')) / 1e6:.1f} million weights"


def lines(names: Iterable[str]) -> str:
    """The lines as HTML that nobody sees."""
    return "".join(
        f'<i class="model-line" data-name="{plain(files.title(name))}" data-line="{plain(line(name))}"></i>'
        for name in names
    )
