"""Sources, which turn text into a record."""
