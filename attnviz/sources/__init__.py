"""What turns text into a record."""
