"""Text to tokens and back."""

from attnviz.tokenizers.base import Tokenizer, batch, load

__all__ = ["Tokenizer", "batch", "load"]
