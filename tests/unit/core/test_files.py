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


@pytest.mark.parametrize("name", ["", ".", "folder", "folder/.."])
def test_a_folder_is_no_file_to_write(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    with pytest.raises(CheckpointError, match="it is a folder; name a file"):
        write_whole(Path(name), "x")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "grüße")
    assert os.read(reader, 99).decode() == "grüße"
    os.close(reader)
    assert [p.is_fifo() for p in tmp_path.iterdir()] == [True]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    link, home = tmp_path / "link.txt", tmp_path / "far" / "home.txt"
    link.symlink_to(home)
    for text in ("new", "newer"):  # its file is not there, then it is
        write_whole(link, text)
        assert (home.read_text(), link.is_symlink()) == (text, True)
    assert [p.name for p in home.parent.iterdir()] == ["home.txt"]


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
