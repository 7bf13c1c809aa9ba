import pytest
import torch
from tiny import tiny_config

from regard.checkpoints.run_folder import RunFolder, fill, load_model, save_model
from regard.core.errors import CheckpointError
from regard.models.transformer import Transformer


def saved(path, **changes):
    model = Transformer(tiny_config(**changes)).eval()
    folder = RunFolder(path)
    save_model(folder, model.config, dict(model.named_parameters()))
    return folder, model


def test_save_and_load_give_the_same_logits(tmp_path, source, target):
    folder, model = saved(tmp_path)
    fresh = Transformer(model.config).eval()
    assert not torch.equal(fresh(source, target), model(source, target))
    assert torch.equal(load_model(folder).eval()(source, target), model(source, target))


def test_weights_of_another_shape_are_refused_with_both_shapes(tmp_path):
    _, model = saved(tmp_path)
    other = Transformer(tiny_config(d_ff=21))
    with pytest.raises(CheckpointError, match=r"inner.weight is \(20, 12\).*wants \(21, 12\)"):
        fill(other, dict(model.named_parameters()), "file")


def test_missing_and_unknown_tensors_are_named(tmp_path):
    _, model = saved(tmp_path)
    weights = dict(model.named_parameters())
    weights["strange"] = weights.pop("encoder.layers.0.around_self.norm.bias")
    with pytest.raises(CheckpointError, match=r"missing encoder\.layers\.0.*unknown strange"):
        fill(model, weights, "file")


def test_a_truncated_file_is_damaged(tmp_path):
    folder, _ = saved(tmp_path)
    folder.weights.write_bytes(folder.weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        load_model(folder)


def test_missing_parts_are_named(tmp_path):
    folder, _ = saved(tmp_path)
    folder.weights.unlink()
    with pytest.raises(CheckpointError, match="has no weights yet.*--resume"):
        load_model(folder)
    folder.scores.write_text("{}")
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors"):
        load_model(folder)
    folder.model_config.write_text('{"family": "transfrmer"}')
    with pytest.raises(CheckpointError, match="did you mean 'transformer'"):
        load_model(folder)
    folder.model_config.unlink()
    with pytest.raises(CheckpointError, match=r"no run folder: it has no config\.json"):
        load_model(folder)
    with pytest.raises(CheckpointError, match="there is no run folder"):
        load_model(RunFolder(tmp_path / "nowhere"))


def test_weights_are_never_pickled(tmp_path):
    folder, _ = saved(tmp_path)
    assert folder.weights.read_bytes()[8:9] == b"{"  # safetensors: a length, then JSON
