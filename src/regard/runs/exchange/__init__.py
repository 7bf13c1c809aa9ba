"""Runs from the formats of others, and into them."""
