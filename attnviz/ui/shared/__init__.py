"""What several pages stand on: the state, the bars, the cache, pictures and text. It imports no page."""
