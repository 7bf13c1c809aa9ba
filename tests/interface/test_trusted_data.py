"""The ``config.yaml`` of a run that somebody else trained, and the files that it names."""

import shutil
from pathlib import Path

import pytest
import yaml

import regard
from regard.cli.main import main
from regard.core import state
from regard.core.errors import DataError
from regard.tasks.base import TASKS


@pytest.fixture
def stranger(run_path, tmp_path, monkeypatch):
    """The same run as somebody sent it, on a machine that has noted nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(state, "_noted", set())
    shutil.copytree(run_path, tmp_path / "theirs")
    return tmp_path / "theirs"


def scores(run):
    return TASKS[run.task].evaluate(run, "valid").scores


def test_a_run_that_was_trained_here_needs_no_flag(run_path, capsys):
    assert main(["evaluate", str(run_path), "--json"]) == 0
    assert '"bleu"' in capsys.readouterr().out


@pytest.mark.parametrize("verb", [["evaluate"], ["evaluate", "--split", "valid"], ["heads"]])
def test_the_data_of_a_strangers_run_is_not_read(stranger, capsys, verb):
    assert main([verb[0], str(stranger), *verb[1:]]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "was not trained here" in told
    assert "--trust-data" in told


def test_a_file_of_the_system_is_never_shown(stranger, capsys):
    settings = yaml.safe_load((stranger / "config.yaml").read_text())
    settings["data"]["valid"] = "/etc/hostname"
    (stranger / "config.yaml").write_text(yaml.safe_dump(settings))
    run = regard.load(stranger)
    with pytest.raises(DataError, match="--trust-data"):
        scores(run)
    secret = Path("/etc/hostname").read_text().strip()
    assert secret not in str(TASKS[run.task].examples(run))  # they lie in the folder


@pytest.mark.parametrize("name", ["sub/*/valid.tsv", "packed.tsv"])
def test_links_behind_a_pattern_or_another_ending_are_not_followed(stranger, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "valid.tsv").write_text("a\tb\n")
    (stranger / "sub").mkdir()
    (stranger / "sub" / "x").symlink_to(elsewhere)
    (stranger / "packed.tsv.gz").symlink_to(elsewhere / "valid.tsv")
    settings = yaml.safe_load((stranger / "config.yaml").read_text())
    for split in ("train", "valid", "test"):
        settings["data"][split] = str(stranger / name)
    (stranger / "config.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(DataError, match="--trust-data"):
        scores(regard.load(stranger))


def test_what_reads_no_data_works(stranger):
    assert isinstance(regard.load(stranger).translate("a b"), str)


def test_trust_is_remembered_for_this_folder_and_this_data(stranger, tmp_path, capsys):
    assert main(["evaluate", str(stranger), "--trust-data"]) == 0
    state._noted.clear()  # as in another process
    assert main(["evaluate", str(stranger)]) == 0
    settings = yaml.safe_load((stranger / "config.yaml").read_text())
    settings["data"]["test"] = settings["data"]["valid"]
    (stranger / "config.yaml").write_text(yaml.safe_dump(settings))
    assert main(["evaluate", str(stranger)]) == 2
    settings["data"]["test"] = None
    moved = stranger.rename(tmp_path / "moved")
    assert main(["evaluate", str(moved)]) == 2
    assert scores(regard.load(moved, trust_data=True))["n"] == 40


def test_files_inside_the_run_folder_are_its_own(stranger):
    settings = yaml.safe_load((stranger / "config.yaml").read_text())
    for name in ("train", "valid", "test"):
        both = settings["data"][name]
        for side, file in enumerate([both] if isinstance(both, str) else both):
            shutil.copy(file, stranger / f"{name}-{side}.tsv")
        paths = [
            str(stranger / f"{name}-{i}.tsv") for i in range(1 if isinstance(both, str) else 2)
        ]
        settings["data"][name] = paths if len(paths) == 2 else paths[0]
    (stranger / "config.yaml").write_text(yaml.safe_dump(settings))
    assert main(["evaluate", str(stranger)]) == 0
    (stranger / "train-0.tsv").unlink()
    (stranger / "train-0.tsv").symlink_to("/etc/hostname")
    assert main(["evaluate", str(stranger)]) == 2


def test_where_no_note_can_be_written_trust_lasts_for_the_process(stranger, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert scores(regard.load(stranger, trust_data=True))["n"] == 40
    assert scores(regard.load(stranger))["n"] == 40
