"""Texts, ids and weights to numbers."""
