"""How many examples of a law are drawn."""

from hypothesis import settings

USUAL = 40
"""Of a law that says nothing else; `make sweep` draws fifty times as many of each."""


def examples(count: int, **others) -> settings:
    """Another number for a law, because each example takes long or because what it looks for is rare."""
    return settings(max_examples=count * settings().max_examples // USUAL, **others)
