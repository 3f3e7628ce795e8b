"""How much is held at once: the largest tensor, and the most that Python and NumPy held together."""

import tracemalloc

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Held(TorchDispatchMode):
    """Around some code: afterwards `tensor` is the bytes of its largest tensor, `arrays` those of all else at its peak.

    What a first use imports counts too: use what is measured once before.
    """

    tensor, arrays = 0, 0

    def __enter__(self):
        tracemalloc.start(1)
        return super().__enter__()

    def __exit__(self, *raised):
        self.arrays = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return super().__exit__(*raised)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = function(*args, **(kwargs or {}))
        sizes = (one.untyped_storage().nbytes() for one in tree_leaves(given) if isinstance(one, torch.Tensor))
        self.tensor = max(self.tensor, *sizes, 0)
        return given
