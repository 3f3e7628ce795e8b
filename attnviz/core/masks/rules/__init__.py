"""All rules, grouped by what they depend on: positions, texts, or other things."""

from attnviz.core.masks.rules.order import (
    Blocks,
    Dilated,
    Fixed,
    Neighborhood,
    PatchWindows,
    Prefix,
    Strided,
    Subsequent,
    Window,
)
from attnviz.core.masks.rules.other import Blank, BlockDiffusion, Full, Global, Opened, Painted, Random
from attnviz.core.masks.rules.texts import Documents, Media, Padding
