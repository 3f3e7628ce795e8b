"""All rules, grouped by what they depend on: order of positions, texts, neighboring places, or other things."""

from attnviz.core.masks.rules.order import Blocks, Dilated, Fixed, Prefix, Strided, Subsequent, Window
from attnviz.core.masks.rules.other import Blank, BlockDiffusion, Full, Global, Opened, Painted, Random
from attnviz.core.masks.rules.places import Neighborhood, PatchWindows
from attnviz.core.masks.rules.texts import Documents, Media, Padding
