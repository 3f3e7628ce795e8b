"""The attention of any PyTorch model, seen and edited while it runs in its own code: see `capture`.

One `torch.overrides.TorchFunctionMode`, of this thread alone, watches the functions of torch that attention is made
of. Functions of other libraries have stand-ins meanwhile that let it watch them, too. Nothing in the model is changed,
and nothing is left behind, also after an error.
"""

from attnviz.capturing.mode import capture
from attnviz.capturing.seen import Capture
