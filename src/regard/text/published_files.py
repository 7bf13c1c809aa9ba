"""The files of published tokenizers: what is damaged is told, with its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError

MOST_IDS = 2**31
"""No model has as many rows."""


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file, empty where there is no file."""
    if not path.exists():
        return {}
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # no JSON, or lists without end
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path} must hold an object, and holds {type(found).__name__}")
    return found


def read_vocabulary(path: Path) -> dict[str, int]:
    """Tokens with their ids: a number may be left out, none may stand twice."""
    _check_there(path)
    found = read_object(path)
    wrong = [f"{token!r}: {one!r}" for token, one in found.items() if not _is_id(one)]
    if wrong or not found:
        told = wrong[0] if wrong else "nothing"
        raise CheckpointError(f"{path} is damaged: expected a number for each token, found {told}")
    if len(set(found.values())) < len(found):
        raise CheckpointError(f"{path} is damaged: two of its tokens have the same number")
    return found


def _is_id(one: object) -> bool:
    return type(one) is int and 0 <= one < MOST_IDS


def read_lines(path: Path) -> list[str]:
    """Lines as line breaks make them; other signs that Python takes for one may be tokens."""
    _check_there(path)
    return read_text(path).removesuffix("\n").split("\n")


def _check_there(path: Path) -> None:
    if not path.exists():
        raise CheckpointError(
            f"{path.parent} has no tokenizer: neither tokenizer.json nor {path.name}"
        )


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is damaged: it is no UTF-8 ({error})") from error
