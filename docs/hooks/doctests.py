"""Examples in docstrings (``>>>``) are shown as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"(?:^|(?<=\n\n))(>>> .*?)(?=\n\n|\Z)", re.DOTALL)


def fenced(text: str) -> str:
    """A docstring whose examples stand in fences."""
    return _EXAMPLE.sub(lambda one: f"```pycon\n{one[1].rstrip()}\n```", text)


class Doctests(Extension):
    """Changes docstrings as they are read."""

    def on_object(self, *, obj: Object, **_more: Any) -> None:
        """Each object that has one."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
