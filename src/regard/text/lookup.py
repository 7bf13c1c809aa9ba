"""Tables of tokens that others made, as tokenizers of ours: a token is a character, or a word."""

from __future__ import annotations

from collections.abc import Sequence

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers

from regard.text.specials import SPECIALS, UNKNOWN


def character_table(tokens: Sequence[str]) -> tokenizers.Tokenizer:
    """Tokens in the order of their ids, our special ones first, then characters."""
    inner = _table(tokens)
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    return inner


def word_table(tokens: Sequence[str]) -> tokenizers.Tokenizer:
    """Tokens in the order of their ids, our special ones first, then words."""
    inner = _table(tokens)
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return inner


def _table(tokens: Sequence[str]) -> tokenizers.Tokenizer:
    ids = {token: number for number, token in enumerate(tokens)}
    inner = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    inner.add_special_tokens(list(SPECIALS))
    return inner
