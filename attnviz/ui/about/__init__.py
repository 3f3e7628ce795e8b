"""Facts about the chosen model."""
