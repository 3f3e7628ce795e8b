"""All rules, grouped by what they depend on: order of positions, texts, or other things."""

from attnviz.core.masks.rules.order import Blocks, Dilated, Fixed, Prefix, Strided, Subsequent, Window
from attnviz.core.masks.rules.other import (
    Blank,
    BlockDiffusion,
    Full,
    Global,
    Neighborhood,
    Opened,
    Painted,
    PatchWindows,
    Random,
)
from attnviz.core.masks.rules.texts import Documents, Media, Padding
