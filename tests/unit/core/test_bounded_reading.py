"""Files that would take all memory, never end, or say too much."""

import os

import pytest

from regard.checkpoints.run_folder import RunFolder, read_weights
from regard.cli.main import main
from regard.core import yaml_text
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import parse_json, read_bytes, read_json, read_text
from regard.core.settings import MOST_PROBLEMS
from regard.core.yaml_text import parse_yaml, read_yaml
from regard.tasks.recipe import recipe_from

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""300 bytes that stand for a billion values."""


def test_an_alias_bomb_is_refused_before_it_is_unfolded():
    with pytest.raises(ConfigError, match="aliases stand for more than 100,000 values"):
        parse_yaml(BOMB)


def test_a_few_aliases_are_fine():
    assert parse_yaml("a: &a [1, 2]\nb: *a\nc: [*a, *a]")["c"] == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("&a [*a]", "part of"),
        ("[" * 60 + "]" * 60, "more than 50 deep"),
        ("[" * 1000, "too deep"),
        ("a: " + "9" * 5000, "a number of 5,000 signs"),
        ("a: 1" + ":59" * 2000, "a number of 6,001 signs"),
        ("a: !!timestamp x", "no attribute"),
        ("a: !!int x", "invalid literal"),
        ("a: !!bool x", "'x'"),
        ("a: !!int ''", "index"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("a: 1\na: 2", "'a' stands there twice"),
        ("a: \x00", "not allowed"),
        ("? [a]\n: 1", "list"),
    ],
)
def test_yaml_that_is_none_is_one_short_error(text, told):
    with pytest.raises(ConfigError, match=told) as caught:
        parse_yaml(text)
    assert len(str(caught.value)) <= 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 5000, "too deep"),
        ("[" * 200 + "]" * 200, "more than 100 deep"),
        ("9" * 5000, "a number of 5,000 digits"),
        ('{"a": ', "Expecting value"),
    ],
)
def test_json_that_is_none_is_one_short_error(tmp_path, text, told):
    with pytest.raises(ValueError, match=told):
        parse_json(text)
    path = tmp_path / "scores.json"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=rf"scores\.json is damaged: .*{told}"):
        read_json(path)


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfkey: 1")
    assert read_text(path) == "key: 1"
    assert read_yaml(path) == {"key": 1}
    path.write_bytes(b'\xef\xbb\xbf{"key": 1}')
    assert read_json(path) == {"key": 1}


def test_pipes_devices_and_what_is_too_large_are_never_read(tmp_path):
    pipe, link, large = (tmp_path / name for name in ("pipe", "link", "large"))
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    with large.open("wb") as file:
        file.truncate(2**40)  # takes no room on the disk
    for path in (pipe, link):
        with pytest.raises(CheckpointError, match="not a regular file"):
            read_bytes(path)
    with pytest.raises(CheckpointError, match=r"1,099,511,627,776 bytes, and .* may have"):
        read_text(large)
    with pytest.raises(CheckpointError, match="cannot read"):
        read_text(tmp_path)


@pytest.mark.parametrize("name", ["config.yaml", "config.json"])
def test_a_run_whose_files_are_pipes_is_told_in_one_line(tmp_path, capsys, name):
    (tmp_path / "config.yaml").write_text("data: {world: copy}\ntrain: {max_steps: 1}\nmodel: {}\n")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert main(["info", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_weights_that_are_a_pipe_are_told_in_one_line(tmp_path):
    folder = RunFolder(tmp_path)
    os.mkfifo(folder.weights)
    with pytest.raises(CheckpointError, match="it is not a regular file"):
        read_weights(folder)


def test_a_bomb_in_a_recipe_or_a_run_is_one_short_line(tmp_path, capsys):
    (tmp_path / "config.yaml").write_text(BOMB)
    for words in (["train", str(tmp_path / "config.yaml")], ["info", str(tmp_path)]):
        assert main(words) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert len(told) < 300


def test_a_recipe_of_more_than_a_mebibyte_is_refused(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text("#" * (yaml_text.MOST_BYTES + 1))
    assert main(["train", str(tmp_path / "mine.yaml")]) == 2
    assert "1,048,577 bytes" in capsys.readouterr().err


def test_of_many_problems_some_are_told_and_long_values_are_cut():
    strange = {f"strange{i}": "x" * 10_000 for i in range(5000)}
    train = {"max_steps": 1, "seed": ["y" * 10_000], **strange}
    with pytest.raises(ConfigError) as caught:
        recipe_from({"data": {"world": "copy"}, "train": train})
    told = str(caught.value)
    assert f"and {5001 - MOST_PROBLEMS:,} more problems" in told
    assert len(told) < 20_000
    assert "y" * 200 not in told


def test_a_whole_number_of_more_than_64_bits_is_no_setting():
    with pytest.raises(ConfigError, match=r"^train\.max_steps: no setting .* 64 bits"):
        recipe_from({"data": {"world": "copy"}, "train": {"max_steps": 10**21}})


@pytest.mark.parametrize("name", ["\x1b[2J\x9b31m", "y/" * 3000])
def test_a_message_never_steers_a_terminal_and_is_never_endless(capsys, name):
    assert main(["info", name]) == 2
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert "\x9b" not in told
    assert len(told) < 5000
