"""Transformers written from scratch, whose attention calls can be captured and edited through a tap."""
