"""Finding a row of an attention by its token."""

from __future__ import annotations

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.text.tokenizer import SPACE

_NAMED = 30
"""So many rows of a long sentence are named where another was asked for."""


def row_of(token: str | int, rows: tuple[str, ...], name: str) -> int:
    """The number of a token's row."""
    at = token if isinstance(token, int) else found(token, rows)
    if at is None:
        hint = did_you_mean(str(token), rows)
        raise ConfigError(f"no row of {name} is {token!r}{hint}; its rows are {some(rows)}")
    if not 0 <= at < len(rows):
        raise ConfigError(f"{name} has rows 0 to {len(rows) - 1}, not {at}")
    return at


def found(token: str, rows: tuple[str, ...]) -> int | None:
    """The first row of that name; the sign for a space may be left out."""
    plain = [row.removeprefix(SPACE) for row in rows]
    for known in (list(rows), plain):
        if token in known:
            return known.index(token)
    return None


def some(tokens: tuple[str, ...]) -> str:
    """Tokens, not too many."""
    return " ".join(tokens[:_NAMED]) + (" …" if len(tokens) > _NAMED else "")
