"""One training a folder: a lock that its owner holds, and that falls with it.

The system takes the lock from a process that ends, however it ends, so that nothing is ever left
behind that somebody has to delete. The file says who the owner is.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.core.files import telling

NAME = "training.lock"
ASKED = 0.2
"""Seconds for which somebody who only asks who trains may hold the lock."""


class FolderLock:
    """A folder that is ours. ``launch`` names what started this process, if anything did."""

    def __init__(self, path: Path, launch: str) -> None:
        self._path, self._launch = path, launch
        with telling(path):
            self._file = _taken(path)
        self.is_started_again = bool(launch) and _owner(self._file).get("launch") == launch
        """Whether the last owner was started by the same, had begun, and did not end."""
        self._begun = self.is_started_again
        self._write()

    def begin(self) -> None:
        """From now on the folder holds what this process, or one started after it, goes on with."""
        self._begun = True
        self._write()

    def end(self) -> None:
        """What was begun has come to its end: nobody is to go on with it."""
        self._begun = False

    def release(self) -> None:
        """Give the folder back. Who was stopped on the way leaves a note of what started it.

        A launch whose processes grow in number stops all of them, and starts them again.
        """
        if not (self._begun and self._launch):
            self._path.unlink(missing_ok=True)
        os.close(self._file)

    def _write(self) -> None:
        owner: dict[str, Any] = {"host": socket.gethostname(), "process": os.getpid()}
        if self._begun:
            owner["launch"] = self._launch
        with telling(self._path):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(owner).encode(), 0)


@contextmanager
def locked(folder: Path, launch: str = "") -> Iterator[FolderLock]:
    """Inside the block the folder is ours; one that is somebody else's is refused.

    It is made where there is none, and deleted where nothing was put into it.
    """
    made = not folder.exists()
    with telling(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FolderLock(folder / NAME, launch)
        try:
            yield lock
        finally:
            lock.release()
    finally:
        if made and not any(folder.iterdir()):
            folder.rmdir()


def check_free(folder: Path) -> None:
    """Refuse a folder that somebody trains in now."""
    if (trainer := trainer_of(folder)) is not None:
        raise _is_taken(folder, trainer)


def check_has_begun(folder: Path) -> None:
    """Refuse a folder that lacks something because its training runs and has saved no weights."""
    if (trainer := trainer_of(folder)) is not None:
        raise CheckpointError(
            f"{folder} is still being trained by {trainer} and has no weights yet; wait for its "
            "first validation"
        )


def trainer_of(folder: Path) -> str | None:
    """Who trains in a folder now, as ``process N on HOST``; None where nobody does."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # given back when the file is closed
    except BlockingIOError:
        return _named(_owner(file))
    finally:
        os.close(file)
    return None


def _is_taken(folder: Path, trainer: str) -> CheckpointError:
    return CheckpointError(
        f"{folder} is being trained by {trainer}; wait for it, stop it, or choose another --out"
    )


def _named(owner: dict[str, Any]) -> str:
    return f"process {owner.get('process', 'unknown')} on {owner.get('host', 'this machine')}"


def _taken(path: Path) -> int:
    """The open file, locked; it must be the one that has the name, for its owner deletes it."""
    until = time.monotonic() + ASKED
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            trainer = _named(_owner(file))
            os.close(file)
            if time.monotonic() < until:
                time.sleep(ASKED / 10)
                continue
            raise _is_taken(path.parent, trainer) from None
        try:
            if path.lstat().st_ino == os.fstat(file).st_ino:
                return file
        except FileNotFoundError:
            pass
        os.close(file)


def _owner(file: int) -> dict[str, Any]:
    """What the file says; nothing where it is being written."""
    try:
        found = json.loads(os.pread(file, 4096, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
