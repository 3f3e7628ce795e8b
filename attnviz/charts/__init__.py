"""Charts: Vega-Lite specifications and their tables (and one Vega specification), for screen and files."""
