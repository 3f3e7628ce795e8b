"""Pictures of records: pure functions that give Altair charts (and one full-Vega spec), for the screen and for files."""
