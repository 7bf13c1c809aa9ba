"""CTranslate2's model.bin: named tensors in one file, read without CTranslate2.

Little-endian. The version; the specification's name and revision; the number of tensors, and for
each its name, shape, type and bytes; then, from version 3 on, other names of the same tensors.
Before version 4 a type is told by the size of its numbers alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.core.errors import CheckpointError

VERSIONS = range(2, 7)
TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
"""By number, from version 4 on."""
OLD_TYPES = {4: torch.float32, 2: torch.int16, 1: torch.int8}
"""By size in bytes, before."""
SCALE = "_scale"
"""Ends the name of what whole numbers were multiplied with."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a model.bin holds."""

    specification: str
    revision: int
    tensors: dict[str, Tensor]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, n: int) -> bytes:
        end = self.place + n
        if end > len(self.data):
            raise ValueError(f"it ends after {len(self.data)} bytes")
        found = self.data[self.place : end]
        self.place = end
        return found

    def number(self, kind: str) -> int:
        found: int = struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]
        return found

    def text(self) -> str:
        return self.take(self.number("H"))[:-1].decode("utf-8")  # a zero ends it

    def tensor(self, version: int) -> Tensor:
        shape = [self.number("I") for _ in range(self.number("B"))]
        kind, length = self.number("B"), self.number("I")
        if version >= 4:
            dtype, n_bytes = TYPES[kind], length
        else:
            dtype, n_bytes = OLD_TYPES[kind], length * kind
        data = bytearray(self.take(n_bytes))
        # torch refuses an empty buffer; a shape that asks for more than there is fails in both
        found = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
        return found.view(shape)


def read_file(path: Path) -> Kept:
    """All tensors of a model.bin by all their names, whole numbers turned back where a scale is."""
    try:
        reader = _Reader(path.read_bytes())
        version = reader.number("I")
        if version not in VERSIONS:
            raise CheckpointError(
                f"{path} is of version {version}; versions {VERSIONS[0]} to {VERSIONS[-1]} are "
                "supported"
            )
        name, revision = reader.text(), reader.number("I")
        tensors = {}
        for _ in range(reader.number("I")):
            called = reader.text()
            tensors[called] = reader.tensor(version)
        tensors = _in_full(tensors)  # before the aliases, which have no scale of their own
        for _ in range(reader.number("I") if version >= 3 else 0):
            alias = reader.text()
            tensors[alias] = tensors[reader.text()]
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, IndexError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged or no model of CTranslate2: {error}") from error
    return Kept(name, revision, tensors)


def _in_full(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Numbers as they were before they were made small, to their rounding."""
    found = {}
    for name, tensor in tensors.items():
        scale = tensors.get(name + SCALE)
        if name.endswith(SCALE) and name.removesuffix(SCALE) in tensors:
            continue
        if scale is not None and not tensor.is_floating_point():
            rows = scale.float().reshape(-1, *[1] * (tensor.dim() - 1))  # one a row, or one for all
            found[name] = tensor.float() / rows
        else:
            found[name] = tensor
    return found
