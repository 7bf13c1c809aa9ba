"""Errors, settings, names and files: what everything else stands on. No tensors."""
