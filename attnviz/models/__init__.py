"""Transformers written from scratch, on a tap."""
