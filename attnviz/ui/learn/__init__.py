"""Every head of one layer, and one of them large."""
