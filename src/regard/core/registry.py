"""A table from names to things that answers a wrong name with the nearest right one."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from regard.core.errors import ConfigError
from regard.core.plugins import load_installed_plugins

T = TypeVar("T")
LONGEST_NAME = 100
"""Signs of a name that somebody may have meant to write."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to append to a message, or nothing when no known name is near.

    >>> did_you_mean("n_head", ["n_heads", "d_model"])
    " (did you mean 'n_heads'?)"
    """
    near = nearest(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a mistyped one; None when none is near."""
    if len(name) > LONGEST_NAME:  # comparing takes the square of its length
        return None
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


class Registry(Mapping[str, T]):
    """Read like a dictionary; filled by ``@registry.add("name")``.

    A name that is not there may be an installed plug-in's: those are loaded before it is refused.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}
        self._modules: dict[str, str] = {}
        """Name → the module that entered it."""

    def add(self, name: str, *, module: str | None = None) -> Callable[[T], T]:
        """Decorator that enters a thing under its name; a name can be entered once.

        ``module`` is who enters it, where that is not the caller.
        """
        module = module or str(sys._getframe(1).f_globals.get("__name__", "?"))

        def enter(thing: T) -> T:
            if name in self._things:
                raise ConfigError(
                    f"{self.kind} {name!r} is entered twice, by {self._modules[name]} and by "
                    f"{module}; give one of them another name"
                )
            self._things[name] = thing
            self._modules[name] = module
            return thing

        return enter

    def __getitem__(self, name: str) -> T:
        if name not in self:
            hint = did_you_mean(name, self._things)
            raise ConfigError(f"unknown {self.kind} {name!r}{hint}; known: {', '.join(self)}")
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._things:
            load_installed_plugins()
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)
