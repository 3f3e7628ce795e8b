"""Every head of the model at once: as maps, as numbers, over many texts."""
