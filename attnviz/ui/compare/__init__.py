"""Two maps that differ in one thing."""
