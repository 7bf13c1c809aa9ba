"""How long a text may be that is looked at."""

from __future__ import annotations

import math

from regard.core.counting import counted
from regard.core.errors import DataError
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig

MOST_WEIGHTS = 2**27
"""Of all heads together; a look takes about 16 bytes for each."""


def check_length(config: EncoderConfig | DecoderConfig, n_tokens: int) -> None:
    """Refuse a text whose weights would fill the memory."""
    n_heads = config.n_self_heads
    most = math.isqrt(MOST_WEIGHTS // n_heads) if n_heads else n_tokens
    if n_tokens > most:
        raise DataError(
            f"a look holds the weights of {counted(n_heads, 'head')} between all tokens: {most:,} "
            f"tokens can be looked at, and the text has {n_tokens:,}; take a part of it"
        )
