"""Attention heads of a Transformer: weights of each head on a sentence, and the effect of changes to them.

    record = attnviz.analyze("The cat sat on the mat", edits=attnviz.Edits(mask=attnviz.mask("causal")))
    figure = attnviz.figures.head(record, attnviz.Site("encoder", 0), 1)

Names are imported on first use, so `import attnviz` is fast. In a notebook, a cell that ends with `record` shows every
head, and a cell that ends with `figure` shows the picture.
"""

import sys
from importlib import import_module
from typing import Any

__version__ = "0.3.0"

_HOMES = {  # public names, and the modules that define them
    "analyze": "api",
    "load": "api",
    "generate": "generation",
    "rank": "analysis.heads",
    "picture": "files.media",
    "sound": "files.media",
    "capture": "capturing.intercept",
    "check_batch": "check.training_batch",
    "check_model": "check.model",
    "Edits": "core.edits",
    "Site": "core.edits",
    "Take": "core.edits",
    "Record": "core.record",
    "Tap": "core.tap",
    "AttnvizError": "core.errors",
    "scaled_dot_product_attention": "core.attention",
    "MultiHeadAttention": "models.multihead",
    "mask": "core.masks",
    "subsequent_mask": "core.masks",
    "ALiBi": "core.scoring",
    "RelativeBias": "core.scoring",
    "render": "export",
    "from_arrays": "files",
    "read": "files",
    "save": "files",
    "explore": "export.explore",
    "live": "api",
    "same_run": "check.same_as_alone",
    "leak_test": "check.leak_test",
    "show": "ui.live",
    "wrap": "sources.wrapped",
}
_MASKS = "Blank BlockDiffusion Blocks Dilated Documents Fixed Full Global Media Neighborhood Opened Padding Painted"
_MASKS += " PatchWindows Prefix Random Strided Subsequent Window"
_HOMES |= dict.fromkeys(_MASKS.split(), "core.masks")
_MODULES = ("analysis", "atlas", "check", "figures", "studies")

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _MODULES:
        return import_module(f"attnviz.{name}")
    if name not in _HOMES:
        raise AttributeError(f"attnviz has no {name!r}. It has: {', '.join(__all__)}.")
    globals()[name] = value = getattr(import_module(f"attnviz.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if "IPython" in sys.modules:
    import_module("attnviz.notebook").register()
