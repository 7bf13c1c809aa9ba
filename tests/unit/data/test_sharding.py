"""Texts become shards by any number of workers, once, whatever happens on the way."""

import hashlib
import json
import signal
import subprocess
import sys

import numpy as np
import pytest

from regard.core.errors import DataError
from regard.data import sharding
from regard.data.examples import encode_table, table_in, within
from regard.data.language import laid
from regard.data.records import Pair
from regard.data.sharding import Chunk, PairEncoder, TextEncoder, chunks, sampled
from regard.data.shards import ShardFolder, file_digest, read_manifest
from regard.data.workers import streamed
from regard.runs.prepare import shard
from regard.tasks.recipe import recipe_from
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer.train(["a b c d e"], TextSettings(kind="word"))


def corpus(n, first=0):
    return "".join(f"a{'b' * (i % 7)} x{i}\tc{i} d\n" for i in range(first, first + n))


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Of 300 pairs in three files, which make some 15 shards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sharding, "CHARACTERS", 300)
    for part in range(3):
        (tmp_path / f"{part}.tsv").write_text(corpus(100, 100 * part))
    (tmp_path / "valid.tsv").write_text(corpus(5, 1000))

    def make(**data):
        given = {"train": "?.tsv", "valid": "valid.tsv", "shards": "shards", **data}
        given = {name: value for name, value in given.items() if value is not None}
        small = {"preset": "transformer", "size": "tiny", "max_len": 16}
        text = {"kind": "word"}
        return recipe_from({"data": given, "text": text, "model": small, "train": {"max_steps": 1}})

    return make


def files_of(folder):
    return {path.name: file_digest(path) for path in folder.iterdir()}


# ------------------------------------------------------------------ parts


def test_records_are_cut_into_chunks_of_some_size_and_none_is_tiny():
    records = [("x" * (i % 5),) for i in range(100)]
    cut = [*chunks(records, 40)]
    assert [one for some in cut for one in some] == records
    sizes = [sum(len(text) + 1 for (text,) in some) for some in cut]
    assert min(sizes) >= 20
    assert max(sizes) < 70
    assert [*chunks([("a",)], 40)] == [[("a",)]]
    assert [*chunks([], 40)] == []


def test_a_sample_is_bounded_spread_and_always_the_same():
    records = [(f"{i:05}",) for i in range(10_000)]
    sample, one_in = sampled(records, 2000)
    numbers = [int(text) for (text,) in sample]
    assert 5 * len(sample) <= 2000
    assert one_in == 32
    assert 10_000 / 32 / 2 < len(numbers) < 400
    assert numbers == sorted(numbers)
    assert {n % 2 for n in numbers} == {0, 1}
    assert max(np.diff(numbers)) < 200
    assert sampled(records, 2000) == (sample, one_in)
    assert sampled(records[:10], 2000) == (records[:10], 1)


def test_a_shard_of_pairs_holds_what_pairs_become_in_memory(tmp_path):
    TOKENIZER.save(tmp_path / "tokenizer.json")
    records = [("a b c d e", "a"), ("b", "c c"), ("", "d"), ("e", "a b c d e a")]
    pairs = [Pair(*one) for one in records]
    for rule in ("drop", "truncate"):
        found = PairEncoder(tmp_path, 5, rule)(Chunk(0, 0, "t", records))
        table, n_long = within(encode_table(pairs, TOKENIZER, TOKENIZER), 5, rule)
        assert (found.units, found.n_long, found.longest) == (len(table), n_long, table.longest)
        kept = table_in(np.load(tmp_path / found.file), found.units)
        assert [*kept] == [*table]
    with pytest.raises(DataError, match="2 of 4 texts are longer than max_len=5"):
        PairEncoder(tmp_path, 5, "refuse")(Chunk(0, 0, "t", records))
    assert PairEncoder(tmp_path, 5, "drop")(Chunk(0, 0, "t", records[:1])).units == 0


