"""Batches and a model in, weights out. It is given an evaluator and imports none."""
