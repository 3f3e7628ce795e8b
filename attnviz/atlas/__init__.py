"""Behavior of every head of a model over a corpus: built shard by shard, kept as Parquet, asked by DuckDB.

    attnviz.atlas.build("story", "stories.txt", "atlas")
    attnviz.atlas.open("atlas").heads("previous_token > 0.9")

Workers and questions in SQL need `pip install attnviz[atlas]`.
"""

from attnviz.atlas.building import build, of_texts
from attnviz.atlas.engine import Engine
from attnviz.atlas.measure import Options
from attnviz.atlas.opened import Atlas, open
