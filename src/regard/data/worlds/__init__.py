"""Data that is made by code, deterministic by seed, with ground truth for attention."""
