"""Folders of others: what is whole is read, what is not is refused in one sentence."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regard.core.errors import CheckpointError
from regard.interop.folders import read_config, read_tensors


class Runs:
    """Leaves a file behind when it is unpickled by something that trusts pickles."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def same(found, expected):
    return found.keys() == expected.keys() and all(
        torch.equal(found[name], expected[name]) for name in expected
    )


def tensors():
    return {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.tensor([1.5])}


def test_a_configuration_is_read_as_it_stands(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "marian", "d_model": 8}')
    assert read_config(tmp_path) == {"model_type": "marian", "d_model": 8}


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="there is no folder .*nowhere"):
        read_config(tmp_path / "nowhere")


def test_a_missing_configuration_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="has no config.json"):
        read_config(tmp_path)


@pytest.mark.parametrize("damage", [b'{"model_type": ', b"\xff\xfe\x00", b"", b"[" * 99999])
def test_a_damaged_configuration_is_told_as_such(tmp_path, damage):
    (tmp_path / "config.json").write_bytes(damage)
    with pytest.raises(CheckpointError, match="config.json is damaged"):
        read_config(tmp_path)


def test_a_configuration_that_is_no_object_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("[1, 2]")
    with pytest.raises(CheckpointError, match="must hold an object, and holds list"):
        read_config(tmp_path)


def test_tensors_come_from_one_file(tmp_path):
    save_file(tensors(), tmp_path / "model.safetensors")
    assert same(read_tensors(tmp_path), tensors())


def test_tensors_come_from_the_files_an_index_names(tmp_path):
    whole = tensors()
    save_file({"a.weight": whole["a.weight"]}, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"b": whole["b"]}, tmp_path / "model-00002-of-00002.safetensors")
    parts = {
        "a.weight": "model-00001-of-00002.safetensors",
        "b": "model-00002-of-00002.safetensors",
    }
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": parts}))
    assert same(read_tensors(tmp_path), whole)


def test_a_part_that_is_missing_is_named(tmp_path):
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    save_file({"a": torch.ones(1)}, tmp_path / "model-1.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="not complete, it has no model-2.safetensors"):
        read_tensors(tmp_path)


def test_an_index_may_not_point_out_of_its_folder(tmp_path):
    index = {"weight_map": {"a": "../model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="names files that lie elsewhere: ../model"):
        read_tensors(tmp_path)


def test_an_index_without_a_map_is_damaged(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": ["a"]}')
    with pytest.raises(CheckpointError, match="'weight_map' must name a file a tensor"):
        read_tensors(tmp_path)


def test_a_damaged_file_of_tensors_is_told_as_such(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(CheckpointError, match="model.safetensors is damaged"):
        read_tensors(tmp_path)


def test_a_folder_without_weights_says_what_was_expected(tmp_path):
    with pytest.raises(CheckpointError, match="no weights: expected model.safetensors"):
        read_tensors(tmp_path)


def test_an_old_file_with_a_plain_state_dict_is_read(tmp_path):
    torch.save(tensors(), tmp_path / "pytorch_model.bin")
    assert same(read_tensors(tmp_path), tensors())


def test_safetensors_come_before_a_pickle(tmp_path):
    save_file(tensors(), tmp_path / "model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"never opened")
    assert same(read_tensors(tmp_path), tensors())


def test_a_pickle_with_code_in_it_is_refused_and_not_run(tmp_path):
    trace = tmp_path / "it ran"
    torch.save({"a": Runs(trace)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="holds more than tensors.*would run code"):
        read_tensors(tmp_path)
    assert not trace.exists()


def test_a_bare_pickle_with_code_in_it_is_refused_and_not_run(tmp_path):
    trace = tmp_path / "it ran"
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Runs(trace)}))
    with pytest.raises(CheckpointError, match="pytorch_model.bin"):
        read_tensors(tmp_path)
    assert not trace.exists()


def test_a_dict_of_other_things_is_refused_with_their_names(tmp_path):
    torch.save({"model": tensors(), "step": 3}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="not a plain state dict.*in it: model, st"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("change", [torch.Tensor.to_sparse, lambda x: x.to("meta")])
def test_tensors_without_all_their_numbers_are_refused_by_name(tmp_path, change):
    torch.save(tensors() | {"odd": change(torch.ones(2))}, tmp_path / "pytorch_model.bin")
    with pytest.raises(
        CheckpointError, match=r"dense tensors by name\), but .* things in it: odd;"
    ):
        read_tensors(tmp_path)


def test_a_list_of_tensors_is_refused(tmp_path):
    torch.save([torch.ones(1)], tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="not a plain state dict .*but a list"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 torn", b"\x80\x02"])
def test_a_damaged_pickle_is_told_as_such(tmp_path, damage):
    (tmp_path / "pytorch_model.bin").write_bytes(damage)
    with pytest.raises(CheckpointError, match="pytorch_model.bin"):
        read_tensors(tmp_path)


def test_one_number_that_stands_for_very_many_is_refused(tmp_path):
    """Of a file of two kilobytes, 256 GB would be made as soon as it is copied."""
    torch.save({"a": torch.zeros(1).expand(2**36)}, tmp_path / "pytorch_model.bin")
    assert (tmp_path / "pytorch_model.bin").stat().st_size < 4096
    with pytest.raises(CheckpointError, match="not a plain state dict .* other things in it: a;"):
        read_tensors(tmp_path)
