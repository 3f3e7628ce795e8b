"""Vectors that enter whole layers of a model of transformers: kept, or taken from another text, in one run."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.tapped import ModelRun

_models: WeakKeyDictionary[nn.Module, dict[nn.Module, list[Site]]] = WeakKeyDictionary()


def layers_of(loaded: Loaded, read: dict[str, Any]) -> dict[nn.Module, list[Site]]:
    """The module of each layer, and the sites of its calls in their order: ALBERT calls one module for all layers.

    It is the innermost member of a list of modules around the one that computes attention; found once, by a run.
    """
    model = loaded.model
    if model not in _models:
        lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
        around = {part: member for one in lists for member in one for part in [*member.modules()][1:]}
        run = ModelRun(model, Edits(), layers=loaded.trial.layers, alone=loaded.trial.alone)
        model(**read, attnviz=run, **({"use_cache": False} if hasattr(model.config, "use_cache") else {}))
        layers: dict[nn.Module, list[Site]] = {}
        for step, module in zip(run.tap.steps, run.modules, strict=True):
            if step.site.kind != "cross" and module in around:
                layers.setdefault(around[module], []).append(step.site)
        _models[model] = layers
    return _models[model]


@contextmanager
def entering(loaded: Loaded, run: ModelRun, read: dict[str, Any]) -> Iterator[None]:
    """Let the tap of a run see and replace what enters each layer, meanwhile, in this thread alone."""
    thread, left = get_ident(), {module: iter(sites) for module, sites in layers_of(loaded, read).items()}

    def enter(module: nn.Module, arguments: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
        if get_ident() != thread:
            return None
        site = next(left[module])
        if arguments and isinstance(arguments[0], Tensor):
            return (run.tap.enter(arguments[0], site=site), *arguments[1:]), named
        if not isinstance(named.get("hidden_states"), Tensor):
            raise InputError(f"What enters the layers of {loaded.name} is not known; take an output or values.")
        return arguments, named | {"hidden_states": run.tap.enter(named["hidden_states"], site=site)}

    hooks = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in left]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
