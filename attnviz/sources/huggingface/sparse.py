"""Settings that save memory or time and change no number: they are taken back, so that all of attention is seen."""

from typing import Any


def made_full(config: Any) -> tuple[int | None, str]:
    """Undo them in a configuration, before a model is built from it.

    Feed-forward parts in chunks fail on lengths that chunks do not divide. BigBird's sparse attention has the weights
    of its full one, and up to some length it switches to that itself.

    Returns:
        How many tokens the model reads so at most, or None; and why no more.
    """
    if getattr(config, "chunk_size_feed_forward", 0):
        config.chunk_size_feed_forward = 0
    if getattr(config, "attention_type", None) != "block_sparse":
        return None, ""
    config.attention_type = "original_full"
    dense = (5 + 2 * config.num_random_blocks) * config.block_size
    return dense, "longer texts are read in sparse blocks, which attnviz does not show"
