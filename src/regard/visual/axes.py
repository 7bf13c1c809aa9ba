"""What stands along the sides of an attention: tokens, patches of a picture, frames or nodes.

A look has several ``sides`` (``source``, ``target``, …), each an ``Axis``, and tells of every
attention which side its rows and which its columns are. Nothing that draws assumes words: it asks
an axis for its labels, and for its grid where positions lie in a plane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

from regard.core.errors import ConfigError, ShapeError

Kind = Literal["tokens", "patches", "frames", "nodes"]
Sides = Mapping[str, "Axis"]


@dataclass(frozen=True, slots=True)
class Axis(Sequence[str]):
    """The positions along one side; as a sequence it is their labels."""

    labels: tuple[str, ...]
    kind: Kind = "tokens"
    grid: tuple[int, int] | None = None
    """Of patches: rows and columns of the picture, row by row. What stands before the patches (a
    class token) has labels of its own and no place in the grid."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigError(f"an axis is of {', '.join(get_args(Kind))}, not of {self.kind!r}")
        if (self.kind == "patches") != (self.grid is not None):
            raise ConfigError(f"patches alone have a grid, got {self.kind} and {self.grid}")
        if self.n_before < 0:
            raise ShapeError(f"a grid of {self.grid} patches needs more than {len(self)} labels")

    @classmethod
    def patches(cls, rows: int, columns: int, before: Sequence[str] = ()) -> Axis:
        """Patches named by their row and column, after what stands before them."""
        names = (f"{row},{column}" for row in range(rows) for column in range(columns))
        return cls((*before, *names), "patches", (rows, columns))

    @classmethod
    def frames(cls, n: int, seconds: float | None = None) -> Axis:
        """Frames named by when they begin, or by their number where their length is not known."""
        names = (str(i) if seconds is None else f"{i * seconds:.2f}s" for i in range(n))
        return cls(tuple(names), "frames")

    @property
    def n_before(self) -> int:
        """Positions before the first patch; 0 where there is no grid."""
        return 0 if self.grid is None else len(self.labels) - self.grid[0] * self.grid[1]

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[str, ...]: ...
    def __getitem__(self, i: int | slice) -> str | tuple[str, ...]:
        return self.labels[i]

    def __len__(self) -> int:
        return len(self.labels)

    def as_json(self) -> dict[str, Any]:
        """``kind``, ``labels`` and, of patches, ``grid``."""
        grid = {} if self.grid is None else {"grid": list(self.grid)}
        return {"kind": self.kind, "labels": list(self.labels), **grid}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Axis:
        """What ``as_json`` gave."""
        grid = said.get("grid")
        return cls(tuple(said["labels"]), said["kind"], None if grid is None else tuple(grid))


def token_sides(source: Sequence[str], target: Sequence[str]) -> dict[str, Axis]:
    """The sides of a look at texts: ``input`` is what a decoder has read when it writes a token."""
    read, written = Axis(tuple(source)), Axis(tuple(target))
    before, both = Axis(("<s>", *written[:-1])), Axis((*read, *written))
    return {"source": read, "target": written, "label": written, "input": before, "text": both}


def sides_of(payload: Mapping[str, Any]) -> dict[str, Axis]:
    """The sides that a payload names; of one that names none, those of its tokens."""
    tokens = token_sides(payload["source_tokens"], payload["target_tokens"])
    return tokens | {name: Axis.from_json(one) for name, one in payload.get("sides", {}).items()}


def named_sides(name: str) -> dict[str, str]:
    """Which sides an attention has where nothing says so: its name tells."""
    if name == "encoder.self":
        return {"rows": "source", "columns": "source"}
    return {"rows": "target", "columns": "input" if name == "decoder.self" else "source"}
