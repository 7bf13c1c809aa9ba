"""Tensors under the names of others: none is lost, none is made up."""

import pytest
import torch
from tiny import tiny_config

from regard.core.errors import CheckpointError
from regard.interop.ctranslate2 import rows
from regard.interop.folders import whole_folder
from regard.interop.naming import renamed
from regard.models.transformer import Transformer

TABLE = [("their/one", "a"), ("their/two", "b", "c")]
WEIGHTS = {name: torch.full((n, 3), float(n)) for name, n in (("a", 1), ("b", 2), ("c", 4))}


def test_tensors_of_one_row_stand_below_each_other_in_its_order():
    found = renamed(TABLE, WEIGHTS, "Theirs")
    assert list(found) == ["their/one", "their/two"]
    assert torch.equal(found["their/two"], torch.cat((WEIGHTS["b"], WEIGHTS["c"])))


def test_every_missing_and_every_unused_tensor_is_named():
    weights = {"a": WEIGHTS["a"], "x": WEIGHTS["b"], "y": WEIGHTS["c"]}
    with pytest.raises(CheckpointError) as error:
        renamed(TABLE, weights, "Theirs")
    assert "Theirs: missing b; missing c; unused x; unused y" in str(error.value)


def test_weights_become_float32():
    found = renamed(TABLE, {name: one.bfloat16() for name, one in WEIGHTS.items()}, "Theirs")
    assert {one.dtype for one in found.values()} == {torch.float32}


@pytest.mark.parametrize("changes", [
    {}, {"norm_first": True}, {"bias": False}, {"positions": "learned"},
    {"shared_vocab": False, "n_target_vocab": 17, "n_layers": 3},
])  # fmt: skip
def test_the_table_of_ctranslate2_names_each_weight_of_a_transformer(changes):
    config = tiny_config(**changes)
    model = Transformer(config)
    ours = [name for _, *names in rows(config) for name in names]
    assert set(ours) == {name for name, _ in model.named_parameters(remove_duplicate=False)}
    theirs = [row[0] for row in rows(config)]
    assert len(theirs) == len(set(theirs))


def test_a_folder_is_there_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "folder"
    with pytest.raises(CheckpointError, match="cannot write"), whole_folder(path) as inside:
        (inside / "half" / "way").write_text("there is no folder for it")
    assert list(path.parent.iterdir()) == []
    with whole_folder(path) as inside:
        (inside / "file").write_text("all")
        assert not path.exists()
    assert [file.name for file in path.iterdir()] == ["file"]
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="cannot write"), whole_folder(tmp_path / "file/x"):
        pass


def test_a_file_that_cannot_be_read_is_not_told_as_one_that_cannot_be_written(tmp_path):
    (tmp_path / "read").mkdir()
    with pytest.raises(CheckpointError) as caught, whole_folder(tmp_path / "out"):
        (tmp_path / "read").read_text()
    assert str(caught.value) == f"cannot read {tmp_path / 'read'}: Is a directory"
    assert [file.name for file in tmp_path.iterdir()] == ["read"]
