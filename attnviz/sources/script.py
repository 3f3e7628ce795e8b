"""Load a source from a Python file of the user, such as `my_model.py:build`. The code of the file is run."""

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
    """Import a file and return the source with a given name in it, or that the function of this name returns.

    A function with one argument takes edits and returns a record, as for `attnviz.show`.

    Raises:
        InputError: as for `value_of`, or if the value is not a source.
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
    """Import a file and return the value of a name in it; a function or a class is called for its value.

    The import runs the code of the file, with the folder of the file on the import path.

    Raises:
        InputError: if there is no such file or name, or the code of the file raises, with the line.
    """
    path = Path(file).resolve()
    if not path.is_file():
        raise InputError(f"There is no file {quoted(str(path), 200)}.")
    module = _import_file(path)
    if not hasattr(module, name):
        own = [
            attribute
            for attribute, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
        ]
        has = f"It has: {', '.join(own)}." if own else "It defines nothing."
        raise InputError(f"{path.name} has no {quoted(name)}. {has}")
    value = getattr(module, name)
    if isinstance(value, Source):
        return value
    with errors_said():
        return _call(value)


def _call(value: Any) -> Any:
    """Call a value if it is a function or a class; a function with one required argument makes records for edits."""
    if inspect.isfunction(value):
        positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = inspect.signature(value).parameters.values()
        if sum(part.default is part.empty and part.kind in positional for part in parameters) == 1:
            return Recorded.of(value)
    value = value() if inspect.isfunction(value) or inspect.isclass(value) else value
    return Saved(value.source, value) if isinstance(value, Record) else value


def _import_file(path: Path) -> ModuleType:
    """Import a file as a module with the name of the file, so that its classes can be pickled."""
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
