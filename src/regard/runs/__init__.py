"""A run folder as one object, and what fills it."""
