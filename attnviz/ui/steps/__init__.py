"""One attention call step by step."""
