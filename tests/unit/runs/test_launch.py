import json
from pathlib import Path

from regard.runs.launch import ERROR_FILE, LAUNCHED, MESSAGE, leave_message


def test_a_message_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    """Who started the process reads it as soon as there is a file."""
    path = tmp_path / "error.json"
    monkeypatch.setenv(LAUNCHED, "1")
    monkeypatch.setenv(ERROR_FILE, str(path))
    moved, replace = [], Path.replace

    def moving(there, here):
        moved.append(json.loads(there.read_text())[MESSAGE])
        assert not path.exists()
        return replace(there, here)

    monkeypatch.setattr(Path, "replace", moving)
    assert leave_message("no data left")
    assert json.loads(path.read_text())[MESSAGE] == "no data left"
    assert moved == ["no data left"]


def test_where_nobody_waits_for_a_message_none_is_left(monkeypatch):
    monkeypatch.delenv(LAUNCHED, raising=False)
    assert not leave_message("no data left")
