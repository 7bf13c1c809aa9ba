"""What this user has made or trusted on this machine, told from what came from elsewhere.

A run folder may be anybody's, and can say nothing about itself that could be relied on. So notes
are kept outside it, in ``$XDG_STATE_HOME/regard/`` (by default ``~/.local/state/regard/``): one
empty file each, whose name is the digest of what is noted.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

_noted: set[str] = set()
"""In this process: enough where the disk takes no notes."""


def note(kind: str, *facts: Any) -> None:
    """Remember facts, which are plain data; where nothing can be written, in this process only."""
    name = _name(kind, facts)
    _noted.add(name)
    with suppress(OSError, RuntimeError):  # nobody is at home
        path = state_folder() / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)


def is_noted(kind: str, *facts: Any) -> bool:
    """Whether the same facts were noted before."""
    name = _name(kind, facts)
    try:
        return name in _noted or (state_folder() / name).exists()
    except (OSError, RuntimeError):  # nobody is at home
        return False


def state_folder() -> Path:
    """Where notes and other state of this user lie; the folder may not be there yet."""
    named = os.environ.get("XDG_STATE_HOME", "")
    home = Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "state"
    return home / "regard"


def _name(kind: str, facts: Any) -> str:
    """Such as ``data/4f3a…``."""
    return f"{kind}/{sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()}"
