"""A model's named arrays, watched without touching it."""
