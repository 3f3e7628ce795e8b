"""Measure every head of a model over a corpus: built shard by shard, stored as Parquet, queried with DuckDB.

    attnviz.atlas.build("story", "stories.txt", "atlas")
    attnviz.atlas.open("atlas").heads("previous_token > 0.9")

Workers and SQL conditions need `pip install attnviz[atlas]`.
"""

from attnviz.atlas.building import Engine, build, of_texts
from attnviz.atlas.measure import Options
from attnviz.atlas.opened import Atlas, open