def test_shards_of_a_language_are_its_texts_end_to_end(tmp_path):
    TOKENIZER.save(tmp_path / "tokenizer.json")
    encode, texts = TextEncoder(tmp_path, (2,)), ["a b", "", "c", "d e a"]
    parts = [[(text,) for text in some] for some in (texts[:2], texts[2:])]
    files = [encode(Chunk(number, 0, "t", part)).file for number, part in enumerate(parts)]
    found = np.concatenate([np.load(tmp_path / file) for file in files])
    assert found.tolist() == laid(texts, TOKENIZER, opening=(2,)).tolist()


def test_few_items_wait_for_workers():
    read = []

    def items():
        for number in range(20):
            read.append(number)
            yield number

    found = streamed(float, items(), n_workers=2)
    assert next(found) == 0.0
    assert len(read) == 3
    assert [*found] == [float(x) for x in range(1, 20)]


# ------------------------------------------------------------------ whole folders


def test_any_number_of_workers_makes_the_same_files(recipe, tmp_path):
    shard(recipe(), n_workers=1)
    shard(recipe(shards="others"), n_workers=3)
    one, other = files_of(tmp_path / "shards"), files_of(tmp_path / "others")
    assert one == other
    assert len(one) > 12
    assert {name.split(".")[-1] for name in one if name[0].isdigit()} == {"npy"}
    assert sum(x.units for x in read_manifest(tmp_path / "shards").shards) == 300


KILLED = """
import os, signal, sys
from regard.data import sharding
from regard.runs.prepare import shard
from regard.tasks.recipe import recipe_from
import json
sharding.CHARACTERS = 300
sharding.OFTEN = 1
def say(text):
    print(text, flush=True)
    if text.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
shard(recipe_from(json.loads(sys.argv[1])), n_workers=2, say=say)
"""


def test_a_killed_preparation_goes_on_and_ends_with_the_same_bytes(recipe, tmp_path):
    whole = recipe(shards="whole")
    shard(whole, n_workers=2)
    asked = json.dumps(recipe().model_dump(mode="json"))
    command = [sys.executable, "-c", KILLED, asked, "6 shards"]
    done = subprocess.run(command, capture_output=True, timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "shards" / "shards.json").exists()
    made = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "shards").glob("*.npy")}
    assert len(made) >= 6
    shard(recipe(), n_workers=2)
    assert files_of(tmp_path / "shards") == files_of(tmp_path / "whole")
    kept = [
        name for name, at in made.items() if (tmp_path / "shards" / name).stat().st_mtime_ns == at
    ]
    assert len(kept) >= 6


def test_what_is_damaged_or_missing_is_made_again_and_nothing_else(recipe, tmp_path):
    shard(recipe(), n_workers=1)
    home = tmp_path / "shards"
    before = files_of(home)
    damaged, missing = home / "000002.npy", home / "000004.npy"
    raw = bytearray(damaged.read_bytes())
    raw[-3] ^= 1
    damaged.write_bytes(raw)
    missing.unlink()
    stands = (home / "000001.npy").stat().st_mtime_ns
    shard(recipe(), n_workers=1)
    assert files_of(home) == before
    assert (home / "000001.npy").stat().st_mtime_ns == stands


def test_texts_that_changed_are_made_again_and_shards_of_those_that_are_gone_deleted(
    recipe, tmp_path
):
    shard(recipe(), n_workers=1)
    n = len([*(tmp_path / "shards").glob("*.npy")])
    (tmp_path / "2.tsv").write_text("w w\tw\n")
    manifest = shard(recipe(), n_workers=1)
    assert sum(one.units for one in manifest.shards) == 201
    assert len([*(tmp_path / "shards").glob("*.npy")]) == len(manifest.shards) < n


