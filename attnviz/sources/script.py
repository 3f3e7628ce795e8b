"""A source that a person's own file builds, such as `my_model.py:build`: that file's code is run."""

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.record import Record
from attnviz.sources.base import Source
from attnviz.sources.own_code import errors_said
from attnviz.sources.saved import Recorded, Saved


def build(file: str, name: str) -> Source:
    """Source that a function of a file gives, called without arguments; or a source of that name in the file.

    A function that takes one argument is given edits and gives a record, as `attnviz.show` takes it.

    Raises:
        InputError: see `value_of`, or if it gives no source.
    """
    source = value_of(file, name)
    if isinstance(source, nn.Module):
        what = f"{Path(file).name}:{name} gives a model alone; what is missing is how a text becomes its tokens"
        raise InputError(f"{what}: let a function give attnviz.wrap(model, tokenize).")
    if not isinstance(source, Source):
        what = f"{Path(file).name}:{name} gives {quoted(type(source).__name__)}, which is no source"
        raise InputError(f"{what}; let it give attnviz.wrap(model, tokenize).")
    return source


def value_of(file: str, name: str) -> Any:
    """Source, or anything else, that a function of a file gives, or that stands under that name in the file.

    The file is imported, and so its code is run, with its folder on the path of imports.

    Raises:
        InputError: in one sentence, with the line of the file that raised, or if there is no such file or name.
    """
    path = Path(file).resolve()
    if not path.is_file():
        raise InputError(f"There is no file {quoted(str(path), 200)}.")
    module = _imported(path)
    if not hasattr(module, name):
        own = [
            attribute
            for attribute, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
        ]
        has = f"It has: {', '.join(own)}." if own else "It defines nothing."
        raise InputError(f"{path.name} has no {quoted(name)}. {has}")
    source = getattr(module, name)
    if isinstance(source, Source):
        return source
    with errors_said():
        return _built(source)


def _built(value: Any) -> Any:
    """The value of a name, called if it is a function or a class; one that needs an argument is given edits."""
    if inspect.isfunction(value):
        positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = inspect.signature(value).parameters.values()
        if sum(part.default is part.empty and part.kind in positional for part in parameters) == 1:
            return Recorded.of(value)
    value = value() if inspect.isfunction(value) or inspect.isclass(value) else value
    return Saved(value.source, value) if isinstance(value, Record) else value


def _imported(path: Path) -> ModuleType:
    """The module of a file, run now; as `import` would, under its name, so that its classes can be pickled."""
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        with errors_said():
            spec.loader.exec_module(module)
    except AttnvizError:
        sys.modules.pop(path.stem, None)
        raise
    return module
