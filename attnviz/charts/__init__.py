"""Pictures of records: pure functions that give Altair charts (and one full-Vega spec), for screen and files."""
