"""Hooks on the modules of a model that act in the thread that sets them: other threads may run the same model."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any

from torch import nn


def in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Make a hook that does nothing in other threads than the one that calls this function."""
    thread = get_ident()
    return lambda *arguments: hook(*arguments) if get_ident() == thread else None


@contextmanager
def before(
    modules: Iterable[nn.Module], change: Callable[[nn.Module, tuple, dict[str, Any]], tuple[tuple, dict[str, Any]]]
) -> Iterator[None]:
    """Context manager that passes the arguments of modules through `change` before each call."""
    change = in_this_thread(change)
    with ExitStack() as hooks:  # leaving the context of a hook removes it
        for module in modules:
            hooks.enter_context(module.register_forward_pre_hook(change, with_kwargs=True))
        yield


@contextmanager
def watching(modules: Iterable[nn.Module], keep: Callable[[nn.Module, tuple, Any], None]) -> Iterator[None]:
    """Context manager that calls `keep` with each module, its inputs and its output, after each call."""
    keep = in_this_thread(keep)
    with ExitStack() as hooks:
        for module in dict.fromkeys(modules):
            hooks.enter_context(module.register_forward_hook(keep))
        yield
