"""Functions of other libraries that torch does not see: while a capture runs, a stand-in of each asks whether its
thread is watched.

`from flash_attn import flash_attn_func` binds a function to a name of the model's file. So every module of the process
whose name holds the very function holds the stand-in for the time of the capture. A stand-in calls the function as it
was called, in the same way in threads that no capture watches.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from torch.overrides import handle_torch_function, has_torch_function

LIBRARIES = {
    "flash_attn": (
        "flash_attn_func",
        "flash_attn_qkvpacked_func",
        "flash_attn_kvpacked_func",
        "flash_attn_varlen_func",
        "flash_attn_varlen_qkvpacked_func",
        "flash_attn_varlen_kvpacked_func",
        "flash_attn_with_kvcache",
    ),
    "xformers.ops": ("memory_efficient_attention",),
}
"""Functions of attention by the module that a model imports them from."""

_lock = threading.Lock()
_running = 0
_stand_ins: dict[Callable, Callable] = {}


@contextmanager
def replaced() -> Iterator[None]:
    """Have the stand-ins in place until the last capture of all threads ends."""
    global _running
    with _lock:
        for library, names in LIBRARIES.items():
            functions = [getattr(sys.modules.get(library), name, None) for name in names]
            for function in {*functions} - {None, *_stand_ins, *_stand_ins.values()}:
                _stand_ins[function] = _stand_in(function)
        _exchange(_stand_ins)
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                _exchange({stand_in: function for function, stand_in in _stand_ins.items()})
                _stand_ins.clear()


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        if has_torch_function((None,)):  # a mode of this thread is at work
            return handle_torch_function(watched, (None,), *args, **kwargs)
        return function(*args, **kwargs)

    return watched


def _exchange(functions: dict[Callable, Callable]) -> None:
    """Put other functions in the place of some, under every name of a module."""
    by_id = {id(old): new for old, new in functions.items()}
    for module in list(sys.modules.values()) if by_id else ():
        names = getattr(module, "__dict__", {})
        for name, value in list(names.items()):
            if id(value) in by_id:
                names[name] = by_id[id(value)]
