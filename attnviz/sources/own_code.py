"""A user's own code: a Python file such as `my_model.py:build`, or a function that makes records, as a source.

Errors become one sentence. Models run one at a time, without dropout.
"""

import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

import attnviz
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.sources.saved import Saved

_LIBRARIES = (*(str(Path(module.__file__).parent) for module in (torch, attnviz)), "<frozen ")
"""Beginnings of the paths of code that does not belong to the user."""
LOCK = threading.RLock()
"""Lock to hold while a user's model runs or its weights change."""


def build(file: str, name: str) -> Source:
    """Import a file and return the source that a name in it refers to, or that a function with this name returns.

    A function with one argument must take edits and return a record, as for `attnviz.show`. Raises InputError if the
    value is not a source.
    """
    source = value_of(file, name)
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
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)  # so that its classes can be pickled
    with errors_said():
        spec.loader.exec_module(module)
    if not hasattr(module, name):
        own_names = [key for key, item in vars(module).items() if getattr(item, "__module__", None) == module.__name__]
        raise InputError(f"{path.name} has no {quoted(name)}. It has: {', '.join(own_names) or 'nothing'}.")
    value = getattr(module, name)
    if inspect.isfunction(value) and required_arguments(value) == 1:
        return Recorded.of(value)
    if inspect.isfunction(value) or inspect.isclass(value):
        with errors_said():
            value = value()
    return Saved(value.source, value) if isinstance(value, Record) else value


def required_arguments(function: Callable[..., Any]) -> int:
    """Number of positional arguments of a function without a default."""
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = inspect.signature(function).parameters.values()
    required = [each for each in parameters if each.kind in positional and each.default is each.empty]
    return len(required)


@dataclass(frozen=True, eq=False)
class Recorded(Saved):
    """A source with one fixed input, such as a picture, that can be run again with edits.

    Attributes:
        record: record of the run without edits.
        make: function that runs the model with edits.
    """

    make: Callable[[Edits], Record]
    alone = ""
    does = "Your own model, run in its own code on one input. Nothing of it was measured here."
    lock = LOCK

    @classmethod
    def of(cls, make: Callable[[Edits], Record]) -> Self:
        """Call a function that takes edits without any edits, and make a source of the record that it returns."""
        with errors_said():
            record = make(Edits())
        if not isinstance(record, Record):
            problem = f"The function returned {quoted(type(record).__name__)}"
            raise InputError(f"{problem}; it takes Edits and gives a Record, see attnviz.capture.")
        return cls(record.source, record, make)

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model on its fixed input, with edits; other sentences and targets are refused."""
        if edits == Edits() or targets or self.read_only:
            return super().run(sentences, edits, targets)
        self.check_own(sentences)
        with self.lock, errors_said():
            return replace(self.make(edits), edits=edits)


@contextmanager
def errors_said() -> Iterator[None]:
    """Turn an error of a user's code in a `with` block into an InputError with the innermost line of this code.

    Errors of attnviz pass unchanged.
    """
    try:
        yield
    except AttnvizError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError):
            lines, message = [(error.filename, error.lineno)], error.msg
        else:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [(frame.filename, frame.lineno) for frame in frames if not frame.filename.startswith(_LIBRARIES)]
            message = " ".join(str(error).split())
        file, number = lines[-1] if lines else ("", 0)
        location = f"Line {number} of {Path(str(file)).name}" if lines else "Code outside of attnviz"
        raise InputError(f"{location} raised {type(error).__name__}: {message[:300]}") from error


@contextmanager
def in_evaluation(model: nn.Module) -> Iterator[None]:
    """Context manager that runs a model in evaluation mode; at the end, each module gets its previous mode back."""
    in_training = [module for module in model.modules() if module.training]
    for module in in_training:
        module.training = False
    try:
        yield
    finally:
        for module in in_training:
            module.training = True


@torch.no_grad()
def moment_of(model: nn.Module) -> int:
    """Hash that changes with the weights, made from torch's version counter and the first 8 numbers of each tensor."""
    states = []
    for tensor in (*model.parameters(), *model.buffers()):
        numbers = tuple(tensor.detach().reshape(-1)[:8].double().nan_to_num().tolist())
        version = 0 if tensor.is_inference() else tensor._version  # inference tensors count no versions
        states.append((id(tensor), tensor.data_ptr(), version, numbers))
    return hash(tuple(states))