def test_a_folder_of_other_settings_or_of_something_else_is_left_alone(recipe, tmp_path):
    shard(recipe(), n_workers=1)
    with pytest.raises(DataError, match=r"data\.train was \['\?\.tsv'\] and is now \['0\.tsv'\]"):
        shard(recipe(train="0.tsv"), n_workers=1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("x")
    with pytest.raises(DataError, match="mine holds files and no shards"):
        shard(recipe(shards="mine"), n_workers=1)


def test_files_are_looked_for_before_a_folder_is_claimed(recipe, tmp_path):
    with pytest.raises(DataError, match="no file matches the pattern"):
        shard(recipe(train="z*.tsv"), n_workers=1)
    with pytest.raises(DataError, match=r"^no file 7\.tsv in"):
        shard(recipe(train="7.tsv"), n_workers=1)
    assert not (tmp_path / "shards").exists()


def test_corpora_of_a_mix_keep_apart_and_weights_may_change_later(recipe, tmp_path):
    mixed = [{"train": "0.tsv", "weight": 2}, {"train": "[12].tsv"}]
    manifest = shard(recipe(train=None, mix=mixed), n_workers=1)
    per = [sum(x.units for x in manifest.shards if x.corpus == corpus) for corpus in (0, 1)]
    assert per == [100, 200]
    again = [{**one, "weight": 5} for one in mixed]
    assert shard(recipe(train=None, mix=again), n_workers=1) == manifest


def test_a_tokenizer_of_a_sample_is_told(recipe, monkeypatch):
    monkeypatch.setattr("regard.tasks.sharded.SAMPLE", 1500)
    manifest = shard(recipe(), n_workers=1)
    assert manifest.notes == (
        f"the tokenizer was trained on {manifest.notes[0].split()[5]} lines, about one in 4",
    )


# ------------------------------------------------------------------ attacks


@pytest.fixture
def home(recipe, tmp_path):
    shard(recipe(), n_workers=1)
    return tmp_path / "shards"


def test_a_flipped_bit_is_found_when_its_shard_is_read(home):
    path = home / "000003.npy"
    raw = bytearray(path.read_bytes())
    raw[200] ^= 4
    path.write_bytes(raw)
    folder = ShardFolder(home)
    assert len(folder.ids(2))
    told = r"shard .*/000003\.npy is damaged: its digest is \w+, and should be \w+; `regard prepare"
    with pytest.raises(DataError, match=told):
        folder.ids(3)


def test_shards_that_are_missing_or_cut_short_are_named_before_training(home):
    path = home / "000001.npy"
    raw = path.read_bytes()
    path.write_bytes(raw[:-4])
    with pytest.raises(DataError, match=r"000001\.npy has [\d,]+ bytes, and [\d,]+ were written"):
        ShardFolder(home)
    path.unlink()
    with pytest.raises(DataError, match=r"000001\.npy is missing; `regard prepare` with the same"):
        ShardFolder(home)


def test_a_manifest_that_lies_is_refused(home):
    path = home / "shards.json"
    whole = json.loads(path.read_text())

    def told(change):
        damaged = json.loads(json.dumps(whole))
        change(damaged)
        path.write_text(json.dumps(damaged))
        with pytest.raises(DataError, match=r"shards\.json is damaged \(.*regard prepare"):
            ShardFolder(home)

    told(lambda x: x["shards"][0].update(file="../../etc/passwd"))
    told(lambda x: x["shards"][0].update(units=-1))
    told(lambda x: x["shards"][0].update(ids=10**30))
    told(lambda x: x["shards"][0].update(size=10**30))
    told(lambda x: x.update(shards=[]))
    told(lambda x: x.update(format=2))
    told(lambda x: x.pop("kind"))
    path.write_text("{")
    with pytest.raises(DataError, match="is damaged"):
        ShardFolder(home)
    path.unlink()
    with pytest.raises(DataError, match="is not complete: run `regard prepare`"):
        ShardFolder(home)
    with pytest.raises(DataError, match="holds no shards: run `regard prepare`"):
        ShardFolder(home.parent)


@pytest.mark.parametrize("begun", ["{", "[]", '{"asked": 5}', '{"asked": {}, "notes": 7}'])
def test_a_damaged_beginning_is_told(recipe, home, begun):
    (home / "asked.json").write_text(begun)
    with pytest.raises(DataError, match=r"asked\.json is damaged \(.*; name another folder"):
        shard(recipe(), n_workers=1)


def test_shards_that_are_pickles_are_not_opened(home, tmp_path):
    path = home / "000000.npy"
    np.save(path, np.array([{"a": 1}] * 9000, dtype=object), allow_pickle=True)
    manifest = json.loads((home / "shards.json").read_text())
    manifest["shards"][0].update(
        size=path.stat().st_size,
        digest=hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest(),
    )
    (home / "shards.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"000000\.npy cannot be read"):
        ShardFolder(home).ids(0)
