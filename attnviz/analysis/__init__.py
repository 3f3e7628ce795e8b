"""Arrays and tables that are read off records."""
