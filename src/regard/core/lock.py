"""Files and folders that stand for work which one process at a time may do.

The system holds the lock for a process and takes it back when that dies, however it dies: no lock
is ever stale. A file tells people who its owner is, or was.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.core.errors import CheckpointError
from regard.core.files import telling


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether the block may do what a file stands for: nobody else does, as long as it lasts."""
    try:
        file = path.open("a+b")
    except FileNotFoundError:  # all is done, and its folder gone
        yield False
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            raise CheckpointError(
                f"cannot lock {path}: {error.strerror}; choose an --out on a disk that has locks"
            ) from error
        file.truncate(0)
        file.write(f"{socket.gethostname()}, process {os.getpid()}\n".encode())
        file.flush()
        yield True


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until nobody else is inside such a block with this folder, then enter it."""
    with telling(folder):
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
