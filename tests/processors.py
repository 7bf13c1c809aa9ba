"""What this machine's processor can do, where a test depends on it."""

from pathlib import Path


def adds_eight_bits_exactly():
    """Whether it has VNNI: without, products of bytes are added in 16 bits, which overflow."""
    about = Path("/proc/cpuinfo")
    return not about.exists() or "vnni" in about.read_text()
