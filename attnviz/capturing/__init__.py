"""Capture and edit the attention of any PyTorch model while the model runs its own code: see `capture`.

A `torch.overrides.TorchFunctionMode` of the current thread intercepts the torch functions that attention is made of.
Functions of other libraries are wrapped during the capture, so that the mode intercepts them, too. The model is not
changed, and everything is restored at the end, even after an error.
"""

from attnviz.capturing.captured import Capture
from attnviz.capturing.intercept import capture
