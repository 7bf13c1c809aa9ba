import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.recipe import recipe_from

CPU = torch.device("cpu")


def with_pieces(settings, **text):
    return {**settings, "text": {"kind": "bpe", "vocab_size": 300, **text}}


def test_training_texts_come_in_other_pieces_each_epoch_and_validation_does_not(settings):
    prepared = prepare(recipe_from(with_pieces(settings, bpe_dropout=0.5)), CPU)
    tokenizer = prepared.tokenizers.source
    pairs = prepared.data.splits["train"]
    first, second = (prepared.texts.of_epoch(epoch) for epoch in range(2))
    assert [tokenizer.decode(one.source) for one in first] == [pair.source for pair in pairs]
    assert list(first) != list(second)
    batch = prepared.stream().next()
    number = batch.numbers[0]
    row = batch.source[0].tolist()
    assert row[: row.index(2)] == first[number].source
    valid = prepared.data.splits["valid"]
    assert [one.source for one in prepared.valid] == [tokenizer.encode(p.source) for p in valid]


def test_pairs_that_are_too_long_have_no_other_pieces_either(settings):
    short = {**with_pieces(settings, bpe_dropout=0.5), "model": {**settings["model"], "max_len": 5}}
    prepared = prepare(recipe_from(short), CPU)
    assert 0 < len(prepared.train) < len(prepared.data.splits["train"])
    tokenizer = prepared.tokenizers.source
    for epoch in range(2):
        found = prepared.texts.of_epoch(epoch)
        assert found.longest <= 5
        spelled = [tokenizer.decode(one.source) for one in found]
        assert spelled == [tokenizer.decode(one.source) for one in prepared.train]


def test_ids_of_files_are_kept_in_the_cache_and_those_of_a_world_are_not(settings, tmp_path):
    prepared = prepare(recipe_from(settings), CPU, cache=tmp_path / "ids")
    assert isinstance(prepared.train.source.ids, np.memmap)
    assert list(prepared.train) == list(prepare(recipe_from(settings), CPU).train)
    world = {**settings, "data": {"world": "copy", "n_train": 50}}
    prepare(recipe_from(world), CPU, cache=tmp_path / "world")
    assert not (tmp_path / "world").exists()


def test_an_old_tokenizer_without_merges_is_refused(settings, run_path):
    again = with_pieces(settings, bpe_dropout=0.1)
    again["train"] = {**settings["train"], "init": str(run_path)}
    with pytest.raises(ConfigError, match=r"bpe_dropout=0.1 needs .* 'bpe', but .* kind 'word'"):
        prepare(recipe_from(again), CPU)


def test_a_training_with_skipped_merges_can_be_cut_in_two(settings, tmp_path):
    def steps(n, out, **how):
        changed = with_pieces(settings, bpe_dropout=0.3)
        changed["train"] = {**settings["train"], "max_steps": n, "batch_tokens": 4000}
        train(recipe_from(changed), out, test_sets=(), **how)
        return (out / "model.safetensors").read_bytes()

    class StopError(Exception):
        pass

    def stop(line):
        if line["step"] == 15:
            raise StopError

    whole = steps(24, tmp_path / "whole")
    with pytest.raises(StopError):
        steps(24, tmp_path / "cut", observers=[stop])
    assert steps(24, tmp_path / "cut", resume=True) == whole
