"""Every setting that a link holds, by its name: each is declared by the feature that it belongs to."""

from attnviz.ui.compare import other
from attnviz.ui.heads import forms as choice
from attnviz.ui.masks import added, checking, conventions, leaks, tabs
from attnviz.ui.overview import numbers, reach
from attnviz.ui.overview import page as overview
from attnviz.ui.shared import editing, effects, examples, looking, masking, parameters, pretrained
from attnviz.ui.shared.state import Setting
from attnviz.ui.steps import changes, parts, play, rail

FEATURES = (
    *(pretrained, parameters, examples, looking, masking, editing, added, choice, effects),
    *(tabs, conventions, leaks, checking),
    *(play, changes, rail, parts),
    *(other, overview, numbers, reach),
)
"""The modules that declare settings, in the order of the controls."""

_declared = (value for feature in FEATURES for value in vars(feature).values())
_flat = (one for value in _declared for one in (value if isinstance(value, tuple) else (value,)))

LINKED: dict[str, Setting] = {one.name: one for one in _flat if isinstance(one, Setting) and one.encode}
