"""The parts of the page Overview: every head, its numbers, and what it is good for."""
