"""The translator: an encoder and a decoder that turn English sentences of a small grammar into French."""

from attnviz.training.translator.evidence import card
from attnviz.training.translator.recipe import RECIPE

__all__ = ["RECIPE", "card"]
