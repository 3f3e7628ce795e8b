"""Every rule, by what it goes by: the order of positions, texts, places that are near each other, or anything else."""

from attnviz.core.masks.rules.order import Blocks, Dilated, Fixed, Prefix, Strided, Subsequent, Window
from attnviz.core.masks.rules.other import Blank, BlockDiffusion, Full, Global, Opened, Painted, Random
from attnviz.core.masks.rules.places import Neighborhood, PatchWindows
from attnviz.core.masks.rules.texts import Documents, Media, Padding
