"""Safetensors files that carry the SHA-256 of themselves, so that a flipped bit is noticed.

The digest stands in the metadata of the header and covers every byte of the file, taken with zeros
where the digest stands. So there is one file, whole or not there, and no second that could be left
behind. SHA-256 and not a checksum such as CRC-32: it hashes 1.8 GB/s on a current CPU, where disks
and safetensors take longer, and two checkpoints of the same digest are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from safetensors.torch import save
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.core.files import whole_file

DIGEST = "sha256"
"""Its name in the metadata."""
_NONE = "0" * 64
_BLOCK = 2**22
_MOST_HEADER = 10**8
"""Bytes; what safetensors allows."""


def write_digested(path: Path, tensors: dict[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file, whole or not at all, with its digest."""
    data = memoryview(save(tensors, metadata={**metadata, DIGEST: _NONE}))
    end = 8 + int.from_bytes(data[:8], "little")
    digest = hashlib.sha256(data).hexdigest()
    header = bytes(data[:end]).replace(_field(_NONE), _field(digest), 1)
    with whole_file(path) as file:
        file.write(header)
        file.write(data[end:])


def check_digest(path: Path) -> None:
    """Refuse a file whose bytes are not those that were written; one without a digest passes."""
    try:
        with path.open("rb") as file:
            head = _header(file)
            told = _told(head)
            if told is None:
                return
            found = hashlib.sha256(head.replace(_field(told), _field(_NONE), 1))
            while block := file.read(_BLOCK):
                found.update(block)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if found.hexdigest() != told:
        raise CheckpointError(f"{path} is damaged: its bytes are not those that were written")


def _field(digest: str) -> bytes:
    return f'"{DIGEST}":"{digest}"'.encode()


def _header(file: BinaryIO) -> bytes:
    """The length of the header and the header."""
    length = file.read(8)
    n = int.from_bytes(length, "little")
    if len(length) < 8 or n > _MOST_HEADER:
        raise ValueError("it does not begin as a safetensors file does")
    return length + file.read(n)


def _told(head: bytes) -> str | None:
    """The digest that a header tells, if it tells one."""
    found = json.loads(head[8:])
    metadata = found.get("__metadata__") if isinstance(found, dict) else None
    told = metadata.get(DIGEST) if isinstance(metadata, dict) else None
    if told is not None and not isinstance(told, str):
        raise ValueError(f"its {DIGEST} is not text")
    return told
