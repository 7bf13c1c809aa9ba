"""Kernels of our own, in Triton. Nothing here is imported before a GPU asks for it."""
