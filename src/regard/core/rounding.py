"""Sizes that things are given so that few sizes occur."""

from __future__ import annotations


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n ≥ 1.

    >>> [power_of_two(n) for n in (1, 2, 3, 64, 65)]
    [1, 2, 4, 64, 128]
    """
    return 1 << (n - 1).bit_length()
