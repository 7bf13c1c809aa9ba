import numpy as np
import pytest

from regard.core.errors import CheckpointError
from regard.data import examples as examples_module
from regard.data.examples import encode_pairs, encode_table, stored_table, within
from regard.data.pair_batches import padded_stream
from regard.data.records import Pair
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

PAIRS = [Pair("a b c", "x y"), Pair("", "x"), Pair("c", ""), Pair("b b b b", "y y y \ud800")]
SOURCE = Tokenizer.train(["a b c"], TextSettings(kind="word"))
TARGET = Tokenizer.train(["x y"], TextSettings(kind="char"))


def stored(folder, pairs=PAIRS, source=SOURCE):
    return stored_table(pairs, source, TARGET, folder)


def test_a_table_holds_what_pairs_become_one_by_one(monkeypatch):
    expected = encode_pairs(PAIRS, SOURCE, TARGET)
    assert list(encode_table(PAIRS, SOURCE, TARGET)) == expected
    assert list(encode_table([], SOURCE, TARGET)) == []
    monkeypatch.setattr(examples_module, "AT_ONCE", 3)
    assert list(encode_table(PAIRS, SOURCE, TARGET)) == expected


def test_what_is_stored_is_what_was_encoded_and_lies_on_disk(tmp_path):
    table = stored(tmp_path / "ids")
    assert list(table) == encode_pairs(PAIRS, SOURCE, TARGET)
    assert isinstance(table.source.ids, np.memmap)
    assert isinstance(within(table, 4)[0].source.ids, np.memmap)
    assert table.digest == encode_table(PAIRS, SOURCE, TARGET).digest


def test_batches_are_cut_from_disk_as_from_memory(tmp_path):
    streams = [
        padded_stream(table, batch_tokens=8, seed=0)
        for table in (stored(tmp_path), encode_pairs(PAIRS, SOURCE, TARGET))
    ]
    for _ in range(9):
        one, other = (stream.next() for stream in streams)
        assert one.source.tolist() == other.source.tolist()
        assert one.target.tolist() == other.target.tolist()
    assert streams[0].state() == streams[1].state()


def test_a_corpus_is_tokenised_once(tmp_path, monkeypatch):
    first = stored(tmp_path)
    monkeypatch.setattr("regard.data.examples.encode_table", None)
    assert list(stored(tmp_path)) == list(first)


@pytest.mark.parametrize(
    "other",
    [
        {"pairs": [*PAIRS[:3], Pair("b b b b", "y y x")]},
        {"pairs": [Pair("a b b", "x y"), *PAIRS[1:]]},
        {"pairs": PAIRS[:3]},
        {"pairs": [PAIRS[0], Pair("x", ""), *PAIRS[2:]]},
        {"source": Tokenizer.train(["c b a b"], TextSettings(kind="word"))},
    ],
)
def test_other_texts_or_tokenizers_are_tokenised_anew_and_take_the_place(tmp_path, other):
    stored(tmp_path)
    pairs, source = other.get("pairs", PAIRS), other.get("source", SOURCE)
    assert list(stored(tmp_path, pairs, source)) == encode_pairs(pairs, source, TARGET)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_nothing_behind_and_is_told(tmp_path, monkeypatch):
    def full(file, array):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(CheckpointError, match=r"cannot write .*npy: No space left"):
        stored(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_bytes", [0, 100, -4])
def test_a_damaged_file_is_made_again(tmp_path, n_bytes):
    stored(tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:n_bytes])
    assert list(stored(tmp_path)) == encode_pairs(PAIRS, SOURCE, TARGET)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("n", [0, 3, -1, 10**6])
def test_numbers_that_do_not_fit_together_are_made_again(tmp_path, n):
    stored(tmp_path)
    (path,) = tmp_path.iterdir()
    numbers = np.load(path)
    numbers[0] = n
    np.save(path, numbers)
    assert list(stored(tmp_path)) == encode_pairs(PAIRS, SOURCE, TARGET)
