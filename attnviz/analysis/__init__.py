"""What is read off records: arrays and tables."""
