"""What the chosen model is."""
