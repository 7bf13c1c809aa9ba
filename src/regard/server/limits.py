"""How much the server reads, queues and computes. All that is bounded is bounded here."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TEXTS = 64
"""In one request of another project's API."""
MAX_ALTERNATIVES = 7
"""Other translations of a text."""
MAX_EDITS = 16
"""What-ifs in one request."""
MAX_BEAMS = 16
"""Hypotheses kept open for a tree."""
MAX_WORDS = 50
"""Words that are suggested at once."""
MAX_KEY = 100
"""Characters of the server's key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one server takes on. The defaults suit a small model on a small machine."""

    body_bytes: int = 256 * 1024
    """A larger body gets 413."""
    tokens: int = 512
    """Of a text to translate; a longer one gets 422."""
    new_tokens: int = 32_768
    """To be written for one request, all its texts together; more get 422."""
    look_tokens: int = 128
    """Of a text to look at: weights grow with the square of the length."""
    requests: int = 512
    """Open at once; one more gets 503."""
    queue: int = 256
    """Texts that may wait for the model; beyond that, 503."""
    batch: int = 64
    """Texts translated together."""
    window: float = 0.005
    """Seconds that a text waits for company."""
    seconds: float = 30.0
    """How long a request may take; beyond that, 503."""
    measure_seconds: float = 600.0
    """How long measuring the heads may take, which a process of its own does."""
    drain: float = 10.0
    """How many seconds open requests have when the server ends."""


LIMITS = Limits()
