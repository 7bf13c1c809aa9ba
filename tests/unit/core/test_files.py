import os
from pathlib import Path

import pytest

from regard.core.errors import CheckpointError
from regard.core.files import PARTIAL, write_whole


def test_a_file_is_there_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_whole(path, "grüße\n")
    assert path.read_bytes() == "grüße\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_a_failed_write_keeps_the_old_file_and_leaves_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_whole(path, "old")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"file\.txt: No space left.*still there"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert not list(tmp_path.glob(f"*{PARTIAL}"))


def test_readers_see_the_old_file_until_the_new_one_is_complete(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_whole(path, "old")
    seen = []
    replace = Path.replace
    monkeypatch.setattr(
        Path, "replace", lambda self, to: seen.append(path.read_text()) or replace(self, to)
    )
    write_whole(path, "new")
    assert (seen, path.read_text()) == (["old"], "new")
