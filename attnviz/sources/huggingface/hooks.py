"""Hooks on the modules of a model that act in the thread that sets them: other threads may run the same model."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle


def in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Make a hook that does nothing in other threads than the one that calls this function."""
    thread = get_ident()
    return lambda *arguments: hook(*arguments) if get_ident() == thread else None


def before(
    modules: Iterable[nn.Module], change: Callable[[nn.Module, tuple, dict[str, Any]], tuple[tuple, dict[str, Any]]]
) -> Any:
    """Context manager that passes the arguments of modules through `change` before each call."""
    change = in_this_thread(change)
    return _removed_at_end([module.register_forward_pre_hook(change, with_kwargs=True) for module in modules])


def watching(modules: Iterable[nn.Module], keep: Callable[[nn.Module, tuple, Any], None]) -> Any:
    """Context manager that calls `keep` with each module, its inputs and its output, after each call."""
    keep = in_this_thread(keep)
    return _removed_at_end([module.register_forward_hook(keep) for module in dict.fromkeys(modules)])


@contextmanager
def _removed_at_end(handles: list[RemovableHandle]) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
