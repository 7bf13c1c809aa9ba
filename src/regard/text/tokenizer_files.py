"""Files of the ``tokenizers`` library, which may be anybody's: read within bounds.

Such a file describes a pipeline. A step may replace a sign by ten, and twelve such steps make a
trillion of it; another may fill every text up to a length. So what the steps could make of a text
is estimated before the file is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import normalizers

from regard.core.errors import CheckpointError
from regard.core.files import parse_json, read_text
from regard.core.numbers import told

MOST_EXPANSION = 1000.0
"""Signs that all steps together may make of one."""
_ODD = "\ue000"
"""A sign of nobody's, which only an expression for nothing finds a place beside."""
_STEPS = ("normalizer", "pre_tokenizer", "decoder", "post_processor")


def read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer in a file; one that could make very much of a short text is refused."""
    text = read_text(path)
    try:
        described = parse_json(text)
        inner = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(
            f"{path} is damaged or no tokenizer ({told(error)}); copy it again"
        ) from error
    for name in _STEPS:
        growth = 1.0
        for step in _steps(described.get(name)):
            growth *= _growth(step)
        if growth > MOST_EXPANSION:
            raise CheckpointError(
                f"{path} is not a tokenizer to be used: its {name} may make {growth:.0e} signs of "
                "one"
            )
    inner.no_padding()
    inner.no_truncation()
    return inner


def _steps(found: Any) -> Iterator[Mapping[str, Any]]:
    """Every step in a description, those inside sequences too."""
    if isinstance(found, dict):
        yield found
    inside = found.values() if isinstance(found, dict) else found
    for one in inside if isinstance(found, dict | list) else ():
        yield from _steps(one)


_MULTIPLYING = {"ByteLevel": 4.0, "ByteFallback": 4.0, "Precompiled": 20.0}
"""Signs that such a step may make of one: its bytes, or the longest that Unicode's forms have."""


def _growth(step: Mapping[str, Any]) -> float:
    """How many signs a step may make of one: of bytes, of others' rules, of replacing."""
    if step.get("type") in _MULTIPLYING:
        return _MULTIPLYING[step["type"]]
    made = step.get("content", step.get("prepend", ""))
    if step.get("type") not in ("Replace", "Prepend") or not isinstance(made, str):
        return 1.0
    pattern = step.get("pattern")
    found = pattern if isinstance(pattern, dict) else {}
    if (plain := found.get("String")) is not None:
        return max(1.0, len(made) / len(plain)) if plain else 1.0 + len(made)
    if (rule := found.get("Regex")) is not None:  # it may match any sign, or between all of them
        beside = normalizers.Replace(tokenizers.Regex(rule), made).normalize_str(_ODD)
        return float(max(1, len(made), len(beside)))
    return 1.0 + len(made)
