"""Peak memory: the largest tensor, all tensors together, and the objects of Python and NumPy."""

import tracemalloc

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Held(TorchDispatchMode):
    """Context manager that measures the peak memory of its thread, in bytes.

    What a first use imports counts too: use what is measured once before.

    Attributes:
        tensor: its largest tensor.
        tensors: all tensors that it made, as many as lived at once.
        arrays: all else, at its peak.
    """

    tensor, tensors, arrays = 0, 0, 0

    def __enter__(self):
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self._since = 0  # bytes of those, and of some that are gone
        tracemalloc.start(1)
        return super().__enter__()

    def __exit__(self, *raised):
        self.arrays = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self._alive.clear()
        return super().__exit__(*raised)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = function(*args, **(kwargs or {}))
        storages = [one.untyped_storage() for one in tree_leaves(given) if isinstance(one, torch.Tensor)]
        for one in storages:
            self.tensor = max(self.tensor, one.nbytes())
            self._alive[one._cdata] = StorageWeakRef(one), one.nbytes()
            self._since += one.nbytes()
        if self._since > self.tensors:
            self._alive = {at: one for at, one in self._alive.items() if not one[0].expired()}
            self._since = sum(size for _, size in self._alive.values())
            self.tensors = max(self.tensors, self._since)
        return given
