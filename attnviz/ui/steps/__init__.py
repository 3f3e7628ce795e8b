"""The page Steps: one file per part of it."""
