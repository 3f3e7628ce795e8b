"""The head that is shown as a map, as lines or as a text."""
