"""The parts of a claim, each of which came true or did not."""

from __future__ import annotations

from collections.abc import Mapping


def unmet(parts: Mapping[str, bool]) -> str:
    """The end of a finding: what did not come true, or nothing.

    >>> unmet({"the sky is blue": True, "grass is red": False})
    ' Not seen here: grass is red.'
    """
    missing = [part for part, seen in parts.items() if not seen]
    return f" Not seen here: {'; '.join(missing)}." if missing else ""
