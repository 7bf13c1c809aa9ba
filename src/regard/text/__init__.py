"""Strings to ids and back. No tensors."""
