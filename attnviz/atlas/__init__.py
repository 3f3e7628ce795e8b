"""What every head of a model does over a corpus: built shard by shard, kept as Parquet, asked by DuckDB.

    attnviz.atlas.build("story", "stories.txt", "atlas")
    attnviz.atlas.open("atlas").heads("previous_token > 0.9")

It needs `pip install attnviz[atlas]`; nothing else of attnviz does.
"""

from attnviz.atlas.building import build
from attnviz.atlas.engine import Engine
from attnviz.atlas.measure import Options
from attnviz.atlas.opened import Atlas, open
