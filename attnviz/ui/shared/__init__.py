"""Code that several pages share: the state, the bars, the cache, pictures and text. It imports no page."""
