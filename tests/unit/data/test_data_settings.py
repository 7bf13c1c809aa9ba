import pytest

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.data.settings import DataSettings


def told(raw):
    with pytest.raises(ConfigError) as caught:
        parse(DataSettings, raw, "data")
    return str(caught.value)


def test_a_world_or_files_are_enough():
    assert parse(DataSettings, {"world": "sentences"}, "data").direction == "en-fr"
    assert parse(DataSettings, {"train": "a.tsv"}, "data").train == "a.tsv"
    assert parse(DataSettings, {"train": ["a.en", "a.fr"]}, "data").train == ("a.en", "a.fr")


def test_no_data_at_all_is_refused():
    assert "data.train: no data: name files here, or a built-in world" in told({})


def test_a_world_and_files_together_are_refused():
    assert "data.train: data.world='copy' is given too" in told({"world": "copy", "train": "a.tsv"})
    message = told({"world": "copy", "valid": "v.tsv", "test": "t.tsv"})
    assert "data.valid: world 'copy' brings its own" in message
    assert "data.test: world 'copy' brings its own" in message


def test_an_unknown_world_is_answered_with_the_nearest():
    message = told({"world": "sentence"})
    assert "unknown world 'sentence' (did you mean 'sentences'?)" in message
    assert "data.train" not in message  # one fault, one problem


@pytest.mark.parametrize("direction", ["enfr", "en_fr", "en-", "EN-FR", "en-fr-de"])
def test_a_direction_is_two_codes_with_a_hyphen(direction):
    assert f"data.direction={direction!r}" in told({"train": "a.tsv", "direction": direction})


def test_the_sentences_are_english_and_french():
    assert parse(DataSettings, {"world": "sentences", "direction": "fr-en"}, "data")
    assert parse(DataSettings, {"train": "a.tsv", "direction": "en-de"}, "data")
    message = told({"world": "sentences", "direction": "en-de"})
    assert "data.direction: world 'sentences' has en-fr and fr-en, not 'en-de'" in message


@pytest.mark.parametrize("files", [3, "", [], ["a"], ["a", "b", "c"], ["a", 3], {"en": "a"}])
def test_files_are_one_name_or_two(files):
    message = told({"train": files})
    assert (
        f"data.train: expected a file name or two of them, [source, target], but found {files!r}"
        == message
    )


def test_only_worlds_can_be_asked_for_a_number_of_pairs():
    assert parse(DataSettings, {"world": "copy", "n_train": 10}, "data").n_train == 10
    assert "data.n_train: only a world" in told({"train": "a.tsv", "n_train": 10})
    assert "data.n_train=0" in told({"world": "copy", "n_train": 0})


@pytest.mark.parametrize("extra", [{"folder": "f"}, {"hold_out": 9}, {"columns": [2, 1]}])
def test_what_belongs_to_files_is_refused_beside_a_world(extra):
    (name,) = extra
    assert parse(DataSettings, {"train": "a.tsv", **extra}, "data")
    assert told({"world": "copy", **extra}).startswith(f"data.{name}: ")


@pytest.mark.parametrize("columns", [[0, 1], [1, 1], [2], [1, 2, 1], [1, 2, 3, 4], "12", [1, "x"]])
def test_columns_are_two_or_three_and_counted_from_one(columns):
    assert "data.columns" in told({"train": "a.tsv", "columns": columns})


@pytest.mark.parametrize("train", [["a.en", "a.fr"], "a.jsonl", "a.jsonl.gz"])
def test_only_tables_have_columns(train):
    message = "data.columns: only tab-separated files have columns, and none is named"
    assert told({"train": train, "columns": [2, 1]}) == message


def test_there_must_be_something_to_hold_out_for():
    files = {"train": "a.tsv", "valid": "v.tsv", "test": "t.tsv"}
    message = "data.hold_out: data.valid and data.test name files, so nothing is to be held out"
    assert told({**files, "hold_out": 9}) == message
    assert "data.hold_out=0" in told({"train": "a.tsv", "hold_out": 0})


def test_all_problems_are_told_at_once():
    message = told(
        {"world": "sentences", "train": 3, "valid": "v.tsv", "direction": "x", "long_line": "drop"}
    )
    for part in ("data.direction", "data.train", "data.valid", "'data.long_line' (did you mean"):
        assert part in message


@pytest.mark.parametrize(
    "given",
    [
        {"fit": "keep", "image_size": 8},
        {"fit": "keep", "longest_edge": 8},
        {"fit": "keep", "image_size": 8, "longest_edge": 7},
        {"longest_edge": 8},
        {"fit": "pad", "image_size": 8, "longest_edge": 9},
    ],
)
def test_sides_in_proportion_are_told_together(given):
    with pytest.raises(ConfigError, match=r"data\.fit: .*longest_edge"):
        parse(DataSettings, {"train": "a.tsv", **given}, "data")
    parse(
        DataSettings, {"train": "a.tsv", "fit": "keep", "image_size": 8, "longest_edge": 8}, "data"
    )
