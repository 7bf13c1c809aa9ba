"""Kernels of our own, in Triton. No module here is imported before a GPU asks for it."""

from importlib.util import find_spec

HAS_TRITON = find_spec("triton") is not None
